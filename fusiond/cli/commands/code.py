"""`fusion code`: frozen code by run, node and normalised path, never by revision name."""

import sys
from collections.abc import Iterator, Mapping

import click

from fusiond.cli.connecting import here, opened
from fusiond.cli.names import of_node
from fusiond.cli.output import as_int, as_maps, as_text, json_option, print_json, print_line, safe, table
from fusiond.client.blocking import Connection
from fusiond.domain.display import display_safe

PAGE_BYTES = 256 * 1024

_at = click.option(
    "--at",
    type=click.Choice(["start", "result"]),
    default="result",
    show_default=True,
    help="The tree an attempt started from, or the one it ended with.",
)
_raw = click.option("--raw", is_flag=True, help="Bytes as they are, also to a terminal.")


@click.group()
def code() -> None:
    """List, print or compare frozen code."""


@code.command("ls")
@click.argument("where", metavar="RUN/NODE[/N]")
@click.argument("path", default="")
@_at
@json_option
def list_code(where: str, path: str, at: str, as_json: bool) -> int:
    """List one directory of a frozen tree."""
    wanted = of_node(where)
    params = {"run": wanted.run, "node": wanted.node, "attempt": wanted.attempt, "path": path, "at": at}
    with opened(here()) as connection:
        entries = as_maps(connection.call("code.list", params).get("entries"))
    if as_json:
        print_json(entries)
        return 0
    rows = [
        [
            safe(each.get("kind")),
            str(as_int(each.get("size"))),
            as_text(each.get("digest"))[:12],
            safe(each.get("path")),
        ]
        for each in entries
    ]
    for line in table(rows, ["KIND", "BYTES", "SHA-256", "PATH"]):
        print_line(line)
    return 0


@code.command("cat")
@click.argument("where", metavar="RUN/NODE[/N]")
@click.argument("path")
@_at
@_raw
def cat_code(where: str, path: str, at: str, raw: bool) -> int:
    """Print one file of a frozen tree."""
    wanted = of_node(where)
    params = {"run": wanted.run, "node": wanted.node, "attempt": wanted.attempt, "path": path, "at": at}
    _print(params, "code.page", raw=raw)
    return 0


@code.command("diff")
@click.argument("where", metavar="RUN/NODE[/N]")
@click.argument("path", default="")
@_raw
def diff_code(where: str, path: str, raw: bool) -> int:
    """Print what an attempt changed, as a unified diff, below PATH."""
    wanted = of_node(where)
    params = {"run": wanted.run, "node": wanted.node, "attempt": wanted.attempt, "path": path}
    _print(params, "code.diff", raw=raw)
    return 0


def _print(params: Mapping[str, object], method: str, *, raw: bool) -> None:
    with opened(here()) as connection:
        for data in _pages(connection, method, params):
            if raw or not sys.stdout.isatty():
                sys.stdout.buffer.write(data)
            else:
                sys.stdout.write(display_safe(data, max_chars=len(data) * 16 + 16, multiline=True))
    sys.stdout.flush()


def _pages(connection: Connection, method: str, params: Mapping[str, object]) -> Iterator[bytes]:
    offset, total = 0, 1
    while offset < total:
        page = connection.call(method, {**params, "offset": offset, "limit": PAGE_BYTES})
        data, total = page.get("data"), as_int(page.get("total"))
        if not isinstance(data, bytes) or not data:
            return
        yield data
        offset += len(data)
