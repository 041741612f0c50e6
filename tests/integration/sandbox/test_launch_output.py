"""What a command writes: every byte at its true offset, bounded on disk, out of the command's reach."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fusiond
from fusiond.domain.launch import LaunchEnd
from fusiond.sandbox.host import LauncherHost
from fusiond.sandbox.inside import order
from tests.integration.sandbox.launch_bench import LaunchBench

HOLELESS = Path(__file__).with_name("holeless_launcher.py")
MEBIBYTE = 1 << 20


async def test_outputs_are_joined_in_order(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("echo one; echo two >&2; echo three"))
    assert outcome.log == b"one\ntwo\nthree\n"
    assert (outcome.result.output_bytes, outcome.result.hole) == (14, None)


async def test_line_of_three_megabytes(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("head -c 3000000 /dev/zero | tr '\\0' x"))
    assert outcome.log == b"x" * 3_000_000
    assert outcome.result.output_bytes == 3_000_000


async def test_binary_output_is_byte_exact(bench: LaunchBench, host: LauncherHost) -> None:
    program = "import os; os.write(1, bytes(range(256)) * 4096); os.write(2, b'\\xff\\0\\r\\n')"
    outcome = await bench.run(bench.spec((str(host.python), "-I", "-S", "-c", program)))
    assert outcome.log == bytes(range(256)) * 4096 + b"\xff\0\r\n"


async def test_output_of_an_ending_program_is_complete(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("seq 1 200000"))
    expected = "".join(f"{n}\n" for n in range(1, 200_001)).encode()
    assert hashlib.sha256(outcome.log).digest() == hashlib.sha256(expected).digest()


async def test_output_past_the_cap_keeps_head_and_tail(bench: LaunchBench) -> None:
    cap = MEBIBYTE
    spec = bench.spec("seq 1 1000000", cap=cap)
    outcome = await bench.run(spec)
    expected = b"".join(b"%d\n" % n for n in range(1, 1_000_001))
    offset, length = outcome.result.hole or (0, 0)
    assert outcome.result.end is LaunchEnd.EXITED
    assert outcome.result.output_bytes == len(outcome.log) == len(expected)
    assert (offset, length) == (cap // 2, len(expected) - cap)
    assert outcome.log[:offset] == expected[:offset]
    assert outcome.log[offset + length :] == expected[offset + length :]
    assert not any(outcome.log[offset : offset + length])
    assert Path(spec.log_path).stat().st_blocks * 512 <= cap + 2 * 4096


async def test_opening_stderr_anew_cuts_nothing(bench: LaunchBench) -> None:
    outcome = await bench.run(
        bench.spec("echo one; echo two >/dev/stderr; echo three >/dev/stdout; echo four")
    )
    assert outcome.log == b"one\ntwo\nthree\nfour\n"


async def test_command_cannot_cut_the_log(bench: LaunchBench, host: LauncherHost) -> None:
    program = (
        "import os\n"
        "os.write(1, b'kept\\n')\n"
        "for number in (1, 2):\n"
        "    try:\n"
        "        os.ftruncate(os.open(f'/proc/self/fd/{number}', os.O_RDWR), 0)\n"
        "    except OSError as error:\n"
        "        os.write(1, b'%d refused\\n' % number)\n"
    )
    outcome = await bench.run(bench.spec((str(host.python), "-I", "-S", "-c", program)))
    assert outcome.log == b"kept\n1 refused\n2 refused\n"


async def test_launchers_descriptors_are_out_of_reach(walled: LaunchBench) -> None:
    # The numbers are those that were handed over; opening or naming any of them must fail.
    script = (
        "for number in $(seq 0 64); do fd=/proc/2/fd/$number\n"
        "  (: < $fd) 2>/dev/null && echo read $number; (: >> $fd) 2>/dev/null && echo written $number\n"
        "  readlink $fd; done; head -c 1 /proc/2/mem 2>/dev/null; echo looked"
    )
    outcome = await walled.run(walled.spec(script))
    assert outcome.log == b"looked\n"


async def test_closed_output_is_no_end(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("exec >&- 2>&-; sleep 0.1; exit 6"))
    assert outcome.result.exit_code == 6


async def test_survivor_holding_the_pipe_does_not_delay_the_end(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("(trap '' TERM HUP; sleep 3600) & echo done"))
    assert outcome.log == b"done\n"
    assert outcome.result.survivors >= 1


async def test_log_that_exists_is_not_written(bench: LaunchBench) -> None:
    spec = bench.spec("echo new")
    Path(spec.log_path).write_bytes(b"old")
    outcome = await bench.run(spec)
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert outcome.result.detail.startswith("storage:")
    assert outcome.log == b"old"


async def test_log_is_never_a_link(bench: LaunchBench, tmp_path: Path) -> None:
    spec, target = bench.spec("echo new"), tmp_path / "target"
    Path(spec.log_path).symlink_to(target)
    outcome = await bench.run(spec)
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert not target.exists()


async def test_log_belongs_to_the_user_alone(bench: LaunchBench) -> None:
    spec = bench.spec("echo mine")
    await bench.run(spec)
    assert Path(spec.log_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cap", [0, 1, 2, 4096])
async def test_tiny_caps(bench: LaunchBench, cap: int) -> None:
    outcome = await bench.run(bench.spec("head -c 10000 /dev/zero | tr '\\0' y", cap=cap))
    kept = outcome.log.replace(b"\0", b"")
    assert len(outcome.log) == 10_000
    assert kept == b"y" * cap


@pytest.mark.parametrize("script", ["yes", "trap '' TERM; seq 1 1000000; exit 0"])
def test_file_system_without_holes_ends_the_command(tmp_path: Path, script: str) -> None:
    log, root = tmp_path / "log", str(Path(fusiond.__path__[0]).parent)
    command = [sys.executable, str(HOLELESS), str(log), "100000", script]
    told = subprocess.run(command, env={**os.environ, "PYTHONPATH": root}, capture_output=True, check=True)
    report = order.unpack_report(told.stdout)
    assert report.end == order.OUTPUT_LIMIT
    assert report.hole == (100_000, report.output_bytes - 100_000)
    assert log.stat().st_size == 100_000
