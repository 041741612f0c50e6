"""The command line of replay: `fusion replay …`, or `fusion-replay …`.

Exit codes of `evidence.md`: 0 acceptable, 1 unacceptable, 2 acceptable with warnings
(0 with `--allow-warnings`), 3 non-certifiable, 4 could not be judged, 64 usage.
"""

import json
import os
import signal
import sys
import traceback

import click

from fusiond.client.autostart import connect_or_start
from fusiond.client.discovery import find_workspace
from fusiond.domain.acceptability import ReplayVerdict
from fusiond.domain.display import display_safe
from fusiond.domain.errors import FusionError, RefusedError
from fusiond.domain.finalize import UnfinalizedTraceError
from fusiond.domain.replay_policy import Acceptability, ReplayMode
from fusiond.domain.version import PRODUCT_VERSION
from replay.check import compare_traces
from replay.render import document, lines, markdown
from replay.report import Report
from replay.sources import DaemonSource

NOT_JUDGED = 4
USAGE = 64

EXIT_CODES = {
    ReplayVerdict.ACCEPTABLE: 0,
    ReplayVerdict.UNACCEPTABLE: 1,
    ReplayVerdict.ACCEPTABLE_WITH_WARNINGS: 2,
    ReplayVerdict.NON_CERTIFIABLE: 3,
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(PRODUCT_VERSION, prog_name="fusion replay", message="%(prog)s %(version)s")
def app() -> None:
    """Compare runs: was it the same, or the same enough?"""


@app.command()
@click.argument("expected")
@click.argument("observed", default="@last")
@click.option(
    "--mode", type=click.Choice([each.value for each in ReplayMode]), help="Stricter than the flow's."
)
@click.option(
    "--acceptability",
    type=click.Choice([each.value for each in Acceptability]),
    help="Stricter than the flow's.",
)
@click.option("--allow-warnings", is_flag=True, help="Exit 0 for acceptable with warnings.")
@click.option("--json", "form", flag_value="json", help="Print one JSON document.")
@click.option("--markdown", "form", flag_value="markdown", help="Print a table for a review comment.")
def diff(
    expected: str,
    observed: str,
    mode: str | None,
    acceptability: str | None,
    allow_warnings: bool,
    form: str | None,
) -> int:
    """Compare two finished runs. Each is an id, a prefix or @last; the first is the measure."""
    workspace = find_workspace(os.getcwd())
    with connect_or_start(workspace, os.environ, product=PRODUCT_VERSION) as connection:
        source = DaemonSource(connection)
        one, other = (source.trace(source.run_of(name)) for name in (expected, observed))
        report = compare_traces(
            one,
            other,
            mode=None if mode is None else ReplayMode(mode),
            acceptability=None if acceptability is None else Acceptability(acceptability),
        )
        report = source.located(report, one, other)
    _print(report, form)
    if allow_warnings and report.verdict is ReplayVerdict.ACCEPTABLE_WITH_WARNINGS:
        return 0
    return EXIT_CODES[report.verdict]


def _print(report: Report, form: str | None) -> None:
    if form == "json":
        shown = [json.dumps(document(report), ensure_ascii=True, sort_keys=True)]
    else:
        shown = list(markdown(report) if form == "markdown" else lines(report))
    sys.stdout.write("\n".join(shown) + "\n")
    sys.stdout.flush()


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code; what cannot be judged is 4, never a traceback's 1."""
    try:
        outcome = app.main(args=arguments, prog_name="fusion replay", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except UnfinalizedTraceError as error:
        return _refused(error, NOT_JUDGED)
    except RefusedError as error:
        return _refused(error, USAGE)
    except FusionError as error:
        return _refused(error, NOT_JUDGED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except Exception as error:
        # The boundary of the process: 1 would say that the runs were compared and differ.
        traceback.print_exception(error)
        sys.stderr.write("fusion replay: internal error; please report it with the lines above\n")
        return NOT_JUDGED
    return outcome if isinstance(outcome, int) else 0


def _refused(error: FusionError, code: int) -> int:
    sys.stderr.write(f"fusion replay: {display_safe(error.sentence())}\n")
    return code


def main() -> None:
    """Run `fusion-replay`; never returns."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
