"""Following a run in a shell until it ends or waits, over restarts of the daemon.

Ctrl-C asks before anything is cancelled. Owns the loop; the lines are `progress`.
"""

import sys
from collections.abc import Callable

import click

from fusiond.cli.connecting import opened
from fusiond.cli.failures import TRY_AGAIN, exit_code_of, say
from fusiond.cli.output import as_map, as_text
from fusiond.cli.progress import line_of
from fusiond.client.blocking import new_key
from fusiond.client.discovery import Workspace
from fusiond.client.following import StepFollower

DETACHED = "detached"


def follow(workspace: Workspace, run: str, *, tell: Callable[[str], None] = say) -> str:
    """Follow a run and return its outcome, `parked`, or `detached`.

    Args:
        workspace: whose daemon to ask; it is started again when it goes away.
        run: the whole id.
        tell: where the lines go.
    """
    follower = StepFollower(lambda: opened(workspace), run=run)
    while True:
        try:
            return _until_end(follower, tell)
        except KeyboardInterrupt:
            if _asked_to_leave(workspace, run):
                return DETACHED


def _until_end(follower: StepFollower, tell: Callable[[str], None]) -> str:
    for push in follower:
        if push.get("kind") != "step":
            continue
        step = as_map(push.get("step"))
        line = line_of(step)
        if line is not None:
            tell(line)
        payload = as_map(step.get("payload"))
        match payload.get("kind"):
            case "run_finished":
                return as_text(payload.get("outcome"))
            case "run_parked":
                return "parked"
            case _:
                continue
    raise AssertionError("a follower never ends by itself")


def _asked_to_leave(workspace: Workspace, run: str) -> bool:
    """Ask what an interrupt means; True to stop following."""
    if not sys.stdin.isatty():
        say(f"detached; the run goes on: `fusion show {run}`, `fusion cancel {run}`")
        return True
    say("")
    answer = click.prompt(
        "cancel the run (c), leave it running (l), or go on watching (w)?",
        type=click.Choice(["c", "l", "w"]),
        default="w",
        show_choices=False,
        err=True,
    )
    if answer == "c":
        with opened(workspace) as connection:
            connection.call("run.cancel", {"run": run, "reason": "interrupted"}, key=new_key())
        return False
    if answer == "l":
        say(f"the run goes on: `fusion show {run}`")
    return bool(answer == "l")


def code_for(ending: str) -> int:
    """Return the exit code for how following ended."""
    return TRY_AGAIN if ending == DETACHED else exit_code_of(ending)
