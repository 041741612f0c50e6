"""`fusion daemon`: start, stop, look at it, read its log."""

import collections
import os
import time
from pathlib import Path

import click

from fusiond.cli.connecting import here, running
from fusiond.cli.output import ago, as_int, as_text, json_option, now_us, print_json, print_line, safe
from fusiond.client.autostart import start_daemon
from fusiond.domain.errors import TryAgainError, UnreachableError
from fusiond.domain.version import PRODUCT_VERSION

STOP_S = 60.0
LOG = ".fusion/daemon.log"


@click.group()
def daemon() -> None:
    """Start, stop or look at the daemon of this workspace."""


@daemon.command("start")
def start() -> int:
    """Start the daemon; one that runs already is left alone."""
    fresh = start_daemon(here(), os.environ, product=PRODUCT_VERSION)
    print_line("started" if fresh else "running already")
    return 0


@daemon.command("stop")
@click.option("--now", is_flag=True, help="Do not wait for what runs to reach a recorded point.")
def stop(now: bool) -> int:
    """Stop the daemon. Runs go on where they are when it starts again."""
    workspace = here()
    try:
        with running(workspace) as connection:
            pid = connection.daemon_pid
            connection.call("daemon.stop", {"drain": not now})
    except UnreachableError:
        print_line("not running")
        return 0
    _wait_gone(pid)
    print_line("stopped")
    return 0


def _wait_gone(pid: int) -> None:
    """Wait until the process is gone, woken by the kernel where it can."""
    import select

    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, ProcessLookupError):
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], STOP_S)
    finally:
        os.close(descriptor)
    if not ready:
        raise TryAgainError(f"the daemon (pid {pid}) still drains", cure="`fusion daemon stop --now`")


@daemon.command("status")
@json_option
def status(as_json: bool) -> int:
    """Say what the daemon is and does; exit code 69 when none runs."""
    with running(here()) as connection:
        reply = connection.call("daemon.status", {})
    if as_json:
        print_json(reply)
        return 0
    now = now_us()
    print_line(f"fusiond {safe(reply.get('product'))}, pid {as_int(reply.get('pid'))}")
    print_line(f"workspace {safe(reply.get('workspace'))}")
    print_line(
        f"started {ago(reply.get('started_us'), now)}, ledger position {as_int(reply.get('position'))}"
    )
    facts = reply.get("facts")
    for fact in facts if isinstance(facts, list) else []:
        if isinstance(fact, list) and len(fact) == 2:
            print_line(f"{safe(fact[0])}: {safe(fact[1])}")
    return 0


@daemon.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on printing.")
@click.option("-n", "--lines", default=40, show_default=True, type=click.IntRange(1, 10_000))
def logs(follow: bool, lines: int) -> int:
    """Print the end of the daemon's log: one JSON object a line, ASCII only."""
    path = Path(here().root, LOG)
    if not path.exists():
        raise UnreachableError("there is no log yet", cure="`fusion daemon start`")
    with path.open(encoding="ascii", errors="replace") as stream:
        for line in collections.deque(stream, maxlen=lines):
            print_line(as_text(line).rstrip("\n"))
        while follow:
            line = stream.readline()
            if line:
                print_line(line.rstrip("\n"))
            else:
                time.sleep(0.2)
    return 0
