"""Setup commands: run once per key in a tree of their own, then laid read-only.

The key covers everything the result depends on, so equal keys share a result
and an agent can never change it (`flow.md`, the `setup:` key).
"""

import asyncio
from dataclasses import field
from weakref import WeakValueDictionary

from fusiond.domain.digest import Digest, digest_bytes, digest_fields
from fusiond.domain.errors import FusionError, NotFoundError, StorageError
from fusiond.domain.flow import SetupSpec
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import AttemptId, AttemptNumber
from fusiond.domain.launch import Isolation
from fusiond.domain.records import dataclass
from fusiond.domain.steps.turn import OutputRef
from fusiond.execution.attempts.launching import Launched, Order, launch, passed_variables
from fusiond.execution.context import LaidTree, StageContext
from fusiond.ports.workspace import Revision

SCRATCH = AttemptNumber(0)
"""Attempt 0 of a stage is the scratch tree in which its setup runs."""

_OUTPUT_CAP_BYTES = 16 * 1024 * 1024
_PAGE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupFailed:
    """The setup command did not succeed."""

    detail: str
    output: OutputRef | None


@dataclass(slots=True)
class SetupLocks:
    """One lock a key, so that two attempts never run the same setup at once."""

    _locks: WeakValueDictionary[Digest, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def of(self, key: Digest) -> asyncio.Lock:
        """Return the lock of `key`; it lives as long as somebody holds or awaits it."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


async def setup_key(ctx: StageContext, setup: SetupSpec, start: Revision) -> Digest:
    """Return the key of a setup's result.

    It covers the command, the bytes of the files it names as they are in the start
    revision (an absent file counts as absent), the tools and the variables that the
    flow names, the walls, the network and the search path, since all of them can change what the command makes.
    """
    fields = [setup.run.encode(), str(ctx.services.launcher.isolation).encode()]
    fields += [f"{name}={value}".encode() for name, value in ctx.run.started.environment]
    fields += [f"{name}={value}".encode() for name, value in passed_variables(ctx.run, ctx.node)]
    fields.append(b"network" if setup.network else b"no network")
    fields.append(ctx.run.started.search_path.encode())
    for path in setup.key:
        fields += [path.encode(), (await _file_digest(ctx, start, path)).encode()]
    return digest_fields("fusion.setup.v1", fields)


async def _file_digest(ctx: StageContext, start: Revision, path: str) -> str:
    body = bytearray()
    try:
        while True:
            page = await ctx.services.code.page(start, path, len(body), _PAGE_BYTES)
            body += page.data
            if not page.data or len(body) >= page.total:
                return digest_bytes(bytes(body))
    except NotFoundError:
        return "absent"


async def ensure_setup(
    ctx: StageContext, locks: SetupLocks, setup: SetupSpec, key: Digest, base: Revision, start: Revision
) -> SetupFailed | None:
    """Make the result of `key` exist. None when it does, else how the command failed."""
    async with locks.of(key):
        if await ctx.services.setups.find(key):
            return None
        scratch = ctx.attempt_id(SCRATCH)
        try:
            return await _run_setup(ctx, setup, key, scratch, base, start)
        finally:
            await ctx.services.workspace.discard(scratch)


async def _run_setup(
    ctx: StageContext, setup: SetupSpec, key: Digest, scratch: AttemptId, base: Revision, start: Revision
) -> SetupFailed | None:
    services = ctx.services
    sandboxed = services.launcher.isolation is Isolation.BUBBLEWRAP
    tree = await services.workspace.prepare(scratch, base, start, sandboxed=sandboxed)
    order = Order(
        name="setup",
        command=setup.run,
        network=setup.network,
        timeout_us=setup.timeout_us,
        output_cap_bytes=_OUTPUT_CAP_BYTES,
    )
    laid = LaidTree(tree=tree, mounts=tree.mounts)
    launched = await launch(ctx.run, ctx.node, scratch, laid, order, ctx.cancel)
    if launched.outcome is not ProcessOutcome.PASSED:
        return SetupFailed(detail=_told(setup, launched), output=launched.output)
    try:
        await services.setups.store(key, tree.places)
    except StorageError:
        raise
    except FusionError as error:
        return SetupFailed(detail=f"the result of setup cannot be kept: {error.sentence()}", output=None)
    return None


def _told(setup: SetupSpec, launched: Launched) -> str:
    code = launched.result.exit_code
    how = launched.outcome.replace("_", " ") if code is None else f"exit code {code}"
    return f"setup `{setup.run}`: {how}"
