"""`fusion demo`: a whole run on a small repository of its own, then what to look at."""

import os
import select
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from fusiond.cli.commands.init import make_marker
from fusiond.cli.connecting import opened, running
from fusiond.cli.demo_repository import demo_files, make_repository
from fusiond.cli.failures import say
from fusiond.cli.following import DETACHED, code_for, follow
from fusiond.cli.output import (
    as_int,
    as_map,
    as_maps,
    as_text,
    badge,
    coloured,
    json_option,
    print_json,
    print_line,
    safe,
    took,
)
from fusiond.client.blocking import new_key
from fusiond.client.discovery import Workspace, find_workspace
from fusiond.codec.packed import Plain
from fusiond.domain.errors import UnreachableError

FLOW = "fusion.yaml"
STOP_S = 30.0

Detail = Mapping[str, Plain]


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False))
@json_option
def demo(directory: Path | None, as_json: bool) -> int:
    """Run a scripted agent that mends a bug, in DIRECTORY or a temporary one.

    The directory stays, so that you can look around; its daemon is stopped.
    """
    target = Path(tempfile.mkdtemp(prefix="fusion-demo-")) if directory is None else directory.absolute()
    make_repository(demo_files(), target)
    make_marker(target)
    workspace = find_workspace(str(target))
    say(f"A repository with a failing test, made for this demo: {safe(workspace.root)}")
    try:
        run = _submitted(workspace)
        ending = follow(workspace, run)
        with opened(workspace) as connection:
            detail = as_map(connection.call("run.show", {"run": run}).get("detail"))
    finally:
        _stop(workspace)
    code = code_for(ending)
    if as_json:
        print_json({"directory": workspace.root, "run": run, "outcome": ending, "exit_code": code})
        return code
    for line in _report(workspace, run, ending, detail):
        print_line(line)
    return code


def _submitted(workspace: Workspace) -> str:
    """Submit the demo's flow. This program's own Python comes first, so that one is found."""
    search_path = os.pathsep.join(
        part for part in (str(Path(sys.executable).parent), os.environ.get("PATH", "")) if part
    )
    params: dict[str, object] = {
        "flow": f"{workspace.root}/{FLOW}",
        "inputs": [],
        "mode": "live",
        "revision": None,
        "include_dirty": False,
        "search_path": search_path,
    }
    with opened(workspace) as connection:
        return as_text(connection.call("run.submit", params, key=new_key()).get("run"))


def _stop(workspace: Workspace) -> None:
    """Stop the daemon of the demo's workspace and wait until it is gone."""
    try:
        with running(workspace) as connection:
            pid = connection.daemon_pid
            connection.call("daemon.stop", {"drain": True})
        gone = os.pidfd_open(pid)
    except (UnreachableError, ProcessLookupError, AttributeError):
        # None is running, it is gone already, or this system cannot wait for it.
        return
    try:
        select.select([gone], [], [], STOP_S)
    finally:
        os.close(gone)


def _report(workspace: Workspace, run: str, ending: str, detail: Detail) -> Iterator[str]:
    yield ""
    yield coloured("What happened", "bold")
    for stage in as_maps(detail.get("stages")):
        yield from _stage_lines(stage)
    yield f"  {badge(ending)} in {took(detail.get('wall_clock_us'))}; the repository is as it was"
    yield ""
    yield coloured("Where the evidence is", "bold")
    yield f"  run        {run}"
    yield f"  directory  {safe(workspace.root)}"
    for stage in as_maps(detail.get("stages")):
        for attempt in as_maps(stage.get("attempts")):
            for artifact in as_maps(attempt.get("artifacts")):
                yield _artifact_line(stage, artifact)
    yield ""
    yield coloured("What to try next", "bold")
    for command, purpose in _commands(workspace, run, ending):
        yield f"  {command:<48}{'# ' if purpose else ''}{purpose}".rstrip()


def _stage_lines(stage: Detail) -> Iterator[str]:
    attempts = as_maps(stage.get("attempts"))
    reruns = sum(as_int(each.get("reruns")) for each in attempts)
    told = [_count(len(attempts), "attempt")]
    if reruns:
        told.append(f"{_count(reruns, 'rerun')} of the same session with feedback")
    told += [
        f"gate {safe(gate.get('name'))} {safe(gate.get('outcome'))} in round {as_int(gate.get('turn_or_round'))}"
        for gate in as_maps(attempts[-1].get("gates") if attempts else None)
    ]
    yield f"  {badge(stage.get('status'))}  {safe(stage.get('node'))}: {', '.join(told)}"
    if detail := as_text(stage.get("detail")):
        yield f"      {safe(detail)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _artifact_line(stage: Detail, artifact: Detail) -> str:
    size, digest = as_int(artifact.get("size")), as_text(artifact.get("digest"))[:12]
    name = f"{safe(stage.get('node'))}/{safe(artifact.get('output') or '-')}"
    return f"  artifact   {name:<18} {safe(artifact.get('path'))}, {size} bytes, SHA-256 {digest}"


def _commands(workspace: Workspace, run: str, ending: str) -> Iterator[tuple[str, str]]:
    own = Path(sys.executable).parent
    if shutil.which("fusion") is None and (own / "fusion").exists():
        yield f'export PATH={shlex.quote(str(own))}:"$PATH"', ""
    yield f"cd {shlex.quote(workspace.root)}", ""
    if ending == DETACHED:
        yield "fusion daemon start", "the run goes on"
    yield f"fusion show {run}", "stages, attempts, gates, artifacts"
    if ending != "succeeded":
        yield f"fusion why {run}", "what failed, and what to do"
        return
    yield f"fusion logs {run}/fix", "both passes, both rounds of the gate"
    yield f"fusion artifact cat {run}/fix report", "a frozen artifact"
    yield f"fusion code diff {run}/fix", "the frozen change"
    yield f"fusion merge {run}", "brings it into the repository; nothing else does"
    yield "python3 -m unittest", "the test that failed before"
