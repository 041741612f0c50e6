"""The completion contract: what is selected, and every problem that facts can show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.artifacts import ContractProblem, FrozenArtifact, ProblemCode
from fusiond.domain.contract import (
    MAX_PROBLEMS,
    MAX_SHOWN_CHARS,
    Claim,
    Fact,
    FileFact,
    FileKind,
    bounded,
    frozen_artifacts,
    judge,
    outputs_digest,
    problem,
    select,
)
from fusiond.domain.digest import Digest, digest_bytes
from fusiond.domain.flow import OutputSpec
from fusiond.domain.ids import OutputName
from tests.fakes.freezing import output

PLAN = output("plan", "plan.md", media_type="text/markdown", max_size_bytes=100)
NOTES = output("notes", collect="notes/*.md", optional=True)
CONTRACT = (PLAN, NOTES)
DIGEST = digest_bytes(b"bytes")

Found = dict[str, FileKind]
Codes = list[tuple[ProblemCode, str]]


def claim(path: str, name: str | None = None, *, size: int = 5, sha256: Digest = DIGEST) -> Claim:
    return Claim(
        path=path,
        output=OutputName(name) if name else None,
        media_type="text/markdown",
        size=size,
        sha256=sha256,
    )


def artifact(path: str, *, size: int = 5, digest: Digest = DIGEST) -> FrozenArtifact:
    return FrozenArtifact(output=None, path=path, media_type="text/markdown", size=size, digest=digest)


def regular(*paths: str) -> Found:
    return dict.fromkeys(paths, FileKind.REGULAR)


def judged(
    contract: tuple[OutputSpec, ...],
    claims: list[Claim] | None,
    found: Found,
    facts: dict[str, Fact] | None = None,
    injected: tuple[str, ...] = (),
) -> list[ContractProblem]:
    """Judge, with an unblemished file wherever nothing else is said."""
    selected = select(contract, claims, found, extra_max_bytes=50)
    known: dict[str, Fact] = {
        path: artifact(path) if found.get(path) is FileKind.REGULAR else FileFact(kind=FileKind.MISSING)
        for path in selected
    }
    return [*judge(contract, claims, selected, known | (facts or {}), found, injected=injected)]


def codes(problems: list[ContractProblem]) -> Codes:
    return [(each.code, each.where) for each in problems]


class TestSelecting:
    def test_without_a_manifest_only_files_that_an_output_asks_for_are_taken(self) -> None:
        found = regular("plan.md", "notes/a.md", "notes/b.txt", "tmp/x.md") | {"notes": FileKind.DIRECTORY}
        selected = select(CONTRACT, None, found, extra_max_bytes=50)
        assert [(path, terms.output) for path, terms in selected.items()] == [
            ("notes/a.md", "notes"),
            ("plan.md", "plan"),
        ]

    def test_an_exact_path_goes_before_a_glob(self) -> None:
        contract = (output("all", collect="**"), PLAN)
        selected = select(contract, None, regular("plan.md", "x"), extra_max_bytes=50)
        assert {path: terms.output for path, terms in selected.items()} == {"plan.md": "plan", "x": "all"}

    def test_a_media_type_nobody_declared_is_guessed_by_suffix(self) -> None:
        terms = select((NOTES,), None, regular("notes/a.md"), extra_max_bytes=50)["notes/a.md"]
        assert (terms.media_type, terms.guessed) == ("text/markdown", True)

    def test_an_output_with_a_schema_is_json(self) -> None:
        contract = (output("report", "report", schema=True),)
        terms = select(contract, None, regular("report"), extra_max_bytes=50)["report"]
        assert (terms.media_type, terms.guessed) == ("application/json", False)

    def test_a_manifest_decides_alone(self) -> None:
        claims = [claim("extra.md"), claim("plan.md", "plan"), claim("plan.md", "notes")]
        selected = select(CONTRACT, claims, regular("notes/a.md"), extra_max_bytes=50)
        assert {path: (terms.output, terms.max_size_bytes) for path, terms in selected.items()} == {
            "extra.md": (None, 50),
            "plan.md": ("plan", 100),
        }


class TestJudging:
    def test_nothing_is_wrong_with_what_was_asked_for(self) -> None:
        assert judged(CONTRACT, None, regular("plan.md", "notes/a.md")) == []
        assert (
            judged(CONTRACT, [claim("plan.md", "plan"), claim("log.txt")], regular("plan.md", "log.txt"))
            == []
        )

    def test_a_required_output_must_be_there(self) -> None:
        assert codes(judged(CONTRACT, None, {})) == [(ProblemCode.OUTPUT_MISSING, "plan")]

    def test_a_collection_needs_one_file_unless_it_is_optional(self) -> None:
        contract = (output("logs", collect="logs/*"), NOTES)
        problems = judged(contract, None, regular("logs.txt"))
        assert codes(problems) == [(ProblemCode.OUTPUT_MISSING, "logs")]
        assert "logs/*" in problems[0].expected

    def test_a_listed_file_must_exist(self) -> None:
        assert codes(judged(CONTRACT, [claim("plan.md", "plan")], {})) == [
            (ProblemCode.FILE_MISSING, "plan.md")
        ]

    def test_a_file_that_an_output_asks_for_must_be_listed(self) -> None:
        problems = judged(CONTRACT, [claim("plan.md", "plan")], regular("plan.md", "notes/a.md", "tmp"))
        assert codes(problems) == [(ProblemCode.OUTPUT_UNLISTED, "notes/a.md")]

    def test_a_required_output_that_is_only_unlisted_is_not_missing_too(self) -> None:
        problems = judged(CONTRACT, [claim("x")], regular("x", "plan.md"))
        assert codes(problems) == [(ProblemCode.OUTPUT_UNLISTED, "plan.md")]

    def test_a_temporary_file_is_nobodys_business(self) -> None:
        found = regular("plan.md") | {"cache": FileKind.FIFO, "cache.sock": FileKind.SOCKET}
        assert judged(CONTRACT, [claim("plan.md", "plan")], found) == []

    def test_an_output_that_was_not_declared(self) -> None:
        problems = judged(CONTRACT, [claim("plan.md", "plan"), claim("x", "extra")], regular("plan.md", "x"))
        assert codes(problems) == [(ProblemCode.OUTPUT_UNDECLARED, "x")]
        assert problems[0].expected == "one of plan, notes"

    def test_changes_is_the_supervisors(self) -> None:
        problems = judged((), [claim("x", "changes")], regular("x"))
        assert codes(problems) == [(ProblemCode.OUTPUT_UNDECLARED, "x")]
        assert "supervisor" in problems[0].expected

    def test_an_output_at_another_place_than_declared(self) -> None:
        claims = [claim("other.md", "plan"), claim("notes/a.txt", "notes")]
        problems = judged(CONTRACT, claims, regular("other.md", "notes/a.txt"))
        assert codes(problems) == [
            (ProblemCode.MANIFEST_FIELD, "other.md"),
            (ProblemCode.MANIFEST_FIELD, "notes/a.txt"),
        ]

    def test_an_extra_may_not_stand_where_an_output_belongs(self) -> None:
        problems = judged(CONTRACT, [claim("plan.md")], regular("plan.md"))
        assert codes(problems) == [(ProblemCode.MANIFEST_FIELD, "plan.md")]
        assert problems[0].expected == "output 'plan'"

    def test_an_entry_whose_output_could_not_be_read_is_not_told_twice(self) -> None:
        broken = Claim(path="plan.md", named=False, media_type="text/markdown", size=5, sha256=DIGEST)
        assert judged(CONTRACT, [broken], regular("plan.md")) == []

    def test_a_path_is_listed_once(self) -> None:
        problems = judged(CONTRACT, [claim("plan.md", "plan")] * 2, regular("plan.md"))
        assert codes(problems) == [(ProblemCode.MANIFEST_DUPLICATE, "plan.md")]

    def test_claims_are_compared_with_what_was_read(self) -> None:
        claims = [claim("plan.md", "plan", size=6, sha256=digest_bytes(b"other"))]
        problems = judged(CONTRACT, claims, regular("plan.md"))
        assert codes(problems) == [
            (ProblemCode.SIZE_MISMATCH, "plan.md"),
            (ProblemCode.DIGEST_MISMATCH, "plan.md"),
        ]
        assert problems[0].found == "5 bytes"
        assert problems[1].found == DIGEST

    def test_a_claimed_media_type_is_the_declared_one(self) -> None:
        wrong = Claim(path="plan.md", output=PLAN.name, media_type="text/plain", size=5, sha256=DIGEST)
        problems = judged(CONTRACT, [wrong], regular("plan.md"))
        assert [(each.code, each.found, each.expected) for each in problems] == [
            (ProblemCode.MEDIA_TYPE, "text/plain", "text/markdown")
        ]

    @pytest.mark.parametrize("fact", [artifact("plan.md", size=101), FileFact(size=101)])
    def test_a_size_over_the_bound(self, fact: Fact) -> None:
        problems = judged(CONTRACT, None, regular("plan.md"), {"plan.md": fact})
        assert [(each.code, each.found, each.expected) for each in problems] == [
            (ProblemCode.SIZE_LIMIT, "101 bytes", "at most 100 bytes")
        ]

    def test_a_file_that_was_not_read_is_never_good(self) -> None:
        problems = judged(CONTRACT, None, regular("plan.md"), {"plan.md": FileFact(size=1)})
        assert codes(problems) == [(ProblemCode.SIZE_LIMIT, "plan.md")]

    def test_everything_about_a_content_is_told_at_once(self) -> None:
        fact = FileFact(
            size=101,
            artifact=artifact("plan.md", size=101),
            changed=True,
            format_problem="not text",
            schema_problems=("$.a: missing", "$.b: wrong"),
        )
        problems = judged(CONTRACT, [claim("plan.md", "plan")], regular("plan.md"), {"plan.md": fact})
        assert [each.code for each in problems] == [
            ProblemCode.SIZE_LIMIT,
            ProblemCode.FILE_CHANGED,
            ProblemCode.MEDIA_TYPE,
            ProblemCode.SCHEMA,
            ProblemCode.SCHEMA,
            ProblemCode.SIZE_MISMATCH,
        ]

    def test_a_guessed_media_type_that_is_wrong_is_no_problem(self) -> None:
        fact = FileFact(size=5, artifact=artifact("notes/a.md"), format_problem="not UTF-8")
        found = regular("plan.md", "notes/a.md")
        assert judged(CONTRACT, None, found, {"notes/a.md": fact}) == []

    @pytest.mark.parametrize(
        "kind", [each for each in FileKind if each not in (FileKind.REGULAR, FileKind.MISSING)]
    )
    def test_every_other_kind_of_file_is_refused(self, kind: FileKind) -> None:
        fact = FileFact(kind=kind, blame="plan.md")
        problems = judged(CONTRACT, None, {"plan.md": kind}, {"plan.md": fact})
        assert codes(problems) == [(ProblemCode.FILE_KIND, "plan.md")]
        assert problems[0].found == kind.value

    def test_the_part_of_a_path_that_is_to_blame_is_named(self) -> None:
        fact = FileFact(kind=FileKind.SYMLINK, blame="d")
        problems = judged((), [claim("d/x.md")], {"d": FileKind.SYMLINK}, {"d/x.md": fact})
        assert [(each.code, each.where, each.found) for each in problems] == [
            (ProblemCode.FILE_KIND, "d/x.md", "d is a symbolic link")
        ]

    @pytest.mark.parametrize("kind", [FileKind.SYMLINK, FileKind.TOO_DEEP, FileKind.OTHER_FILE_SYSTEM])
    def test_what_hides_files_that_a_collection_asks_for_is_a_problem(self, kind: FileKind) -> None:
        problems = judged(CONTRACT, None, regular("plan.md") | {"notes": kind, "elsewhere": kind})
        assert codes(problems) == [(ProblemCode.FILE_KIND, "notes")]

    def test_what_hides_a_required_output_is_a_problem_instead_of_its_absence(self) -> None:
        contract = (output("deep", "a/b/deep.md"),)
        assert codes(judged(contract, None, {"a": FileKind.SYMLINK})) == [(ProblemCode.FILE_KIND, "a")]

    def test_a_directory_where_a_file_is_declared(self) -> None:
        contract = (output("deep", "deep"),)
        found = {"deep": FileKind.DIRECTORY}
        fact = FileFact(kind=FileKind.DIRECTORY, blame="deep")
        assert codes(judged(contract, None, found, {"deep": fact})) == [(ProblemCode.FILE_KIND, "deep")]
        assert codes(judged(contract, [claim("x")], found | regular("x"))) == [
            (ProblemCode.FILE_KIND, "deep")
        ]

    @pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a\\b", "a\u202eb", "x" * 256, "a/"])
    def test_a_refused_name_is_refused_whatever_is_there(self, path: str) -> None:
        problems = judged((), [claim(path)], regular(path))
        assert [each.code for each in problems] == [ProblemCode.NAME_REFUSED]
        assert problems[0].where.isprintable()

    def test_names_that_are_one_name_elsewhere(self) -> None:
        paths = ["README", "readme", "caf\u00e9", "CAF\u00c9"]
        problems = judged((), [claim(each) for each in paths], regular(*paths))
        assert [each.code for each in problems] == [ProblemCode.NAME_COLLISION] * 2

    def test_a_file_and_a_directory_that_are_one_name_elsewhere(self) -> None:
        problems = judged((), [claim("Log"), claim("log/a")], regular("Log", "log/a"))
        assert codes(problems) == [(ProblemCode.NAME_COLLISION, "log")]

    def test_a_name_that_the_supervisor_needs(self) -> None:
        problems = judged((), [claim("Changes.patch")], regular("Changes.patch"), injected=("changes.patch",))
        assert codes(problems) == [(ProblemCode.NAME_COLLISION, "changes.patch")]

    def test_problems_come_together_and_in_a_fixed_order(self) -> None:
        claims = [claim("x", "extra"), claim("../y"), claim("gone")]
        found = regular("x", "notes/a.md")
        assert judged(CONTRACT, claims, found) == judged(CONTRACT, claims, dict(reversed(found.items())))
        assert [each.code for each in judged(CONTRACT, claims, found)] == [
            ProblemCode.OUTPUT_UNDECLARED,
            ProblemCode.NAME_REFUSED,
            ProblemCode.FILE_MISSING,
            ProblemCode.OUTPUT_MISSING,
            ProblemCode.OUTPUT_UNLISTED,
        ]


_PATHS = st.text(alphabet="ab/.\u0301A", max_size=6)
_CLAIMS = st.builds(
    Claim,
    path=_PATHS,
    output=st.sampled_from([None, OutputName("plan"), OutputName("notes"), OutputName("other")]),
    named=st.booleans(),
    media_type=st.sampled_from([None, "text/markdown", "text/plain"]),
    size=st.one_of(st.none(), st.integers(0, 200)),
    sha256=st.sampled_from([None, DIGEST]),
)


@given(
    claims=st.one_of(st.none(), st.lists(_CLAIMS, max_size=5)),
    found=st.dictionaries(_PATHS, st.sampled_from(FileKind), max_size=5),
)
def test_any_claims_and_any_tree_are_judged(claims: list[Claim] | None, found: Found) -> None:
    problems = judged(CONTRACT, claims, found)
    for each in problems:
        assert (each.where + each.found + each.expected).isprintable()
    if not problems:
        selected = select(CONTRACT, claims, found, extra_max_bytes=50)
        assert "plan.md" in selected
        assert all(found[path] is FileKind.REGULAR for path in selected)


def test_the_number_of_problems_is_bounded_and_stated() -> None:
    one = problem(ProblemCode.FILE_MISSING, "x", "no file", "a file")
    assert bounded([one] * MAX_PROBLEMS) == (one,) * MAX_PROBLEMS
    kept = bounded([one] * (MAX_PROBLEMS + 7))
    assert len(kept) == MAX_PROBLEMS + 1
    assert kept[-1].found == "7 more problems"


def test_texts_of_problems_are_safe_and_short() -> None:
    shown = problem(ProblemCode.FILE_MISSING, "a\x1b[2J", "\u202e" * 1000, "b\nc")
    assert shown.where == "a<U+001B>[2J"
    assert len(shown.found) < 9 * MAX_SHOWN_CHARS
    assert shown.expected == "b<U+000A>c"


class TestIdentities:
    def test_what_was_read_is_frozen_whatever_else_is_said(self) -> None:
        one, other = artifact("a"), artifact("b")
        facts: list[Fact] = [one, FileFact(kind=FileKind.FIFO), FileFact(size=9), FileFact(artifact=other)]
        assert frozen_artifacts(facts) == (one, other)

    def test_the_digest_of_outputs_does_not_depend_on_their_order(self) -> None:
        one, other = artifact("a"), artifact("b")
        assert outputs_digest([one, other]) == outputs_digest([other, one])

    @given(st.lists(st.tuples(*[st.text(alphabet="a:1", max_size=3)] * 3), max_size=3, unique=True))
    def test_different_outputs_have_different_digests(self, rows: list[tuple[str, str, str]]) -> None:
        artifacts = [
            FrozenArtifact(
                output=OutputName(name) if name else None, path=path, media_type=kind, size=1, digest=DIGEST
            )
            for path, name, kind in rows
        ]
        digests = {outputs_digest(artifacts[:length]) for length in range(len(artifacts) + 1)}
        assert len(digests) == len(artifacts) + 1
        assert len({outputs_digest([each]) for each in artifacts}) == len(artifacts)

    def test_each_part_of_an_identity_counts(self) -> None:
        base = artifact("a")
        others = [
            artifact("b"),
            artifact("a", size=6),
            artifact("a", digest=digest_bytes(b"x")),
            FrozenArtifact(
                output=OutputName("o"), path="a", media_type=base.media_type, size=5, digest=DIGEST
            ),
            FrozenArtifact(output=None, path="a", media_type="text/plain", size=5, digest=DIGEST),
        ]
        assert len({outputs_digest([each]) for each in [base, *others]}) == len(others) + 1
