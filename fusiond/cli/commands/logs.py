"""`fusion logs`: captured output of a run, a node or an attempt, whole or followed."""

import sys

import click

from fusiond.cli.connecting import here, opened
from fusiond.cli.names import Place, place
from fusiond.cli.output import (
    as_int,
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
from fusiond.domain.errors import NotFoundError

PAGE_BYTES = 256 * 1024
_END_KINDS = ("run_finished", "run_parked")


@click.command()
@click.argument("where", default="@last", metavar="RUN[/NODE[/N]]")
@click.option("-f", "--follow", is_flag=True, help="Print output as it is written, until the run ends.")
@click.option("-l", "--list", "only_list", is_flag=True, help="Only list what there is.")
@click.option("--what", default=None, help="One output by its name in the list, such as gate-unit-1.")
@click.option("--raw", is_flag=True, help="Bytes as they are, control sequences included.")
@json_option
def logs(where: str, follow: bool, only_list: bool, what: str | None, raw: bool, as_json: bool) -> int:
    """Print captured output. Control characters are made visible unless --raw."""
    wanted = place(where)
    with opened(here()) as connection:
        if follow:
            return _follow(connection, wanted, what, raw=raw)
        entries = _listed(connection, wanted, what)
        if as_json:
            print_json(entries)
        elif only_list:
            _print_list(entries)
        else:
            for entry in entries:
                _print_log(connection, wanted.run, entry, raw=raw, headed=len(entries) > 1)
    return 0


def _listed(connection: Connection, wanted: Place, what: str | None) -> list[dict[str, Plain]]:
    params: dict[str, object] = {"run": wanted.run, "node": wanted.node, "attempt": wanted.attempt}
    entries = [dict(each) for each in as_maps(connection.call("log.list", params).get("logs"))]
    found = [each for each in entries if what in (None, each.get("what"))]
    if not found and what is not None:
        names = ", ".join(as_text(each.get("what")) for each in entries) or "nothing"
        raise NotFoundError(f"no output {what}", expected=names)
    return found


def _print_list(entries: list[dict[str, Plain]]) -> None:
    rows = [
        [
            f"{safe(each.get('node'))}/{as_int(each.get('attempt'))}",
            safe(each.get("what")),
            f"{as_int(each.get('size'))}",
            "live" if each.get("live") else "",
        ]
        for each in entries
    ]
    for line in table(rows, ["ATTEMPT", "OUTPUT", "BYTES", ""]):
        print_line(line)


def _print_log(connection: Connection, run: str, entry: dict[str, Plain], *, raw: bool, headed: bool) -> None:
    if headed:
        head = f"==> {safe(entry.get('node'))}/{as_int(entry.get('attempt'))} {safe(entry.get('what'))} <=="
        print_line(head)
    offset, total = 0, 1
    params = {"run": run, "node": entry["node"], "attempt": entry["attempt"], "what": entry["what"]}
    while offset < total:
        page = connection.call("log.page", {**params, "offset": offset, "limit": PAGE_BYTES})
        data, total, at = page.get("data"), as_int(page.get("total")), as_int(page.get("offset"))
        if at > offset:
            print_line(f"[{at - offset} bytes in the middle were not kept]")
        if not isinstance(data, bytes) or not data:
            break
        write_output(data, raw=raw)
        offset = at + len(data)


def write_output(data: bytes, *, raw: bool) -> None:
    """Write captured bytes to stdout, safe for a terminal unless `raw`."""
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    text = display_safe(data, max_chars=len(data) * 16 + 16, multiline=True)
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def _follow(connection: Connection, wanted: Place, what: str | None, *, raw: bool) -> int:
    params: dict[str, object] = {
        "run": wanted.run,
        "node": wanted.node,
        "attempt": wanted.attempt,
        "what": what,
    }
    following = connection.call("output.follow", params)
    subscription = as_int(following.get("subscription"))
    for push in connection.pushes(subscription):
        match push.get("kind"):
            case "output":
                data = push.get("data")
                if isinstance(data, bytes):
                    write_output(data, raw=raw)
            case "gap":
                skipped = as_int(push.get("end")) - as_int(push.get("start"))
                print_line(f"[{skipped} bytes not shown; `fusion logs` has what was kept]")
            case "state" if push.get("state") == "ended":
                break
            case _:
                continue
    return 0
