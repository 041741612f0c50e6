"""`fusion cancel`, `fusion resume` and `fusion merge`: acts of a person, done once."""

import click

from fusiond.cli.connecting import act
from fusiond.cli.failures import BLOCKED, OK
from fusiond.cli.output import as_text, as_texts, json_option, print_json, print_line, safe
from fusiond.cli.quantities import duration_us, micro_usd


@click.command()
@click.argument("run", default="@last")
@click.option("--reason", default="", help="A line for the record.")
@json_option
def cancel(run: str, reason: str, as_json: bool) -> int:
    """End a run: its processes are ended, what is frozen stays."""
    reply = act("run.cancel", {"run": run, "reason": reason})
    if as_json:
        print_json(reply)
    else:
        print_line(f"cancelling {as_text(reply.get('run'))}")
    return OK


@click.command()
@click.argument("run", default="@last")
@click.option("--add-wall-clock", default=None, metavar="TIME", help="Such as 30m; added to the limit.")
@click.option("--add-tokens", default=0, type=click.IntRange(0), help="Added to the limit.")
@click.option("--add-cost", default=None, metavar="USD", help="Such as 2.00; added to the limit.")
@click.option("--add-tool-calls", default=0, type=click.IntRange(0), help="Added to the limit.")
@json_option
def resume(
    run: str,
    add_wall_clock: str | None,
    add_tokens: int,
    add_cost: str | None,
    add_tool_calls: int,
    as_json: bool,
) -> int:
    """Let a parked run go on, with more of a limit where you add it; that is recorded."""
    reply = act(
        "run.resume",
        {
            "run": run,
            "added_wall_clock_us": 0 if add_wall_clock is None else duration_us(add_wall_clock),
            "added_tokens": add_tokens,
            "added_cost_uusd": 0 if add_cost is None else micro_usd(add_cost),
            "added_tool_calls": add_tool_calls,
        },
    )
    if as_json:
        print_json(reply)
    else:
        print_line(f"resumed {as_text(reply.get('run'))}; `fusion logs -f` follows its output")
    return OK


@click.command()
@click.argument("run", default="@last")
@json_option
def merge(run: str, as_json: bool) -> int:
    """Bring a run's result into your repository; nothing else ever writes there."""
    reply = act("run.merge", {"run": run})
    conflicts = as_texts(reply.get("conflict_paths"))
    of = f"run {as_text(reply.get('run'))} ({safe(reply.get('flow'))})"
    if as_json:
        print_json(reply)
    elif conflicts:
        for path in conflicts:
            print_line(f"conflict in {safe(path)}")
        click.echo(
            "nothing was merged: your branch has moved on in the same places; run the flow again, which starts"
            " from where your branch is now",
            err=True,
        )
    elif reply.get("unchanged"):
        print_line(f"nothing to merge: {of} changed no code; what a node changes counts with `code: write`")
    elif reply.get("before") == reply.get("after"):
        print_line(f"{safe(reply.get('ref'))}: nothing to merge, it has the result of {of} already")
    else:
        how = "fast-forward" if reply.get("fast_forward") else "merge commit"
        before, after = as_text(reply.get("before")), as_text(reply.get("after"))
        print_line(f"{safe(reply.get('ref'))}: {before[:12]}..{after[:12]} ({how}) from {of}")
    return BLOCKED if conflicts else OK
