"""How launched processes end, and that each end is told from every other."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from fusiond.domain.errors import IsolationError
from fusiond.domain.launch import LaunchEnd, LaunchResult
from fusiond.sandbox.host import LauncherHost
from fusiond.sandbox.launcher import SandboxLauncher
from tests.integration.sandbox.launch_bench import SECOND_US, LaunchBench, alive, new_token
from tests.waiting import eventually

SHORT_US = SECOND_US // 5


def ending(result: LaunchResult) -> tuple[LaunchEnd, int | None, int | None]:
    """Return what a process's end is made of."""
    return result.end, result.exit_code, result.signal


@pytest.mark.parametrize("code", [0, 7, 126, 127, 137, 255])
async def test_exit_codes_come_back_as_they_are(bench: LaunchBench, code: int) -> None:
    outcome = await bench.run(bench.spec(f"exit {code}"))
    assert ending(outcome.result) == (LaunchEnd.EXITED, code, None)
    assert outcome.result.isolation is bench.launcher.isolation
    assert outcome.result.survivors == 0


@pytest.mark.parametrize("name,number", [("TERM", 15), ("KILL", 9), ("HUP", 1), ("SEGV", 11), ("PIPE", 13)])
async def test_death_by_own_signal_is_no_exit(bench: LaunchBench, name: str, number: int) -> None:
    # As process 1 of a namespace the shell would survive its own TERM.
    outcome = await bench.run(bench.spec(f"kill -{name} $$; exit 0"))
    assert ending(outcome.result) == (LaunchEnd.SIGNALLED, None, number)


async def test_command_is_not_process_one(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("echo $$ $PPID"))
    own, parent = map(int, outcome.log.split())
    assert own > 2
    assert parent > 1


async def test_unknown_program_is_127_and_says_so(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec(("no-such-program", "-x")))
    assert ending(outcome.result) == (LaunchEnd.EXITED, 127, None)
    assert b"'no-such-program'" in outcome.log
    assert outcome.result.output_bytes == len(outcome.log)


@pytest.mark.parametrize("program", ["/etc/ld.so.cache", "/usr", "/usr/bin"])
async def test_what_cannot_be_executed_is_126(bench: LaunchBench, program: str) -> None:
    outcome = await bench.run(bench.spec((program,)))
    assert ending(outcome.result) == (LaunchEnd.EXITED, 126, None)


async def test_program_is_searched_in_the_launchs_own_path(bench: LaunchBench) -> None:
    found = await bench.run(bench.spec(("sh", "-c", "exit 3")))
    lost = await bench.run(bench.spec(("sh", "-c", "exit 3"), env={"PATH": "/nowhere"}))
    assert found.result.exit_code == 3
    assert lost.result.exit_code == 127


async def test_environment_is_the_specs_and_the_marker(bench: LaunchBench) -> None:
    os.environ["FUSION_TEST_LEAK"] = "leaked"
    try:
        outcome = await bench.run(bench.spec(("env",), env={"A": "1=2", "FUSION_ATTEMPT": "forged"}))
    finally:
        del os.environ["FUSION_TEST_LEAK"]
    assert set(outcome.log.decode().splitlines()) == {
        "PATH=/usr/bin:/bin",
        "A=1=2",
        f"FUSION_ATTEMPT={bench.marker}",
    }


async def test_command_inherits_three_descriptors_and_default_signals(
    bench: LaunchBench, host: LauncherHost
) -> None:
    program = (
        "import os; print(*sorted(os.listdir('/proc/self/fd')));"
        "print(os.readlink('/proc/self/fd/0'), os.getsid(0) == os.getpid());"
        "print(*(line.split()[1] for line in open('/proc/self/status') if line[:6] in ('SigBlk', 'SigIgn')))"
    )
    outcome = await bench.run(bench.spec((str(host.python), "-I", "-S", "-c", program)))
    listed, standing, signals = outcome.log.decode().splitlines()
    blocked, ignored = (int(mask, 16) for mask in signals.split())
    assert listed == "0 1 2 3", "3 is the listing's own"
    assert standing == "/dev/null True"
    assert blocked == 0
    # Python itself ignores SIGPIPE and SIGXFSZ; above 31 the C library keeps two for itself.
    assert ignored & (2**31 - 1) == 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)


async def test_timeout_asks_first(bench: LaunchBench) -> None:
    script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done"
    outcome = await bench.run(bench.spec(script, timeout_us=SHORT_US * 5))
    assert ending(outcome.result) == (LaunchEnd.TIMED_OUT, None, None)
    # The shell may also say that its sleep was terminated.
    assert (outcome.log.splitlines()[0], outcome.log.splitlines()[-1]) == (b"ready", b"asked")


async def test_timeout_kills_what_does_not_listen(bench: LaunchBench) -> None:
    token = new_token()
    script = f"trap '' TERM; sleep {token}; sleep {token}"
    outcome = await bench.run(bench.spec(script, timeout_us=SHORT_US, grace_us=SHORT_US))
    assert outcome.result.end is LaunchEnd.TIMED_OUT
    assert alive(token) == []


async def test_cancelling_ends_a_launch(bench: LaunchBench) -> None:
    token, cancel = new_token(), asyncio.Event()
    launch = asyncio.create_task(bench.run(bench.spec(f"sleep {token}"), cancel))
    await eventually(lambda: alive(token), "sleeping command")
    cancel.set()
    outcome = await launch
    assert ending(outcome.result) == (LaunchEnd.CANCELLED, None, None)
    assert alive(token) == []


async def test_cancelled_before_the_start_nothing_starts(bench: LaunchBench) -> None:
    cancel = asyncio.Event()
    cancel.set()
    outcome = await bench.run(bench.spec("echo started"), cancel)
    assert outcome.result.end is LaunchEnd.CANCELLED
    assert outcome.log == b""


async def test_cancelled_call_kills_before_it_raises(bench: LaunchBench) -> None:
    token = new_token()
    launch = asyncio.create_task(bench.run(bench.spec(f"trap '' TERM; sleep {token}; sleep {token}")))
    await eventually(lambda: alive(token), "sleeping command")
    launch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launch
    assert alive(token) == []


async def test_working_directory_that_is_not_there(bench: LaunchBench) -> None:
    outcome = await bench.run(bench.spec("exit 0", cwd="/nowhere"))
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert "/nowhere" in outcome.result.detail


@pytest.mark.parametrize("name,value", [("A=B", "1"), ("", "1"), ("A", "x\0y")])
async def test_environment_that_cannot_be_is_refused(bench: LaunchBench, name: str, value: str) -> None:
    outcome = await bench.run(bench.spec("exit 0", env={name: value}))
    assert outcome.result.end is LaunchEnd.SANDBOX_FAILURE
    assert outcome.result.detail


async def test_large_environment_and_arguments_arrive(bench: LaunchBench) -> None:
    large = "x" * 100_000
    outcome = await bench.run(bench.spec(("sh", "-c", 'echo "${#A} ${#1}"', "sh", large), env={"A": large}))
    assert outcome.log == b"100000 100000\n"


async def test_bytes_that_are_no_text_arrive(bench: LaunchBench) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    outcome = await bench.run(bench.spec(("printf", "%s", odd), env={"ODD": odd}))
    assert outcome.log == b"\xff\xfe"


async def test_many_launches_at_once(bench: LaunchBench) -> None:
    outcomes = await asyncio.gather(*(bench.run(bench.spec(f"echo {n}; exit {n}")) for n in range(16)))
    assert [outcome.result.exit_code for outcome in outcomes] == list(range(16))
    assert [outcome.log for outcome in outcomes] == [f"{n}\n".encode() for n in range(16)]


async def test_launch_leaves_no_descriptor_open(bench: LaunchBench) -> None:
    await bench.run(bench.spec("exit 0"))
    before = sorted(Path("/proc/self/fd").iterdir())
    await bench.run(bench.spec("exit 0"))
    await bench.run(bench.spec("exit 0", cwd="/nowhere"))
    await bench.run(bench.spec(("no-such-program",)))
    assert len(sorted(Path("/proc/self/fd").iterdir())) == len(before)


def test_worker_threads_may_not_launch(bench: LaunchBench) -> None:
    raised: list[BaseException] = []

    def launch() -> None:
        try:
            asyncio.run(bench.run(bench.spec("exit 0")))
        except IsolationError as error:
            raised.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    assert len(raised) == 1


async def test_script_without_interpreter_line_runs_as_a_shell_runs_it(
    host: LauncherHost, tmp_path: Path
) -> None:
    script, binary = tmp_path / "script", tmp_path / "binary"
    script.write_text('echo "$0 $1"\nexit 4\n')
    binary.write_bytes(b"\x7fELF\0\0\0\0")
    for path in (script, binary):
        path.chmod(0o755)
    bench = LaunchBench(SandboxLauncher(host, None), tmp_path)
    ran = await bench.run(bench.spec((str(script), "one")))
    refused = await bench.run(bench.spec((str(binary),)))
    assert (ran.result.exit_code, ran.log) == (4, f"{script} one\n".encode())
    assert refused.result.exit_code == 126


def test_platform_is_one_that_can_launch() -> None:
    assert sys.platform == "linux"
