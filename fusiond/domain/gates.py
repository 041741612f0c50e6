"""Unit gates and commands: from raw process facts to an outcome.

A signal, a missing or unexecutable program, a timeout and a sandbox failure
are outcomes of their own, never "failed" (`governance.md`, Unit gates).
"""

from enum import StrEnum

from fusiond.domain.launch import LaunchEnd, LaunchResult

NOT_EXECUTABLE = 126
NOT_FOUND = 127


class ProcessOutcome(StrEnum):
    """How a gate or a command ended."""

    PASSED = "passed"
    FAILED = "failed"
    SIGNALLED = "signalled"
    NOT_FOUND = "not_found"
    NOT_EXECUTABLE = "not_executable"
    TIMED_OUT = "timed_out"
    OUTPUT_LIMIT = "output_limit"
    SANDBOX_FAILURE = "sandbox_failure"
    CANCELLED = "cancelled"

    @property
    def repairable(self) -> bool:
        """Say whether feedback to the same session can help.

        A program that is not there or walls that did not stand are not the
        attempt's doing, so they spend no rerun.
        """
        return self in _REPAIRABLE


_REPAIRABLE = frozenset(
    {
        ProcessOutcome.FAILED,
        ProcessOutcome.SIGNALLED,
        ProcessOutcome.TIMED_OUT,
        ProcessOutcome.OUTPUT_LIMIT,
    }
)


def judge(result: LaunchResult) -> ProcessOutcome:
    """Return the outcome of a process from the launcher's raw facts."""
    match result.end:
        case LaunchEnd.EXITED:
            if result.exit_code is None:
                # An end whose status nobody knows is never a pass.
                return ProcessOutcome.SANDBOX_FAILURE
            return _EXITS.get(result.exit_code, ProcessOutcome.FAILED)
        case LaunchEnd.SIGNALLED:
            return ProcessOutcome.SIGNALLED
        case LaunchEnd.TIMED_OUT:
            return ProcessOutcome.TIMED_OUT
        case LaunchEnd.OUTPUT_LIMIT:
            return ProcessOutcome.OUTPUT_LIMIT
        case LaunchEnd.CANCELLED:
            return ProcessOutcome.CANCELLED
        case LaunchEnd.SANDBOX_FAILURE:
            return ProcessOutcome.SANDBOX_FAILURE


_EXITS = {
    0: ProcessOutcome.PASSED,
    NOT_EXECUTABLE: ProcessOutcome.NOT_EXECUTABLE,
    NOT_FOUND: ProcessOutcome.NOT_FOUND,
}
