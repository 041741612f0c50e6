"""Finished runs written by hand, step by step, for tests of traces and comparisons."""

from collections.abc import Iterable

from fusiond.codec.traces import TraceDigester
from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.evolve import replace
from fusiond.domain.finalize import finalize
from fusiond.domain.gates import ProcessOutcome
from fusiond.domain.ids import OutputName
from fusiond.domain.steps.attempt import AttemptFailed, AttemptFailure, AttemptFrozen, StageOutcome
from fusiond.domain.steps.judgement import RerunCause
from fusiond.domain.steps.record import Payload
from fusiond.domain.steps.run import RunOutcome, RunStarted, StagePlan
from fusiond.domain.steps.turn import EffectUnknown, Locality
from fusiond.domain.trace import ExecutionTrace
from tests.fakes.chains import START_US, Chain
from tests.fakes.payloads import (
    arbitration_decided,
    artifacts_validated,
    attempt_frozen,
    attempt_started,
    digest,
    gate_finished,
    gate_started,
    plan,
    rerun_requested,
    revision_recorded,
    run_finished,
    run_started,
    stage_finished,
    tool_called,
    tool_returned,
    turn_started,
    verification_recorded,
)

BUILD_THEN_TEST = (plan("build", gates=("unit",)), plan("test", needs=("build",)))
"""Two stages, the second after the first; the first has a gate."""


def artifact(name: str, text: str) -> FrozenArtifact:
    """Return a frozen artifact whose bytes are named by `text`."""
    return FrozenArtifact(
        output=OutputName(name),
        path=f"{name}.txt",
        media_type="text/plain",
        size=len(text),
        digest=digest(text),
    )


def begun(chain: Chain, node: str, attempt: int) -> None:
    """Start an attempt and its command."""
    chain.of_stage(node, attempt, attempt_started(), turn_started(1), tool_called(1))


def interrupted(chain: Chain, node: str, attempt: int) -> None:
    """Start an attempt that ends because the daemon died."""
    begun(chain, node, attempt)
    failed = AttemptFailed(reason=AttemptFailure.INTERRUPTED, detail="")
    chain.of_stage(node, attempt, EffectUnknown(call=1, locality=Locality.LOCAL), failed)


def passed(
    chain: Chain,
    node: str,
    attempt: int = 1,
    *,
    code: str = "code",
    artifacts: Iterable[FrozenArtifact] = (),
    gates: Iterable[str] = (),
    reruns: int = 0,
    at_us: int = START_US,
) -> None:
    """Let an attempt of a stage succeed, after some rounds in which its first gate failed."""
    begun(chain, node, attempt)
    gates = tuple(gates)
    for number in range(1, reruns + 1):
        failed = gate_finished(gates[0], number, ProcessOutcome.FAILED)
        chain.of_stage(
            node,
            attempt,
            tool_returned(number),
            revision_recorded(number, f"{code} {number}"),
            gate_started(gates[0], number),
            failed,
            rerun_requested(number, RerunCause.GATE),
            turn_started(number + 1),
            tool_called(number + 1),
        )
    last = reruns + 1
    judged: list[Payload] = [tool_returned(last), revision_recorded(last, code)]
    for gate in gates:
        judged += [gate_started(gate, last), gate_finished(gate, last)]
    frozen: AttemptFrozen = replace(attempt_frozen(code), artifacts=tuple(artifacts))
    judged += [artifacts_validated(last, code), frozen, verification_recorded(), arbitration_decided()]
    chain.of_stage(node, attempt, *judged, at_us=at_us)
    chain.of_stage(node, None, stage_finished(StageOutcome.SUCCEEDED, attempt))


def started(*stages: StagePlan, **changes: object) -> Chain:
    """Return a run that has begun; `changes` are fields of `run_started`."""
    chain = Chain()
    payload: RunStarted = replace(run_started(*stages), **changes)  # type: ignore[arg-type]
    chain.of_run(payload)
    return chain


def finished(chain: Chain, outcome: RunOutcome = RunOutcome.SUCCEEDED) -> ExecutionTrace:
    """End a run and return its trace."""
    chain.of_run(run_finished(outcome))
    return trace_of(chain)


def trace_of(chain: Chain) -> ExecutionTrace:
    """Return the trace of a run that has ended."""
    return finalize(chain.steps, TraceDigester())


def simple(
    *, code: str = "code", text: str = "made", reruns: int = 0, at_us: int = START_US, **changes: object
) -> ExecutionTrace:
    """Return the trace of `BUILD_THEN_TEST`; `text` is what the first stage's artifact holds."""
    chain = started(*BUILD_THEN_TEST, **changes)
    passed(
        chain,
        "build",
        code=code,
        artifacts=[artifact("made", text)],
        gates=["unit"],
        reruns=reruns,
        at_us=at_us,
    )
    passed(chain, "test", artifacts=[artifact("report", "fine")])
    return finished(chain)
