"""Handlers of the noun `run`: submit, list, show, why, cancel, resume, merge."""

from fusiond.daemon.registry import Context, Handlers
from fusiond.domain.display import display_safe
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.state import RunState
from fusiond.domain.steps.turn import OutputRef
from fusiond.domain.views import detail_of
from fusiond.domain.why import Why, explain
from fusiond.execution.acts import Act, Widening, cancel, resume
from fusiond.execution.delivery import deliver
from fusiond.execution.reading.reports import report_lines
from fusiond.execution.runs import Runs
from fusiond.execution.services import Services
from fusiond.ports.workspace import MergeConflict
from fusiond.wire.methods import (
    RUN_CANCEL,
    RUN_LIST,
    RUN_MERGE,
    RUN_RESUME,
    RUN_SHOW,
    RUN_SUBMIT,
    RUN_WHY,
)
from fusiond.wire.params import (
    RunCancelParams,
    RunListParams,
    RunParams,
    RunResumeParams,
    RunSubmitParams,
)
from fusiond.wire.results import MergeResult, RunList, RunRef, RunShown, RunWhy

WHY_TAIL_BYTES = 16 * 1024

NO_NETWORK = (
    b"EAI_AGAIN",
    b"Temporary failure in name resolution",
    b"Could not resolve host",
    b"Network is unreachable",
    b"dial tcp: lookup",
)
"""What tools say when they meet the wall around the network."""


class RunHandlers:
    """Answers for runs."""

    def __init__(self, services: Services, runs: Runs) -> None:
        self._services = services
        self._runs = runs

    def bind(self, handlers: Handlers) -> None:
        """Take the methods of this noun."""
        handlers.on(RUN_SUBMIT, self.submit)
        handlers.on(RUN_LIST, self.list)
        handlers.on(RUN_SHOW, self.show)
        handlers.on(RUN_WHY, self.why)
        handlers.on(RUN_CANCEL, self.cancel)
        handlers.on(RUN_RESUME, self.resume)
        handlers.on(RUN_MERGE, self.merge)

    async def submit(self, params: RunSubmitParams, context: Context) -> RunRef:
        """Record a run's start and drive it."""
        # Reading flow files takes a sixth of the daemon's start, and going on after a crash needs none of it.
        from fusiond.execution.submission.submit import Submission, submit

        path = params.flow if params.flow.startswith("/") else f"{self._services.settings.root}/{params.flow}"
        chain = await submit(
            self._services,
            Submission(
                flow_path=path,
                inputs=params.inputs,
                mode=params.mode,
                revision=params.revision,
                include_dirty=params.include_dirty,
                tenant=params.tenant or context.tenant,
                submitted_by=_who(context),
                search_path=params.search_path,
                key=context.key,
            ),
        )
        await self._runs.drive(chain)
        return RunRef(run=chain.run)

    async def list(self, params: RunListParams, context: Context) -> RunList:
        """List runs, newest first."""
        position = await self._services.ledger.head()
        rows = await self._runs.summaries(
            params.tenant or context.tenant, open_only=params.open_only, limit=params.limit
        )
        return RunList(runs=tuple(rows), epoch=await self._services.ledger.epoch(), position=position)

    async def show(self, params: RunParams, context: Context) -> RunShown:
        """Show one run."""
        position = await self._services.ledger.head()
        _, run, state = await self._found(params.run, params.tenant, context)
        return RunShown(
            detail=detail_of(state, context.now_us()),
            epoch=await self._services.ledger.epoch(),
            position=position,
            hints=tuple(self._runs.hints(run).items()),
        )

    async def why(self, params: RunParams, context: Context) -> RunWhy:
        """Explain one run."""
        tenant, run, state = await self._found(params.run, params.tenant, context)
        why = self._held_up(run) or explain(state)
        lines = list(why.lines)
        if why.report is not None:
            body = await self._services.content.get(tenant, run, why.report)
            lines += report_lines(body)
        output = b"" if why.output is None else await self._tail(tenant, run, why.output)
        cure = why.cure
        if any(sign in output for sign in NO_NETWORK):
            cure = "commands have no network unless their node or gate says `network: true`"
        return RunWhy(
            run=run,
            headline=display_safe(why.headline),
            lines=tuple(display_safe(line) for line in lines),
            output=output,
            cure=cure,
        )

    def _held_up(self, run: RunId) -> Why | None:
        if broken := self._runs.broken.get(run):
            return Why(
                headline="the daemon stopped driving this run",
                lines=(broken,),
                cure="`fusion resume` tries again; `fusion daemon logs` has the details",
            )
        if stalled := self._runs.stalled.get(run):
            return Why(
                headline="the daemon waits for the disk",
                lines=(stalled,),
                cure="free disk space; the run goes on by itself",
            )
        return None

    async def _tail(self, tenant: TenantId, run: RunId, output: OutputRef) -> bytes:
        offset = max(0, output.total_bytes - WHY_TAIL_BYTES)
        page = await self._services.content.page(tenant, run, output, offset, WHY_TAIL_BYTES)
        return page.data

    async def cancel(self, params: RunCancelParams, context: Context) -> RunRef:
        """Ask for the end of a run."""
        tenant, run, _ = await self._found(params.run, params.tenant, context)
        act = Act(tenant=tenant, run=run, by=_who(context), key=context.key)
        await cancel(self._services, self._runs, act, reason=params.reason)
        return RunRef(run=run)

    async def resume(self, params: RunResumeParams, context: Context) -> RunRef:
        """Let a parked run go on."""
        tenant, run, _ = await self._found(params.run, params.tenant, context)
        added = Widening(
            wall_clock_us=params.added_wall_clock_us,
            tokens=params.added_tokens,
            cost_uusd=params.added_cost_uusd,
            tool_calls=params.added_tool_calls,
        )
        act = Act(tenant=tenant, run=run, by=_who(context), key=context.key)
        await resume(self._services, self._runs, act, added=added)
        return RunRef(run=run)

    async def merge(self, params: RunParams, context: Context) -> MergeResult:
        """Bring a run's result into the user's repository."""
        tenant, run, state = await self._found(params.run, params.tenant, context)
        flow = "" if state.started is None else state.started.flow
        merged = await deliver(self._services, self._runs, tenant, run)
        if isinstance(merged, MergeConflict):
            return MergeResult(
                run=run,
                flow=flow,
                ref="",
                before=None,
                after=None,
                fast_forward=False,
                conflict_paths=merged.paths,
            )
        return MergeResult(
            run=run,
            flow=flow,
            ref=merged.ref,
            before=merged.before,
            after=merged.after,
            fast_forward=merged.fast_forward,
            unchanged=state.started is not None and state.result_commit == state.started.base_commit,
        )

    async def _found(
        self, name: str, tenant: TenantId | None, context: Context
    ) -> tuple[TenantId, RunId, RunState]:
        whose = tenant or context.tenant
        run = await self._runs.resolve(whose, name)
        return whose, run, await self._runs.state(whose, run)


def _who(context: Context) -> str:
    return display_safe(f"uid {context.peer.uid} pid {context.peer.pid} {context.client}", max_chars=200)
