"""`fusion replay`: started as a process of its own, as git starts its subcommands."""

import os
import sys

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def replay(arguments: tuple[str, ...]) -> None:
    """Compare runs: was it the same, or the same enough?"""
    # -P: a module of the directory the user stands in must not be taken for ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "replay.cli", *arguments])  # noqa: S606
