"""`fusion merge`: brings a run's result into the user's repository, if it may.

The only act that writes the user's `.git`. It is refused for a run that did not
succeed, and for a flow with protected gates unless each has a passing receipt
for exactly this commit (`flow.md`, Code between nodes).
"""

from fusiond.domain.errors import RefusedError
from fusiond.domain.flow import NodeKind
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.state import RunState
from fusiond.domain.steps.run import RunOutcome
from fusiond.execution.runs import Runs
from fusiond.execution.services import Services
from fusiond.ports.workspace import MergeConflict, Merged, Revision


async def deliver(services: Services, runs: Runs, tenant: TenantId, run: RunId) -> Merged | MergeConflict:
    """Deliver the result of a run.

    Raises:
        RefusedError: the run has no result, a receipt is missing, or the checkout would lose changes.
    """
    state = await runs.state(tenant, run)
    if state.outcome is not RunOutcome.SUCCEEDED or state.result_commit is None or state.result_tree is None:
        raise RefusedError(
            f"run {run} is {state.outcome or state.phase}",
            expected="a run that succeeded",
            cure="`fusion why` says what is missing",
        )
    _check_receipts(state)
    flow = "" if state.started is None else state.started.flow
    result = Revision(commit=state.result_commit, tree=state.result_tree)
    return await services.results.deliver(run, result, f"Merge Fusion run {run} ({flow})")


def _check_receipts(state: RunState) -> None:
    """Refuse a flow with protected gates: no receipt exists for what is not judged yet."""
    protected = [node for node, stage in state.stages.items() if stage.plan.kind is NodeKind.PROTECTED]
    if protected:
        raise RefusedError(
            f"protected gate {protected[0]} has no passing receipt for this commit",
            expected="a passing receipt for exactly the run's result",
        )
