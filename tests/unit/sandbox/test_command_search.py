"""Where a program is looked for, and what cannot be started."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusiond.sandbox.inside.command import CommandRefusedError, candidates, start


@pytest.fixture
def output() -> Iterator[int]:
    """The write end of a pipe."""
    read_end, write_end = os.pipe()
    yield write_end
    os.close(read_end)
    os.close(write_end)


@pytest.mark.parametrize(
    "program,search,expected",
    [
        (b"x", b"/a:/b", [b"/a/x", b"/b/x"]),
        (b"./x", b"/a:/b", [b"./x"]),
        (b"/c/x", b"/a", [b"/c/x"]),
        (b"x", b"", []),
        (b"", b"/a", []),
    ],
)
def test_candidates_in_order(program: bytes, search: bytes, expected: list[bytes]) -> None:
    assert candidates(program, search) == expected


def test_working_directory_is_never_searched() -> None:
    assert candidates(b"x", b":.:bin:/a:") == [b"/a/x"]


@pytest.mark.parametrize(
    "argv,code",
    [
        ([b"no-such-program"], 127),
        ([b"/no/such/program"], 127),
        ([b"/etc/passwd/x"], 127),
        ([b""], 127),
        ([b"/etc/passwd"], 126),
        ([b"/usr"], 126),
    ],
)
def test_refusals_have_a_shells_codes(argv: list[bytes], code: int, output: int) -> None:
    with pytest.raises(CommandRefusedError, match="cannot run") as refused:
        start(argv, {b"PATH": b"/usr/bin:/bin"}, output)
    assert refused.value.exit_code == code


def test_program_that_may_not_be_executed_is_searched_further(tmp_path: Path, output: int) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for place in (first, second):
        place.mkdir()
        (place / "tool").write_text("#!/bin/sh\nexit 5\n")
    (second / "tool").chmod(0o755)
    search = f"{first}:{second}".encode()
    pid = start([b"tool"], {b"PATH": search}, output)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    with pytest.raises(CommandRefusedError) as refused:
        start([b"tool"], {b"PATH": str(first).encode()}, output)
    assert refused.value.exit_code == 126


def test_hostile_program_names_stay_in_one_line(output: int) -> None:
    with pytest.raises(CommandRefusedError) as refused:
        start([b"a\n\x1b[31mb\xff"], {b"PATH": b"/usr/bin"}, output)
    assert str(refused.value).count("\n") == 1
    assert "\x1b" not in str(refused.value)
