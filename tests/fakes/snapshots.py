"""In-memory snapshots: frozen versions as dictionaries of bytes.

Owns the promises of `ports.snapshots` that an engine relies on: the contract is
judged by the real rules, versions are never replaced, digests are of the bytes,
problems and pages are told as by the real adapter. Reads the directories of a
request from disk without any care, so it knows no links, no formats, no schemas
and no budgets, and lays inputs as ordinary files.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fusiond.codec.manifest import manifest_bytes, read_manifest
from fusiond.codec.summary import summary_problems, supervisor_summary
from fusiond.domain.artifacts import ContractProblem, FrozenArtifact, ProblemCode, RecordedBy
from fusiond.domain.contract import (
    MANIFEST,
    SUMMARY,
    Claim,
    Fact,
    FileFact,
    FileKind,
    Terms,
    judge,
    outputs_digest,
    problem,
    select,
)
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import ConflictError, CorruptError, FusionError, InvalidError
from fusiond.domain.ids import AttemptId, RunId, StageId
from fusiond.domain.steps.attempt import LaidInput
from fusiond.ports.content import Page
from fusiond.ports.snapshots import Checked, FreezeRequest, Snapshots, Staged

MAX_PAGE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    bodies: dict[str, bytes]
    artifacts: tuple[FrozenArtifact, ...]
    problems: tuple[ContractProblem, ...]
    recorded_by: RecordedBy
    summary: bytes | None


@dataclass(slots=True)
class FakeSnapshots:
    """Snapshots without a disk of their own.

    Args:
        versions: the published bodies by attempt and path; a test may spoil them.
        staged: the staged bodies by place.
        failures: errors by method name; the next call of that method raises its first one.
    """

    versions: dict[AttemptId, dict[str, bytes]] = field(default_factory=dict)
    staged: dict[str, dict[str, bytes]] = field(default_factory=dict)
    failures: dict[str, list[FusionError]] = field(default_factory=dict)
    _count: int = 0

    async def check(self, request: FreezeRequest) -> Checked:
        self._fail("check")
        judged = _judged(request)
        return Checked(problems=judged.problems, outputs=outputs_digest(judged.artifacts))

    async def stage(self, request: FreezeRequest) -> Staged:
        self._fail("stage")
        judged = _judged(request)
        bodies = dict(judged.bodies)
        artifacts = [*judged.artifacts]
        for each in request.injected:
            body = Path(each.source).read_bytes()
            bodies[each.path] = body
            terms = Terms(output=each.output, media_type=each.media_type, max_size_bytes=len(body))
            artifacts.append(_artifact(each.path, body, terms))
        artifacts.sort(key=lambda each: each.path)
        self._count += 1
        place = f"/staged/{self._count}"
        self.staged[place] = bodies
        summary = judged.summary or supervisor_summary(request.attempt, artifacts)
        return Staged(
            attempt=request.attempt,
            problems=judged.problems,
            outputs=outputs_digest(judged.artifacts),
            artifacts=tuple(artifacts),
            recorded_by=judged.recorded_by,
            manifest=digest_bytes(manifest_bytes(artifacts, judged.recorded_by)),
            summary=digest_bytes(summary),
            place=place,
        )

    async def publish(self, staged: Staged) -> None:
        bodies = self.staged.pop(staged.place)
        self._fail("publish")
        if staged.attempt in self.versions:
            raise ConflictError(f"{staged.attempt} is there already")
        self.versions[staged.attempt] = bodies

    async def drop(self, staged: Staged) -> None:
        self.staged.pop(staged.place, None)

    async def hand_over(self, run: RunId, inputs: Sequence[LaidInput], target: str) -> None:
        self._fail("hand_over")
        uses = Counter(each.name for each in inputs)
        entries: list[dict[str, object]] = []
        for each in inputs:
            attempt = AttemptId(StageId(run, each.node), each.attempt)
            body = self.versions.get(attempt, {}).get(each.path, b"")
            if digest_bytes(body) != each.digest:
                raise CorruptError(f"frozen artifact {each.path} of {attempt} is not as recorded")
            alone = uses[each.name] == 1 and not each.many
            place = each.name if alone else f"{each.name}/{each.path}"
            file = Path(target) / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
            entries.append({"name": each.name, "file": place, "sha256": each.digest})
        Path(target).mkdir(parents=True, exist_ok=True)
        (Path(target) / "inputs.json").write_text(json.dumps({"inputs": entries}))

    async def verify(self, attempt: AttemptId, artifacts: Sequence[FrozenArtifact]) -> Sequence[str]:
        bodies = self.versions.get(attempt, {})
        return [
            each.path
            for each in artifacts
            if each.path not in bodies or digest_bytes(bodies[each.path]) != each.digest
        ]

    async def page(self, attempt: AttemptId, artifact: FrozenArtifact, offset: int, limit: int) -> Page:
        if offset < 0 or limit < 1:
            raise InvalidError(f"offset {offset}, limit {limit}")
        body = self.versions.get(attempt, {}).get(artifact.path)
        if body is None or digest_bytes(body) != artifact.digest:
            raise CorruptError(f"frozen artifact {artifact.path} of {attempt} is not as recorded")
        end = offset + min(limit, MAX_PAGE_BYTES)
        return Page(offset=offset, total=len(body), data=body[offset:end])

    async def sweep(self, runs: frozenset[RunId], frozen: frozenset[AttemptId]) -> Sequence[str]:
        orphans = [each for each in self.versions if each.stage.run in runs and each not in frozen]
        for each in orphans:
            del self.versions[each]
        return [f"{each.stage}/attempt-{each.number}" for each in orphans]

    def _fail(self, method: str) -> None:
        if self.failures.get(method):
            raise self.failures[method].pop(0)


def _judged(request: FreezeRequest) -> _Judged:
    bodies, found = _read(Path(request.outputs))
    report, _ = _read(Path(request.report))
    claims, recorded_by, problems = _manifest(request, report)
    selected = select(request.contract, claims, found, extra_max_bytes=2**40)
    facts: dict[str, Fact] = {
        path: _artifact(path, bodies[path], terms) if path in bodies else FileFact(kind=FileKind.MISSING)
        for path, terms in selected.items()
    }
    if SUMMARY in report:
        problems += summary_problems(report[SUMMARY])
    elif not request.supervised:
        problems.append(problem(ProblemCode.SUMMARY_MISSING, SUMMARY, "no file", "a summary"))
    injected = [each.path for each in request.injected]
    problems += judge(request.contract, claims, selected, facts, found, injected=injected)
    return _Judged(
        bodies={path: bodies[path] for path in selected if path in bodies},
        artifacts=tuple(each for each in facts.values() if isinstance(each, FrozenArtifact)),
        problems=tuple(problems),
        recorded_by=recorded_by,
        summary=report.get(SUMMARY),
    )


def _manifest(
    request: FreezeRequest, report: dict[str, bytes]
) -> tuple[tuple[Claim, ...] | None, RecordedBy, list[ContractProblem]]:
    if MANIFEST in report:
        reading = read_manifest(report[MANIFEST], may_be_empty=not request.contract)
        return reading.claims, RecordedBy.AGENT, [*reading.problems]
    if request.supervised:
        return None, RecordedBy.SUPERVISOR, []
    missing = problem(ProblemCode.MANIFEST_MISSING, MANIFEST, "no file", "a manifest")
    return None, RecordedBy.AGENT, [missing]


def _read(directory: Path) -> tuple[dict[str, bytes], dict[str, FileKind]]:
    bodies: dict[str, bytes] = {}
    found: dict[str, FileKind] = {}
    for each in sorted(directory.rglob("*")):
        path = str(each.relative_to(directory))
        found[path] = FileKind.DIRECTORY if each.is_dir() else FileKind.REGULAR
        if each.is_file():
            bodies[path] = each.read_bytes()
    return bodies, found


def _artifact(path: str, body: bytes, terms: Terms) -> FrozenArtifact:
    return FrozenArtifact(
        output=terms.output,
        path=path,
        media_type=terms.media_type,
        size=len(body),
        digest=digest_bytes(body),
    )


def _keeps_the_port(fake: FakeSnapshots) -> Snapshots:
    return fake
