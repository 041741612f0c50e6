"""Ends a cancelled run whose plan cannot be read: what is left to do of it is records.

Nothing of such a run is at work, since nobody could start anything without the plan.
"""

from fusiond.domain.decide import decide
from fusiond.domain.effects import CloseUnknown, Effect, FailAttempt, FinishRun, FinishStage
from fusiond.domain.errors import InvalidError
from fusiond.domain.steps.record import NewStep
from fusiond.domain.steps.run import RunFinished
from fusiond.execution.chain import RunChain
from fusiond.execution.perform.command import unknown_payloads
from fusiond.execution.perform.finish import fail_payload, finish_payload


async def end_without_plan(chain: RunChain, now_us: int) -> None:
    """Record the end of every stage and of the run, as `decide` says it for a cancelled run.

    Raises:
        InvalidError: something else than a record is due; the run is not being cancelled.
    """
    while due := decide(chain.state, now_us, frozenset()):
        await chain.append(_records(due[0], now_us))


def _records(effect: Effect, at_us: int) -> list[NewStep]:
    match effect:
        case CloseUnknown():
            payloads = unknown_payloads(effect)
            return [
                NewStep(node=effect.node, attempt=effect.attempt, payload=each, at_us=at_us)
                for each in payloads
            ]
        case FailAttempt():
            failed = fail_payload(effect)
            return [NewStep(node=effect.node, attempt=effect.attempt, payload=failed, at_us=at_us)]
        case FinishStage():
            return [NewStep(node=effect.node, payload=finish_payload(effect), at_us=at_us)]
        case FinishRun():
            finished = RunFinished(outcome=effect.outcome, result_tree=None, result_commit=None)
            return [NewStep(payload=finished, at_us=at_us)]
        case _:
            raise InvalidError(f"{effect} is due", expected="records alone, of a run that is cancelled")
