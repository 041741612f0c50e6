"""Opening the launcher: finding out which walls work here, while the rest of the daemon still loads.

The second of the two modules of the daemon that name an adapter, beside `daemon.bootstrap`:
the probe waits for processes of its own, and that is time in which modules can be loaded.
"""

import asyncio
import logging
from pathlib import Path

from fusiond.daemon.assembly import DaemonPlace
from fusiond.daemon.logs import fields
from fusiond.sandbox.compiled import compile_inside
from fusiond.sandbox.host import this_host
from fusiond.sandbox.launcher import SandboxLauncher
from fusiond.sandbox.probe import ProbeFinding, open_launcher

log = logging.getLogger(__name__)

Walled = tuple[SandboxLauncher, tuple[ProbeFinding, ...]]
"""The launcher with the best walls that work here, and what was tried on the way."""


async def open_walls(place: DaemonPlace) -> Walled:
    """Probe this host and return its launcher."""
    home = Path(place.environ.get("HOME") or "/nonexistent")
    await asyncio.to_thread(compile_inside)
    launcher, findings = await open_launcher(this_host(home, Path(place.runtime)))
    for each in findings:
        log.info("probed", extra=fields(program=each.walls.program, problem=each.problem))
    return launcher, findings
