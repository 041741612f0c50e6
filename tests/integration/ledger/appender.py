"""A process of its own that appends: `python -m tests.integration.ledger.appender PATH RUN COUNT`.

Prints the seq and hash of the run's head after each acknowledged append.
"""

import asyncio
import sys
from pathlib import Path

from fusiond.domain.errors import ConflictError
from fusiond.domain.ids import RunId
from fusiond.domain.steps.record import Head
from tests.integration.ledger.ledger_places import begin, open_ledger, turns


async def append(path: Path, run: RunId, count: int) -> None:
    """Append `count` steps to a run, whoever else appends to it."""
    async with open_ledger(path) as ledger:
        left = count
        while left:
            steps = await ledger.read(run, after_seq=0, limit=10_000)
            head = Head(seq=steps[-1].seq, hash=steps[-1].hash) if steps else Head()
            try:
                head = await turns(ledger, head, 1, run) if steps else await begin(ledger, run)
            except ConflictError:
                # Somebody else was faster; the run is read again.
                continue
            left -= 1
            sys.stdout.write(f"{head.seq} {head.hash}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(append(Path(sys.argv[1]), RunId(sys.argv[2]), int(sys.argv[3])))
