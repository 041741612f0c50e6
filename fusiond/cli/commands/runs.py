"""`fusion ls` and `fusion show`."""

from collections.abc import Mapping

import click

from fusiond.cli.connecting import ask
from fusiond.cli.output import (
    ago,
    as_int,
    as_map,
    as_maps,
    as_text,
    as_texts,
    badge,
    json_option,
    now_us,
    print_json,
    print_line,
    safe,
    table,
    took,
)
from fusiond.codec.packed import Plain
from fusiond.domain.display import display_safe


@click.command()
@click.option("--open", "open_only", is_flag=True, help="Only runs that have not ended.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 1_000), help="How many.")
@json_option
def ls(open_only: bool, limit: int, as_json: bool) -> int:
    """List runs, newest first."""
    reply = ask("run.list", {"open_only": open_only, "limit": limit})
    runs = as_maps(reply.get("runs"))
    if as_json:
        print_json(runs)
        return 0
    if not runs:
        click.echo("no open run" if open_only else "no run yet; start one with `fusion run`", err=True)
        return 0
    now = now_us()
    for line in table([_row(run, now) for run in runs], ["RUN", "FLOW", "STAGES", "STARTED", "STATUS"]):
        print_line(line)
    for run in runs:
        if why := run.get("unreadable"):
            click.echo(f"{as_text(run.get('run'))} cannot be read: {safe(why)}", err=True)
    return 0


def _row(run: Mapping[str, Plain], now: int) -> list[str]:
    done = "-" if run.get("unreadable") else f"{as_int(run.get('stages_done'))}/{as_int(run.get('stages'))}"
    return [
        as_text(run.get("run")),
        safe(run.get("flow")) or "-",
        done,
        ago(run.get("started_us"), now),
        badge(run.get("status")),
    ]


@click.command()
@click.argument("run", default="@last")
@json_option
def show(run: str, as_json: bool) -> int:
    """Show a run: its stages, attempts and gates. RUN is an id, a prefix or @last."""
    reply = ask("run.show", {"run": run})
    detail = as_map(reply.get("detail"))
    if as_json:
        print_json(detail)
        return 0
    for line in detail_lines(dict(detail)):
        print_line(line)
    hints = reply.get("hints")
    for hint in hints if isinstance(hints, list) else []:
        if isinstance(hint, list) and len(hint) == 2:
            print_line("")
            print_line(f"{safe(hint[0])} so far: " + display_safe(as_text(hint[1]), multiline=True).rstrip())
    return 0


def detail_lines(detail: dict[str, Plain]) -> list[str]:
    """Return the screen of one run."""
    summary = as_map(detail.get("summary"))
    lines = [
        f"run {as_text(summary.get('run'))}  {safe(summary.get('flow'))}  {badge(summary.get('status'))}",
        f"base {as_text(detail.get('base_commit'))[:12]}"
        + (f"  result {as_text(detail.get('result_commit'))[:12]}" if detail.get("result_commit") else "")
        + f"  wall clock {took(detail.get('wall_clock_us'))}",
    ]
    if reason := as_text(detail.get("park_reason")):
        lines.append(f"parked: {safe(reason)}: {safe(detail.get('park_detail'))}")
    lines += [f"conflict in {safe(path)}" for path in as_texts(detail.get("conflict_paths"))]
    for stage in as_maps(detail.get("stages")):
        lines += ["", *_stage_lines(dict(stage))]
    return lines


def _stage_lines(stage: dict[str, Plain]) -> list[str]:
    needs = as_texts(stage.get("needs"))
    head = f"{badge(stage.get('status'))}  {safe(stage.get('node'))}"
    head += f"  (needs {', '.join(needs)})" if needs else ""
    lines = [head]
    if detail := as_text(stage.get("detail")):
        block = as_text(stage.get("block"))
        lines.append(f"    {block + ': ' if block else ''}{safe(detail)}")
    lines += [f"    conflict in {safe(path)}" for path in as_texts(stage.get("conflict_paths"))]
    for attempt in as_maps(stage.get("attempts")):
        lines += _attempt_lines(dict(attempt))
    return lines


def _attempt_lines(attempt: dict[str, Plain]) -> list[str]:
    state = as_text(attempt.get("doing")) or as_text(attempt.get("failure")) or as_text(attempt.get("phase"))
    reruns = as_int(attempt.get("reruns"))
    lines = [
        f"    attempt {as_int(attempt.get('number'))}: {safe(state)}"
        + (f": {safe(attempt.get('detail'))}" if attempt.get("detail") else "")
        + (f", {reruns} rerun{'' if reruns == 1 else 's'}" if reruns else "")
        + f"  [{safe(attempt.get('isolation'))}]"
    ]
    lines += [f"        ! {safe(each)}" for each in as_texts(attempt.get("violations"))]
    command = as_map(attempt.get("command"))
    for ended in [*([command] if command else []), *as_maps(attempt.get("gates"))]:
        code = ended.get("exit_code")
        how = safe(ended.get("outcome")) + (f" ({code})" if isinstance(code, int) and code else "")
        lines.append(f"        {safe(ended.get('name'))}: {how}, {took(ended.get('duration_us'))}")
    for artifact in as_maps(attempt.get("artifacts")):
        name = safe(artifact.get("output") or "(extra)")
        size, digest = as_int(artifact.get("size")), as_text(artifact.get("digest"))[:12]
        lines.append(f"        {name}: {safe(artifact.get('path'))}  {size} bytes  {digest}")
    return lines
