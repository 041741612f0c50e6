"""Rows of `steps` to steps, each checked against the bytes that were hashed.

Owns the check of the chain. Owns no connection: rows come in, steps go out.
"""

from collections.abc import Iterable

from fusiond.codec.steps import StoredStep, step_hash, unseal
from fusiond.domain.digest import Digest
from fusiond.domain.errors import CorruptError, FusionError
from fusiond.domain.ids import RunId
from fusiond.domain.steps.record import Head, Step


def next_steps(rows: Iterable[StoredStep], head: Head, run: RunId) -> list[Step]:
    """Return the steps of consecutive rows of one run.

    Args:
        rows: in order of `seq`.
        head: the place after which the first row must come.
        run: for the errors' text.

    Raises:
        CorruptError: a step is missing or its bytes do not match its hash; names the last
            step that can be trusted.
        NewerError: a step was written by a newer Fusion.
    """
    steps: list[Step] = []
    for stored in rows:
        if stored.seq != head.seq + 1:
            raise broken(run, head.seq, f"step {stored.seq}", f"step {head.seq + 1}")
        if stored.prev_hash != head.hash:
            raise broken(
                run,
                head.seq,
                f"step {stored.seq} follows {stored.prev_hash[:12]}",
                f"{head.hash[:12]}, the hash of step {head.seq}",
            )
        steps.append(checked_step(stored, trusted=head.seq))
        head = Head(seq=stored.seq, hash=Digest(stored.hash))
    return steps


def checked_hash(stored: StoredStep, *, trusted: int) -> Digest:
    """Return the step's hash, or raise CorruptError when it is not that of its stored values."""
    found = step_hash(stored)
    if found != stored.hash:
        raise broken(
            RunId(stored.run),
            trusted,
            f"step {stored.seq} hashes to {found[:12]}",
            f"{stored.hash[:12]} as recorded",
        )
    return found


def checked_step(stored: StoredStep, *, trusted: int) -> Step:
    """Return one step whose hash matches its stored values; errors as in `next_steps`."""
    checked_hash(stored, trusted=trusted)
    run = RunId(stored.run)
    try:
        return unseal(stored)
    except FusionError as error:
        error.state = _state(run, trusted)
        error.fields |= {"run": run, "seq": str(stored.seq), "trusted_seq": str(trusted)}
        raise


def broken(run: RunId, trusted: int, found: str, expected: str) -> CorruptError:
    """Return the error of a chain that breaks after step `trusted`."""
    return CorruptError(
        f"the ledger of run {run} is damaged: {found}",
        expected=expected,
        state=_state(run, trusted),
        cure="restore the ledger from a backup",
        fields={"run": run, "seq": str(trusted + 1), "trusted_seq": str(trusted)},
    )


def _state(run: RunId, trusted: int) -> str:
    return f"step {trusted} of run {run}" if trusted else f"run {run} before its first step"
