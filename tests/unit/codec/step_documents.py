"""One sealed step of every kind, and how it is written to a golden file.

The files under `tests/golden/steps` are what ledgers on people's disks look
like: where one changes, so must the payload's `v`, and an upcaster must read
the old one. Where such a change is meant, `python -m tests.unit.codec.step_documents`
writes them anew.
"""

import json
from pathlib import Path

from fusiond.codec.steps import comparison_digest, seal
from fusiond.domain.digest import Digest, digest_bytes
from fusiond.domain.ids import AttemptNumber, NodeId, RunId
from fusiond.domain.labels import Label
from fusiond.domain.steps.kinds import StepKind
from fusiond.domain.steps.record import PAYLOADS, Head, NewStep, Step
from tests.unit.codec.record_values import example_of

GOLDEN = Path(__file__).parents[2] / "golden" / "steps"

RUN = RunId("01hzy3v8k00ab")
HEAD = Head(seq=41, hash=digest_bytes(b"the step before"))


def new_step(kind: StepKind) -> NewStep:
    """Return the example of a kind, with everything set that a step can carry."""
    return NewStep(
        node=NodeId("build"),
        attempt=AttemptNumber(2),
        payload=example_of(PAYLOADS[kind]),
        at_us=1_900_000_000_000_000,
        refs=(digest_bytes(b"one"), digest_bytes(b"two")),
        labels=frozenset({Label.SECRET, Label.UNTRUSTED}),
        cost_uusd=1_250,
        idempotency_key=Digest(digest_bytes(b"key")),
    )


def sealed(kind: StepKind) -> tuple[Step, bytes]:
    """Return the example as it is stored."""
    return seal(RUN, HEAD, new_step(kind))


def document(kind: StepKind) -> str:
    """Return the golden file's text."""
    step, payload = sealed(kind)
    content = {
        "kind": kind.value,
        "payload": json.loads(payload),
        "hash": step.hash,
        "comparison": comparison_digest(step.payload),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all golden files."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for path in GOLDEN.iterdir():
        path.unlink()
    for kind in StepKind:
        (GOLDEN / f"{kind.value}.json").write_text(document(kind))


if __name__ == "__main__":
    main()
