"""From a node's command, gate or setup to a launch and its recorded output."""

import asyncio
from pathlib import Path

from fusiond.domain.errors import StorageError
from fusiond.domain.flow import Node
from fusiond.domain.gates import ProcessOutcome, judge
from fusiond.domain.ids import AttemptId
from fusiond.domain.launch import STORAGE_DETAIL, LaunchEnd, LaunchResult, LaunchSpec
from fusiond.domain.records import dataclass
from fusiond.domain.steps.turn import OutputRef
from fusiond.execution.attempts.environment import Surroundings, mounts_of, surroundings
from fusiond.execution.context import LaidTree, RunContext
from fusiond.ports.launcher import CancelSignal

SHELL = "/bin/sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to launch: a shell command with its bounds. `name` goes into the log's name."""

    name: str
    command: str
    network: bool
    timeout_us: int
    output_cap_bytes: int
    feedback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """How it ended, with the output made durable (None where there was none to keep)."""

    result: LaunchResult
    outcome: ProcessOutcome
    output: OutputRef | None


async def launch(
    run: RunContext, node: Node, attempt: AttemptId, laid: LaidTree, order: Order, cancel: CancelSignal
) -> Launched:
    """Launch an order in an attempt's tree, wait for its end and keep its output.

    Raises:
        StorageError: the output could not be made durable.
    """
    services = run.services
    log = services.content.log_path(run.chain.run, f"{attempt.stage.node}-{attempt.number}-{order.name}")
    seen = _seen(run, node, attempt, laid, order)
    spec = LaunchSpec(
        argv=(SHELL, "-c", order.command),
        cwd=seen.cwd,
        env=seen.env,
        mounts=seen.mounts,
        network=order.network,
        timeout_us=order.timeout_us,
        log_path=log,
        marker=f"{services.settings.workspace}/{attempt}",
        output_cap_bytes=order.output_cap_bytes,
    )
    # A log that an interrupted launch of the same name left would refuse this one.
    await asyncio.to_thread(Path(log).unlink, missing_ok=True)
    result = await services.launcher.launch(spec, cancel)
    if result.end is LaunchEnd.SANDBOX_FAILURE and result.detail.startswith(STORAGE_DETAIL):
        await asyncio.to_thread(Path(log).unlink, missing_ok=True)
        raise StorageError(result.detail.removeprefix(STORAGE_DETAIL).strip(), cure="free disk space")
    output = None
    if result.end is not LaunchEnd.SANDBOX_FAILURE or result.output_bytes:
        output = await services.content.adopt(run.chain.run, log, result.hole)
    return Launched(result=result, outcome=judge(result), output=output)


def passed_variables(run: RunContext, node: Node) -> list[tuple[str, str]]:
    """Return the daemon's own variables that the flow and the node name, with their values."""
    named = {*run.resolved.flow.env, *node.env}
    return [(name, value) for name, value in run.services.settings.environment if name in named]


def _seen(run: RunContext, node: Node, attempt: AttemptId, laid: LaidTree, order: Order) -> Surroundings:
    settings = run.services.settings
    places = laid.tree.places
    mounts = mounts_of(places, node, settings.attempt_program, laid.mounts)
    return surroundings(
        attempt=attempt,
        node=node,
        places=places,
        mounts=mounts,
        inside=run.services.launcher.inside,
        search_path=run.started.search_path,
        passed=passed_variables(run, node),
        feedback=order.feedback,
        program=settings.attempt_program,
    )
