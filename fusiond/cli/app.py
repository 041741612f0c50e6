"""The command tree. Commands are named here and loaded only when they are called."""

import importlib

import click

from fusiond.domain.version import PRODUCT_VERSION

_COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "Make this directory a workspace and write a first flow."),
    "doctor": ("doctor", "Say what this machine can guarantee, and how to raise it."),
    "demo": ("demo", "Show a whole run on a small repository of its own."),
    "run": ("run", "Run a flow and follow it; the exit code is the run's."),
    "ls": ("runs", "List runs, newest first."),
    "show": ("runs", "Show a run: stages, attempts, gates."),
    "why": ("why", "Explain in one screen why a run is not a success."),
    "logs": ("logs", "Print captured output; -f follows it."),
    "cancel": ("acts", "End a run."),
    "resume": ("acts", "Let a parked run go on."),
    "merge": ("acts", "Bring a run's result into your repository."),
    "artifact": ("artifact", "List, print or save frozen artifacts."),
    "code": ("code", "List, print or compare frozen code."),
    "replay": ("replay", "Compare runs: was it the same, or the same enough?"),
    "flow": ("flow", "Check, explain or draw a flow file."),
    "daemon": ("daemon", "Start, stop or look at the daemon."),
    "completion": ("completion", "Print a shell completion script."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table, which is the order of use."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"fusiond.cli.commands.{entry[0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their one line, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when one is not known."""
        name = args[0]
        if name not in _COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(name, _COMMANDS, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise click.UsageError(f"No command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(PRODUCT_VERSION, prog_name="fusion", message="%(prog)s %(version)s")
def app() -> None:
    """Run flows of coding agents and commands durably, judged by gates."""
