"""Errors to sentences, and outcomes to exit codes: the only module that knows the numbers.

Exit codes of `interfaces.md`: 0 only when what was asked for is true.
"""

import os
import signal
import sys
from collections.abc import Sequence

from fusiond.domain.display import display_safe
from fusiond.domain.errors import ErrorCode, FusionError

OK = 0
FAILED = 1
BLOCKED = 2
PARKED = 3
CANCELLED = 4
USAGE = 64
UNREACHABLE = 69
INTERNAL = 70
TRY_AGAIN = 75

_BY_OUTCOME = {"succeeded": OK, "failed": FAILED, "blocked": BLOCKED, "cancelled": CANCELLED}
_BY_PHASE = {"parked": PARKED, "awaiting_approval": PARKED}

_BY_CODE = {
    ErrorCode.INVALID: USAGE,
    ErrorCode.NOT_FOUND: USAGE,
    ErrorCode.AMBIGUOUS: USAGE,
    ErrorCode.REFUSED: BLOCKED,
    ErrorCode.ISOLATION: BLOCKED,
    ErrorCode.TOOLCHAIN: BLOCKED,
    ErrorCode.UNSUPPORTED: BLOCKED,
    ErrorCode.NEWER: BLOCKED,
    ErrorCode.STORAGE: TRY_AGAIN,
    ErrorCode.TRY_AGAIN: TRY_AGAIN,
    ErrorCode.CONFLICT: TRY_AGAIN,
    ErrorCode.UNREACHABLE: UNREACHABLE,
    ErrorCode.ERASED: FAILED,
    ErrorCode.TOO_LARGE: USAGE,
}


def exit_code_of(status: str) -> int:
    """Return the exit code of a run by its outcome, or by its phase while it has none."""
    return _BY_OUTCOME.get(status, _BY_PHASE.get(status, TRY_AGAIN))


def sentence_of(error: FusionError) -> str:
    """Return an error as one safe line."""
    return display_safe(error.sentence())


def say(line: str) -> None:
    """Write one line of talk to stderr; a closed stderr is not a reason to fail."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except BrokenPipeError:
        _detach_streams()


def run_guarded(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code, whatever happens in it."""
    import click

    from fusiond.cli.app import app

    try:
        outcome = app.main(args=list(arguments), prog_name="fusion", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        return 128 + signal.SIGINT
    except FusionError as error:
        say(f"fusion: {sentence_of(error)}")
        for problem in error.fields.get("problems", "").splitlines():
            if not problem.startswith(error.found):
                say(f"  {display_safe(problem)}")
        return _BY_CODE.get(error.code, INTERNAL)
    except BrokenPipeError:
        _detach_streams()
        return 128 + signal.SIGPIPE
    except Exception as error:
        # The boundary of the process: 1 would say that a run failed.
        import traceback

        traceback.print_exception(error)
        say("fusion: internal error; please report it with the lines above")
        return INTERNAL
    return outcome if isinstance(outcome, int) else OK


def _detach_streams() -> None:
    """Point the standard streams at nothing, so that interpreter exit writes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
