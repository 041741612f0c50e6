"""One comparison from end to end: two finalized traces and the terms become a report."""

from fusiond.domain.acceptability import judge, tightened_acceptability, tightened_mode
from fusiond.domain.errors import CorruptError
from fusiond.domain.replay_policy import Acceptability, ReplayMode
from fusiond.domain.trace import ExecutionTrace
from replay.causes import explained
from replay.compare import Alike, differences, same_bytes
from replay.guard import head_differences
from replay.report import Report


def compare_traces(
    expected: ExecutionTrace,
    observed: ExecutionTrace,
    *,
    mode: ReplayMode | None = None,
    acceptability: Acceptability | None = None,
    alike: Alike = same_bytes,
) -> Report:
    """Hold an observed trace against an expected one.

    Args:
        expected: the measure; its flow declares how differences are judged.
        observed: what is held against it.
        mode: stricter than declared, None for the flow's own.
        acceptability: as well.
        alike: judges artifacts whose output says how it is compared.

    Raises:
        RefusedError: `mode` or `acceptability` is looser than what the flow declared.
        CorruptError: nothing differs, and yet the roots do.
    """
    contract = expected.head.replay
    judged = tightened_mode(contract.mode, mode)
    permitted = tightened_acceptability(contract.acceptability, acceptability)
    # Strict forgives nothing, so it looks at everything.
    signature = Acceptability.EXACT_MATCH if judged is ReplayMode.STRICT else permitted
    every = (
        *head_differences(expected.head, observed.head),
        *differences(expected, observed, signature, alike),
    )
    found = explained(every, expected, observed, signature)
    exactly = signature is Acceptability.EXACT_MATCH and alike is same_bytes
    if exactly and not found and expected.root != observed.root:
        # The roots were made of everything that is compared: never green on what nobody can name.
        raise CorruptError(
            f"the traces of {expected.head.run} and {observed.head.run} differ in something that no comparison shows",
            expected="equal roots, or a difference",
            cure="report this as a bug of fusion",
        )
    reasons = tuple(dict.fromkeys((*expected.non_certifiable, *observed.non_certifiable)))
    return Report(
        expected=expected.head.run,
        observed=observed.head.run,
        mode=judged,
        acceptability=permitted,
        differences=found,
        non_certifiable=reasons,
        verdict=judge(judged, permitted, [each.kind for each in found], certifiable=not reasons),
        interrupted=sum(each.interrupted for trace in (expected, observed) for each in trace.groups.stages),
    )
