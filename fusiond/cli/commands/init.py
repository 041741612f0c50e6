"""`fusion init`: makes a repository a workspace and writes a first flow."""

import os
from pathlib import Path

import click

from fusiond.cli.first_flow import Findings, first_flow, look_at
from fusiond.cli.output import json_option, print_json, print_line, safe
from fusiond.client.discovery import MARKER
from fusiond.codec.flowfile.read import read_flow
from fusiond.codec.flowfile.render import problem_lines
from fusiond.domain.errors import InvalidError, RefusedError, StorageError

FLOW = "fusion.yaml"
IGNORED = "# Fusion's own; never part of a revision.\n*\n"


@click.command()
@click.option(
    "--test", "test", default=None, metavar="COMMAND", help="The test command, if it guesses wrong."
)
@json_option
def init(test: str | None, as_json: bool) -> int:
    """Make this repository a workspace and write a first flow, fusion.yaml.

    An existing fusion.yaml is kept as it is.
    """
    root = _repository(Path.cwd())
    flow = root / FLOW
    kept = os.path.lexists(flow)
    if kept and (root / MARKER).is_dir():
        raise RefusedError(
            f"{root} is a workspace and has a {FLOW} already; nothing was changed",
            cure="run it with `fusion run`, or move it away and start `fusion init` again",
        )
    found = look_at(root, os.environ.get("PATH", ""), test)
    text = first_flow(found)
    _check(text)
    make_marker(root)
    if not kept:
        _write(flow, text)
    if as_json:
        print_json({"workspace": str(root), "flow": str(flow), "written": not kept, **found.document()})
    else:
        _tell(root, found, kept=kept)
    return 0


def make_marker(root: Path) -> None:
    """Make `.fusion/`, ignored by git; one that is there is left alone.

    Raises:
        RefusedError: something else has its name.
        StorageError: it cannot be made.
    """
    marker = root / MARKER
    if os.path.lexists(marker) and (marker.is_symlink() or not marker.is_dir()):
        raise RefusedError(
            f"{marker} is not a directory", expected="Fusion's own directory", cure="move it away"
        )
    try:
        marker.mkdir(mode=0o700, exist_ok=True)
        ignore = marker / ".gitignore"
        if not ignore.exists():
            ignore.write_text(IGNORED, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot make {marker}: {error.strerror}") from error


def _repository(start: Path) -> Path:
    """Return the root of the git repository that `start` is in. RefusedError outside of any."""
    here = Path(os.path.realpath(start))
    for place in (here, *here.parents):
        if os.path.lexists(place / ".git"):
            return place
    raise RefusedError(
        f"{start} is in no git repository",
        expected="a repository, since attempts start from a commit",
        cure="`git init && git add -A && git commit -m 'First commit'`, or `fusion demo` to look around",
    )


def _check(text: str) -> None:
    """Refuse a test command that no flow file can hold."""
    reading = read_flow(text.encode(errors="surrogatepass"))
    if reading.problems:
        raise InvalidError(
            "the test command does not fit into a flow file",
            expected="printable text",
            cure="put it into a script and name that",
            fields={"problems": "\n".join(problem_lines(reading.problems, FLOW))},
        )


def _write(flow: Path, text: str) -> None:
    try:
        with flow.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise StorageError(f"cannot write {flow}: {error.strerror}") from error


def _tell(root: Path, found: Findings, *, kept: bool) -> None:
    print_line(f"workspace {safe(root)} ({MARKER}/ is ignored by git)")
    print_line(f"{FLOW} {'kept as it is' if kept else 'written'}")
    if not kept:
        print_line(f"  found: {', '.join(found.languages) or 'no language that Fusion knows'}")
        told = found.test or "none found; name it in the file, or with `fusion init --test COMMAND`"
        print_line(f"  test command: {safe(told)}")
        if found.agents:
            told = ", ".join(found.agents)
            print_line(f"  agents on PATH: {told} (see the end of the file)")
    print_line("")
    print_line("Next:")
    print_line("  fusion flow check    # is the flow right?")
    print_line("  fusion doctor        # what can this machine isolate?")
    print_line("  fusion run           # run it; your checkout is not touched")
