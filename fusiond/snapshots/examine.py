"""From an attempt's directories to facts, problems and identities.

Owns the order of a check or freeze: read the report, list the tree, choose what
is judged, pass over each file once, judge. With a target the pass also copies,
and everything said is said about the copies.
"""

import os
from collections.abc import Callable

from fusiond.domain.artifacts import ContractProblem, FrozenArtifact, ProblemCode, RecordedBy
from fusiond.domain.contract import (
    Fact,
    FileFact,
    FileKind,
    Terms,
    bounded,
    frozen_artifacts,
    judge,
    outputs_digest,
    problem,
    select,
)
from fusiond.domain.digest import Digest
from fusiond.domain.ids import OutputName
from fusiond.domain.paths import DEFAULT_MEDIA_TYPE, glob_may_match_below, parents_of, problem_with
from fusiond.domain.records import dataclass
from fusiond.ports.snapshots import FreezeRequest
from fusiond.snapshots.copying import SourceError, chunks_digest, pass_over
from fusiond.snapshots.disk import Disk
from fusiond.snapshots.formats import FormatCheck, JsonCheck, check_for
from fusiond.snapshots.report import Report, read_report
from fusiond.snapshots.schemas import Schemas
from fusiond.snapshots.target import Target
from fusiond.snapshots.walk import RefusedFileError, Scan, UntrustedTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What an attempt may ask of a freeze.

    Args:
        entries: names that are looked at in the directories that matter.
        total_bytes: of all files that are read.
        extra_max_bytes: of one artifact that no declared output asked for.
    """

    entries: int = 100_000
    total_bytes: int = 256 * 1024**3
    extra_max_bytes: int = 64 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What was found; `artifacts` and `outputs` without what the supervisor injects."""

    problems: tuple[ContractProblem, ...]
    artifacts: tuple[FrozenArtifact, ...]
    outputs: Digest
    recorded_by: RecordedBy
    summary: bytes | None


class AbandonedError(Exception):
    """Nobody waits for the result any more."""


def examine(
    request: FreezeRequest,
    budgets: Budgets,
    disk: Disk,
    *,
    target: Target | None = None,
    abandoned: Callable[[], bool] = lambda: False,
) -> Examined:
    """Judge an attempt, and copy it when there is a target.

    Args:
        request: what to judge.
        budgets: bounds.
        disk: writes to `target`.
        target: where copies go.
        abandoned: asked between files.

    Raises:
        OSError: our own disk fails.
        AbandonedError: `abandoned` said so.
    """
    report = read_report(request.report, supervised=request.supervised, may_be_empty=not request.contract)
    try:
        tree = UntrustedTree(request.outputs)
    except RefusedFileError as error:
        return _without_tree(request, report, error.kind)
    try:
        one = _Examination(request, report, budgets, disk, tree, target, abandoned)
        return one.run()
    finally:
        tree.close()


def _without_tree(request: FreezeRequest, report: Report, kind: FileKind) -> Examined:
    problems = [*report.problems]
    if kind is not FileKind.MISSING:
        problems.append(problem(ProblemCode.FILE_KIND, "outputs", kind.value, "a directory"))
    selected = select(request.contract, report.claims, {}, extra_max_bytes=0)
    facts = {path: FileFact(kind=FileKind.MISSING) for path in selected}
    problems += judge(request.contract, report.claims, selected, facts, {})
    return Examined(
        problems=bounded(problems),
        artifacts=(),
        outputs=outputs_digest(()),
        recorded_by=report.recorded_by,
        summary=report.summary,
    )


class _Examination:
    def __init__(
        self,
        request: FreezeRequest,
        report: Report,
        budgets: Budgets,
        disk: Disk,
        tree: UntrustedTree,
        target: Target | None,
        abandoned: Callable[[], bool],
    ) -> None:
        self._request = request
        self._report = report
        self._budgets = budgets
        self._disk = disk
        self._tree = tree
        self._target = target
        self._abandoned = abandoned
        self._schemas = Schemas(request.contract, dict(request.schemas))
        self._bytes_left = budgets.total_bytes
        self._over_budget = False

    def run(self) -> Examined:
        contract, claims = self._request.contract, self._report.claims
        scan = self._scan()
        selected = select(contract, claims, scan.found, extra_max_bytes=self._budgets.extra_max_bytes)
        facts = {path: self._fact(path, terms, scan) for path, terms in selected.items()}
        if self._target is not None:
            self._target.start_sync(len(facts))
        problems = [*self._report.problems, *self._budget_problems(scan)]
        injected = [each.path for each in self._request.injected]
        problems += judge(contract, claims, selected, facts, scan.found, injected=injected)
        artifacts = frozen_artifacts(facts.values())
        return Examined(
            problems=bounded(problems),
            artifacts=artifacts,
            outputs=outputs_digest(artifacts),
            recorded_by=self._report.recorded_by,
            summary=self._report.summary,
        )

    def _scan(self) -> Scan:
        """List the directories that the manifest or the contract is about, and no others."""
        named = [each.path for each in self._report.claims or ()]
        named += [each.path for each in self._request.contract if each.path is not None]
        parents = parents_of(named)
        globs = [each.collect for each in self._request.contract if each.collect is not None]

        def wanted(directory: str) -> bool:
            return directory in parents or any(glob_may_match_below(each, directory) for each in globs)

        return self._tree.scan(wanted, self._budgets.entries)

    def _budget_problems(self, scan: Scan) -> list[ContractProblem]:
        problems: list[ContractProblem] = []
        if not scan.complete:
            problems.append(
                problem(
                    ProblemCode.SIZE_LIMIT,
                    "outputs",
                    f"more than {self._budgets.entries} names",
                    f"at most {self._budgets.entries}",
                )
            )
        if self._over_budget:
            total = self._budgets.total_bytes
            problems.append(
                problem(
                    ProblemCode.SIZE_LIMIT, "outputs", f"more than {total} bytes", f"at most {total} bytes"
                )
            )
        return problems

    def _fact(self, path: str, terms: Terms, scan: Scan) -> Fact:
        if self._abandoned():
            raise AbandonedError
        kind = scan.found.get(path, FileKind.MISSING)
        if kind is not FileKind.REGULAR or problem_with(path) is not None:
            return _not_there(path, kind, scan)
        try:
            source, status = self._tree.open_file(path)
        except RefusedFileError as error:
            return FileFact(kind=error.kind, blame=error.blame)
        try:
            if status.st_size > terms.max_size_bytes:
                return FileFact(size=status.st_size)
            limit = min(terms.max_size_bytes, self._bytes_left)
            if status.st_size > limit:
                self._over_budget = True
                return FileFact(size=status.st_size)
            self._bytes_left -= status.st_size
            return self._read(path, terms, source, status, limit)
        except SourceError:
            return FileFact(kind=FileKind.UNREADABLE, blame=path)
        finally:
            os.close(source)

    def _read(self, path: str, terms: Terms, source: int, status: os.stat_result, limit: int) -> Fact:
        schema = self._schemas.asks_about(terms.output)
        check = JsonCheck() if schema else check_for(terms.media_type)
        target = None if self._target is None else self._target.outputs.create(path, status.st_mode)
        try:
            copied = pass_over(source, status, limit, target, check, self._disk)
        finally:
            if target is not None:
                os.close(target)
        wrong = None if check is None else check.finish()
        chunks = self._keep_chunks(copied.chunk_hashes) if copied.chunk_hashes else None
        artifact = FrozenArtifact(
            output=terms.output,
            path=path,
            media_type=DEFAULT_MEDIA_TYPE if wrong is not None and terms.guessed else terms.media_type,
            size=copied.size,
            digest=copied.digest,
            chunks=chunks,
        )
        if wrong is None and not schema and not copied.changed and copied.size <= limit:
            return artifact
        return FileFact(
            size=copied.size,
            artifact=artifact if copied.size <= limit else None,
            changed=copied.changed,
            format_problem=wrong,
            schema_problems=self._violations(terms.output, check) if wrong is None else (),
        )

    def _keep_chunks(self, chunk_hashes: bytes) -> Digest:
        assert self._target is not None
        chunks = chunks_digest(chunk_hashes)
        self._target.keep_chunks(chunks, chunk_hashes)
        return chunks

    def _violations(self, output: OutputName | None, check: FormatCheck | None) -> tuple[str, ...]:
        if output is None or not self._schemas.asks_about(output) or not isinstance(check, JsonCheck):
            return ()
        return self._schemas.problems(output, check.value)


def _not_there(path: str, kind: FileKind, scan: Scan) -> FileFact:
    """Say what is in the way of a path: itself, or the first part of it that is no directory."""
    if kind is not FileKind.MISSING:
        return FileFact(kind=kind, blame=path)
    for above in sorted(parents_of([path]), key=len):
        kind = scan.found.get(above, FileKind.MISSING)
        if kind not in (FileKind.DIRECTORY, FileKind.REGULAR, FileKind.MISSING):
            return FileFact(kind=kind, blame=above)
    return FileFact(kind=FileKind.MISSING)
