"""A worker without a daemon: drives one run of a workspace beside whoever else does.

The daemon's lock keeps two daemons apart; this shows what keeps two workers
apart when no lock does: leases and their epochs.
"""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

from fusiond.client.discovery import find_workspace
from fusiond.daemon import bootstrap
from fusiond.daemon.assembly import DaemonPlace
from fusiond.daemon.config import Settings
from fusiond.domain.flow import RunMode
from fusiond.domain.ids import RunId, TenantId
from fusiond.execution.chain import RunChain
from fusiond.execution.services import Services
from fusiond.execution.submission.submit import Submission, submit
from tests.crash.points import Killer, plan_of
from tests.waiting import eventually

LEASE_TTL_US = 400_000


def main(root: str, boot: str, run: str) -> int:
    """Drive `run`, or a fresh submission when it is empty; print the run's id and its outcome."""
    return asyncio.run(_drive(root, boot, run))


async def _drive(root: str, boot: str, run: str) -> int:
    killer = Killer(plan_of(dict(os.environ)))

    def wrap(services: Services) -> Services:
        return killer.wrap(replace(services, settings=replace(services.settings, lease_ttl_us=LEASE_TTL_US)))

    place = DaemonPlace(
        workspace=find_workspace(root),
        runtime=os.environ["XDG_RUNTIME_DIR"],
        settings=Settings(),
        environ=dict(os.environ),
        boot=boot,
    )
    parts = await bootstrap.assemble(place, wrap)
    chain = await _chain(parts.services, root, run)
    say(str(chain.run))
    await parts.runs.drive(chain)
    await eventually(lambda: not parts.runs.active, "end of the driver")
    say(f"{chain.state.outcome} {parts.runs.broken}")
    await parts.close()
    return 0


def say(line: str) -> None:
    """Tell whoever started this worker."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _chain(services: Services, root: str, run: str) -> RunChain:
    if run:
        chain = RunChain(services.ledger, services.on_append, RunId(run))
        await chain.load()
        return chain
    asked = Submission(
        flow_path=str(Path(root) / "fusion.yaml"),
        inputs=(),
        mode=RunMode.LIVE,
        revision=None,
        include_dirty=False,
        tenant=TenantId("local"),
        submitted_by="a test",
        search_path="/usr/bin:/bin",
        key="frozen-worker",
    )
    return await submit(services, asked)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
