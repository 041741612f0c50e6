"""The command line of `scripts/bench`: names, one table, JSON."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from scripts.benches import daemon, files, ledger
from scripts.benches.measuring import Figure

BENCHES: dict[str, Callable[[], list[Figure]]] = {
    "ledger": ledger.appends,
    "sequence": ledger.sequential,
    "growth": ledger.growth,
    "capture": files.capture,
    "spawn": files.spawn,
    "freeze": files.freeze,
    "attempt": daemon.attempt,
    "cli": daemon.cli,
    "subscriber": daemon.subscriber,
    "ping": daemon.ping_under_load,
    "recovery": daemon.recovery,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the named measurements; 0 when every goal that could be measured is met."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures beside the machine's floor.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--all", action="store_true", help="every measurement")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--list", action="store_true", help="the names")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(BENCHES))
        return 0
    names = list(BENCHES) if options.all else options.names
    unknown = [name for name in names if name not in BENCHES]
    if unknown or not names:
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "give a name, or --all")
    figures: list[Figure] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        figures += BENCHES[name]()
    if options.json:
        print(json.dumps([{**asdict(each), "ratio": each.ratio} for each in figures], indent=1))
    else:
        print("\n".join(_table(figures)))
    return 1 if any(each.met is False for each in figures) else 0


def _table(figures: list[Figure]) -> list[str]:
    rows: list[tuple[str, ...]] = [("what", "value", "floor", "ratio", "goal", "met", "n", "spread")]
    rows += [_row(each) for each in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _row(figure: Figure) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: "not measurable"}[figure.met]
    spread = "" if figure.spread is None else f"{_number(figure.spread[0])}..{_number(figure.spread[1])}"
    return (
        figure.name,
        f"{_number(figure.value)} {figure.unit}",
        "" if figure.floor is None else f"{_number(figure.floor)} {figure.unit}",
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        figure.goal,
        met,
        str(figure.repetitions),
        spread,
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
