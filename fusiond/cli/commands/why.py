"""`fusion why`: one screen on what failed, what it showed and what to do."""

import click

from fusiond.cli.connecting import ask
from fusiond.cli.output import as_text, as_texts, coloured, json_option, print_json, print_line, safe
from fusiond.domain.display import display_safe

SHOWN_LINES = 24
"""Lines of output on the screen; `fusion logs` has the rest."""


@click.command()
@click.argument("run", default="@last")
@json_option
def why(run: str, as_json: bool) -> int:
    """Explain why a run is not a success. RUN is an id, a prefix or @last."""
    reply = ask("run.why", {"run": run})
    if as_json:
        print_json(reply)
        return 0
    print_line(coloured(f"{as_text(reply.get('run'))}: {safe(reply.get('headline'))}", "bold"))
    for line in as_texts(reply.get("lines")):
        print_line(f"  {safe(line)}")
    output = reply.get("output")
    if isinstance(output, bytes) and output:
        text = display_safe(output, max_chars=20_000, multiline=True).rstrip("\n")
        lines = text.split("\n")
        print_line("")
        if len(lines) > SHOWN_LINES:
            print_line(f"  … {len(lines) - SHOWN_LINES} lines before; `fusion logs` has them all")
        for line in lines[-SHOWN_LINES:]:
            print_line(f"  | {line}")
    if cure := as_text(reply.get("cure")):
        print_line("")
        print_line(f"What to do: {safe(cure)}")
    return 0
