"""Errors on the wire: code, message, fields; and back to the exception they were.

Owns the table from code to exception. Light enough for the blocking client.
"""

from collections.abc import Mapping

from fusiond.codec.packed import Plain
from fusiond.domain.errors import (
    AmbiguousError,
    ConflictError,
    CorruptError,
    ErasedError,
    ErrorCode,
    FencedError,
    FusionError,
    IllegalStepError,
    InvalidError,
    IsolationError,
    NewerError,
    NotFoundError,
    RefusedError,
    StorageError,
    TooLargeError,
    ToolchainError,
    TryAgainError,
    UnreachableError,
    UnsupportedError,
)
from fusiond.wire.envelope import ERROR
from fusiond.wire.limits import ERROR_FIELDS, FIELD_CHARS, MESSAGE_CHARS, NAME_CHARS

BY_CODE: Mapping[str, type[FusionError]] = {
    each.code.value: each
    for each in (
        InvalidError,
        NotFoundError,
        AmbiguousError,
        ConflictError,
        FencedError,
        IllegalStepError,
        CorruptError,
        NewerError,
        ErasedError,
        RefusedError,
        StorageError,
        IsolationError,
        ToolchainError,
        UnsupportedError,
        UnreachableError,
        TryAgainError,
        TooLargeError,
    )
}
"""Every code but INTERNAL, which is the root's own."""


def fault(number: int | None, error: FusionError) -> dict[str, object]:
    """Return the error message for a request.

    Args:
        number: the request's, None when the fault is the connection's.
        error: its sentence becomes the message; its fields travel as they are, within bounds.
    """
    return {
        "type": ERROR,
        "id": number,
        "code": error.code.value,
        "message": _cut(error.sentence(), MESSAGE_CHARS),
        "fields": {
            _cut(name, NAME_CHARS): _cut(value, FIELD_CHARS)
            for name, value in list(error.fields.items())[:ERROR_FIELDS]
        },
    }


def _cut(text: str, most: int) -> str:
    # Half a surrogate pair, from a file name, cannot be packed.
    return text[:most].encode(errors="backslashreplace").decode()


def error_of(message: Mapping[str, Plain]) -> FusionError:
    """Return the exception that an error message stands for.

    A code that this version does not know becomes INTERNAL, with the code in the fields.
    """
    code, said, given = message.get("code"), message.get("message"), message.get("fields")
    fields = {name: str(value) for name, value in given.items()} if isinstance(given, dict) else {}
    found = said if isinstance(said, str) else "the daemon reported an error without a message"
    if code == ErrorCode.INTERNAL.value:
        return FusionError(found, fields=fields)
    known = BY_CODE.get(code) if isinstance(code, str) else None
    if known is None:
        return FusionError(found, fields={**fields, "code": str(code)[:40]})
    return known(found, fields=fields)
