"""Submitting a flow: read once, resolve, pin, record `run_started`.

The flow and every file it names are read once, here, and pinned by digest;
policies and schemas come from the base commit, everything else from the
workspace (`engine.md`, Decided details). Whatever is wrong is said before
anything is recorded.
"""

import asyncio
from dataclasses import replace

from fusiond.codec.canonical import parse_json
from fusiond.codec.flowfile.pin import FileRole, NamedFile, Pinning, pin
from fusiond.codec.flowfile.plan_hash import plan_bytes, plan_hash
from fusiond.codec.flowfile.problems import FlowProblem
from fusiond.codec.flowfile.read import FlowReading, read_flow
from fusiond.codec.flowfile.render import problem_lines
from fusiond.domain.digest import ContentRef, Digest, content_of, digest_fields, ref_of
from fusiond.domain.errors import ConflictError, FusionError, InvalidError, UnsupportedError
from fusiond.domain.flow import Flow, FlowInput, InputType, NodeKind, ResolvedFlow, RunMode
from fusiond.domain.idempotency import act_key
from fusiond.domain.ids import RUN_ID_RANDOM_BITS, RunId, TenantId, make_run_id
from fusiond.domain.plan import plan_stages, resolve
from fusiond.domain.records import dataclass
from fusiond.domain.steps.record import NewStep
from fusiond.domain.steps.refs import refs_of
from fusiond.domain.steps.run import RunStarted
from fusiond.execution.attempts.freezing import policy_fingerprint
from fusiond.execution.chain import RunChain
from fusiond.execution.services import Services
from fusiond.execution.submission.files import dataset_digest, read_input, read_inside
from fusiond.execution.submission.toolchains import Probed, probe_toolchains
from fusiond.ports.workspace import Revision

SMALL_BYTES = 64 * 1024
"""Content up to here is committed with its step; larger content is a file."""

PAGE_BYTES = 256 * 1024
MAX_NAMED_BYTES = 1024 * 1024
_FROM_BASE = (FileRole.POLICY, FileRole.SCHEMA)
"""Files that judge: they come from the base commit, never from what lies in the workspace."""

NO_POLICY = digest_fields("fusion.policy.none.v1", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a client asks for.

    Args:
        flow_path: absolute host path of the flow file.
        inputs: names and values as given.
        mode: how effects are treated; this version performs live runs.
        revision: the base, None for HEAD.
        include_dirty: take uncommitted changes along.
        tenant: whose run.
        submitted_by: who asks, for the record.
        search_path: the client's PATH.
        key: the client-made key that makes a repeated request one act.
    """

    flow_path: str
    inputs: tuple[tuple[str, str], ...]
    mode: RunMode
    revision: str | None
    include_dirty: bool
    tenant: TenantId
    submitted_by: str
    search_path: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pinned:
    plan: ResolvedFlow
    contents: tuple[tuple[ContentRef, bytes], ...]
    inputs: tuple[tuple[str, bytes], ...]
    datasets: tuple[tuple[str, Digest], ...]


async def submit(services: Services, asked: Submission) -> RunChain:
    """Record the start of a run and return its chain; the caller drives it.

    Raises:
        InvalidError: the flow file, a named file or an input is wrong; every problem is listed.
        UnsupportedError: something this version does not run.
        RefusedError: the checkout cannot be a base as it is.
    """
    earlier = await _earlier(services, asked)
    if earlier is not None:
        return earlier
    reading = await _read(asked)
    base = await services.workspace.resolve_base(
        asked.revision,
        include_dirty=asked.include_dirty,
        aside=_pinned_anyway(services, asked, reading),
    )
    pinned = await _pin(services, asked, reading, base)
    _check_supported(pinned.plan, asked.mode)
    run = make_run_id(services.clock.now_us(), services.randomness.bits(RUN_ID_RANDOM_BITS))
    probed = await probe_toolchains(services, run, pinned.plan.flow.toolchains, asked.search_path)
    return await _start(services, asked, run, base, pinned, probed)


async def _read(asked: Submission) -> FlowReading:
    data = await asyncio.to_thread(read_input, asked.flow_path)
    reading = read_flow(data)
    if reading.flow is None:
        raise _problems(reading.problems, asked.flow_path)
    return reading


def _pinned_anyway(services: Services, asked: Submission, reading: FlowReading) -> frozenset[str]:
    """Return the files that are read from the workspace and pinned by digest."""
    paths = {each.path for each in reading.files if each.role not in _FROM_BASE}
    root = f"{services.settings.root}/"
    if asked.flow_path.startswith(root):
        paths.add(asked.flow_path.removeprefix(root))
    return frozenset(paths)


def _problems(problems: tuple[FlowProblem, ...], flow_path: str) -> InvalidError:
    lines = problem_lines(problems, flow_path.rpartition("/")[2])
    count = f"{len(lines)} problem{'' if len(lines) == 1 else 's'}"
    return InvalidError(
        f"the flow file has {count}",
        cure="`fusion flow check` lists them",
        fields={"problems": "\n".join(lines)},
    )


async def _pin(services: Services, asked: Submission, reading: FlowReading, base: Revision) -> _Pinned:
    flow = reading.flow
    assert flow is not None, "a reading without problems has a flow"
    bodies: dict[str, bytes | FusionError] = {}
    for file in reading.files:
        if file.path not in bodies:
            bodies[file.path] = await _named(services, file, base)

    def read(path: str) -> bytes:
        body = bodies[path]
        if isinstance(body, FusionError):
            raise body
        return body

    pinning: Pinning = pin(flow, reading.files, read)
    if pinning.flow is None:
        raise _problems(pinning.problems, asked.flow_path)
    plan = resolve(pinning.flow, reading.explained)
    return _Pinned(
        plan=plan,
        contents=pinning.contents,
        inputs=await asyncio.to_thread(_inputs, services, plan.flow, asked),
        datasets=await asyncio.to_thread(_datasets, services, plan.flow),
    )


async def _named(services: Services, file: NamedFile, base: Revision) -> bytes | FusionError:
    """Return the bytes of a file that the flow names, or what stands in the way."""
    try:
        if file.role in _FROM_BASE:
            return await _from_base(services, base, file.path)
        return await asyncio.to_thread(read_inside, services.settings.root, file.path)
    except FusionError as error:
        return error


async def _from_base(services: Services, base: Revision, path: str) -> bytes:
    body = bytearray()
    while True:
        page = await services.code.page(base, path, len(body), PAGE_BYTES)
        body += page.data
        if not page.data or len(body) >= page.total or len(body) > MAX_NAMED_BYTES:
            return bytes(body)


def _inputs(services: Services, flow: Flow, asked: Submission) -> tuple[tuple[str, bytes], ...]:
    given = dict(asked.inputs)
    known = {each.name for each in flow.inputs}
    problems = [f"{name}: the flow has no such input" for name in given if name not in known]
    values: list[tuple[str, bytes]] = []
    for each in flow.inputs:
        text = given.get(each.name, each.default)
        if text is None:
            if not each.optional:
                problems.append(f"{each.name}: required; give it with -i {each.name}=…")
            continue
        try:
            values.append((each.name, _value(services, each, text, given=each.name in given)))
        except FusionError as error:
            problems.append(f"{each.name}: {error.sentence()}")
    if problems:
        raise InvalidError(
            "the flow's inputs are not as declared",
            expected=", ".join(sorted(known)) or "no input",
            fields={"problems": "\n".join(problems)},
        )
    return tuple(values)


def _value(services: Services, declared: FlowInput, text: str, *, given: bool) -> bytes:
    """Return an input's bytes: as given, or from the file that a default names."""
    if declared.type is InputType.FILE and not given:
        return read_inside(services.settings.root, text)
    body = text.encode()
    if declared.type is InputType.JSON:
        parse_json(body, max_bytes=len(body) + 1, max_depth=64)
    return body


def _datasets(services: Services, flow: Flow) -> tuple[tuple[str, Digest], ...]:
    return tuple((each.name, dataset_digest(services.settings.root, each.path)) for each in flow.datasets)


def _check_supported(plan: ResolvedFlow, mode: RunMode) -> None:
    """Refuse what this version would record and not do."""
    if mode is not RunMode.LIVE:
        raise UnsupportedError(f"mode {mode}", expected="live or plan in this version")
    for node in plan.flow.nodes:
        if node.kind is not NodeKind.RUN:
            raise UnsupportedError(
                f"node {node.id} is `{node.kind}:`",
                expected="`run:` nodes in this version",
                cure="an agent with a command line of its own can be started by a `run:` node",
            )


async def _start(
    services: Services,
    asked: Submission,
    run: RunId,
    base: Revision,
    pinned: _Pinned,
    probed: Probed,
) -> RunChain:
    plan = plan_bytes(pinned.plan)
    input_refs = tuple((name, ref_of(body)) for name, body in pinned.inputs)
    bodies = {ref_of(plan).digest: plan}
    bodies.update({ref.digest: body for ref, body in pinned.contents})
    bodies.update({ref_of(body).digest: body for _, body in pinned.inputs})
    for body in bodies.values():
        if len(body) > SMALL_BYTES:
            await services.content.put(run, body)
    await services.results.pin_run(run, base)
    started = _started(asked, base, pinned, probed, services.settings.cores)
    started = replace(started, plan=ref_of(plan), input_refs=input_refs)
    step = NewStep(
        payload=started,
        at_us=services.clock.now_us(),
        refs=tuple(dict.fromkeys((*refs_of(started), *bodies))),
        idempotency_key=_key(asked),
    )
    chain = RunChain(services.ledger, services.on_append, run)
    small = [content_of(body) for body in bodies.values() if len(body) <= SMALL_BYTES]
    try:
        await chain.append([step], content=small)
    except ConflictError:
        # The same request came twice at once, and the other one was first.
        earlier = await _earlier(services, asked)
        if earlier is None:
            raise
        return earlier
    return chain


def _key(asked: Submission) -> Digest:
    return act_key("submit", asked.tenant, asked.key)


async def _earlier(services: Services, asked: Submission) -> RunChain | None:
    """Return the run that the same key started before: a repeated request is one act."""
    run = await services.ledger.run_of_key(_key(asked))
    if run is None:
        return None
    chain = RunChain(services.ledger, services.on_append, run)
    await chain.load()
    return chain


def _started(asked: Submission, base: Revision, pinned: _Pinned, probed: Probed, cores: int) -> RunStarted:
    flow = pinned.plan.flow
    return RunStarted(
        tenant=asked.tenant,
        flow=flow.name,
        flow_state=flow.state,
        mode=asked.mode,
        determinism=flow.determinism,
        resolver=pinned.plan.resolver,
        plan_hash=plan_hash(pinned.plan),
        plan=ref_of(b""),
        stages=plan_stages(pinned.plan),
        base_commit=base.commit,
        base_tree=base.tree,
        agent_definitions=(),
        policy_hash=NO_POLICY if flow.policy is None else _policy_digest(flow),
        verification_policy_hash=policy_fingerprint(flow.verification),
        environment=probed.environment,
        missing_toolchains=probed.missing,
        datasets=pinned.datasets,
        inputs=tuple((name, ref_of(body).digest) for name, body in pinned.inputs),
        limits=flow.limits,
        replay=flow.replay,
        entropy=flow.entropy,
        input_refs=(),
        flow_path=asked.flow_path,
        submitted_by=asked.submitted_by,
        search_path=asked.search_path,
        cores=cores,
    )


def _policy_digest(flow: Flow) -> Digest:
    if flow.policy is None or flow.policy.content is None:
        return NO_POLICY
    return flow.policy.content.digest
