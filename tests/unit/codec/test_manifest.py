"""Reading and writing manifests: both shapes, every problem, never an exception."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.manifest import MAX_BYTES, MAX_ENTRIES, manifest_bytes, read_manifest
from fusiond.domain.artifacts import FrozenArtifact, ProblemCode, RecordedBy
from fusiond.domain.contract import Claim
from fusiond.domain.digest import digest_bytes
from fusiond.domain.display import display_safe
from fusiond.domain.ids import OutputName

DIGEST = digest_bytes(b"x")
GOOD = {"output": "plan", "path": "plan.md", "media_type": "text/markdown", "size": 1, "sha256": DIGEST}


def both(entries: object) -> tuple[bytes, bytes]:
    """Return the same entries in both shapes."""
    return json.dumps({"artifacts": entries}).encode(), json.dumps(entries).encode()


def problems(data: bytes) -> list[tuple[ProblemCode, str, str]]:
    return [(each.code, each.where, each.found) for each in read_manifest(data).problems]


@pytest.mark.parametrize("data", both([GOOD, {**GOOD, "path": "b", "output": None, "size": 0}]))
def test_good_entries_become_claims(data: bytes) -> None:
    reading = read_manifest(data)
    assert reading.problems == ()
    assert reading.claims == (
        Claim(path="plan.md", output=OutputName("plan"), media_type="text/markdown", size=1, sha256=DIGEST),
        Claim(path="b", output=None, media_type="text/markdown", size=0, sha256=DIGEST),
    )


def test_an_entry_without_output_is_an_extra() -> None:
    entry = {key: value for key, value in GOOD.items() if key != "output"}
    reading = read_manifest(json.dumps([entry]).encode())
    assert reading.problems == ()
    assert reading.claims is not None
    assert (reading.claims[0].output, reading.claims[0].named) == (None, True)


@pytest.mark.parametrize(
    "field,value,found",
    [
        ("output", "Plan", "the text 'Plan'"),
        ("output", 7, "the number 7"),
        ("output", "", "the text ''"),
        ("path", 7, "the number 7"),
        ("path", None, "null"),
        ("media_type", "text", "the text 'text'"),
        ("media_type", "Text/Plain", "the text 'Text/Plain'"),
        ("media_type", "text/plain; charset=utf-8", "the text 'text/plain; charset=utf-8'"),
        ("media_type", "text/plain\n", "the text 'text/plain\\\\n'"),
        ("media_type", [], "an array"),
        ("size", -1, "the number -1"),
        ("size", 1.0, "the number 1.0"),
        ("size", True, "the boolean true"),
        ("size", "1", "the text '1'"),
        ("size", 2**63, f"the number {2**63}"),
        ("sha256", DIGEST.upper(), f"the text '{DIGEST.upper()}'"),
        ("sha256", DIGEST[:-1], f"the text '{DIGEST[:-1]}'"),
        ("sha256", {}, "an object"),
        ("sha256", None, "null"),
    ],
)
def test_a_field_that_is_wrong_is_named(field: str, value: object, found: str) -> None:
    for data in both([GOOD, {**GOOD, field: value}]):
        assert problems(data) == [
            (ProblemCode.MANIFEST_FIELD, f"artifacts[1].{field}", found.replace("\\\\", "\\"))
        ]


def test_a_field_that_is_missing_is_named() -> None:
    for data in both([{}]):
        assert problems(data) == [
            (ProblemCode.MANIFEST_FIELD, f"artifacts[0].{name}", "nothing")
            for name in ("path", "media_type", "size", "sha256")
        ]


def test_every_problem_of_every_entry_is_told() -> None:
    entries = [{**GOOD, "size": -1, "sha256": "x"}, 7, {**GOOD, "owner": "me"}, [], {**GOOD, "output": 1}]
    for data in both(entries):
        assert [where for _, where, _ in problems(data)] == [
            "artifacts[0].size",
            "artifacts[0].sha256",
            "artifacts[1]",
            "artifacts[2].owner",
            "artifacts[3]",
            "artifacts[4].output",
        ]


def test_an_entry_with_a_path_is_judged_whatever_else_is_wrong_with_it() -> None:
    reading = read_manifest(json.dumps([{**GOOD, "size": "1", "output": "NO", "sha256": 1}]).encode())
    assert reading.claims == (Claim(path="plan.md", named=False, media_type="text/markdown"),)


@pytest.mark.parametrize("data", [b"", b" \n\t"])
def test_no_content_is_empty(data: bytes) -> None:
    reading = read_manifest(data, may_be_empty=True)
    assert [each.code for each in reading.problems] == [ProblemCode.MANIFEST_EMPTY]
    assert reading.claims is None


@pytest.mark.parametrize("data", both([]))
def test_no_entry_is_empty_unless_there_need_be_none(data: bytes) -> None:
    assert [code for code, _, _ in problems(data)] == [ProblemCode.MANIFEST_EMPTY]
    assert read_manifest(data, may_be_empty=True).problems == ()
    assert read_manifest(data).claims == ()


@pytest.mark.parametrize(
    "data,found",
    [
        (b"{", "not JSON"),
        (b"nothing", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"\xef\xbb\xbf[]", "JSON"),
        (b'{"artifacts": [], "artifacts": []}', "twice"),
        (b'[{"path": "a", "path": "b"}]', "twice"),
        (b'[{"size": NaN}]', "NaN"),
        (b'[{"size": Infinity}]', "Infinity"),
        (b'[{"size": 1e999}]', "beyond"),
        (b'[{"size": 99999999999999999999999}]', "beyond"),
        (b"[" * 100_000, "nested"),
        (b'["\\ud800"]', "surrogate"),
        (b"[" + b" " * MAX_BYTES + b"]", str(MAX_BYTES + 2)),
    ],
)
def test_what_is_no_strict_json_is_unreadable(data: bytes, found: str) -> None:
    reading = read_manifest(data)
    assert [each.code for each in reading.problems] == [ProblemCode.MANIFEST_UNREADABLE]
    assert found in reading.problems[0].found
    assert reading.claims is None


@pytest.mark.parametrize("data", [b"null", b'"text"', b"7", b"true"])
def test_json_that_is_no_manifest(data: bytes) -> None:
    assert [(code, where) for code, where, _ in problems(data)] == [
        (ProblemCode.MANIFEST_FIELD, "artifacts.json")
    ]
    assert read_manifest(data).claims is None


@pytest.mark.parametrize(
    "value,found", [({}, "nothing"), ({"artifacts": None}, "null"), ({"artifacts": {}}, "an object")]
)
def test_an_object_without_the_array(value: object, found: str) -> None:
    assert problems(json.dumps(value).encode()) == [(ProblemCode.MANIFEST_FIELD, "artifacts", found)]


def test_an_unknown_field_beside_the_array() -> None:
    data = json.dumps({"artifacts": [GOOD], "version": 1}).encode()
    assert problems(data) == [(ProblemCode.MANIFEST_FIELD, "version", "an unknown field")]


def test_nobody_writes_in_another_name() -> None:
    data = json.dumps({"artifacts": [GOOD], "recorded_by": "supervisor"}).encode()
    assert problems(data) == [(ProblemCode.MANIFEST_FIELD, "recorded_by", "the text 'supervisor'")]
    assert read_manifest(data, RecordedBy.SUPERVISOR).problems == ()


def test_the_number_of_entries_is_bounded() -> None:
    for data in both([0] * (MAX_ENTRIES + 1)):
        assert problems(data) == [(ProblemCode.MANIFEST_FIELD, "artifacts", f"{MAX_ENTRIES + 1} entries")]


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "output": st.one_of(st.just("plan"), _VALUES),
        "path": st.one_of(st.just("plan.md"), _VALUES),
        "media_type": st.one_of(st.just("text/plain"), _VALUES),
        "size": st.one_of(st.integers(0, 10), _VALUES),
        "sha256": st.one_of(st.just(DIGEST), _VALUES),
        "more": _VALUES,
    },
)


@given(st.lists(st.one_of(_FIELDS, _VALUES), max_size=4))
def test_both_shapes_are_judged_alike(entries: list[object]) -> None:
    canonical, array = both(entries)
    assert read_manifest(canonical) == read_manifest(array)


@given(st.one_of(st.binary(max_size=60), _VALUES.map(lambda value: json.dumps(value).encode())))
def test_any_bytes_are_read(data: bytes) -> None:
    reading = read_manifest(data)
    assert reading.problems or reading.claims
    for each in reading.problems:
        text = f"{each.where} {each.found} {each.expected}"
        assert display_safe(text, max_chars=len(text)) == text


_ARTIFACTS = st.lists(
    st.builds(
        FrozenArtifact,
        output=st.sampled_from([None, OutputName("plan")]),
        path=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        media_type=st.sampled_from(["text/plain", "application/vnd.fusion.claims+json"]),
        size=st.integers(0, 2**40),
        digest=st.just(DIGEST),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each.path,
)


@given(_ARTIFACTS, st.sampled_from(RecordedBy))
def test_what_is_written_is_read_back(artifacts: list[FrozenArtifact], recorded_by: RecordedBy) -> None:
    data = manifest_bytes(artifacts, recorded_by)
    assert data == manifest_bytes(reversed(artifacts), recorded_by)
    reading = read_manifest(data, recorded_by)
    assert reading.problems == ()
    assert reading.claims == tuple(
        Claim(
            path=each.path, output=each.output, media_type=each.media_type, size=each.size, sha256=each.digest
        )
        for each in sorted(artifacts, key=lambda each: each.path)
    )


def test_the_canonical_bytes() -> None:
    artifact = FrozenArtifact(
        output=OutputName("plan"), path="plan.md", media_type="text/markdown", size=1, digest=DIGEST
    )
    assert manifest_bytes([artifact], RecordedBy.AGENT) == (
        b'{"artifacts":[{"media_type":"text/markdown","output":"plan","path":"plan.md","sha256":"'
        + DIGEST.encode()
        + b'","size":1}],"recorded_by":"agent"}'
    )
