"""Field sets, bounds and versions of messages: what is refused, and how it is said."""

import pytest

from fusiond.codec.packed import Plain, unpack
from fusiond.codec.records import structure
from fusiond.domain.errors import ErrorCode, FusionError, InvalidError, NotFoundError, UnsupportedError
from fusiond.domain.ids import AttemptNumber, NodeId
from fusiond.wire import envelope, params
from fusiond.wire.faults import BY_CODE, error_of, fault
from fusiond.wire.framing import frame
from fusiond.wire.limits import FRAME_BYTES, INPUTS, KEY_CHARS, LIST_ROWS, PAGE_BYTES, PATH_BYTES
from fusiond.wire.messages import Hello, Push, packed_push, read_from_client, read_from_daemon
from fusiond.wire.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, check_major, check_mutation
from tests.unit.wire import wire_documents as documents

REQUEST: dict[str, Plain] = {"type": "request", "id": 1, "method": "ping", "params": {}}
HELLO: dict[str, Plain] = {
    "type": "hello",
    "product": "0.1.0",
    "protocol": {"major": 1, "minor": 0},
    "client": "cli",
}


@pytest.mark.parametrize(
    "message,said",
    [
        ({}, "message type"),
        ({"type": 3}, "message type"),
        ({"type": "ok", "id": 1, "result": {}}, "message type 'ok'"),
        ({"type": "request"}, "request without id, method, params"),
        ({**REQUEST, "user": "root"}, "unknown fields 'user'"),
        ({**REQUEST, "id": 0}, "id is a int"),
        ({**REQUEST, "id": True}, "id is a bool"),
        ({**REQUEST, "id": "1"}, "id is '1'"),
        ({**REQUEST, "method": 3}, "method is a int"),
        ({**REQUEST, "method": "m" * 300}, "method is 'm"),
        ({**REQUEST, "params": []}, "params is a list"),
        ({**REQUEST, "key": None}, "key is a NoneType"),
        ({**REQUEST, "key": ""}, "key ''"),
        ({**REQUEST, "key": "a b"}, "key 'a b'"),
        ({**REQUEST, "key": "a" * (KEY_CHARS + 1)}, "key is"),
        ({**HELLO, "protocol": 1}, "protocol is a int"),
        ({**HELLO, "protocol": {"major": 1}}, "minor is a NoneType"),
        ({"type": "hello"}, "hello without client, product, protocol"),
    ],
)
def test_wrong_message_from_a_client_is_refused(message: dict[str, Plain], said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        read_from_client(message)


def test_hello_of_a_newer_client_is_read() -> None:
    hello = read_from_client({**HELLO, "protocol": {"major": 1, "minor": 9, "x": 1}, "later": True})
    assert isinstance(hello, Hello)
    assert hello.protocol.minor == 9


@pytest.mark.parametrize(
    "message,said",
    [
        ({"type": "request"}, "message type"),
        ({"type": "ok", "id": 1}, "ok without result"),
        ({"type": "ok", "id": 1, "result": 3}, "result is a int"),
        ({"type": "push", "kind": "step"}, "push without subscription"),
        ({"type": "push", "kind": "step", "subscription": 1}, "not a StepPush"),
        ({"type": "error", "id": "x", "code": "", "message": "", "fields": {}}, "id is 'x'"),
    ],
)
def test_wrong_message_from_the_daemon_is_refused(message: dict[str, Plain], said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        read_from_daemon(message)


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_comes_back_as_its_exception(code: ErrorCode) -> None:
    raised = BY_CODE.get(code, FusionError)("found", expected="this", fields={"a": "b"})
    message = fault(3, raised)
    back = error_of({name: value for name, value in message.items() if isinstance(value, str | dict)})
    assert type(back) is type(raised)
    assert back.code is code
    assert back.sentence() == "found; expected this"
    assert back.fields == {"a": "b"}


def test_unknown_code_is_internal_and_named() -> None:
    back = error_of({"code": "gone_fishing", "message": "m", "fields": {}})
    assert back.code is ErrorCode.INTERNAL
    assert back.fields == {"code": "gone_fishing"}


@pytest.mark.parametrize("message", [{}, {"code": 3, "message": 4, "fields": 5}])
def test_misshapen_error_is_still_an_error(message: dict[str, Plain]) -> None:
    assert error_of(message).sentence()


def test_error_of_any_size_and_text_fits_a_frame() -> None:
    error = NotFoundError("x" * 10**6, fields={f"{n}\udcff": "\udcff" * 10**5 for n in range(500)})
    assert len(frame(fault(None, error))) < FRAME_BYTES // 2


@pytest.mark.parametrize("push", documents.PUSHES.values(), ids=documents.PUSHES)
@pytest.mark.parametrize("subscription", [0, 127, 128, 2**40])
def test_push_for_any_subscription_is_one_map(push: Push, subscription: int) -> None:
    packed = packed_push(push)
    whole = packed.framed(subscription)
    message = unpack(whole[4:])
    assert message["subscription"] == subscription
    assert message["type"] == envelope.PUSH
    assert packed.fits


def test_versions() -> None:
    check_major(PROTOCOL_MAJOR, "the daemon", "")
    with pytest.raises(UnsupportedError, match="speaks protocol 2"):
        check_major(2, "the daemon", "stop it")
    check_mutation(PROTOCOL_MINOR)
    with pytest.raises(UnsupportedError) as caught:
        check_mutation(PROTOCOL_MINOR + 1)
    assert "fusion daemon stop" in caught.value.cure


NODE = NodeId("build")


@pytest.mark.parametrize(
    "record,fields",
    [
        (params.RunListParams, {"limit": 0}),
        (params.RunListParams, {"limit": LIST_ROWS + 1}),
        (params.RunParams, {"run": ""}),
        (params.RunParams, {"run": "@first"}),
        (params.RunParams, {"run": "../../etc"}),
        (params.RunParams, {"run": "01hzy3v8k00abc"}),
        (params.RunParams, {"run": "il"}),
        (params.RunSubmitParams, {"flow": ""}),
        (params.RunSubmitParams, {"flow": "a\0b"}),
        (params.RunSubmitParams, {"flow": "é" * (PATH_BYTES // 2 + 1)}),
        (params.RunSubmitParams, {"flow": "f", "inputs": [["", "v"]]}),
        (params.RunSubmitParams, {"flow": "f", "inputs": [["a"]]}),
        (params.RunSubmitParams, {"flow": "f", "inputs": [["a", "v"]] * (INPUTS + 1)}),
        (params.RunSubmitParams, {"flow": "f", "mode": "plan"}),
        (params.RunSubmitParams, {"flow": "f", "revision": ""}),
        (params.RunCancelParams, {"run": "01", "reason": "a\0"}),
        (params.RunResumeParams, {"run": "01", "added_tokens": -1}),
        (params.RunResumeParams, {"run": "01", "added_cost_uusd": True}),
        (params.LogPageParams, {"run": "01", "node": "n", "attempt": 0, "what": "turn-1"}),
        (params.LogPageParams, {"run": "01", "node": "n", "attempt": 1, "what": "../turn-1"}),
        (params.LogPageParams, {"run": "01", "node": "n", "attempt": 1, "what": "t", "offset": -1}),
        (params.LogPageParams, {"run": "01", "node": "n", "attempt": 1, "what": "t", "limit": 0}),
        (
            params.LogPageParams,
            {"run": "01", "node": "n", "attempt": 1, "what": "t", "limit": PAGE_BYTES + 1},
        ),
        (params.ArtifactPageParams, {"run": "01", "node": "n", "path": ""}),
        (params.CodeListParams, {"run": "01", "node": "n", "at": "HEAD"}),
        (params.SubscribeParams, {"from_position": -1}),
        (params.SubscribeParams, {"epoch": ""}),
        (params.SubscribeParams, {"run": "@first"}),
        (params.OutputFollowParams, {"run": "01", "from_offset": 1}),
        (params.OutputFollowParams, {"run": "01", "node": "n", "from_offset": 1}),
    ],
)
def test_parameters_over_a_bound_are_refused(record: type[object], fields: dict[str, Plain]) -> None:
    with pytest.raises(InvalidError):
        structure(record, fields, strict=True)


def test_an_offset_goes_with_one_output() -> None:
    one = params.OutputFollowParams(
        run="01", node=NODE, attempt=AttemptNumber(1), what="turn-1", from_offset=9
    )
    assert one.from_offset == 9
