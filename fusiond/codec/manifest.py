"""The artifact manifest `artifacts.json`: read as somebody's claims, written as facts.

Owns the format: the canonical object with an `artifacts` array, and the
top-level array that is accepted too and judged by the same code. Whether the
claims are true is `domain.contract`.

Problems name places of the canonical form, whichever form was read, so both
forms of one manifest have the same problems.
"""

import re
from collections.abc import Iterable, Sequence

from fusiond.codec.canonical import JsonValue, canonical, parse_json
from fusiond.domain.artifacts import ContractProblem, FrozenArtifact, ProblemCode, RecordedBy
from fusiond.domain.contract import MANIFEST, Claim, problem
from fusiond.domain.digest import Digest
from fusiond.domain.errors import InvalidError, TooLargeError
from fusiond.domain.ids import OutputName, is_name
from fusiond.domain.records import dataclass

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 16
MAX_ENTRIES = 10_000
MAX_SIZE = 2**63 - 1

_ARTIFACTS = "artifacts"
_RECORDED_BY = "recorded_by"
_EXPECTED = {
    "output": "the name of a declared output, or null",
    "path": "a path below the outputs directory",
    "media_type": "type/subtype in lower case, without parameters",
    "size": "the number of bytes, an integer from 0 on",
    "sha256": "64 lower-case hex digits",
}
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReading:
    """What could be read, and everything that could not. `claims` None: there are no entries to read."""

    claims: tuple[Claim, ...] | None = None
    problems: tuple[ContractProblem, ...] = ()


def read_manifest(
    data: bytes, recorded_by: RecordedBy = RecordedBy.AGENT, *, may_be_empty: bool = False
) -> ManifestReading:
    """Read a manifest; never raises, whatever the bytes are.

    An entry is `{output, path, media_type, size, sha256}`; without `output`, or
    with null, it is an extra. Each entry whose path is a text becomes a claim,
    so that its file is judged beside its other problems.

    Args:
        data: the file's bytes.
        recorded_by: who wrote it; a manifest that says otherwise has a problem.
        may_be_empty: no entry at all is no problem; no content always is one.
    """
    if not data.strip():
        return _only(ProblemCode.MANIFEST_EMPTY, "no content", "an object with an `artifacts` array")
    try:
        value = parse_json(data, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH)
    except (InvalidError, TooLargeError) as error:
        return _only(ProblemCode.MANIFEST_UNREADABLE, error.found, error.expected)
    problems: list[ContractProblem] = []
    entries = _entries(value, recorded_by, problems)
    if entries is None:
        return ManifestReading(problems=tuple(problems))
    if not entries and not may_be_empty:
        problems.append(
            problem(ProblemCode.MANIFEST_EMPTY, MANIFEST, "no entry", "an entry for each artifact")
        )
    if len(entries) > MAX_ENTRIES:
        problems.append(_refused(_ARTIFACTS, f"{len(entries)} entries", f"at most {MAX_ENTRIES}"))
        return ManifestReading(problems=tuple(problems))
    claims = [_claim(f"{_ARTIFACTS}[{index}]", entry, problems) for index, entry in enumerate(entries)]
    return ManifestReading(claims=tuple(each for each in claims if each), problems=tuple(problems))


def _only(code: ProblemCode, found: str, expected: str) -> ManifestReading:
    return ManifestReading(problems=(problem(code, MANIFEST, found, expected),))


def _refused(where: str, found: str, expected: str) -> ContractProblem:
    return problem(ProblemCode.MANIFEST_FIELD, where, found, expected)


def _entries(
    value: JsonValue, recorded_by: RecordedBy, problems: list[ContractProblem]
) -> Sequence[JsonValue] | None:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        problems.append(_refused(MANIFEST, _shown(value), "an object with an `artifacts` array"))
        return None
    unknown = [key for key in value if key not in (_ARTIFACTS, _RECORDED_BY)]
    problems.extend(_refused(key, "an unknown field", f"only `{_ARTIFACTS}`") for key in unknown)
    if value.get(_RECORDED_BY, recorded_by.value) != recorded_by.value:
        problems.append(_refused(_RECORDED_BY, _shown(value[_RECORDED_BY]), repr(recorded_by.value)))
    entries = value.get(_ARTIFACTS)
    if not isinstance(entries, list):
        found = _shown(entries) if _ARTIFACTS in value else "nothing"
        problems.append(_refused(_ARTIFACTS, found, "an array"))
        return None
    return entries


def _claim(where: str, entry: JsonValue, problems: list[ContractProblem]) -> Claim | None:
    if not isinstance(entry, dict):
        problems.append(_refused(where, _shown(entry), "an object"))
        return None
    unknown = [key for key in entry if key not in _EXPECTED]
    expected = "only " + ", ".join(_EXPECTED)
    problems.extend(_refused(f"{where}.{key}", "an unknown field", expected) for key in unknown)
    output, media_type = _output(entry.get("output")), _media_type(entry.get("media_type"))
    path, size, sha256 = _path(entry.get("path")), _size(entry.get("size")), _sha256(entry.get("sha256"))
    usable = {
        "output": output is not None or entry.get("output") is None,
        "path": path is not None,
        "media_type": media_type is not None,
        "size": size is not None,
        "sha256": sha256 is not None,
    }
    for name, good in usable.items():
        if not good:
            found = _shown(entry[name]) if name in entry else "nothing"
            problems.append(_refused(f"{where}.{name}", found, _EXPECTED[name]))
    if path is None:
        return None
    return Claim(
        path=path, output=output, named=usable["output"], media_type=media_type, size=size, sha256=sha256
    )


def _output(value: JsonValue) -> OutputName | None:
    return OutputName(value) if isinstance(value, str) and is_name(value) else None


def _path(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _media_type(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and _MEDIA_TYPE.match(value) else None


def _size(value: JsonValue) -> int | None:
    # A boolean is an integer to Python, and a float may equal one.
    return value if type(value) is int and 0 <= value <= MAX_SIZE else None


def _sha256(value: JsonValue) -> Digest | None:
    return Digest(value) if isinstance(value, str) and _SHA256.match(value) else None


def _shown(value: JsonValue) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return f"the text {value[:80]!r}"
        case True | False:
            return f"the boolean {str(value).lower()}"
        case None:
            return "null"
        case _:
            return f"the number {value}"


def manifest_bytes(artifacts: Iterable[FrozenArtifact], recorded_by: RecordedBy) -> bytes:
    """Return the canonical manifest of what was frozen, in order of the paths."""
    entries: list[JsonValue] = [
        {
            "media_type": each.media_type,
            "output": each.output,
            "path": each.path,
            "sha256": each.digest,
            "size": each.size,
        }
        for each in sorted(artifacts, key=lambda each: each.path)
    ]
    return canonical({_ARTIFACTS: entries, _RECORDED_BY: recorded_by.value})
