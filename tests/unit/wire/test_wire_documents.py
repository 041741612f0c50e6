"""The golden documents: every message has the agreed bytes, and reads back as its record."""

import json

import pytest

from fusiond.codec.packed import Plain, unpack
from fusiond.codec.records import structure, unstructure
from fusiond.domain.errors import AmbiguousError, InvalidError
from fusiond.wire.framing import frame
from fusiond.wire.messages import (
    Failure,
    Hello,
    HelloReply,
    Pushed,
    Reply,
    Request,
    read_from_client,
    read_from_daemon,
    result_of,
)
from fusiond.wire.methods import METHODS
from tests.unit.wire import wire_documents as documents

FRAMES = documents.frames()


def golden_frame(name: str) -> bytes:
    """Return the bytes that a golden file holds."""
    content = json.loads((documents.GOLDEN / f"{name}.json").read_text())
    return bytes.fromhex("".join(content["frame"]))


@pytest.mark.parametrize("name", FRAMES)
def test_message_has_the_agreed_bytes(name: str) -> None:
    path = documents.GOLDEN / f"{name}.json"
    assert path.exists(), f"no golden document {path.name}; see wire_documents.py"
    assert path.read_text() == documents.document(FRAMES[name])


def test_no_golden_document_is_left_over() -> None:
    assert {path.stem for path in documents.GOLDEN.iterdir()} == set(FRAMES)


@pytest.mark.parametrize("name", METHODS)
def test_request_reads_back_as_its_parameters(name: str) -> None:
    request = read_from_client(unpack(golden_frame(f"request.{name}")[4:]))
    assert isinstance(request, Request)
    assert (request.id, request.method) == (7, name)
    assert request.key == documents.key_of(METHODS[name])
    assert structure(METHODS[name].params, request.params, strict=True) == documents.PARAMS[name]


@pytest.mark.parametrize("name", METHODS)
def test_reply_reads_back_as_its_result(name: str) -> None:
    reply = read_from_daemon(unpack(golden_frame(f"ok.{name}")[4:]))
    assert isinstance(reply, Reply)
    assert result_of(METHODS[name].result, reply) == documents.RESULTS[name]


@pytest.mark.parametrize("name", METHODS)
def test_client_ignores_what_only_a_newer_daemon_says(name: str) -> None:
    message = unpack(golden_frame(f"ok.{name}")[4:])
    result = message["result"]
    assert isinstance(result, dict)
    result["added_later"] = {"x": [1]}
    message["also_later"] = True
    reply = read_from_daemon(message)
    assert isinstance(reply, Reply)
    assert result_of(METHODS[name].result, reply) == documents.RESULTS[name]


@pytest.mark.parametrize("name", METHODS)
def test_daemon_refuses_parameters_that_it_does_not_know(name: str) -> None:
    plain = dict(unstructure(documents.PARAMS[name]))
    plain["added_later"] = 1
    with pytest.raises(InvalidError, match="added_later"):
        structure(METHODS[name].params, plain, strict=True)


@pytest.mark.parametrize("name", documents.PUSHES)
def test_push_reads_back_as_its_record(name: str) -> None:
    message = unpack(golden_frame(f"push.{name}")[4:])
    assert read_from_daemon({**message, "later": 1}) == Pushed(subscription=3, push=documents.PUSHES[name])


def test_unknown_push_kind_is_no_error() -> None:
    message = {"type": "push", "subscription": 5, "kind": "weather", "wind": 3}
    assert read_from_daemon(unpack_plain(message)) == Pushed(subscription=5, push=None)


def unpack_plain(message: dict[str, object]) -> dict[str, Plain]:
    """Return a message as it comes out of a frame."""
    return unpack(frame(message)[4:])


def test_greetings_read_back() -> None:
    hello = read_from_client(unpack(golden_frame("hello")[4:]))
    welcome = read_from_daemon(unpack(golden_frame("welcome")[4:]))
    assert isinstance(hello, Hello)
    assert isinstance(welcome, HelloReply)
    assert hello.protocol == welcome.protocol == documents.VERSION


def test_error_reads_back_as_the_exception_of_its_code() -> None:
    failure = read_from_daemon(unpack(golden_frame("error")[4:]))
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, AmbiguousError)
    assert failure.id == 7
    assert failure.error.found == "01h names 2 runs; give more of the id"
    assert failure.error.fields == {"runs": "01hzy 01hzz"}
    whole = read_from_daemon(unpack(golden_frame("error-of-connection")[4:]))
    assert isinstance(whole, Failure)
    assert whole.id is None
