"""What a comparison comes to, as a record. Finding and judging are above, showing is `replay.render`."""

from fusiond.domain.acceptability import Difference, DifferenceClass, ReplayVerdict, blocks
from fusiond.domain.ids import NodeId, RunId
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import Acceptability, ReplayMode
from fusiond.domain.trace import Uncertifiable


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One comparison of two finalized traces.

    Args:
        expected: the run whose trace is the measure.
        observed: the run that was held against it.
        mode: by which it was judged.
        acceptability: as well.
        differences: in topological order, the first divergence first.
        non_certifiable: reasons of either trace.
        verdict: what follows from all of that.
        interrupted: attempts that a crash ended, in both; they are not compared.
    """

    expected: RunId
    observed: RunId
    mode: ReplayMode
    acceptability: Acceptability
    differences: tuple[Difference, ...]
    non_certifiable: tuple[Uncertifiable, ...]
    verdict: ReplayVerdict
    interrupted: int

    def is_blocking(self, difference: Difference) -> bool:
        """Say whether a difference alone makes the verdict unacceptable."""
        return blocks(difference.kind, self.mode, self.acceptability)

    @property
    def first(self) -> Difference | None:
        """Return the first divergence that nothing upstream explains, None when all is equal."""
        for each in self.differences:
            if each.found is not DifferenceClass.DOWNSTREAM:
                return each
        return None

    @property
    def origin(self) -> NodeId | None:
        """Return the node in which the first divergence is."""
        return None if self.first is None else self.first.node
