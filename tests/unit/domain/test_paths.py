"""Which names are refused, which are the same name, and what a glob matches."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fusiond.domain.paths import (
    MAX_COMPONENT_BYTES,
    MAX_DEPTH,
    MAX_PATH_BYTES,
    collision_key,
    glob_matches,
    glob_may_match_below,
    media_type_by_suffix,
    problem_with,
    problem_with_glob,
)

REFUSED = [
    ("", "empty"),
    ("/etc/passwd", "absolute"),
    ("/", "absolute"),
    ("..", "`..`"),
    ("../x", "`..`"),
    ("a/../b", "`..`"),
    ("a/..", "`..`"),
    ("./a", "`.`"),
    ("a/./b", "`.`"),
    (".", "`.`"),
    ("a//b", "`//`"),
    ("a/", "slash"),
    ("@manifest", "a document of the attempt"),
    ("@summary", "a document of the attempt"),
    ("a\\b", "backslash"),
    ("a\nb", "control character (U+000A)"),
    ("a\0b", "control character (U+0000)"),
    ("a\x7fb", "control character (U+007F)"),
    ("a\x85b", "control character (U+0085)"),
    ("a\u202egnp.exe", "format character (U+202E)"),
    ("a\u200db", "format character (U+200D)"),
    ("a\u00adb", "format character (U+00AD)"),
    ("a\U000e0041b", "format character (U+E0041)"),
    ("a\u2028b", "line separator (U+2028)"),
    ("a\u2029b", "paragraph separator (U+2029)"),
    ("a\ue000b", "private-use character (U+E000)"),
    ("a\uffffb", "unassigned character (U+FFFF)"),
    ("a\udcffb", "not UTF-8"),
    ("a\ud800b", "not UTF-8"),
    ("cafe\u0301", "normal form C"),
    ("a.", "ends in a dot"),
    ("a/b /c", "ends in a dot or a space"),
    ("a\u00a0", "ends in a dot or a space"),
    ("...", "ends in a dot"),
    ("a" * (MAX_COMPONENT_BYTES + 1), "component of 256 bytes"),
    ("\u00e9" * 128, "component of 256 bytes"),
    ("/".join(["a" * 100] * 11), "1110 bytes"),
    ("/".join(["a"] * (MAX_DEPTH + 1)), "33 components deep"),
]


@pytest.mark.parametrize("path,reason", REFUSED)
def test_refused_names_say_why(path: str, reason: str) -> None:
    problem = problem_with(path)
    assert problem is not None
    assert reason in problem
    assert problem.isprintable()


@pytest.mark.parametrize(
    "path",
    [
        "a",
        ".hidden",
        "-x",
        "a b/c d.txt",
        "a..b",
        "..a",
        "~",
        "$(id)",
        "`id`",
        ":(glob)a",
        "HEAD:x",
        "caf\u00e9/\u65e5\u672c\u8a9e.md",
        "a" * MAX_COMPONENT_BYTES,
        "/".join(["a"] * MAX_DEPTH),
        "/".join(["a" * 255] * 3 + ["a" * 254, "b"]),
    ],
)
def test_ordinary_names_are_accepted(path: str) -> None:
    assert len(path.encode()) <= MAX_PATH_BYTES
    assert problem_with(path) is None


@given(st.text(max_size=40))
@example("a/\ud800")
def test_any_text_gets_an_answer_that_can_be_shown(path: str) -> None:
    problem = problem_with(path)
    assert problem is None or problem.isprintable()
    if problem is None:
        assert path.encode().decode() == path
        assert unicodedata.normalize("NFC", path) == path
        assert all(each not in ("", ".", "..") for each in path.split("/"))


@pytest.mark.parametrize(
    "one,other",
    [
        ("README.md", "readme.MD"),
        ("stra\u00dfe", "STRASSE"),
        ("\ufb01le", "file"),
        ("\uff41.txt", "a.txt"),
        ("cafe\u0301", "caf\u00e9"),
        ("a\u200db", "ab"),
        ("a\u00adb", "ab"),
        ("a\u3164b", "ab"),
        ("a\ufe0fb", "ab"),
        ("\u0130", "i\u0307"),
        ("\u212a", "k"),
    ],
)
def test_names_that_some_system_takes_for_one_share_a_key(one: str, other: str) -> None:
    assert collision_key(one) == collision_key(other)


@pytest.mark.parametrize("one,other", [("a", "b"), ("a/b", "a-b"), ("1", "2"), ("\u00e9", "e")])
def test_different_names_have_different_keys(one: str, other: str) -> None:
    assert collision_key(one) != collision_key(other)


@given(st.text(max_size=30))
def test_a_collision_key_is_its_own_key(path: str) -> None:
    assert collision_key(collision_key(path)) == collision_key(path)


@given(st.text(max_size=30))
def test_case_and_composition_never_change_a_key(path: str) -> None:
    key = collision_key(path)
    assert collision_key(path.casefold()) == key
    assert collision_key(unicodedata.normalize("NFKC", path)) == key
    assert collision_key(unicodedata.normalize("NFD", path)) == key


@pytest.mark.parametrize(
    "pattern,path,expected",
    [
        ("notes/*.md", "notes/a.md", True),
        ("notes/*.md", "notes/.md", True),
        ("notes/*.md", "notes/x/a.md", False),
        ("notes/*.md", "notes/a.mdx", False),
        ("notes/*.md", "a/notes/a.md", False),
        ("*", "a", True),
        ("*", "a/b", False),
        ("**", "a", True),
        ("**", "a/b/c", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("**/b", "b", True),
        ("**/b", "a/c/b", True),
        ("**/b", "ab", False),
        ("a/**/b", "a/b", True),
        ("a/**/b/**/c", "a/x/b/y/b/c", True),
        ("a/**/b/c", "a/b/x/b/c", True),
        ("a*b*c", "axbybzc", True),
        ("a*b*c", "acb", False),
        ("?.txt", "\u00e9.txt", True),
        ("?.txt", "ab.txt", False),
        ("a?b", "a/b", False),
        ("a.b", "axb", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a", "a\n", False),
    ],
)
def test_globs(pattern: str, path: str, *, expected: bool) -> None:
    assert glob_matches(pattern, path) is expected


def test_a_hostile_glob_is_answered_without_exponential_search() -> None:
    assert not glob_matches("*a" * 40 + "b", "a" * 255)
    assert not glob_matches("**/*a/" * 15 + "b", "aa/" * 300 + "c")


_COMPONENT = st.text(alphabet="ab", min_size=1, max_size=3)
_PATHS = st.lists(_COMPONENT, min_size=1, max_size=5).map("/".join)
_GLOBS = st.lists(
    st.one_of(st.just("**"), st.text(alphabet="ab*?", min_size=1, max_size=4)), min_size=1, max_size=4
)


@given(_GLOBS, _PATHS)
def test_globs_agree_with_their_definition(pattern: list[str], path: str) -> None:
    globs = [each if each == "**" else each.replace("**", "*") for each in pattern]
    assert glob_matches("/".join(globs), path) is _matches(globs, path.split("/"))


@pytest.mark.parametrize(
    "pattern,directory,expected",
    [
        ("a/*.md", "a", True),
        ("a/*.md", "b", False),
        ("a/*.md", "a/b", False),
        ("a/**", "a/b/c", True),
        ("**/x", "a/b", True),
        ("*/b/c", "a/b", True),
        ("*/b/c", "a/c", False),
        ("a", "a", False),
    ],
)
def test_where_a_glob_may_still_match(pattern: str, directory: str, *, expected: bool) -> None:
    assert glob_may_match_below(pattern, directory) is expected


@given(_GLOBS, _PATHS, _PATHS)
def test_what_matches_below_may_match_below(pattern: list[str], directory: str, rest: str) -> None:
    glob = "/".join(each if each == "**" else each.replace("**", "*") for each in pattern)
    if glob_matches(glob, f"{directory}/{rest}"):
        assert glob_may_match_below(glob, directory)


def _matches(globs: list[str], names: list[str]) -> bool:
    """Match by trying everything: the definition, exponential and short."""
    if not globs:
        return not names
    if globs[0] == "**":
        least = 1 if len(globs) == 1 else 0
        return any(_matches(globs[1:], names[taken:]) for taken in range(least, len(names) + 1))
    return bool(names) and _matches_name(globs[0], names[0]) and _matches(globs[1:], names[1:])


def _matches_name(glob: str, name: str) -> bool:
    if not glob:
        return not name
    if glob[0] == "*":
        return any(_matches_name(glob[1:], name[taken:]) for taken in range(len(name) + 1))
    return bool(name) and glob[0] in ("?", name[0]) and _matches_name(glob[1:], name[1:])


@pytest.mark.parametrize(
    "pattern,reason", [("../*", "`..`"), ("/a/*", "absolute"), ("a**/b", "`**`"), ("", "empty")]
)
def test_refused_globs_say_why(pattern: str, reason: str) -> None:
    assert reason in (problem_with_glob(pattern) or "")


def test_ordinary_globs_are_accepted() -> None:
    assert problem_with_glob("notes/**/*.md") is None


@pytest.mark.parametrize(
    "path,media_type",
    [
        ("a/b.json", "application/json"),
        ("PLAN.MD", "text/markdown"),
        ("a.tar.gz", "application/gzip"),
        ("json", "application/octet-stream"),
        (".json", "application/json"),
        ("a.json/b", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_media_types_by_suffix(path: str, media_type: str) -> None:
    assert media_type_by_suffix(path) == media_type
