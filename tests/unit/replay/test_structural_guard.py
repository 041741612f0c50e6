"""The guard looks at everything a trace is bound to: each field is compared, or left out by name."""

from dataclasses import fields

import pytest

from fusiond.domain.acceptability import Difference, DifferenceClass, DifferenceKind
from fusiond.domain.evolve import replace
from fusiond.domain.flow import FlowState, RunMode
from fusiond.domain.ids import CommitId, RunId, TenantId
from fusiond.domain.replay_policy import (
    Acceptability,
    Determinism,
    EntropyBudget,
    EntropySource,
    Envelope,
    ReplayContract,
    ReplayMode,
)
from fusiond.domain.trace import TraceHead
from replay.guard import CONTRACT, NAMED, NOT_COMPARED, SCALARS, head_differences
from tests.fakes.finished_runs import simple
from tests.fakes.payloads import digest, limits, plan, tree

HEAD: TraceHead = simple().head

# By hand: what is changed, and what must be said of it.
CHANGES: list[tuple[dict[str, object], DifferenceKind, str]] = [
    ({"tenant": TenantId("other")}, DifferenceKind.TENANT, "tenant"),
    ({"flow_state": FlowState.DEPRECATED}, DifferenceKind.FLOW_STATE, "flow_state"),
    ({"mode": RunMode.OBSERVE}, DifferenceKind.PLAN, "mode"),
    ({"plan_hash": digest("other")}, DifferenceKind.PLAN, "plan_hash"),
    ({"entropy": EntropyBudget(sources=(EntropySource.DATA,))}, DifferenceKind.PLAN, "entropy"),
    ({"determinism": Determinism.BOUNDED}, DifferenceKind.DETERMINISM, "determinism"),
    ({"limits": limits(repair_reruns=3)}, DifferenceKind.LIMITS, "limits"),
    ({"policy_hash": digest("other")}, DifferenceKind.POLICY, "policy_hash"),
    (
        {"verification_policy_hash": digest("other")},
        DifferenceKind.VERIFICATION_POLICY,
        "verification_policy_hash",
    ),
    ({"base_tree": tree("other")}, DifferenceKind.BASE_REVISION, "base_tree"),
    ({"resolver": "2"}, DifferenceKind.ENVIRONMENT, "resolver"),
    ({"missing_toolchains": ("go",)}, DifferenceKind.ENVIRONMENT, "missing_toolchains"),
    ({"stages": (plan("other"),)}, DifferenceKind.PLAN, "stages"),
    ({"replay": ReplayContract(mode=ReplayMode.BOUNDED)}, DifferenceKind.ACCEPTABILITY, "mode"),
    (
        {"replay": ReplayContract(acceptability=Acceptability.INVARIANT_PRESERVING)},
        DifferenceKind.ACCEPTABILITY,
        "acceptability",
    ),
    (
        {"replay": ReplayContract(envelope=Envelope(max_contradiction_delta=1))},
        DifferenceKind.ENVELOPE,
        "envelope",
    ),
]


def found(expected: TraceHead, observed: TraceHead) -> list[Difference]:
    return list(head_differences(expected, observed))


def test_every_field_is_compared_or_left_out_and_only_one_of_the_two() -> None:
    compared = [name for names in (*SCALARS.values(), *NAMED.values()) for name in names] + [CONTRACT]
    assert sorted([*compared, *NOT_COMPARED]) == sorted(each.name for each in fields(TraceHead))


def test_equal_heads_have_no_difference() -> None:
    assert found(HEAD, HEAD) == []


@pytest.mark.parametrize("changes, kind, name", CHANGES)
def test_a_changed_field_is_named(changes: dict[str, object], kind: DifferenceKind, name: str) -> None:
    [difference] = found(HEAD, replace(HEAD, **changes))  # type: ignore[arg-type]
    assert (difference.kind, difference.name) == (kind, name)
    assert difference.expected != difference.observed


@pytest.mark.parametrize(
    "field, kind",
    [
        ("environment", DifferenceKind.ENVIRONMENT),
        ("datasets", DifferenceKind.DATASET),
        ("inputs", DifferenceKind.INPUTS),
        ("agent_definitions", DifferenceKind.PLAN),
    ],
)
def test_a_named_part_is_named(field: str, kind: DifferenceKind) -> None:
    one = replace(HEAD, **{field: (("a", "1"), ("b", "1"), ("c", "1"))})  # type: ignore[arg-type]
    other = replace(HEAD, **{field: (("b", "2"), ("c", "1"), ("d", "1"))})  # type: ignore[arg-type]
    seen = [(each.kind, each.name, each.found, each.expected, each.observed) for each in found(one, other)]
    assert seen == [
        (kind, "a", DifferenceClass.MISSING, "1", ""),
        (kind, "b", DifferenceClass.DIVERGED, "1", "2"),
        (kind, "d", DifferenceClass.EXTRA, "", "1"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"run": RunId("0" * 13)},
        {"parent": RunId("0" * 13)},
        {"children": (RunId("0" * 13),)},
        {"base_commit": CommitId("1" * 40)},
        {"flow": "renamed"},
    ],
)
def test_what_is_left_out_makes_no_difference(changes: dict[str, object]) -> None:
    assert found(HEAD, replace(HEAD, **changes)) == []  # type: ignore[arg-type]
