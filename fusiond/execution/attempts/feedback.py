"""What a rerun is told: gate, command, how it ended, its output, and contract problems.

The text is for an agent or a script, so it is plain and bounded; output in it is
controlled (`governance.md`, Unit gates). It reads pages of output and changes nothing.
"""

from collections.abc import Sequence

from fusiond.domain.artifacts import ContractProblem
from fusiond.domain.display import controlled_output, display_safe
from fusiond.domain.flow import GateSpec
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.state import GateRun
from fusiond.domain.steps.turn import OutputRef
from fusiond.ports.content import ContentStore

HEAD_BYTES = 8 * 1024
TAIL_BYTES = 24 * 1024
MAX_PROBLEMS = 100
MAX_BYTES = 60 * 1024
"""A feedback is read by an agent: more than this helps nobody."""


async def output_text(
    store: ContentStore,
    tenant: TenantId,
    run: RunId,
    output: OutputRef | None,
    secrets: tuple[bytes, ...],
) -> str:
    """Return the controlled head and tail of captured output."""
    if output is None or output.total_bytes == 0:
        return "(no output)"
    total = output.total_bytes
    if total <= HEAD_BYTES + TAIL_BYTES:
        whole = await store.page(tenant, run, output, 0, HEAD_BYTES + TAIL_BYTES)
        return controlled_output(whole.data, b"", total, output.hole, secrets)
    head = await store.page(tenant, run, output, 0, HEAD_BYTES)
    tail = await store.page(tenant, run, output, total - TAIL_BYTES, TAIL_BYTES)
    return controlled_output(head.data, tail.data, total, output.hole, secrets)


def gate_feedback(gate: GateSpec, failed: GateRun, how: str, output: str) -> str:
    """Return the part about a failed gate."""
    return "\n".join(
        (
            f"Gate {failed.gate} did not pass.",
            f"Command: {display_safe(gate.run, max_chars=2_000)}",
            f"Result: {how}",
            "Output:",
            output.rstrip("\n"),
        )
    )


def problems_feedback(problems: Sequence[ContractProblem]) -> str:
    """Return the part about manifest, summary and outputs, one problem a line."""
    lines = [
        f"- {display_safe(each.where, max_chars=300)}: {each.code}: found "
        f"{display_safe(each.found, max_chars=300)}, expected {display_safe(each.expected, max_chars=300)}"
        for each in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"- and {len(problems) - MAX_PROBLEMS} more")
    return "\n".join(("Manifest, summary or outputs do not meet the contract:", *lines))


def changed_feedback() -> str:
    """Return the part about gates that changed what they judged."""
    return (
        "A gate changed code or outputs while it judged them, so its judgement does not count. "
        "The gates run again on what is there now."
    )


def feedback_bytes(parts: Sequence[str], left: int) -> bytes:
    """Join the parts and say how many reruns are left after this one."""
    tail = f"\n\nReruns left after this one: {left}\n"
    body = "\n\n".join(parts).encode()
    if len(body) > MAX_BYTES:
        body = body[:MAX_BYTES].decode(errors="ignore").encode() + b"\n[cut]"
    return body + tail.encode()
