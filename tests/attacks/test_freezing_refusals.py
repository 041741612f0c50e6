"""Every kind of file and every name that may not be frozen, and lies about those that may.

Each case puts secret bytes where a careless copy would find them; nothing of
them may be staged, and all problems of an attempt are told at once.
"""

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusiond.domain.artifacts import ProblemCode
from fusiond.domain.ids import OutputName
from fusiond.ports.snapshots import Staged
from fusiond.snapshots.examine import Budgets
from tests.fakes.freezing import ALL, Attempt, codes, entry, output

SECRET = b"secret-bytes-from-outside"


@pytest.fixture
def ground(tmp_path: Path) -> Attempt:
    made = Attempt(tmp_path)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_bytes(SECRET)
    return made


def secret(ground: Attempt) -> Path:
    return ground.place / "secret"


def staged_bytes(staged: Staged) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(Path(staged.place).rglob("*")) if each.is_file())


def link_file(ground: Attempt) -> None:
    (ground.outputs / "x").symlink_to(secret(ground) / "file")


def link_inside(ground: Attempt) -> None:
    ground.put("real")
    (ground.outputs / "x").symlink_to("real")


def link_nowhere(ground: Attempt) -> None:
    (ground.outputs / "x").symlink_to("nowhere")


def link_to_itself(ground: Attempt) -> None:
    (ground.outputs / "x").symlink_to("x")


def link_magic(ground: Attempt) -> None:
    (ground.outputs / "x").symlink_to("/proc/self/root")


def hard_link(ground: Attempt) -> None:
    os.link(secret(ground) / "file", ground.outputs / "x")


def fifo(ground: Attempt) -> None:
    os.mkfifo(ground.outputs / "x")


def unix_socket(ground: Attempt) -> None:
    place = os.open(ground.outputs, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{place}/x")
    finally:
        os.close(place)


def setuid(ground: Attempt) -> None:
    ground.put("x").chmod(0o4755)


def setgid(ground: Attempt) -> None:
    ground.put("x").chmod(0o2755)


def sticky(ground: Attempt) -> None:
    ground.put("x").chmod(0o1755)


def directory(ground: Attempt) -> None:
    (ground.outputs / "x").mkdir()


KINDS: dict[str, Callable[[Attempt], None]] = {
    "a symbolic link to a file outside": link_file,
    "a symbolic link to a file inside": link_inside,
    "a symbolic link to nothing": link_nowhere,
    "a symbolic link to itself": link_to_itself,
    "a symbolic link of /proc": link_magic,
    "a hard link to a file outside": hard_link,
    "a FIFO": fifo,
    "a socket": unix_socket,
    "a setuid file": setuid,
    "a setgid file": setgid,
    "a sticky file": sticky,
    "a directory": directory,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "declared"])
def test_a_kind_of_file_that_is_never_frozen(ground: Attempt, kind: str, *, listed: bool) -> None:
    KINDS[kind](ground)
    if listed:
        ground.tell([entry("x", SECRET)])
        request = ground.request((), supervised=False)
    else:
        request = ground.request((output("x", "x"),))
    staged = ground.stage(request)
    assert codes(staged) == codes(ground.check(request)) == [(ProblemCode.FILE_KIND, "x")]
    assert staged.artifacts == ()
    assert SECRET not in staged_bytes(staged)


@contextmanager
def device(place: Path) -> Iterator[bool]:
    """Make the null device at `place`; only root can, so say whether it is there."""
    try:
        os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        yield False
        return
    yield True
    place.unlink()


def test_a_device_is_never_opened(ground: Attempt) -> None:
    with device(ground.outputs / "x") as made:
        # Nobody but root can make one, and then no agent can either.
        assert made or os.geteuid() != 0
        wanted = [(ProblemCode.FILE_KIND, "x")] if made else [(ProblemCode.OUTPUT_MISSING, "x")]
        assert codes(ground.check(ground.request((output("x", "x"),)))) == wanted


@pytest.mark.parametrize("above", ["d", "d/e"])
def test_a_symbolic_link_on_the_way(ground: Attempt, above: str) -> None:
    place = ground.outputs / above
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(secret(ground))
    path = f"{above}/file"
    ground.tell([entry(path, SECRET)])
    staged = ground.stage(ground.request((), supervised=False))
    assert codes(staged) == [(ProblemCode.FILE_KIND, path)]
    assert f"{above} is a symbolic link" in staged.problems[0].found
    assert SECRET not in staged_bytes(staged)


@pytest.mark.parametrize("pattern", ["d/*", "**", "**/file", "*/file"])
def test_a_symbolic_link_where_a_collection_is_looked_for(ground: Attempt, pattern: str) -> None:
    (ground.outputs / "d").symlink_to(secret(ground))
    staged = ground.stage(ground.request((output("all", collect=pattern),)))
    assert codes(staged) == [(ProblemCode.FILE_KIND, "d")]
    assert SECRET not in staged_bytes(staged)


def test_outputs_that_are_a_link_themselves(ground: Attempt) -> None:
    ground.outputs.rmdir()
    ground.outputs.symlink_to(secret(ground))
    staged = ground.stage(ground.request((output("all", collect="**", optional=True),)))
    assert codes(staged) == [(ProblemCode.FILE_KIND, "outputs")]
    assert SECRET not in staged_bytes(staged)


def test_outputs_that_are_gone(ground: Attempt) -> None:
    ground.outputs.rmdir()
    assert codes(ground.check(ground.request((output("x", "x"),)))) == [(ProblemCode.OUTPUT_MISSING, "x")]


@pytest.mark.parametrize("name", ["artifacts.json", "result.md"])
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "directory"])
def test_manifest_and_summary_are_plain_files_too(ground: Attempt, name: str, kind: str) -> None:
    ground.tell([])
    place = ground.report / name
    place.unlink()
    match kind:
        case "link":
            place.symlink_to(secret(ground) / "file")
        case "hard link":
            os.link(secret(ground) / "file", place)
        case "fifo":
            os.mkfifo(place)
        case _:
            place.mkdir()
    for supervised in (True, False):
        staged = ground.stage(ground.request((), supervised=supervised))
        assert codes(staged) == [(ProblemCode.FILE_KIND, name)]
        assert SECRET not in staged_bytes(staged)


def test_a_report_directory_that_is_a_link(ground: Attempt) -> None:
    ground.report.rmdir()
    ground.report.symlink_to(secret(ground))
    staged = ground.stage(ground.request(()))
    assert [code for code, _ in codes(staged)] == [ProblemCode.FILE_KIND] * 2


NAMES = [
    "../secret/file",
    "d/../../secret/file",
    "/proc/self/environ",
    "./x",
    "a//x",
    "x/",
    "",
    "a\\x",
    "a\nx",
    "a\x1b[2Jx",
    "a\u202ex",
    "a\u200bx",
    "cafe\u0301",
    "x.",
    "x ",
    "x" * 256,
    "/".join(["x" * 200] * 6),
    "/".join("x" * 33),
    "nul\0byte",
]


def test_all_refused_names_are_told_at_once_and_none_is_opened(ground: Attempt) -> None:
    ground.put("x")
    ground.tell([entry(name, SECRET) for name in NAMES])
    staged = ground.stage(ground.request((), supervised=False))
    assert [each.code for each in staged.problems] == [ProblemCode.NAME_REFUSED] * len(NAMES)
    assert all(each.where.isprintable() for each in staged.problems)
    assert staged.artifacts == ()
    assert [*(Path(staged.place) / "outputs").iterdir()] == []


def test_refused_names_on_disk_are_told_too(ground: Attempt) -> None:
    names = [b"a\nx", "a\u202ex".encode(), b"not-utf8-\xff", b"back\\slash", "cafe\u0301".encode(), b"dot."]
    for name in names:
        with open(os.fsencode(ground.outputs) + b"/" + name, "wb") as stream:
            stream.write(SECRET)
    staged = ground.stage(ground.request(ALL))
    assert [each.code for each in staged.problems] == [ProblemCode.NAME_REFUSED] * len(names)
    assert all(each.where.isprintable() for each in staged.problems)
    assert SECRET not in staged_bytes(staged)


def test_names_that_collide_elsewhere(ground: Attempt) -> None:
    for name in ("README", "readme", "stra\u00dfe", "STRASSE", "\ufb01t", "fit"):
        ground.put(name)
    staged = ground.stage(ground.request(ALL))
    assert [each.code for each in staged.problems] == [ProblemCode.NAME_COLLISION] * 3


def test_a_tree_that_is_too_deep(ground: Attempt) -> None:
    place = ground.outputs
    for _ in range(40):
        place /= "d"
    place.mkdir(parents=True)
    (place / "x").write_bytes(SECRET)
    staged = ground.stage(ground.request(ALL))
    assert codes(staged) == [(ProblemCode.FILE_KIND, "/".join("d" * 32))]


def test_a_tree_with_too_many_names(tmp_path: Path) -> None:
    ground = Attempt(tmp_path, budgets=Budgets(entries=10))
    for index in range(11):
        ground.put(f"d/{index}")
    assert (ProblemCode.SIZE_LIMIT, "outputs") in codes(ground.check(ground.request(ALL)))


def test_a_crowd_of_temporary_files_is_not_even_looked_at(tmp_path: Path) -> None:
    ground = Attempt(tmp_path, budgets=Budgets(entries=10))
    for index in range(30):
        ground.put(f"node_modules/{index}")
    ground.put("plan.md")
    assert (
        ground.check(
            ground.request((output("plan", "plan.md"), output("n", collect="n/*", optional=True)))
        ).problems
        == ()
    )


def test_more_bytes_than_an_attempt_may_freeze(tmp_path: Path) -> None:
    ground = Attempt(tmp_path, budgets=Budgets(total_bytes=100))
    ground.put("a", b"x" * 60)
    ground.put("b", b"x" * 60)
    staged = ground.stage(ground.request(ALL))
    assert codes(staged) == [(ProblemCode.SIZE_LIMIT, "outputs"), (ProblemCode.SIZE_LIMIT, "b")]


def test_a_huge_sparse_file_is_refused_by_its_size_alone(ground: Attempt) -> None:
    os.truncate(ground.put("x"), 1 << 40)
    staged = ground.stage(ground.request((output("x", "x", max_size_bytes=1000),)))
    assert [(each.code, each.found) for each in staged.problems] == [
        (ProblemCode.SIZE_LIMIT, f"{1 << 40} bytes")
    ]
    assert sum(each.stat().st_size for each in Path(staged.place).rglob("*") if each.is_file()) < 10_000


def test_a_small_sparse_file_is_as_good_as_any(ground: Attempt) -> None:
    os.truncate(ground.put("x", b""), 1_000_000)
    assert ground.freeze(ground.request(ALL)).artifacts[0].size == 1_000_000


def test_an_extra_has_a_bound_of_its_own(tmp_path: Path) -> None:
    ground = Attempt(tmp_path, budgets=Budgets(extra_max_bytes=10))
    ground.put("x", b"x" * 11)
    ground.tell([entry("x", b"x" * 11)])
    assert codes(ground.check(ground.request((), supervised=False))) == [(ProblemCode.SIZE_LIMIT, "x")]


def test_lies_about_size_digest_and_type(ground: Attempt) -> None:
    ground.put("a.json", "{")
    ground.put("b.png", b"GIF89a")
    ground.put("c.txt", b"\xff")
    ground.put("d.bin", b"honest")
    lie = {**entry("d.bin", b"forged", "d")}
    ground.tell(
        [
            entry("a.json", b"{", "a", "application/json"),
            entry("b.png", b"GIF89a", None, "image/png"),
            entry("c.txt", b"\xff", None, "text/plain"),
            lie,
        ]
    )
    staged = ground.stage(
        ground.request(
            (output("a", "a.json"), output("d", "d.bin", media_type="image/gif")), supervised=False
        )
    )
    assert codes(staged) == [
        (ProblemCode.MEDIA_TYPE, "d.bin"),
        (ProblemCode.MEDIA_TYPE, "a.json"),
        (ProblemCode.MEDIA_TYPE, "b.png"),
        (ProblemCode.MEDIA_TYPE, "c.txt"),
        (ProblemCode.MEDIA_TYPE, "d.bin"),
        (ProblemCode.DIGEST_MISMATCH, "d.bin"),
    ]


def test_a_schema_cannot_be_dodged_by_calling_the_file_something_else(ground: Attempt) -> None:
    ground.put("report", '{"passed": "yes"}')
    ground.tell([entry("report", b'{"passed": "yes"}', "report", "text/plain")])
    schema = (OutputName("report"), json.dumps({"properties": {"passed": {"type": "boolean"}}}).encode())
    contract = (output("report", "report", schema=True),)
    staged = ground.stage(ground.request(contract, supervised=False, schemas=[schema]))
    assert [(each.code, each.found) for each in staged.problems] == [
        (ProblemCode.MEDIA_TYPE, "text/plain"),
        (ProblemCode.SCHEMA, "$.passed: 'yes' is not of type 'boolean'"),
    ]
    ground.put("report", "passed")
    assert ProblemCode.MEDIA_TYPE in {
        code for code, _ in codes(ground.check(ground.request(contract, schemas=[schema])))
    }


def test_everything_at_once(ground: Attempt) -> None:
    """One rerun can mend all of it, because all of it is told."""
    link_file(ground)
    os.mkfifo(ground.outputs / "pipe")
    os.link(secret(ground) / "file", ground.outputs / "hard")
    ground.put("real", "real")
    ground.put("notes/a.md")
    entries = [
        entry("x", SECRET),
        entry("pipe", b""),
        entry("hard", SECRET),
        entry("real", b"unreal", "plan"),
        entry("REAL", b""),
        entry("../up", b""),
        entry("gone", b""),
        {**entry("real", b"real"), "size": -1},
        7,
    ]
    ground.tell(entries, summary="---\n- no mapping\n---\n")
    contract = (output("plan", "plan.md"), output("notes", collect="notes/*"), output("must", "must"))
    staged = ground.stage(ground.request(contract, supervised=False))
    assert {each.code for each in staged.problems} == {
        ProblemCode.MANIFEST_FIELD,
        ProblemCode.MANIFEST_DUPLICATE,
        ProblemCode.SUMMARY_INVALID,
        ProblemCode.OUTPUT_MISSING,
        ProblemCode.OUTPUT_UNLISTED,
        ProblemCode.NAME_REFUSED,
        ProblemCode.NAME_COLLISION,
        ProblemCode.FILE_MISSING,
        ProblemCode.FILE_KIND,
        ProblemCode.SIZE_MISMATCH,
        ProblemCode.DIGEST_MISMATCH,
    }
    assert SECRET not in staged_bytes(staged)
