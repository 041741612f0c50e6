"""Steps as lines for a person who watches a run in a shell. Pure.

One line a fact worth seeing, in the words of `fusion show`. Everything in a
step is made safe here.
"""

from collections.abc import Mapping

from fusiond.cli.output import as_int, as_map, as_maps, as_text, as_texts, badge, coloured, safe, took
from fusiond.codec.packed import Plain

Step = Mapping[str, Plain]

STDERR = 2


def line_of(step: Step) -> str | None:
    """Return the line for one step, None when it needs none."""
    payload = as_map(step.get("payload"))
    writer = _WRITERS.get(as_text(payload.get("kind")))
    if writer is None:
        return None
    text = writer(payload)
    if not text:
        return None
    node, attempt = step.get("node"), step.get("attempt")
    if node is None:
        return text
    where = f"{safe(node)}" + (f" #{attempt}" if isinstance(attempt, int) and attempt > 1 else "")
    return f"  {where:<16} {text}"


def _run_started(payload: Step) -> str:
    nodes = [as_text(each.get("node")) for each in as_maps(payload.get("stages"))]
    return f"{badge('running', stream=STDERR)}  {safe(payload.get('flow'))}: {', '.join(map(safe, nodes))}"


def _run_parked(payload: Step) -> str:
    return f"{badge('parked', stream=STDERR)}  {safe(payload.get('detail'))}"


def _run_resumed(payload: Step) -> str:
    return "resumed after a restart" if payload.get("cause") == "restart" else "resumed"


def _run_cancelled(_: Step) -> str:
    return badge("cancelling", stream=STDERR)


def _run_finished(payload: Step) -> str:
    conflicts = as_texts(payload.get("conflict_paths"))
    told = f"  conflicts in {', '.join(map(safe, conflicts))}" if conflicts else ""
    return badge(payload.get("outcome"), stream=STDERR) + told


def _attempt_started(payload: Step) -> str:
    return f"attempt started  [{safe(payload.get('isolation'))}]"


def _turn_started(payload: Step) -> str:
    turn = as_int(payload.get("turn"))
    return "" if turn == 1 else f"the same session again (turn {turn})"


def _tool_returned(payload: Step) -> str:
    return f"command {_ended(payload.get('process'), payload)}"


def _gate_finished(payload: Step) -> str:
    return f"gate {safe(payload.get('gate'))} {_ended(payload.get('outcome'), payload)}"


def _ended(outcome: object, payload: Step) -> str:
    code, signal = payload.get("exit_code"), payload.get("signal")
    how = f" ({code})" if isinstance(code, int) and code else ""
    how += f" (signal {signal})" if isinstance(signal, int) else ""
    survivors = as_int(payload.get("survivors"))
    left = f", {survivors} left-over process{'' if survivors == 1 else 'es'} ended" if survivors else ""
    return f"{badge(outcome, stream=STDERR)}{how}  {took(payload.get('duration_us'))}{left}"


def _rerun_requested(payload: Step) -> str:
    what = payload.get("gate") or payload.get("cause")
    text = f"rerun {as_int(payload.get('number'))}: feedback on {safe(what)} goes back"
    return coloured(text, "yellow", stream=STDERR)


def _validated(payload: Step) -> str:
    problems = as_texts(payload.get("problems"))
    if not problems:
        return ""
    listed = ", ".join(map(safe, dict.fromkeys(problems)))
    return coloured(f"contract not met: {listed}", "yellow", stream=STDERR)


def _violation(payload: Step) -> str:
    return coloured(f"! {safe(payload.get('detail'))}", "red", stream=STDERR)


def _attempt_failed(payload: Step) -> str:
    reason, detail = as_text(payload.get("reason")), as_text(payload.get("detail"))
    word = "cancelled" if reason == "cancelled" else "failed"
    return f"{badge(word, stream=STDERR)}  attempt: {safe(detail or reason)}"


def _attempt_frozen(payload: Step) -> str:
    count = len(as_maps(payload.get("artifacts")))
    return f"frozen: {count} artifact{'' if count == 1 else 's'}"


def _stage_finished(payload: Step) -> str:
    told = as_text(payload.get("block")) or as_text(payload.get("dependency"))
    detail = as_text(payload.get("detail"))
    paths = as_texts(payload.get("conflict_paths"))
    parts = [part for part in (told, detail, ", ".join(paths)) if part]
    return badge(payload.get("outcome"), stream=STDERR) + (f"  {safe(': '.join(parts))}" if parts else "")


_WRITERS = {
    "run_started": _run_started,
    "run_parked": _run_parked,
    "run_resumed": _run_resumed,
    "run_cancelled": _run_cancelled,
    "run_finished": _run_finished,
    "attempt_started": _attempt_started,
    "turn_started": _turn_started,
    "tool_returned": _tool_returned,
    "unit_gate_finished": _gate_finished,
    "rerun_requested": _rerun_requested,
    "artifacts_validated": _validated,
    "violation_recorded": _violation,
    "attempt_failed": _attempt_failed,
    "attempt_frozen": _attempt_frozen,
    "stage_finished": _stage_finished,
}
