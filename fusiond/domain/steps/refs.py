"""Which content a payload names: the step's `refs`, found and never hand-written."""

from dataclasses import fields

from fusiond.domain.digest import ContentRef, Digest
from fusiond.domain.steps.record import Payload
from fusiond.domain.steps.turn import OutputRef


def refs_of(payload: Payload) -> tuple[Digest, ...]:
    """Return the digests of all content that `payload` names, once each, in field order."""
    found: list[Digest] = []
    for field in fields(payload):
        _collect(getattr(payload, field.name), found)
    return tuple(dict.fromkeys(found))


def _collect(value: object, found: list[Digest]) -> None:
    match value:
        case ContentRef():
            found.append(value.digest)
        case OutputRef():
            found.append(value.content.digest)
        case tuple():
            for each in value:
                _collect(each, found)
        case _:
            pass
