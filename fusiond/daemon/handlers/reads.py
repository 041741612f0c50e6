"""Handlers of what is read of a run: logs, artifacts, code."""

from fusiond.codec.steps import encode_payload
from fusiond.daemon.registry import Context, Handlers
from fusiond.domain.errors import InvalidError, TooLargeError
from fusiond.domain.ids import RunId, TenantId
from fusiond.execution.reading.inspection import Inspection
from fusiond.execution.runs import Runs
from fusiond.ports.content import Page
from fusiond.wire.limits import FRAME_BYTES
from fusiond.wire.methods import (
    ARTIFACT_LIST,
    ARTIFACT_PAGE,
    CODE_DIFF,
    CODE_LIST,
    CODE_PAGE,
    LOG_LIST,
    LOG_PAGE,
    RUN_STEPS,
)
from fusiond.wire.params import (
    ArtifactListParams,
    ArtifactPageParams,
    CodeAt,
    CodeDiffParams,
    CodeListParams,
    CodePageParams,
    LogListParams,
    LogPageParams,
    RunStepsParams,
)
from fusiond.wire.results import (
    ArtifactEntry,
    ArtifactList,
    BodyPage,
    CodeItem,
    CodeKind,
    CodeList,
    LogEntry,
    LogList,
    RunSteps,
)

_STEP_BYTES = 8 * 1024
"""What a step takes in a frame beside its payload, at most: ids, hashes and a few hundred references."""


class ReadHandlers:
    """Answers for logs, artifacts and code."""

    def __init__(self, runs: Runs, inspection: Inspection) -> None:
        self._runs = runs
        self._inspection = inspection

    def bind(self, handlers: Handlers) -> None:
        """Take the methods of these nouns."""
        handlers.on(RUN_STEPS, self.run_steps)
        handlers.on(LOG_LIST, self.log_list)
        handlers.on(LOG_PAGE, self.log_page)
        handlers.on(ARTIFACT_LIST, self.artifact_list)
        handlers.on(ARTIFACT_PAGE, self.artifact_page)
        handlers.on(CODE_LIST, self.code_list)
        handlers.on(CODE_PAGE, self.code_page)
        handlers.on(CODE_DIFF, self.code_diff)

    async def run_steps(self, params: RunStepsParams, context: Context) -> RunSteps:
        """Read a run's steps, as many as fit into one frame."""
        tenant, run = await self._found(params.run, params.tenant, context)
        steps = await self._inspection.steps(tenant, run, params.after_seq, params.limit)
        fitting, size = 0, 0
        for step in steps:
            size += _STEP_BYTES + len(encode_payload(step.payload))
            if size > FRAME_BYTES - _STEP_BYTES:
                break
            fitting += 1
        if steps and not fitting:
            raise TooLargeError(f"step {steps[0].seq} of run {run} fits into no frame")
        return RunSteps(run=run, steps=tuple(steps[:fitting]))

    async def log_list(self, params: LogListParams, context: Context) -> LogList:
        """List what output is kept."""
        tenant, run = await self._found(params.run, params.tenant, context)
        logs = await self._inspection.logs(tenant, run, params.node, params.attempt)
        entries = [
            LogEntry(
                node=log.node,
                attempt=log.attempt,
                what=log.what,
                size=await self._inspection.size(run, log),
                live=log.output is None,
            )
            for log in logs
        ]
        return LogList(logs=tuple(entries))

    async def log_page(self, params: LogPageParams, context: Context) -> BodyPage:
        """Read a page of output."""
        tenant, run = await self._found(params.run, params.tenant, context)
        wanted = (params.node, params.attempt, params.what)
        page, _ = await self._inspection.log_page(tenant, run, wanted, params.offset, params.limit)
        return _body(page)

    async def artifact_list(self, params: ArtifactListParams, context: Context) -> ArtifactList:
        """List frozen artifacts."""
        tenant, run = await self._found(params.run, params.tenant, context)
        found = await self._inspection.artifacts(tenant, run, params.node, params.attempt)
        return ArtifactList(
            artifacts=tuple(
                ArtifactEntry(node=whole.stage.node, attempt=whole.number, artifact=artifact)
                for whole, artifact in found
            )
        )

    async def artifact_page(self, params: ArtifactPageParams, context: Context) -> BodyPage:
        """Read a page of an artifact's body, of the manifest or of the summary."""
        tenant, run = await self._found(params.run, params.tenant, context)
        page = await self._inspection.artifact_page(
            tenant, run, params.node, params.attempt, params.path, params.offset, params.limit
        )
        return _body(page)

    async def code_list(self, params: CodeListParams, context: Context) -> CodeList:
        """List one directory of a frozen tree."""
        tenant, run = await self._found(params.run, params.tenant, context)
        revision = await self._inspection.revision(
            tenant, run, params.node, params.attempt, start=params.at is CodeAt.START
        )
        entries = await self._inspection.entries(revision, params.path)
        return CodeList(
            entries=tuple(
                CodeItem(
                    path=each.path,
                    kind=CodeKind(each.kind),
                    size=each.size,
                    media_type=each.media_type,
                    digest=each.digest,
                )
                for each in entries
            )
        )

    async def code_page(self, params: CodePageParams, context: Context) -> BodyPage:
        """Read a page of a file of a frozen tree."""
        tenant, run = await self._found(params.run, params.tenant, context)
        revision = await self._inspection.revision(
            tenant, run, params.node, params.attempt, start=params.at is CodeAt.START
        )
        return _body(await self._inspection.code_page(revision, params.path, params.offset, params.limit))

    async def code_diff(self, params: CodeDiffParams, context: Context) -> BodyPage:
        """Read a page of what an attempt changed."""
        tenant, run = await self._found(params.run, params.tenant, context)
        start = await self._inspection.revision(tenant, run, params.node, params.attempt, start=True)
        result = await self._inspection.revision(tenant, run, params.node, params.attempt, start=False)
        body = await self._inspection.diff(start, result, params.path)
        if params.offset > len(body):
            raise InvalidError(f"offset {params.offset}", expected=f"at most {len(body)}")
        data = body[params.offset : params.offset + params.limit]
        return BodyPage(offset=params.offset, total=len(body), data=data)

    async def _found(self, name: str, tenant: TenantId | None, context: Context) -> tuple[TenantId, RunId]:
        whose = tenant or context.tenant
        return whose, await self._runs.resolve(whose, name)


def _body(page: Page) -> BodyPage:
    return BodyPage(offset=page.offset, total=page.total, data=page.data)
