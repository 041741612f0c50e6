"""Why a run is not a success: the first cause, what it showed, and what to do. Pure.

The cause is looked for in the order in which a person would: a park, a conflict,
a blocked stage, a failed stage, a skipped one. Wording is plain and short; text
from outside is not in here but referred to (`output`).
"""

from fusiond.domain.digest import ContentRef
from fusiond.domain.records import dataclass
from fusiond.domain.state import AttemptState, RunState, StageState
from fusiond.domain.steps.attempt import AttemptFailure, BlockReason, StageOutcome
from fusiond.domain.steps.run import ParkReason, RunOutcome
from fusiond.domain.steps.turn import OutputRef
from fusiond.domain.transitions import AttemptPhase, RunPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """An explanation.

    Args:
        headline: what happened, one line.
        lines: further facts, one line each.
        output: the captured output that shows it.
        report: the contract problems as content, when that is the cause.
        cure: what to do.
    """

    headline: str
    lines: tuple[str, ...] = ()
    output: OutputRef | None = None
    report: ContentRef | None = None
    cure: str = ""


_CURES = {
    AttemptFailure.COMMAND_FAILED: "read the output above, mend the command or the code, run again",
    AttemptFailure.COMMAND_SIGNALLED: "something ended the command; look for memory or a kill in it",
    AttemptFailure.TIMED_OUT: "raise the node's `timeout`, or find what hangs",
    AttemptFailure.OUTPUT_LIMIT: "make the command write less; this disk cannot drop the middle",
    AttemptFailure.GATE_FAILED: "mend what the gate shows, or raise `limits.repair_reruns`",
    AttemptFailure.CONTRACT_UNMET: "write the outputs, manifest and summary that the node declares; "
    "`fusion-attempt check` tells inside an attempt",
    AttemptFailure.GATE_CHANGED_CODE: "make the gates leave code and outputs alone",
    AttemptFailure.SETUP_FAILED: "run the setup command by hand in a clean checkout",
    AttemptFailure.INTERRUPTED: "look into `fusion daemon logs` for why the daemon stopped",
}

_BLOCK_CURES = {
    BlockReason.TOOLCHAIN: "install what is missing, then run again",
    BlockReason.STORAGE: "free disk space, then run again; nothing was half published",
    BlockReason.ISOLATION: "`fusion doctor` says what this machine can isolate",
    BlockReason.GATE_UNUSABLE: "make the gate's program available on PATH and executable, or in the repository",
    BlockReason.COMMAND_UNUSABLE: "make the command's program available on PATH and executable",
    BlockReason.SANDBOX: "`fusion doctor` says what this machine can isolate",
    BlockReason.INTERRUPTED: "the daemon died too often while this ran; does the command exhaust the machine?",
    BlockReason.INPUT_CORRUPT: "a frozen input no longer matches its digest; run again from the start",
    BlockReason.ESCALATED: "verification asks a person",
    BlockReason.UNSUPPORTED: "this version does not run that kind of node",
}


def explain(state: RunState) -> Why:
    """Return why a run is where it is."""
    if state.phase is RunPhase.PARKED:
        return Why(
            headline=f"parked: {state.park_reason}",
            lines=(state.park_detail,),
            cure=_park_cure(state),
        )
    if state.conflict_paths:
        return Why(
            headline="the code of the stages does not merge",
            lines=tuple(f"conflict in {path}" for path in state.conflict_paths),
            cure="make the nodes change different places, or let one need the other",
        )
    if state.outcome is RunOutcome.SUCCEEDED:
        return Why(headline="the run succeeded")
    stage = _cause(state)
    if stage is not None:
        return _of_stage(stage)
    if state.phase in (RunPhase.CANCELLING, RunPhase.CANCELLED):
        return Why(headline="the run was cancelled by a person")
    return Why(headline=f"the run is {state.phase}", lines=_open_lines(state))


_OPTIONS = {
    ParkReason.WALL_CLOCK: "--add-wall-clock 30m",
    ParkReason.TOKENS: "--add-tokens 100000",
    ParkReason.COST: "--add-cost 2.00",
    ParkReason.TOOL_CALLS: "--add-tool-calls 50",
}


def widening_option(reason: ParkReason | None) -> str:
    """Return the option of `fusion resume` that widens a limit, empty where a park is not about one."""
    return "" if reason is None else _OPTIONS.get(reason, "")


def _park_cure(state: RunState) -> str:
    option = widening_option(state.park_reason)
    resume = f"fusion resume {state.run}" + (f" {option}" if option else "")
    return f"`{resume}`, or `fusion cancel {state.run}`"


_BY_GRAVITY = (
    StageOutcome.CODE_CONFLICT,
    StageOutcome.FAILED,
    StageOutcome.BLOCKED,
)


def _cause(state: RunState) -> StageState | None:
    for outcome in _BY_GRAVITY:
        for stage in state.stages.values():
            if stage.outcome is outcome:
                return stage
    return None


def _of_stage(stage: StageState) -> Why:
    node, latest = stage.plan.node, stage.latest
    if stage.outcome is StageOutcome.CODE_CONFLICT:
        return Why(
            headline=f"{node}: the code of its dependencies does not merge",
            lines=tuple(f"conflict in {path}" for path in stage.conflict_paths),
            cure="make the nodes change different places, or let one need the other",
        )
    lines = _attempt_lines(stage)
    if stage.outcome is StageOutcome.BLOCKED and stage.block is not None:
        return Why(
            headline=f"{node}: blocked: {stage.block}: {stage.detail}".rstrip(": "),
            lines=lines,
            output=None if latest is None else _output(latest),
            cure=_BLOCK_CURES[stage.block],
        )
    failure = None if latest is None else latest.failure
    return Why(
        headline=f"{node}: failed: {stage.detail or failure or 'no attempt succeeded'}",
        lines=lines,
        output=None if latest is None else _output(latest),
        report=latest.report if latest is not None and failure is AttemptFailure.CONTRACT_UNMET else None,
        cure="" if failure is None else _CURES.get(failure, ""),
    )


def _output(attempt: AttemptState) -> OutputRef | None:
    if attempt.failure_output is not None:
        return attempt.failure_output
    if attempt.failure is AttemptFailure.CONTRACT_UNMET:
        return None
    if attempt.failed_gate is not None:
        return attempt.failed_gate.ended.output
    return None if attempt.command is None else attempt.command.output


def _attempt_lines(stage: StageState) -> tuple[str, ...]:
    lines: list[str] = []
    for each in stage.attempts:
        told = f"attempt {each.number}: {each.failure or each.phase}"
        told += f": {each.detail}" if each.detail else ""
        reruns = f" ({each.reruns} rerun{'' if each.reruns == 1 else 's'})" if each.reruns else ""
        lines += [told + reruns, *each.violations]
    return tuple(lines)


_DOING = {
    AttemptPhase.READY: "its worktree is ready",
    AttemptPhase.TURN: "its command has ended",
    AttemptPhase.CALLING: "its command runs",
    AttemptPhase.UNKNOWN: "the outcome of a call is unknown",
    AttemptPhase.JUDGING: "its gates run",
    AttemptPhase.VALIDATED: "what it made was checked",
}
"""What an open attempt is at, as people say it."""


def _open_lines(state: RunState) -> tuple[str, ...]:
    return tuple(f"{node}: {_open(stage)}" for node, stage in state.stages.items())


def _open(stage: StageState) -> str:
    latest = stage.latest
    if latest is None or latest.phase.over:
        return str(stage.outcome or stage.phase)
    return f"attempt {latest.number}, {_DOING[latest.phase]}"
