"""One document for every message of the protocol, and how documents are written to files.

The files under `tests/golden/wire` are the protocol as it was agreed: a
difference is a change of the version, never a new golden file alone. Where
such a change is meant, `python -m tests.unit.wire.wire_documents` writes them
anew.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from fusiond.codec.packed import Plain, unpack
from fusiond.codec.records import unstructure
from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.digest import digest_bytes
from fusiond.domain.errors import AmbiguousError
from fusiond.domain.flow import RunMode
from fusiond.domain.ids import AttemptNumber, CommitId, NodeId, OutputName, RunId, TenantId, WorkspaceId
from fusiond.domain.steps.record import Step
from fusiond.domain.steps.turn import TurnStarted
from fusiond.domain.transitions import RunPhase
from fusiond.domain.views import RunDetail, RunSummary
from fusiond.wire import envelope, messages, methods, params, results
from fusiond.wire.faults import fault
from fusiond.wire.framing import frame

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"

RUN = RunId("01hzy3v8k00ab")
NODE = NodeId("build")
ATTEMPT = AttemptNumber(2)
EPOCH = "5f0c6a9e"
AT_US = 1_900_000_000_000_000
VERSION = messages.ProtocolVersion(major=1, minor=0)

SUMMARY = RunSummary(
    run=RUN,
    tenant=TenantId("local"),
    flow="fix-issue",
    phase=RunPhase.RUNNING,
    outcome=None,
    status="running",
    stages_done=1,
    stages=3,
    started_us=AT_US,
    updated_us=AT_US + 5,
    head_seq=17,
)
DETAIL = RunDetail(
    summary=SUMMARY,
    plan_hash=digest_bytes(b"plan"),
    base_commit=CommitId("a" * 40),
    result_commit=None,
    conflict_paths=(),
    park_reason="",
    park_detail="",
    wall_clock_us=5,
    repair_reruns=2,
    stages=(),
)
STEP = Step(
    run=RUN,
    seq=9,
    node=NODE,
    attempt=ATTEMPT,
    payload=TurnStarted(turn=1, feedback=None),
    at_us=AT_US,
    refs=(digest_bytes(b"prompt"),),
    labels=frozenset(),
    cost_uusd=120,
    idempotency_key=None,
    prev_hash=digest_bytes(b"before"),
    hash=digest_bytes(b"this"),
)
ARTIFACT = FrozenArtifact(
    output=OutputName("report"),
    path="report.json",
    media_type="application/json",
    size=812,
    digest=digest_bytes(b"report"),
)
PAGE = results.BodyPage(offset=4096, total=9000, data=b"\x1b[31mred\xff\n")

PARAMS: Mapping[str, object] = {
    "ping": params.Nothing(),
    "daemon.status": params.Nothing(),
    "daemon.stop": params.DaemonStopParams(drain=False),
    "run.submit": params.RunSubmitParams(
        flow="flows/fix.yaml",
        inputs=(("issue", "#12: zażółć"),),
        mode=RunMode.OBSERVE,
        revision="main~1",
        include_dirty=True,
        tenant=TenantId("local"),
    ),
    "run.list": params.RunListParams(open_only=True, limit=20),
    "run.show": params.RunParams(run="@last"),
    "run.steps": params.RunStepsParams(run=RUN, after_seq=40, limit=100),
    "run.why": params.RunParams(run="01hzy"),
    "run.cancel": params.RunCancelParams(run=RUN, reason="not needed any more"),
    "run.resume": params.RunResumeParams(run=RUN, added_tokens=100_000),
    "run.merge": params.RunParams(run=RUN),
    "log.list": params.LogListParams(run=RUN),
    "log.page": params.LogPageParams(run=RUN, node=NODE, attempt=ATTEMPT, what="gate-unit-1", offset=4096),
    "artifact.list": params.ArtifactListParams(run=RUN, node=NODE),
    "artifact.page": params.ArtifactPageParams(run=RUN, node=NODE, path="report.json", limit=1024),
    "code.list": params.CodeListParams(run=RUN, node=NODE, at=params.CodeAt.START, path="src"),
    "code.page": params.CodePageParams(run=RUN, node=NODE, attempt=ATTEMPT, path="src/main.py"),
    "code.diff": params.CodeDiffParams(run=RUN, node=NODE),
    "subscribe": params.SubscribeParams(epoch=EPOCH, from_position=41, run=RUN),
    "unsubscribe": params.UnsubscribeParams(subscription=3),
    "output.follow": params.OutputFollowParams(
        run=RUN, node=NODE, attempt=ATTEMPT, what="turn-1", from_offset=64
    ),
}

RESULTS: Mapping[str, object] = {
    "ping": results.Pong(now_us=AT_US),
    "daemon.status": results.DaemonStatus(
        product="0.1.0",
        pid=4711,
        started_us=AT_US,
        workspace="/srv/project",
        epoch=EPOCH,
        position=41,
        connections=2,
        subscriptions=1,
        draining=False,
        facts=(("isolation", "namespaces"),),
    ),
    "daemon.stop": params.Nothing(),
    "run.submit": results.RunRef(run=RUN),
    "run.list": results.RunList(runs=(SUMMARY,), epoch=EPOCH, position=41),
    "run.show": results.RunShown(detail=DETAIL, epoch=EPOCH, position=41),
    "run.steps": results.RunSteps(run=RUN, steps=(STEP,)),
    "run.why": results.RunWhy(
        run=RUN,
        headline="build: failed",
        lines=("attempt 1: gate_failed",),
        output=b"1 failed\n",
        cure="mend it",
    ),
    "run.cancel": results.RunRef(run=RUN),
    "run.resume": results.RunRef(run=RUN),
    "run.merge": results.MergeResult(
        run=RUN,
        flow="fix",
        ref="refs/heads/main",
        before=CommitId("a" * 40),
        after=CommitId("b" * 40),
        fast_forward=True,
    ),
    "log.list": results.LogList(
        logs=(results.LogEntry(node=NODE, attempt=ATTEMPT, what="turn-1", size=9000, live=True),)
    ),
    "log.page": PAGE,
    "artifact.list": results.ArtifactList(
        artifacts=(results.ArtifactEntry(node=NODE, attempt=ATTEMPT, artifact=ARTIFACT),)
    ),
    "artifact.page": PAGE,
    "code.list": results.CodeList(
        entries=(
            results.CodeItem(
                path="src/main.py",
                kind=results.CodeKind.FILE,
                size=12,
                media_type="text/x-python",
                digest=digest_bytes(b"main"),
            ),
            results.CodeItem(
                path="src/lib", kind=results.CodeKind.DIRECTORY, size=0, media_type="", digest=None
            ),
        )
    ),
    "code.page": PAGE,
    "code.diff": PAGE,
    "subscribe": results.Subscribed(subscription=3, epoch=EPOCH, position=44),
    "unsubscribe": params.Nothing(),
    "output.follow": results.Following(subscription=4),
}

PUSHES: Mapping[str, messages.Push] = {
    "step": messages.StepPush(position=42, step=STEP),
    "output": messages.OutputPush(
        run=RUN, node=NODE, attempt=ATTEMPT, what="turn-1", offset=64, data=b"\x00bytes"
    ),
    "gap": messages.GapPush(run=RUN, node=NODE, attempt=ATTEMPT, what="turn-1", start=71, end=5_000_000),
    "state": messages.StatePush(state=messages.StreamState.LIVE, position=44),
    "snapshot": messages.SnapshotPush(
        reason=messages.SnapshotReason.TOO_FAR, epoch=EPOCH, position=1_000_000
    ),
}


def key_of(method: methods.Method[object, object]) -> str | None:
    """Return a key where the method needs one."""
    return "9f3b6c0d5a7e4f21" if method.keyed else None


def frames() -> dict[str, bytes]:
    """Return the frame of every document by its name."""
    hello = messages.Hello(product="0.1.0", protocol=VERSION, client="cli")
    welcome = messages.HelloReply(
        product="0.1.0",
        protocol=VERSION,
        workspace=WorkspaceId("0123456789ab"),
        path="/srv/project",
        epoch=EPOCH,
        head=41,
    )
    error = AmbiguousError("01h names 2 runs", cure="give more of the id", fields={"runs": "01hzy 01hzz"})
    found = {
        "hello": frame(messages.hello_message(hello)),
        "welcome": frame(messages.welcome_message(welcome)),
        "error": frame(fault(7, error)),
        "error-of-connection": frame(fault(None, error)),
    }
    for name, method in methods.METHODS.items():
        asked = envelope.request(7, name, unstructure(PARAMS[name]), key_of(method))
        found[f"request.{name}"] = frame(asked)
        found[f"ok.{name}"] = frame(messages.ok_message(7, RESULTS[name]))
    for name, push in PUSHES.items():
        found[f"push.{name}"] = messages.packed_push(push).framed(3)
    return found


def document(whole: bytes) -> str:
    """Return a frame as its golden file: the message for people, the bytes for machines."""
    lines = [whole[start : start + 32].hex() for start in range(0, len(whole), 32)]
    content = {"message": _shown(unpack(whole[4:])), "frame": lines}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _shown(value: Plain) -> object:
    match value:
        case bytes():
            return {"bytes": value.hex()}
        case dict():
            return {name: _shown(each) for name, each in value.items()}
        case list():
            return [_shown(each) for each in value]
        case _:
            return value


def write_all() -> None:
    """Write every golden file."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, whole in frames().items():
        (GOLDEN / f"{name}.json").write_text(document(whole))


if __name__ == "__main__":
    write_all()
