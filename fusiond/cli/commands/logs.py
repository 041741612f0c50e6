"""`fusion logs`: captured output of a run, a node or an attempt, whole or followed."""

import codecs
import sys
from dataclasses import replace

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
NEWEST = "@last"


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
        wanted = _settled(connection, wanted)
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


def _settled(connection: Connection, wanted: Place) -> Place:
    """Replace `@last` by the run it means now: a newer run must not slip in between two pages."""
    if wanted.run != NEWEST:
        return wanted
    runs = as_maps(connection.call("run.list", {"limit": 1}).get("runs"))
    if not runs:
        raise NotFoundError("there is no run yet", cure="start one with `fusion run`")
    return replace(wanted, run=as_text(runs[0].get("run")))


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
    offset, total, decoder = 0, 1, OutputDecoder(raw=raw)
    params = {"run": run, "node": entry["node"], "attempt": entry["attempt"], "what": entry["what"]}
    while offset < total:
        page = connection.call("log.page", {**params, "offset": offset, "limit": PAGE_BYTES})
        data, total, at = page.get("data"), as_int(page.get("total")), as_int(page.get("offset"))
        if at > offset:
            print_line(f"[{at - offset} bytes in the middle were not kept]")
        if not isinstance(data, bytes) or not data:
            break
        decoder.write(data)
        offset = at + len(data)
    decoder.end()


class OutputDecoder:
    """Writes one output to stdout piece by piece, safe for a terminal unless `raw`.

    A character or a line may be cut anywhere between two pieces.
    """

    def __init__(self, *, raw: bool) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._open_line = False

    def write(self, data: bytes) -> None:
        """Write the next piece."""
        if self._raw:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        text = display_safe(self._decoder.decode(data), max_chars=len(data) * 16 + 16, multiline=True)
        if text:
            self._open_line = not text.endswith("\n")
        sys.stdout.write(text)
        sys.stdout.flush()

    def end(self) -> None:
        """End a line that the output left open."""
        if self._open_line:
            print_line("")
            self._open_line = False


def _follow(connection: Connection, wanted: Place, what: str | None, *, raw: bool) -> int:
    params: dict[str, object] = {
        "run": wanted.run,
        "node": wanted.node,
        "attempt": wanted.attempt,
        "what": what,
    }
    following = connection.call("output.follow", params)
    subscription = as_int(following.get("subscription"))
    decoders: dict[tuple[str, int, str], OutputDecoder] = {}
    current: tuple[str, int, str] | None = None
    for push in connection.pushes(subscription):
        match push.get("kind"):
            case "output":
                data = push.get("data")
                place_of = (safe(push.get("node")), as_int(push.get("attempt")), safe(push.get("what")))
                if place_of != current:
                    if current is not None:
                        decoders[current].end()
                    print_line(f"==> {place_of[0]}/{place_of[1]} {place_of[2]} <==")
                    current = place_of
                if isinstance(data, bytes):
                    decoders.setdefault(place_of, OutputDecoder(raw=raw)).write(data)
            case "gap":
                skipped = as_int(push.get("end")) - as_int(push.get("start"))
                print_line(f"[{skipped} bytes not shown; `fusion logs` has what was kept]")
            case "state" if push.get("state") == "ended":
                break
            case _:
                continue
    if current is not None:
        decoders[current].end()
    return 0
