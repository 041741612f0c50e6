"""Which frozen artifacts an attempt is given, and the files the supervisor lays beside them."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from fusiond.codec.canonical import canonical
from fusiond.codec.records import unstructure
from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.errors import StorageError
from fusiond.domain.flow import NodeInput
from fusiond.domain.paths import glob_matches
from fusiond.domain.state import AttemptState
from fusiond.domain.steps.attempt import LaidInput
from fusiond.execution.attempts.environment import CONTRACT_FILE, RUN_INPUTS
from fusiond.execution.context import StageContext
from fusiond.ports.workspace import AttemptPlaces


def laid_inputs(ctx: StageContext) -> tuple[LaidInput, ...]:
    """Return the identities of the artifacts that the node's inputs name, in a fixed order."""
    return tuple(sorted(_laid(ctx), key=lambda each: (each.name, each.path)))


def _laid(ctx: StageContext) -> Iterator[LaidInput]:
    for wanted in ctx.node.inputs:
        frozen = ctx.run.stage(wanted.node).frozen
        if frozen is None:
            continue
        for artifact in _matching(wanted, frozen):
            yield LaidInput(
                name=wanted.name,
                node=wanted.node,
                attempt=frozen.number,
                output=artifact.output,
                path=artifact.path,
                digest=artifact.digest,
                many=_may_be_many(ctx, wanted),
            )


def _may_be_many(ctx: StageContext, wanted: NodeInput) -> bool:
    """Say whether an input's form is a directory: by what is declared, never by what there is."""
    if wanted.output is None:
        return True
    source = ctx.run.node(wanted.node)
    return any(each.name == wanted.output and each.collect is not None for each in source.outputs)


def _matching(wanted: NodeInput, frozen: AttemptState) -> Iterator[FrozenArtifact]:
    for artifact in frozen.artifacts:
        if wanted.match is not None:
            if artifact.output is None and glob_matches(wanted.match, artifact.path):
                yield artifact
        elif artifact.output is not None and wanted.output in (None, artifact.output):
            yield artifact


async def write_run_inputs(ctx: StageContext, places: AttemptPlaces) -> None:
    """Lay the flow's own inputs, each as one read-only file named after it."""
    bodies: list[tuple[str, bytes]] = []
    for name, ref in ctx.run.started.input_refs:
        body = await ctx.services.content.get(ctx.run.tenant, ctx.run.chain.run, ref)
        bodies.append((name, body))
    await asyncio.to_thread(_write_all, Path(places.inputs) / RUN_INPUTS, bodies)


async def write_contract(ctx: StageContext, places: AttemptPlaces) -> None:
    """Lay the node's output declarations for `fusion-attempt check`."""
    declared = [unstructure(each) for each in ctx.node.outputs]
    body = canonical({"outputs": list(declared)})
    await asyncio.to_thread(_write_all, Path(places.feedback), [(CONTRACT_FILE, body)])


async def write_feedback(places: AttemptPlaces, name: str, body: bytes) -> None:
    """Lay one feedback file, replacing one of the same name that a crash left."""
    await asyncio.to_thread(_write_all, Path(places.feedback), [(name, body)])


def _write_all(directory: Path, bodies: list[tuple[str, bytes]]) -> None:
    # The directories are the supervisor's own: no process of an attempt can write there.
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name, body in bodies:
            target, fresh = directory / name, directory / f".{name}.new"
            fresh.unlink(missing_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(body)
            fresh.replace(target)
    except OSError as error:
        raise StorageError(
            f"cannot lay {directory.name}: {error.strerror}", cure="free disk space"
        ) from error
