"""`fusion run`: submit a flow, follow it, exit with the run's code."""

import os
from pathlib import Path

import click

from fusiond.cli.connecting import here, opened
from fusiond.cli.failures import OK, say
from fusiond.cli.following import code_for, follow
from fusiond.cli.output import as_text, badge, json_option, print_json, print_line
from fusiond.client.blocking import new_key
from fusiond.client.discovery import Workspace
from fusiond.domain.errors import InvalidError

DEFAULT_FLOW = "fusion.yaml"
MAX_INPUT_BYTES = 192 * 1024
"""A submission is one request, and a request has a bound."""


@click.command()
@click.argument("flow", required=False)
@click.option("-i", "--input", "pairs", multiple=True, metavar="NAME=VALUE", help="An input; @FILE reads it.")
@click.option(
    "--mode",
    type=click.Choice(["plan", "dry-run", "live", "observe", "unsafe"]),
    default="live",
    show_default=True,
    help="plan resolves and prints; nothing runs.",
)
@click.option("--revision", default=None, help="The base instead of HEAD.")
@click.option("--include-dirty", is_flag=True, help="Take uncommitted changes along, as a commit of its own.")
@click.option("-d", "--detach", is_flag=True, help="Print the run's id and return.")
@json_option
def run(
    flow: str | None,
    pairs: tuple[str, ...],
    mode: str,
    revision: str | None,
    include_dirty: bool,
    detach: bool,
    as_json: bool,
) -> int:
    """Run FLOW (default fusion.yaml) and follow it."""
    workspace = here()
    path = _flow_path(workspace, flow)
    if mode == "plan":
        from fusiond.cli.flow_files import print_plan

        return print_plan(workspace.root, path, as_json=as_json)
    params = {
        "flow": path,
        "inputs": [list(_pair(each)) for each in pairs],
        "mode": mode,
        "revision": revision,
        "include_dirty": include_dirty,
        "search_path": os.environ.get("PATH", ""),
    }
    with opened(workspace) as connection:
        reply = connection.call("run.submit", params, key=new_key())
    started = as_text(reply.get("run"))
    if detach:
        if as_json:
            print_json({"run": started})
        else:
            print_line(started)
        return OK
    say(f"run {started}")
    return _followed(workspace, started, as_json=as_json)


def _followed(workspace: Workspace, started: str, *, as_json: bool) -> int:
    ending = follow(workspace, started)
    code = code_for(ending)
    if as_json:
        print_json({"run": started, "outcome": ending, "exit_code": code})
    else:
        print_line(f"{started} {badge(ending)}")
    if code not in (OK, code_for("detached")):
        say(f"`fusion why {started}` explains it")
    return code


def _flow_path(workspace: Workspace, flow: str | None) -> str:
    """Return the flow file's absolute path: as given, else fusion.yaml at the root."""
    path = Path(workspace.root, DEFAULT_FLOW) if flow is None else Path(flow).absolute()
    if not path.is_file():
        raise InvalidError(
            f"no flow file {path}",
            expected="a flow file" if flow else f"{DEFAULT_FLOW} at the workspace root",
            cure="`fusion init` writes a first flow",
        )
    return str(path)


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InvalidError(f"input {text!r}", expected="NAME=VALUE or NAME=@FILE")
    if not value.startswith("@"):
        return name, value
    try:
        path = Path(value[1:])
        if not path.is_file():
            raise InvalidError(f"input {name}: {path} is no regular file", expected="a readable UTF-8 file")
        with path.open("rb") as stream:
            body = stream.read(MAX_INPUT_BYTES + 1)
        if len(body) > MAX_INPUT_BYTES:
            raise InvalidError(
                f"input {name}: {path} is too large", expected=f"{MAX_INPUT_BYTES} bytes at most"
            )
        return name, body.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"input {name}: {value[1:]}: {error}", expected="a readable UTF-8 file") from error
