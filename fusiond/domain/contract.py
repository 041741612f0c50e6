"""The completion contract: which files are judged, and everything wrong with them.

Facts in, problems out: `select` says which files an attempt's manifest and its
declared outputs are about, `judge` compares claims, declarations and facts.
Owns no disk (that is `snapshots`) and no format (that is `codec.manifest`).

A file in the outputs directory that the manifest does not list and that no
declared output asks for is temporary: it is never judged, frozen or readable.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from fusiond.domain.artifacts import CHANGES, ContractProblem, FrozenArtifact, ProblemCode
from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.display import display_safe
from fusiond.domain.flow import OutputSpec
from fusiond.domain.ids import OutputName
from fusiond.domain.paths import (
    DEFAULT_MEDIA_TYPE,
    collision_key,
    glob_matches,
    glob_may_match_below,
    media_type_by_suffix,
    parents_of,
    problem_with,
)
from fusiond.domain.records import dataclass

MANIFEST = "artifacts.json"
SUMMARY = "result.md"

MAX_PROBLEMS = 500
"""How many problems are kept; one more then says how many there were."""

MAX_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One manifest entry as far as it could be read; None where the entry says nothing usable.

    `output` None is an extra; `named` tells an extra from an unusable output name.
    """

    path: str
    output: OutputName | None = None
    named: bool = True
    media_type: str | None = None
    size: int | None = None
    sha256: Digest | None = None


class FileKind(StrEnum):
    """What a name in the outputs directory turned out to be; the value is shown to people."""

    REGULAR = "a regular file"
    MISSING = "no file"
    DIRECTORY = "a directory"
    SYMLINK = "a symbolic link"
    HARD_LINK = "a file with several hard links"
    FIFO = "a FIFO"
    SOCKET = "a socket"
    DEVICE = "a device"
    SPECIAL_MODE = "a file with a setuid, setgid or sticky bit"
    OTHER_FILE_SYSTEM = "on another file system"
    UNREADABLE = "a file that cannot be read"
    TOO_DEEP = "a directory too deep to be looked into"
    UNSTEADY = "a name that changes while it is looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFact:
    """What was found at one path, where more is to be said than what the artifact is.

    Args:
        kind: of the file itself, or of the first part of its path that is no directory.
        blame: the path that `kind` is about.
        size: bytes that were read, or the size found where nothing was read.
        artifact: what the bytes that were read are; None where they were not.
        changed: the file did not hold still while it was read.
        format_problem: what the bytes lack to be of the media type that was asked for.
        schema_problems: violations of the output's JSON Schema, location first.
    """

    kind: FileKind = FileKind.REGULAR
    blame: str = ""
    size: int = 0
    artifact: FrozenArtifact | None = None
    changed: bool = False
    format_problem: str | None = None
    schema_problems: tuple[str, ...] = ()


Fact = FrozenArtifact | FileFact
"""What was found at a path: an artifact without a blemish, or all there is to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is asked of a file that is to be frozen; files of one output share them.

    `guessed` says that nobody declared the media type: if the bytes are of another
    one, it is `application/octet-stream` and nothing is wrong.
    """

    output: OutputName | None
    media_type: str
    guessed: bool = False
    max_size_bytes: int


def select(
    contract: Sequence[OutputSpec],
    claims: Sequence[Claim] | None,
    found: Mapping[str, FileKind],
    *,
    extra_max_bytes: int,
) -> dict[str, Terms]:
    """Return the paths that are to be frozen, in order, and on which terms.

    Args:
        contract: the node's declared outputs.
        claims: the manifest's entries, or None where the supervisor writes the manifest.
        found: for each path seen in the outputs directory, what it is.
        extra_max_bytes: size bound of an artifact that no declared output asked for.
    """
    if claims is None:
        chosen = _by_contract(contract, found)
    else:
        chosen = _by_claims(contract, claims, extra_max_bytes)
    return {path: chosen[path] for path in sorted(chosen)}


def _by_contract(contract: Sequence[OutputSpec], found: Mapping[str, FileKind]) -> dict[str, Terms]:
    names = [path for path, kind in found.items() if kind is not FileKind.DIRECTORY]
    chosen: dict[str, Terms] = {}
    # An exact path says more than a glob that happens to match it.
    for spec in sorted(contract, key=lambda each: each.path is None):
        if spec.path is not None:
            paths = [spec.path] if spec.path in found else []
        else:
            paths = [each for each in names if glob_matches(spec.collect or "", each)]
        declared = _declared_type(spec)
        shared: dict[str, Terms] = {}
        for path in paths:
            media_type = declared or media_type_by_suffix(path)
            if media_type not in shared:
                shared[media_type] = Terms(
                    output=spec.name,
                    media_type=media_type,
                    guessed=declared is None,
                    max_size_bytes=spec.max_size_bytes,
                )
            chosen.setdefault(path, shared[media_type])
    return chosen


def _by_claims(
    contract: Sequence[OutputSpec], claims: Sequence[Claim], extra_max_bytes: int
) -> dict[str, Terms]:
    specs = {spec.name: spec for spec in contract}
    chosen: dict[str, Terms] = {}
    for claim in claims:
        if claim.path in chosen:
            continue
        spec = specs.get(claim.output) if claim.output else None
        declared = _declared_type(spec) if spec else None
        chosen[claim.path] = Terms(
            output=spec.name if spec else None,
            media_type=declared or claim.media_type or DEFAULT_MEDIA_TYPE,
            max_size_bytes=spec.max_size_bytes if spec else extra_max_bytes,
        )
    return chosen


def _declared_type(spec: OutputSpec) -> str | None:
    return spec.media_type or ("application/json" if spec.schema else None)


def frozen_artifacts(facts: Iterable[Fact]) -> tuple[FrozenArtifact, ...]:
    """Return the identities of what was read, in the order of the facts."""
    artifacts = [each if isinstance(each, FrozenArtifact) else each.artifact for each in facts]
    return tuple([each for each in artifacts if each is not None])


def outputs_digest(artifacts: Iterable[FrozenArtifact]) -> Digest:
    """Return the digest over all identities, whatever their order."""
    rows = sorted([_identity(each).encode() for each in artifacts])
    return digest_fields("fusion.outputs.v1", rows)


def _identity(artifact: FrozenArtifact) -> str:
    """Return a text that no other identity has: lengths stand before what could run together."""
    output, path, media_type = artifact.output or "", artifact.path, artifact.media_type
    return (
        f"{len(path)}:{path}{len(output)}:{output}{len(media_type)}:{media_type}"
        f"{artifact.size}:{artifact.digest}"
    )


def judge(
    contract: Sequence[OutputSpec],
    claims: Sequence[Claim] | None,
    selected: Mapping[str, Terms],
    facts: Mapping[str, Fact],
    found: Mapping[str, FileKind],
    *,
    injected: Sequence[str] = (),
) -> tuple[ContractProblem, ...]:
    """Return everything wrong with an attempt's outputs, in a fixed order.

    Args:
        contract: the node's declared outputs.
        claims: the manifest's entries, or None where the supervisor writes the manifest.
        selected: what `select` returned.
        facts: for each selected path, what was found there.
        found: for each path seen in the outputs directory, what it is.
        injected: paths that the supervisor adds.
    """
    problems = [*_claim_problems(contract, claims or ())]
    claimed: dict[str, Claim] = {}
    for claim in claims or ():
        claimed.setdefault(claim.path, claim)
    named: list[str] = []
    for path, terms in selected.items():
        if (reason := problem_with(path)) is not None:
            problems.append(
                problem(ProblemCode.NAME_REFUSED, path, f"the name {reason}", "a plain relative name")
            )
            continue
        named.append(path)
        problems += _file_problems(path, terms, facts[path], claimed.get(path))
    problems += _collisions([*named, *injected])
    problems += _contract_problems(contract, selected, found)
    return tuple(problems)


def bounded(problems: Sequence[ContractProblem]) -> tuple[ContractProblem, ...]:
    """Return at most MAX_PROBLEMS of the problems and, if there were more, how many."""
    more = len(problems) - MAX_PROBLEMS
    if more <= 0:
        return tuple(problems)
    last = ContractProblem(
        code=problems[MAX_PROBLEMS].code, where=MANIFEST, found=f"{more} more problems", expected="none"
    )
    return (*problems[:MAX_PROBLEMS], last)


def problem(code: ProblemCode, where: str, found: str, expected: str) -> ContractProblem:
    """Return a problem whose texts, which may be an agent's, are fit to be shown."""
    return ContractProblem(
        code=code,
        where=display_safe(where, max_chars=MAX_SHOWN_CHARS),
        found=display_safe(found, max_chars=MAX_SHOWN_CHARS),
        expected=display_safe(expected, max_chars=MAX_SHOWN_CHARS),
    )


def _claim_problems(contract: Sequence[OutputSpec], claims: Sequence[Claim]) -> Iterator[ContractProblem]:
    specs = {spec.name: spec for spec in contract}
    seen: set[str] = set()
    for claim in claims:
        if claim.path in seen:
            yield problem(ProblemCode.MANIFEST_DUPLICATE, claim.path, "listed twice", "each path once")
        seen.add(claim.path)
        if claim.output is not None:
            yield from _named_claim_problems(specs, claim, claim.output)
        elif claim.named and (spec := _asking(contract, claim.path)):
            yield problem(
                ProblemCode.MANIFEST_FIELD, claim.path, "listed without output", f"output {spec.name!r}"
            )


def _named_claim_problems(
    specs: Mapping[OutputName, OutputSpec], claim: Claim, output: OutputName
) -> Iterator[ContractProblem]:
    spec = specs.get(output)
    if spec is None:
        reserved = output == CHANGES
        yield problem(
            ProblemCode.OUTPUT_UNDECLARED,
            claim.path,
            f"output {output!r}",
            "the supervisor adds `changes` itself" if reserved else _declared(specs),
        )
        return
    if not _asks_for(spec, claim.path):
        yield problem(
            ProblemCode.MANIFEST_FIELD,
            claim.path,
            f"listed as {output!r}",
            f"a path that is {spec.path}" if spec.path else f"a path that matches {spec.collect}",
        )
    declared = _declared_type(spec)
    if declared and claim.media_type and claim.media_type != declared:
        yield problem(ProblemCode.MEDIA_TYPE, claim.path, claim.media_type, declared)


def _declared(specs: Mapping[OutputName, OutputSpec]) -> str:
    if not specs:
        return "no output, the node declares none"
    return "one of " + ", ".join(specs)


def _asking(contract: Sequence[OutputSpec], path: str) -> OutputSpec | None:
    return next((spec for spec in contract if _asks_for(spec, path)), None)


def _asks_for(spec: OutputSpec, path: str) -> bool:
    if spec.path is not None:
        return spec.path == path
    return spec.collect is not None and glob_matches(spec.collect, path)


def _file_problems(path: str, terms: Terms, fact: Fact, claim: Claim | None) -> Sequence[ContractProblem]:
    if isinstance(fact, FrozenArtifact):
        if fact.size <= terms.max_size_bytes and claim is None:
            return ()
        fact = FileFact(size=fact.size, artifact=fact)
    if fact.kind is FileKind.MISSING:
        return (problem(ProblemCode.FILE_MISSING, path, "no file", "a regular file"),)
    if fact.kind is not FileKind.REGULAR:
        about = f"{fact.blame} is {fact.kind.value}" if fact.blame != path else fact.kind.value
        return (problem(ProblemCode.FILE_KIND, path, about, "a regular file with one link"),)
    return [*_content_problems(path, terms, fact), *_mismatches(path, fact, claim)]


def _content_problems(path: str, terms: Terms, fact: FileFact) -> Iterator[ContractProblem]:
    # Nothing but its size keeps a regular file from being read.
    if fact.size > terms.max_size_bytes or fact.artifact is None:
        yield problem(
            ProblemCode.SIZE_LIMIT, path, f"{fact.size} bytes", f"at most {terms.max_size_bytes} bytes"
        )
    if fact.changed:
        yield problem(ProblemCode.FILE_CHANGED, path, "it changed while it was read", "a file at rest")
    if fact.format_problem is not None and not terms.guessed:
        yield problem(ProblemCode.MEDIA_TYPE, path, fact.format_problem, terms.media_type)
    for each in fact.schema_problems:
        yield problem(ProblemCode.SCHEMA, path, each, "what the output's JSON Schema asks for")


def _mismatches(path: str, fact: FileFact, claim: Claim | None) -> Iterator[ContractProblem]:
    if claim is None:
        return
    if claim.size is not None and claim.size != fact.size:
        yield problem(ProblemCode.SIZE_MISMATCH, path, f"{fact.size} bytes", f"{claim.size} as listed")
    digest = fact.artifact.digest if fact.artifact else None
    if claim.sha256 is not None and digest is not None and claim.sha256 != digest:
        yield problem(ProblemCode.DIGEST_MISMATCH, path, digest, f"{claim.sha256} as listed")


def _collisions(paths: Sequence[str]) -> Iterator[ContractProblem]:
    names: dict[str, str] = {}
    for path in paths:
        key = collision_key(path)
        if key in names:
            yield problem(
                ProblemCode.NAME_COLLISION,
                path,
                f"the same name as {names[key]}",
                "names that differ on every system",
            )
        names.setdefault(key, path)
    for parent in sorted(parents_of(paths)):
        if (file := names.get(collision_key(parent))) is not None:
            yield problem(ProblemCode.NAME_COLLISION, parent, f"{file} is a file", "a directory or a file")


def _contract_problems(
    contract: Sequence[OutputSpec], selected: Mapping[str, Terms], found: Mapping[str, FileKind]
) -> Iterator[ContractProblem]:
    given = {each.output for each in selected.values()}
    others = [(path, kind) for path, kind in found.items() if path not in selected]
    for spec in contract:
        unlisted = [each for path, kind in others if (each := _unlisted(spec, path, kind))]
        yield from unlisted
        attempted = spec.optional or spec.name in given or any(_asks_for(spec, each) for each in selected)
        if not attempted and not unlisted:
            wanted = spec.path or f"at least one file that matches {spec.collect}"
            yield problem(ProblemCode.OUTPUT_MISSING, spec.name, "no file", wanted)


def _unlisted(spec: OutputSpec, path: str, kind: FileKind) -> ContractProblem | None:
    if kind is FileKind.REGULAR:
        if not _asks_for(spec, path):
            return None
        return problem(
            ProblemCode.OUTPUT_UNLISTED, path, "not in the manifest", f"listed as output {spec.name!r}"
        )
    if kind is FileKind.DIRECTORY:
        in_the_way = path == spec.path
    elif spec.path is not None:
        in_the_way = f"{spec.path}/".startswith(f"{path}/")
    else:
        pattern = spec.collect or ""
        in_the_way = glob_matches(pattern, path) or glob_may_match_below(pattern, path)
    if not in_the_way:
        return None
    return problem(ProblemCode.FILE_KIND, path, kind.value, f"files for output {spec.name!r}")
