"""Leases: nobody else may claim before the expiry, and every claim has a newer epoch."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.domain.ids import NodeId, WorkerId
from fusiond.domain.leases import Lease, claimed, may_claim
from tests.fakes.chains import RUN

few = settings(max_examples=50)

NODE = NodeId("build")
MINE, THEIRS = WorkerId("boot-1/1"), WorkerId("boot-1/2")
TTL_US = 30_000_000

times = st.integers(0, 1 << 53)
durations = st.integers(1, 1 << 40)


def claim(current: Lease | None, owner: WorkerId, now_us: int, ttl_us: int = TTL_US) -> Lease:
    return claimed(current, run=RUN, node=NODE, owner=owner, now_us=now_us, ttl_us=ttl_us)


def test_the_first_claim() -> None:
    assert may_claim(None, MINE, 0)
    lease = claim(None, MINE, 1_000)
    assert lease == Lease(run=RUN, node=NODE, owner=MINE, epoch=1, expires_us=1_000 + TTL_US)


@few
@given(times, durations, st.integers(0, 1 << 41))
def test_another_may_claim_from_the_expiry_on_and_not_before(now_us: int, ttl_us: int, later_us: int) -> None:
    lease = claim(None, MINE, now_us, ttl_us)
    assert may_claim(lease, THEIRS, now_us + later_us) is (later_us >= ttl_us)
    assert lease.held(now_us + later_us) is not (later_us >= ttl_us)


@few
@given(times, durations)
def test_a_clock_that_was_set_back_frees_no_lease(now_us: int, back_us: int) -> None:
    assert not may_claim(claim(None, MINE, now_us), THEIRS, now_us - back_us)


@few
@given(times, times)
def test_its_owner_may_claim_at_any_time(now_us: int, then_us: int) -> None:
    assert may_claim(claim(None, MINE, now_us), MINE, then_us)


@few
@given(st.lists(st.tuples(st.sampled_from([MINE, THEIRS]), times, durations), max_size=20))
def test_epochs_only_grow_and_one_owner_holds_at_a_time(attempts: list[tuple[WorkerId, int, int]]) -> None:
    current: Lease | None = None
    for owner, now_us, ttl_us in attempts:
        before = current
        if not may_claim(current, owner, now_us):
            assert before is not None
            assert before.owner != owner
            assert before.held(now_us)
            continue
        current = claim(current, owner, now_us, ttl_us)
        assert current.epoch == (0 if before is None else before.epoch) + 1
        assert current.owner == owner
        assert not may_claim(current, WorkerId("third"), now_us)


def test_a_claim_belongs_to_one_stage_of_one_run() -> None:
    held = replace(claim(None, MINE, 0), epoch=41)
    again = claimed(held, run=RUN, node=NODE, owner=THEIRS, now_us=TTL_US, ttl_us=TTL_US)
    assert (again.run, again.node, again.owner, again.epoch) == (RUN, NODE, THEIRS, 42)
