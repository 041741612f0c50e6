"""The pure rules of the workspace: names, paths, parsed objects, what is kept in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.errors import CorruptError, RefusedError
from fusiond.ports.workspace import EntryKind
from fusiond.workspace.checkout.view import listed
from fusiond.workspace.code import plain_components
from fusiond.workspace.listing import CACHES, problem_with_name
from fusiond.workspace.plumbing.frozen import Recent, parse_tree
from fusiond.workspace.plumbing.git import quoted
from fusiond.workspace.store import commit_facts

COMPONENT = st.text(
    st.characters(
        min_codepoint=33, max_codepoint=0x2FFF, exclude_characters="/\x7f:", exclude_categories=["Cc"]
    ),
    min_size=1,
    max_size=8,
).filter(lambda text: text not in {".", ".."} and "git" not in text.lower() and "HEAD" not in text)


class TestPlainPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "",
            "/README.md",
            "../README.md",
            "src/../README.md",
            "./README.md",
            "src/.",
            "src//app.py",
            "src/",
            ":(glob)**",
            ":README.md",
            ":0:README.md",
            "HEAD",
            "HEAD:README.md",
            "HEAD~1",
            "HEAD^{tree}",
            "HEAD@{0}",
            "FETCH_HEAD",
            "refs/heads/main",
            "refs/heads/main:README.md",
            "0" * 40,
            "f" * 64,
            "0" * 40 + ":README.md",
            "README.md\0",
            "README.md\n",
            "\x1b[2J",
            "a\x85b",
            ".git/config",
            "src/.GIT/config",
            "caf\udce9",
        ],
    )
    def test_what_is_no_plain_path_is_refused(self, path: str) -> None:
        with pytest.raises(RefusedError) as caught:
            plain_components(path)
        assert caught.value.sentence().isprintable()

    @pytest.mark.parametrize(
        "path",
        [
            "a",
            "-x",
            "*",
            "a:b",
            "a~1",
            "x@{1}",
            "HEADS",
            "refs",
            "a b/c\\d",
            "..a/b..",
            "0" * 39,
            ".github/x",
        ],
    )
    def test_odd_names_are_names(self, path: str) -> None:
        assert plain_components(path) == path.encode().split(b"/")

    @given(st.lists(COMPONENT, min_size=1, max_size=5))
    def test_components_come_back_as_they_were(self, components: list[str]) -> None:
        assert plain_components("/".join(components)) == [each.encode() for each in components]

    def test_only_listings_know_the_root(self) -> None:
        assert plain_components("", allow_root=True) == []


class TestNamesInRevisions:
    @pytest.mark.parametrize(
        "name",
        [
            b".GIT/config",
            b"a/.Git",
            b"git~1",
            b"GIT~1/x",
            b".git./x",
            b".git /x",
            ".g\u200cit/x".encode(),
            b"a\nb",
            b"a\x1bb",
            b"a\x7f",
            "a\u0085b".encode(),
            b"caf\xe9",
            b"/".join([b"d"] * 129),
        ],
    )
    def test_refused(self, name: bytes) -> None:
        assert problem_with_name(name)

    @pytest.mark.parametrize(
        "name", [b".gitignore", b".github/x", b"a b", "\u65e5\u672c".encode(), b"git", b"x\\y"]
    )
    def test_accepted(self, name: bytes) -> None:
        assert problem_with_name(name) is None

    def test_caches_are_no_sources(self) -> None:
        assert not {pattern for pattern in CACHES if pattern.startswith("!")}


class TestParsedObjects:
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["40000", "100644", "100755", "120000", "160000"]),
                st.binary(min_size=1, max_size=9).filter(lambda name: b"\0" not in name and b"/" not in name),
                st.binary(min_size=20, max_size=20),
            )
        )
    )
    def test_a_tree_is_read_as_written(self, entries: list[tuple[str, bytes, bytes]]) -> None:
        body = b"".join(mode.encode() + b" " + name + b"\0" + raw for mode, name, raw in entries)
        parsed = parse_tree(body, 20)
        assert [(each.name, each.object_id) for each in parsed] == [
            (name, raw.hex()) for _, name, raw in entries
        ]
        directories = [each.kind is EntryKind.DIRECTORY for each in parsed]
        assert directories == [mode == "40000" for mode, _, _ in entries]

    @given(st.binary(max_size=60))
    def test_any_bytes_are_a_tree_or_corrupt(self, body: bytes) -> None:
        try:
            parse_tree(body, 20)
        except CorruptError:
            return

    def test_a_commit_tells_its_tree_and_date(self) -> None:
        head = f"tree {'a' * 40}\nparent {'b' * 40}\nauthor A <a> 1 +0000\n"
        tree, at_s = commit_facts(
            f"{head}committer C > D <c@d> 1700000000 -0700\n\ntree {'c' * 40}\n".encode()
        )
        assert (tree, at_s) == ("a" * 40, 1_700_000_000)

    @pytest.mark.parametrize("body", [b"", b"tree x\n\n", b"committer A <a> 1 +0000\n\n", b"\xff" * 50])
    def test_a_commit_without_them_is_corrupt(self, body: bytes) -> None:
        with pytest.raises(CorruptError):
            commit_facts(body)


class TestRecent:
    @given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9)), max_size=40))
    def test_the_weight_stays_bounded_and_every_value_is_dropped_once(
        self, kept: list[tuple[str, int]]
    ) -> None:
        dropped: list[object] = []
        recent: Recent[tuple[int, int]] = Recent(10, lambda value: value[1], dropped.append)
        for number, (key, weight) in enumerate(kept):
            recent.keep(key, (number, weight))
            assert recent.recall(key) == (number, weight)
            present = [recent.recall(each) for each in "abcdef"]
            assert sum(value[1] for value in present if value) <= 10 or sum(map(bool, present)) == 1
        recent.clear()
        assert sorted(dropped, key=repr) == sorted(((n, w) for n, (_, w) in enumerate(kept)), key=repr)

    def test_what_was_used_last_stays(self) -> None:
        recent: Recent[int] = Recent(2)
        recent.keep("a", 1)
        recent.keep("b", 2)
        recent.recall("a")
        recent.keep("c", 3)
        assert (recent.recall("a"), recent.recall("b"), recent.recall("c")) == (1, None, 3)


def test_lists_of_paths_are_bounded_and_displayable() -> None:
    told = listed([f"evil\x1b{number}" for number in range(30)])
    assert told.isprintable()
    assert told.endswith("and 10 more")


def test_alternates_with_separators_are_quoted() -> None:
    assert quoted("/plain/path") == "/plain/path"
    assert quoted('/a:b"c\\d') == '"/a:b\\"c\\\\d"'
