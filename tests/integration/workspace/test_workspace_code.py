"""Code evidence: plain paths in frozen trees, and nothing else that git could be talked into."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import CorruptError, FusionError, NotFoundError, RefusedError
from fusiond.domain.ids import CommitId, TreeId
from fusiond.ports.workspace import EntryKind, Revision
from fusiond.workspace.code import MAX_PAGE_BYTES
from tests.integration.workspace.repositories import GITLINK, LINK, Files, Stored, git
from tests.integration.workspace.site import Site, Sites

LARGE = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(60_000))


FILES: Files = {
    "README.md": b"# Title\n",
    "src/app.py": b"print()\n",
    "src/deep/er/data.bin": bytes(range(256)) * 20,
    "large.bin": LARGE,
    "link": Stored(LINK, b"/etc/passwd"),
    "dirlink": Stored(LINK, b"src"),
    "Case.txt": b"upper\n",
    "cafe\u0301.txt": b"decomposed\n",
    "a:b": b"colon\n",
    "-x": b"dash\n",
    "*": b"star\n",
    "caf\udce9": b"not utf-8\n",
    "empty": b"",
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Revision]:
    """A repository with every kind of entry, its base packed; the tests here only read it."""
    directory = tmp_path_factory.mktemp("code")

    async def pack() -> tuple[Path, Revision]:
        made = Sites(directory)
        site = made.make([FILES])
        base = await site.base()
        await made.close()
        return site.root, base

    return asyncio.run(pack())


@pytest.fixture
async def rich(sites: Sites, packed: tuple[Path, Revision]) -> tuple[Site, Revision]:
    return sites.over(packed[0]), packed[1]


async def test_a_listing_tells_path_size_type_and_digest(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    entries = {entry.path: entry for entry in await site.assembly.code.entries(base, "")}
    readme = entries["README.md"]
    assert (readme.kind, readme.size, readme.media_type) == (EntryKind.FILE, 8, "text/markdown")
    assert readme.digest == digest_bytes(b"# Title\n")
    assert entries["large.bin"].digest == digest_bytes(LARGE)
    assert entries["large.bin"].media_type == "application/octet-stream"
    assert entries["a:b"].media_type == "text/plain"
    assert (entries["src"].kind, entries["src"].digest) == (EntryKind.DIRECTORY, None)
    assert entries["link"].kind is EntryKind.SYMLINK
    assert "caf\\xe9" in entries
    deep = await site.assembly.code.entries(base, "src/deep")
    assert [entry.path for entry in deep] == ["src/deep/er"]


async def test_submodules_are_listed_and_never_files(sites: Sites) -> None:
    site = sites.make([{"a.txt": b"a"}])
    base = await site.base()
    repo = site.root / ".fusion/repo.git"
    tree = git(repo, "mktree", "--missing", stdin=f"{GITLINK} commit {base.commit}\tsub\n".encode())
    revision = Revision(commit=base.commit, tree=TreeId(tree))
    [entry] = await site.assembly.code.entries(revision, "")
    assert (entry.kind, entry.size, entry.digest) == (EntryKind.SUBMODULE, 0, None)
    for path in ("sub", "sub/inside"):
        with pytest.raises(RefusedError, match="submodule"):
            await site.assembly.code.page(revision, path, 0, 10)


async def test_bodies_are_paged_by_byte_whatever_their_size(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    for path, body in (
        ("large.bin", LARGE),
        ("src/deep/er/data.bin", bytes(range(256)) * 20),
        ("empty", b""),
    ):
        read = bytearray()
        while True:
            page = await site.assembly.code.page(base, path, len(read), 100_000_000)
            assert page.total == len(body)
            assert len(page.data) <= MAX_PAGE_BYTES
            if not page.data:
                break
            read += page.data
        assert bytes(read) == body
    middle = await site.assembly.code.page(base, "large.bin", 1_000_000, 7)
    assert middle.data == LARGE[1_000_000:1_000_007]
    beyond = await site.assembly.code.page(base, "large.bin", len(LARGE) + 5, 7)
    assert beyond.data == b""


async def test_odd_names_are_only_names(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    for path in ("a:b", "-x", "*", "cafe\u0301.txt"):
        assert (await site.assembly.code.page(base, path, 0, 100)).data


async def test_what_is_no_plain_path_is_refused_everywhere(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    code = site.assembly.code
    for path in (
        "../README.md",
        ":(glob)**",
        "HEAD:README.md",
        "0" * 40,
        "src/",
        "README.md\0",
        ".git/config",
    ):
        for asked in (code.page(base, path, 0, 10), code.entries(base, path), code.diff(base, base, path)):
            with pytest.raises(RefusedError):
                await asked
    with pytest.raises(RefusedError):
        await code.page(base, "", 0, 10)


async def test_ids_and_commits_are_no_way_around_the_tree(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    blob = site.git("rev-parse", "HEAD:README.md")
    for tree in (blob, base.commit, "main", "1" * 40):
        with pytest.raises(NotFoundError):
            await site.assembly.code.entries(Revision(commit=base.commit, tree=TreeId(tree)), "")


@pytest.mark.parametrize(
    "path", ["nothing", "src/nothing", "README.md/inside", "case.txt", "caf\u00e9.txt", "main"]
)
async def test_what_is_not_there_is_not_found(rich: tuple[Site, Revision], path: str) -> None:
    site, base = rich
    with pytest.raises(NotFoundError):
        await site.assembly.code.page(base, path, 0, 10)


@pytest.mark.parametrize("path", ["link", "dirlink", "dirlink/app.py", "src"])
async def test_links_and_directories_are_never_bodies(rich: tuple[Site, Revision], path: str) -> None:
    site, base = rich
    with pytest.raises(RefusedError):
        await site.assembly.code.page(base, path, 0, 10)


async def test_files_and_links_are_no_listings(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    for path in ("README.md", "dirlink"):
        with pytest.raises(RefusedError, match=r"directory|followed"):
            await site.assembly.code.entries(base, path)
    with pytest.raises(RefusedError):
        await site.assembly.code.page(base, "README.md", -1, 10)


async def test_a_diff_is_of_trees_and_optionally_of_one_path(site: Site) -> None:
    base = await site.base()
    done = await site.committed("build", {"src/app.py": b"changed\n", "*.md": b"star\n", "README.md": b"x\n"})
    code = site.assembly.code
    whole = await code.diff(base, done.revision, "")
    assert whole.count(b"diff --git") == 3
    assert b"+changed" in whole
    below = await code.diff(base, done.revision, "src")
    assert below.count(b"diff --git") == 1
    star = await code.diff(base, done.revision, "*.md")
    assert star.count(b"diff --git") == 1
    assert await code.diff(base, base, "") == b""
    with pytest.raises(NotFoundError):
        await code.diff(base, Revision(commit=CommitId("1" * 40), tree=TreeId("1" * 40)), "")


async def test_many_readers_at_once_and_one_that_gives_up(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    code = site.assembly.code
    gives_up = asyncio.create_task(code.page(base, "large.bin", 0, 10))
    await asyncio.sleep(0)
    gives_up.cancel()
    pages = await asyncio.gather(
        *(code.page(base, path, 0, 10) for path in ("README.md", "src/app.py", "large.bin", "a:b") * 5)
    )
    assert [page.data for page in pages[:4]] == [b"# Title\n", b"print()\n", LARGE[:10], b"colon\n"]
    with pytest.raises(asyncio.CancelledError):
        await gives_up


async def test_a_killed_reader_is_started_again(site: Site) -> None:
    base = await site.base()
    code = site.assembly.code
    await code.page(base, "README.md", 0, 10)
    process = site.assembly.reader._process
    assert process is not None
    process.kill()
    await process.wait()
    assert (await code.page(base, "src/app.py", 0, 10)).data


async def test_bodies_that_do_not_have_their_id_are_corrupt(site: Site) -> None:
    done = await site.committed("build", {"new.txt": b"new\n"})
    blob = site.stored(done.revision)["new.txt"].split()[1]
    other = site.stored(done.revision)["README.md"].split()[1]
    assert other != blob
    objects = site.root / ".fusion/repo.git/objects"
    victim = objects / blob[:2] / blob[2:]
    forged = git(objects.parent, "hash-object", "-w", "--stdin", stdin=b"forged\n")
    os.replace(objects / forged[:2] / forged[2:], victim)
    with pytest.raises(FusionError) as caught:
        await site.assembly.code.page(done.revision, "new.txt", 0, 10)
    assert isinstance(caught.value, CorruptError)


async def test_large_bodies_leave_no_file_behind(rich: tuple[Site, Revision]) -> None:
    site, base = rich
    await site.assembly.code.page(base, "large.bin", 0, 10)
    assert os.listdir(Path(site.root, ".fusion/making")) == []
