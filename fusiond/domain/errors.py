"""The root of every error that Fusion raises, and nothing else.

Expected outcomes (a red gate, a bad manifest, a verdict) are values, never
exceptions. An exception here means a broken contract or a broken world.
"""

from collections.abc import Mapping
from enum import StrEnum


class ErrorCode(StrEnum):
    """Codes shared by exceptions, wire errors and exit codes."""

    INVALID = "invalid"
    NOT_FOUND = "not_found"
    AMBIGUOUS = "ambiguous"
    CONFLICT = "conflict"
    FENCED = "fenced"
    ILLEGAL_STEP = "illegal_step"
    CORRUPT = "corrupt"
    NEWER = "newer"
    ERASED = "erased"
    REFUSED = "refused"
    STORAGE = "storage"
    ISOLATION = "isolation"
    TOOLCHAIN = "toolchain"
    UNSUPPORTED = "unsupported"
    UNREACHABLE = "unreachable"
    TRY_AGAIN = "try_again"
    TOO_LARGE = "too_large"
    INTERNAL = "internal"


class FusionError(Exception):
    """A broken contract or world, said so that a person can act on it.

    Args:
        found: what was found, one sentence.
        expected: what was expected instead.
        cure: what to do about it.
        state: the last trustworthy state, when there is one to name.
        fields: further facts for machines; text values only.
    """

    code: ErrorCode = ErrorCode.INTERNAL

    def __init__(
        self,
        found: str,
        *,
        expected: str = "",
        cure: str = "",
        state: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(found)
        self.found = found
        self.expected = expected
        self.cure = cure
        self.state = state
        self.fields: dict[str, str] = dict(fields or {})

    def sentence(self) -> str:
        """Return the error as one line: found, expected, state, cure."""
        parts = [self.found]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.state:
            parts.append(f"last trustworthy state: {self.state}")
        if self.cure:
            parts.append(self.cure)
        return "; ".join(parts)


class InvalidError(FusionError):
    """Input that no retry makes valid."""

    code = ErrorCode.INVALID


class NotFoundError(FusionError):
    """A run, node, attempt, artifact or file that is not there."""

    code = ErrorCode.NOT_FOUND


class AmbiguousError(FusionError):
    """A prefix that names more than one thing."""

    code = ErrorCode.AMBIGUOUS


class ConflictError(FusionError):
    """Somebody else wrote at this position first."""

    code = ErrorCode.CONFLICT


class FencedError(FusionError):
    """A worker whose lease has gone to another epoch tried to append."""

    code = ErrorCode.FENCED


class IllegalStepError(FusionError):
    """A step that the transition table does not allow here."""

    code = ErrorCode.ILLEGAL_STEP


class CorruptError(FusionError):
    """Stored bytes that do not match their digest or chain."""

    code = ErrorCode.CORRUPT


class NewerError(FusionError):
    """A record written by a newer Fusion."""

    code = ErrorCode.NEWER


class ErasedError(FusionError):
    """Content that was erased on purpose; its digest is still on record."""

    code = ErrorCode.ERASED


class RefusedError(FusionError):
    """A request that a rule forbids."""

    code = ErrorCode.REFUSED


class StorageError(FusionError):
    """The disk is full, read-only or failing."""

    code = ErrorCode.STORAGE


class UnrecordedError(StorageError):
    """The ledger itself could not be written: nothing can be recorded now, not even a failure.

    Whoever meets it waits and does the same again; any other StorageError is an
    outcome that the ledger can hold.
    """


class IsolationError(FusionError):
    """An attempt could not be isolated; it never runs in the user's checkout."""

    code = ErrorCode.ISOLATION


class ToolchainError(FusionError):
    """A toolchain that the flow needs is missing or too old."""

    code = ErrorCode.TOOLCHAIN


class UnsupportedError(FusionError):
    """Something this version or platform does not do, said plainly."""

    code = ErrorCode.UNSUPPORTED


class UnreachableError(FusionError):
    """The daemon does not answer."""

    code = ErrorCode.UNREACHABLE


class TryAgainError(FusionError):
    """A passing condition; the same request may work later."""

    code = ErrorCode.TRY_AGAIN


class TooLargeError(FusionError):
    """Something over a stated bound."""

    code = ErrorCode.TOO_LARGE
