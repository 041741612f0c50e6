"""The structural half of a comparison: is the observed trace one of the same flow, under the same terms?

Everything found here blocks under every acceptability. What happened in the runs is
compared by `replay.compare`.
"""

from collections.abc import Callable, Iterator, Mapping

from fusiond.domain.acceptability import Difference, DifferenceClass, DifferenceKind
from fusiond.domain.trace import TraceHead

NOT_COMPARED = frozenset({"run", "parent", "children", "base_commit", "flow"})
"""Ids of runs; a commit, whose tree is compared; the flow's name, which the plan hash covers."""

SCALARS: Mapping[DifferenceKind, tuple[str, ...]] = {
    DifferenceKind.TENANT: ("tenant",),
    DifferenceKind.PLAN: ("plan_hash", "mode", "entropy", "stages"),
    DifferenceKind.FLOW_STATE: ("flow_state",),
    DifferenceKind.DETERMINISM: ("determinism",),
    DifferenceKind.LIMITS: ("limits",),
    DifferenceKind.POLICY: ("policy_hash",),
    DifferenceKind.VERIFICATION_POLICY: ("verification_policy_hash",),
    DifferenceKind.BASE_REVISION: ("base_tree",),
    DifferenceKind.ENVIRONMENT: ("resolver", "missing_toolchains"),
}
"""Fields that are compared whole."""

NAMED: Mapping[DifferenceKind, tuple[str, ...]] = {
    DifferenceKind.PLAN: ("agent_definitions",),
    DifferenceKind.ENVIRONMENT: ("environment",),
    DifferenceKind.DATASET: ("datasets",),
    DifferenceKind.INPUTS: ("inputs",),
}
"""Fields of named parts; a difference names the part."""

CONTRACT = "replay"
"""The field whose parts are kinds of their own."""


def head_differences(expected: TraceHead, observed: TraceHead) -> Iterator[Difference]:
    """Yield in what two traces are bound to different things.

    Args:
        expected: of the trace that is the measure.
        observed: of the other one.
    """
    for kind, names in SCALARS.items():
        for name in names:
            yield from _scalar(kind, name, getattr(expected, name), getattr(observed, name))
    for kind, names in NAMED.items():
        for name in names:
            yield from _named(kind, getattr(expected, name), getattr(observed, name))
    one, other = expected.replay, observed.replay
    yield from _scalar(DifferenceKind.ACCEPTABILITY, "mode", one.mode, other.mode)
    yield from _scalar(DifferenceKind.ACCEPTABILITY, "acceptability", one.acceptability, other.acceptability)
    yield from _scalar(DifferenceKind.ENVELOPE, "envelope", one.envelope, other.envelope)


def _scalar(
    kind: DifferenceKind, name: str, one: object, other: object, show: Callable[[object], str] = str
) -> Iterator[Difference]:
    if one != other:
        yield Difference(
            kind=kind,
            found=DifferenceClass.DIVERGED,
            name=name,
            expected=show(one),
            observed=show(other),
        )


def _named(
    kind: DifferenceKind, one: tuple[tuple[str, str], ...], other: tuple[tuple[str, str], ...]
) -> Iterator[Difference]:
    expected, observed = dict(one), dict(other)
    for name in sorted(expected.keys() | observed.keys()):
        if name not in observed:
            found = DifferenceClass.MISSING
        elif name not in expected:
            found = DifferenceClass.EXTRA
        elif expected[name] != observed[name]:
            found = DifferenceClass.DIVERGED
        else:
            continue
        yield Difference(
            kind=kind,
            found=found,
            name=name,
            expected=expected.get(name, ""),
            observed=observed.get(name, ""),
        )
