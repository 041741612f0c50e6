"""`fusion artifact`: frozen artifacts by run and node, never by a path on disk."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from fusiond.cli.connecting import here, opened
from fusiond.cli.names import of_node, place
from fusiond.cli.output import (
    as_int,
    as_map,
    as_maps,
    as_text,
    json_option,
    print_json,
    print_line,
    safe,
    table,
)
from fusiond.client.blocking import Connection
from fusiond.codec.packed import Plain
from fusiond.domain.display import display_safe
from fusiond.domain.errors import InvalidError, NotFoundError, StorageError

PAGE_BYTES = 256 * 1024


_DOCUMENTS = {"@manifest": "artifacts.json", "@summary": "result.md"}
"""Names under which an attempt's documents are saved (`architecture.md`, Where things live on disk)."""


@click.group()
def artifact() -> None:
    """List, print or save frozen artifacts."""


@artifact.command("ls")
@click.argument("where", default="@last", metavar="RUN[/NODE[/N]]")
@json_option
def list_artifacts(where: str, as_json: bool) -> int:
    """List declared artifacts of frozen attempts."""
    with opened(here()) as connection:
        entries = _listed(connection, where)
    if as_json:
        print_json(entries)
        return 0
    rows = []
    for entry in entries:
        item = as_map(entry.get("artifact"))
        rows.append(
            [
                f"{safe(entry.get('node'))}/{as_int(entry.get('attempt'))}",
                safe(item.get("output") or "-"),
                safe(item.get("media_type")),
                str(as_int(item.get("size"))),
                as_text(item.get("digest"))[:12],
                safe(item.get("path")),
            ]
        )
    for line in table(rows, ["ATTEMPT", "OUTPUT", "TYPE", "BYTES", "SHA-256", "PATH"]):
        print_line(line)
    return 0


def _listed(connection: Connection, where: str) -> list[dict[str, Plain]]:
    wanted = place(where)
    params: dict[str, object] = {"run": wanted.run, "node": wanted.node, "attempt": wanted.attempt}
    return [dict(each) for each in as_maps(connection.call("artifact.list", params).get("artifacts"))]


@artifact.command("cat")
@click.argument("where", metavar="RUN/NODE[/N]")
@click.argument("name", default="")
@click.option("--raw", is_flag=True, help="Bytes as they are, also to a terminal.")
def cat_artifact(where: str, name: str, raw: bool) -> int:
    """Print one artifact; NAME is its output or its path, else the attempt's `manifest` or `summary`.

    NAME may be left out where there is only one.
    """
    with opened(here()) as connection:
        for data in _pages(connection, where, _path_of(connection, where, name)):
            if raw or not sys.stdout.isatty():
                sys.stdout.buffer.write(data)
            else:
                sys.stdout.write(display_safe(data, max_chars=len(data) * 16 + 16, multiline=True))
    sys.stdout.flush()
    return 0


@artifact.command("save")
@click.argument("where", metavar="RUN/NODE[/N]")
@click.argument("name")
@click.argument("target", type=click.Path(path_type=Path), required=False)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def save_artifact(where: str, name: str, target: Path | None, force: bool) -> int:
    """Save one artifact as the file TARGET, else under its own name here; existing files stay unless --force."""
    with opened(here()) as connection:
        path = _path_of(connection, where, name)
        _save(connection, where, path, target or Path(_DOCUMENTS.get(path, Path(path).name)), force=force)
    return 0


def _save(connection: Connection, where: str, path: str, target: Path, *, force: bool) -> None:
    if os.path.lexists(target) and not force:
        raise InvalidError(f"{safe(target)} exists", cure="give another name, or --force")
    if not target.parent.is_dir() or target.is_dir():
        raise InvalidError(
            f"{safe(target)} cannot be a file: its directory is missing, or it is one",
            cure="make the directory, or give another name",
        )
    fresh = target.with_name(f".fusion-{os.getpid()}.part")
    size = 0
    try:
        with fresh.open("xb") as stream:
            for data in _pages(connection, where, path):
                size += stream.write(data)
        fresh.replace(target)
    except OSError as error:
        raise StorageError(f"{safe(target)}: {error.strerror}") from error
    finally:
        fresh.unlink(missing_ok=True)
    print_line(f"{safe(target)}: {size} bytes")


def _pages(connection: Connection, where: str, path: str) -> Iterator[bytes]:
    wanted = of_node(where)
    offset, total = 0, 1
    while offset < total:
        page = connection.call(
            "artifact.page",
            {
                "run": wanted.run,
                "node": wanted.node,
                "attempt": wanted.attempt,
                "path": path,
                "offset": offset,
                "limit": PAGE_BYTES,
            },
        )
        data, total = page.get("data"), as_int(page.get("total"))
        if not isinstance(data, bytes) or not data:
            return
        yield data
        offset += len(data)


def _path_of(connection: Connection, where: str, name: str) -> str:
    """Return the path by which the daemon knows an artifact or a document of the attempt."""
    items = [as_map(entry.get("artifact")) for entry in _listed(connection, where)]
    if not name:
        return _only(where, list(dict.fromkeys(map(_path, items))))
    by_path = [as_text(item.get("path")) for item in items if item.get("path") == name]
    if by_path:
        return by_path[-1]
    by_output = list(dict.fromkeys(as_text(item.get("path")) for item in items if item.get("output") == name))
    if len(by_output) == 1:
        return by_output[0]
    if by_output:
        raise InvalidError(f"output {name} is {len(by_output)} files", expected=", ".join(by_output[:10]))
    if f"@{name}" in _DOCUMENTS:
        return f"@{name}"
    known = sorted({as_text(item.get("output")) for item in items} - {""})
    raise NotFoundError(
        f"no artifact {name}",
        expected=", ".join(known) or "an attempt that succeeded and was frozen",
        cure="" if known else "`fusion why` says what became of it",
    )


def _only(where: str, paths: list[str]) -> str:
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise NotFoundError(
            f"{where} has no artifact",
            expected="an attempt that succeeded and was frozen with some",
            cure="`fusion why` says what became of it",
        )
    listed = ", ".join(map(safe, paths[:10]))
    raise InvalidError(f"{where} has {len(paths)} artifacts", expected=f"the name of one, such as {listed}")


def _path(item: Mapping[str, Plain]) -> str:
    return as_text(item.get("path"))
