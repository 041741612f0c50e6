"""`fusion doctor`: what this machine can guarantee, and how to raise it."""

import os
from pathlib import Path

import click

from fusiond.cli.failures import BLOCKED, OK
from fusiond.cli.output import coloured, json_option, print_json, print_line, safe
from fusiond.domain.launch import Isolation

_MEANING = {
    Isolation.BUBBLEWRAP: "attempts run behind bubblewrap's walls",
    Isolation.SUBREAPER: "attempts run without walls; their processes are ended, their writes are not contained",
}


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Say layer by layer what this machine can guarantee; exit code 0 when attempts are isolated, else 2."""
    # Loaded here: it brings asyncio, which no other command needs.
    from fusiond.cli.guarantees import Layer, find_guarantees

    found = find_guarantees(os.environ, Path.cwd())
    code = OK if found.isolation is Isolation.BUBBLEWRAP else BLOCKED
    if as_json:
        layers = [each.document() for each in found.layers]
        print_json({"isolation": str(found.isolation), "layers": layers, "exit_code": code})
        return code

    def line(layer: Layer) -> str:
        mark = ("✓", "green") if layer.good else ("✗", "red") if layer.needed else ("·", "yellow")
        return f"{coloured(*mark)} {layer.name:<18} {safe(layer.found)}"

    for layer in found.layers:
        print_line(line(layer))
        if layer.cure:
            print_line(f"  {'':<18} to raise it: {safe(layer.cure)}")
    print_line("")
    print_line(f"isolation: {found.isolation}: {_MEANING[found.isolation]}")
    return code
