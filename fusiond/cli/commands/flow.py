"""`fusion flow`: check, explain or draw a flow file; no daemon is needed."""

from pathlib import Path

import click

from fusiond.cli.failures import OK, say
from fusiond.cli.flow_files import CheckedFlow, check_file, print_problems
from fusiond.cli.output import json_option, print_json, print_line
from fusiond.client.discovery import find_workspace
from fusiond.domain.errors import NotFoundError

DEFAULT_FLOW = "fusion.yaml"

_file = click.argument("path", default=DEFAULT_FLOW, metavar="FILE")


@click.group()
def flow() -> None:
    """Check, explain or draw a flow file."""


@flow.command("check")
@_file
@click.option("--explain", "explained", is_flag=True, help="Write the flow out with every default.")
@click.option("--watch", is_flag=True, help="Check again whenever the file changes.")
@json_option
def check(path: str, explained: bool, watch: bool, as_json: bool) -> int:
    """Report every problem of FILE with line, column, expectation and near miss."""
    code = _check_once(path, explained=explained, as_json=as_json)
    if watch:
        from fusiond.cli.watching import changes

        say(f"watching {path}; Ctrl-C ends it")
        for _ in changes(Path(path)):
            print_line("")
            code = _check_once(path, explained=explained, as_json=as_json)
    return code


def _check_once(path: str, *, explained: bool, as_json: bool) -> int:
    checked = check_file(_root(path), path)
    if explained and checked.plan is not None and not as_json:
        from fusiond.codec.flowfile.explain import explain

        print_line(explain(checked.plan).rstrip("\n"))
        return OK
    return print_problems(checked, as_json=as_json)


@flow.command("schema")
def schema() -> int:
    """Print the JSON Schema of flow files, for editors."""
    from fusiond.codec.flowfile.schema import flow_schema

    print_json(flow_schema())
    return OK


@flow.command("graph")
@_file
@click.option("--mermaid", is_flag=True, help="As a Mermaid diagram.")
def graph(path: str, mermaid: bool) -> int:
    """Draw the graph of FILE."""
    from fusiond.codec.flowfile.graph_view import graph_mermaid, graph_text

    checked = _usable(path)
    if checked.plan is None:
        return print_problems(checked, as_json=False)
    drawn = graph_mermaid(checked.plan) if mermaid else graph_text(checked.plan)
    print_line(drawn.rstrip("\n"))
    return OK


def _usable(path: str) -> CheckedFlow:
    return check_file(_root(path), path)


def _root(path: str) -> str | None:
    """Return the root of the workspace that the file is in, None outside of any."""
    try:
        return find_workspace(str(Path(path).absolute().parent)).root
    except NotFoundError:
        return None
