"""The one place that names adapters: it makes the parts of a daemon and ends them.

Owns which adapter stands behind which port, and the order of making and
closing. Holds no rule. Tests wrap ports through `Wrap`.
"""

import asyncio
import logging
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from fusiond.codec.steps import prepare_payloads
from fusiond.content.store import FileContentStore
from fusiond.daemon.assembly import DaemonPlace
from fusiond.daemon.clock import SystemClock, SystemRandomness
from fusiond.daemon.handlers.outputs import RunOutputs
from fusiond.daemon.handlers.reads import ReadHandlers
from fusiond.daemon.handlers.runs import RunHandlers
from fusiond.daemon.output_follow import OutputStreams
from fusiond.daemon.registry import Handlers, KeyedResults, KeyedResultsInMemory
from fusiond.daemon.subscriptions import StepReader
from fusiond.daemon.walls import Walled, open_walls
from fusiond.domain.ids import WorkerId, WorkspaceId
from fusiond.execution.reading.inspection import Inspection
from fusiond.execution.runs import Runs
from fusiond.execution.services import Services, Settings
from fusiond.ledger.database import Database, open_database
from fusiond.ledger.leases import SqliteStageQueue
from fusiond.ledger.small_content import SqliteSmallContent
from fusiond.ledger.sqlite_ledger import SqliteLedger
from fusiond.ports.ledger import Appended
from fusiond.sandbox.inside import attempt as attempt_program
from fusiond.sandbox.probe import ProbeFinding
from fusiond.snapshots.store import FileSnapshots
from fusiond.workspace.assembly import Assembly as WorkspaceAssembly
from fusiond.workspace.assembly import assemble as assemble_workspace
from fusiond.workspace.watching import FileWatcher, prepare_watching

log = logging.getLogger(__name__)

LEASE_TTL_US = 30_000_000
EPOCH_BYTES = 16
TOKEN_BYTES = 6
WARM_AFTER_S = 1.0
"""How long warming up waits when runs go on at once."""

Wrap = Callable[[Services], Services]


@dataclass(slots=True, kw_only=True)
class Parts:
    """The parts of a running daemon; the adapter of `daemon.assembly.Assembly`."""

    handlers: Handlers
    steps: StepReader
    outputs: OutputStreams
    keyed: KeyedResults
    database: Database
    services: Services
    runs: Runs
    git: WorkspaceAssembly
    announced: "Announcer"
    findings: tuple[ProbeFinding, ...]
    warming: "asyncio.Task[None] | None" = None

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return lines for `daemon.status`."""
        facts = [
            ("isolation", str(self.services.launcher.isolation)),
            ("runs driven", str(self.runs.active)),
        ]
        facts += [("cannot go on", f"{run}: {why}") for run, why in self.runs.broken.items()]
        facts += [("waits for the disk", f"{run}: {why}") for run, why in self.runs.stalled.items()]
        facts += [("bubblewrap", each.problem) for each in self.findings if each.problem]
        return tuple(facts)

    async def start(self, announce: Callable[[int], None]) -> None:
        """Recover the workspace and drive its open runs."""
        self.announced.listener = announce
        await self.runs.start()
        self.warming = asyncio.create_task(_warm_beside(self.runs))
        self.warming.add_done_callback(_warmed)

    async def drain(self) -> None:
        """End what runs at its next recorded point."""
        await self.runs.drain()

    async def close(self) -> None:
        """End everything and close the ledger."""
        await self.runs.drain()
        if self.warming is not None:
            self.warming.cancel()
            await asyncio.wait([self.warming])
        await self.git.close()
        await self.services.ledger.close()
        await self.database.close()


async def _warm_beside(runs: Runs) -> None:
    """Warm up in a thread; runs that a restart interrupted get the processor first."""
    if runs.active:
        await asyncio.sleep(WARM_AFTER_S)
    await asyncio.to_thread(_warm)


def _warm() -> None:
    """Load and make what first uses would, before somebody waits for it."""
    prepare_payloads()
    prepare_watching()


def _warmed(warming: "asyncio.Task[None]") -> None:
    """Log a failure: first uses are slower then, and nothing else."""
    if not warming.cancelled() and (error := warming.exception()) is not None:
        log.warning("not warmed", exc_info=error)


def token() -> str:
    """Return a fresh, short, random word for names of temporary files."""
    return secrets.token_hex(TOKEN_BYTES)


class Announcer:
    """Passes positions of commits on to whoever listens, once somebody does."""

    def __init__(self) -> None:
        self.listener: Callable[[int], None] | None = None

    def __call__(self, appended: Appended) -> None:
        """Tell the position of a commit."""
        if self.listener is not None:
            self.listener(appended.position)


def unwrapped(services: Services) -> Services:
    """Leave the ports as they are."""
    return services


async def assemble(
    place: DaemonPlace, wrap: Wrap = unwrapped, walled: Awaitable[Walled] | None = None
) -> Parts:
    """Make the parts of a daemon.

    Args:
        place: where it is.
        wrap: may put something between execution and its ports; for crash tests.
        walled: the launcher, when opening it has begun already.
    """
    marker = Path(place.workspace.marker)
    database = await open_database(marker / "state.db", new_epoch=secrets.token_hex(EPOCH_BYTES))
    try:
        return await _parts(place, marker, database, wrap, walled or open_walls(place))
    except BaseException:
        await database.close()
        raise


async def _parts(
    place: DaemonPlace, marker: Path, database: Database, wrap: Wrap, walled: Awaitable[Walled]
) -> Parts:
    ledger = SqliteLedger(database)
    launcher, findings = await walled
    clock = SystemClock()
    git = _workspace(place, clock)
    snapshots = FileSnapshots(marker / "stages", token=token)
    announcer = Announcer()
    services = wrap(
        Services(
            ledger=ledger,
            queue=SqliteStageQueue(database),
            content=FileContentStore(marker, SqliteSmallContent(database), token),
            workspace=git.workspace,
            checkout=git.checkout,
            results=git.results,
            setups=git.setups,
            code=git.code,
            snapshots=snapshots,
            documents=snapshots,
            launcher=launcher,
            watcher=FileWatcher(),
            clock=clock,
            randomness=SystemRandomness(),
            settings=_settings(place, marker),
            on_append=announcer,
        )
    )
    runs = Runs(services)
    inspection = Inspection(services, runs)
    handlers = Handlers()
    RunHandlers(services, runs).bind(handlers)
    ReadHandlers(runs, inspection).bind(handlers)
    return Parts(
        handlers=handlers,
        steps=ledger,
        outputs=RunOutputs(runs, inspection, place.settings.tenant),
        keyed=KeyedResultsInMemory(),
        database=database,
        services=services,
        runs=runs,
        git=git,
        announced=announcer,
        findings=findings,
    )


def _workspace(place: DaemonPlace, clock: SystemClock) -> WorkspaceAssembly:
    worktrees = Path(_state_home(place), "fusion", "worktrees", place.workspace.id)
    worktrees.mkdir(mode=0o700, parents=True, exist_ok=True)
    return assemble_workspace(
        root=place.workspace.root,
        worktrees=os.path.realpath(worktrees),
        home=place.environ.get("HOME") or None,
        clock=clock,
    )


def _settings(place: DaemonPlace, marker: Path) -> Settings:
    return Settings(
        workspace=WorkspaceId(place.workspace.id),
        worker=WorkerId(f"{place.boot}/1"),
        root=place.workspace.root,
        lease_ttl_us=LEASE_TTL_US,
        environment=tuple(sorted(place.environ.items())),
        cores=len(os.sched_getaffinity(0)),
        parallel=place.settings.parallel,
        attempt_program=_lay_attempt_program(marker / "bin"),
        last_alive_us=place.last_alive_us,
    )


def _lay_attempt_program(directory: Path) -> str:
    """Write `fusion-attempt` where it can be shown to attempts; it stands on its own."""
    directory.mkdir(mode=0o755, exist_ok=True)
    source = Path(attempt_program.__file__)
    shutil.copyfile(source, directory / "attempt.py")
    python = shlex.quote(os.path.realpath(sys.executable))
    script = directory / "fusion-attempt"
    script.write_text(f'#!/bin/sh\nexec {python} -I -S "$(dirname -- "$0")/attempt.py" "$@"\n')
    script.chmod(0o755)
    return str(directory)


def _state_home(place: DaemonPlace) -> str:
    """Return `$XDG_STATE_HOME`, or its default below the home directory."""
    state = place.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return state
    return f"{place.environ.get('HOME', '')}/.local/state"
