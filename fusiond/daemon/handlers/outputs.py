"""Output of attempts for followers: which outputs there are, and their bytes."""

from fusiond.daemon.output_follow import OutputIndex, OutputStream
from fusiond.domain.errors import NotFoundError
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.transitions import RunPhase
from fusiond.execution.reading.inspection import Inspection
from fusiond.execution.runs import Runs
from fusiond.wire.params import OutputFollowParams
from fusiond.wire.results import BodyPage


class RunOutputs:
    """The adapter of `output_follow.OutputStreams` over runs. `tenant` is the configured one."""

    def __init__(self, runs: Runs, inspection: Inspection, tenant: TenantId) -> None:
        self._runs = runs
        self._inspection = inspection
        self._tenant = tenant

    async def index(self, params: OutputFollowParams) -> OutputIndex:
        """Find the outputs that `params` mean, with the bytes written so far."""
        tenant, run = await self._found(params)
        state = await self._runs.state(tenant, run)
        logs = await self._inspection.logs(tenant, run, params.node, params.attempt)
        streams = [
            (
                OutputStream(run=run, node=log.node, attempt=log.attempt, what=log.what),
                await self._inspection.size(run, log),
            )
            for log in logs
            if params.what in (None, log.what)
        ]
        still = state.phase is not RunPhase.PARKED and not state.phase.over
        if params.what is not None and not streams and not still:
            raise NotFoundError(f"no output {params.what}", cure="`fusion logs --list` lists outputs")
        return OutputIndex(streams=tuple(streams), complete=not still)

    async def read(
        self, params: OutputFollowParams, stream: OutputStream, offset: int, limit: int
    ) -> BodyPage:
        """Read at most `limit` bytes at a true offset."""
        tenant, run = await self._found(params)
        wanted = (stream.node, stream.attempt, stream.what)
        page, _ = await self._inspection.log_page(tenant, run, wanted, offset, limit)
        return BodyPage(offset=page.offset, total=page.total, data=page.data)

    async def _found(self, params: OutputFollowParams) -> tuple[TenantId, RunId]:
        tenant = params.tenant or self._tenant
        return tenant, await self._runs.resolve(tenant, params.run)
