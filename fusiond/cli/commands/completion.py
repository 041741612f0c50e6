"""`fusion completion`: the script that makes a shell complete commands and options."""

import click

from fusiond.cli.output import print_line


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of SHELL; source it in your shell's start file."""
    from click.shell_completion import get_completion_class

    from fusiond.cli.app import app

    found = get_completion_class(shell)
    assert found is not None, "the choice lists only known shells"
    print_line(found(app, {}, "fusion", "_FUSION_COMPLETE").source())
    return 0
