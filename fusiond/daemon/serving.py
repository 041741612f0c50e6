"""One daemon's life: from its parts to a served socket and back.

Owns the order of start and end. Arguments, detaching and exit codes are
`daemon.main`.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine

from fusiond.client.private_dirs import PrivateDirectory
from fusiond.daemon.about import About
from fusiond.daemon.assembly import Assemble, Assembly, DaemonPlace
from fusiond.daemon.lifecycle import StopRequest, WorkspaceLock, stop_on_signals, watch_workspace
from fusiond.daemon.logs import fields
from fusiond.daemon.registry import Registry
from fusiond.daemon.runtime_dir import bind_control_socket, remove_control_socket
from fusiond.daemon.server import Server
from fusiond.daemon.session import Services
from fusiond.daemon.subscriptions import StepHub
from fusiond.domain.ids import WorkspaceId
from fusiond.domain.version import PRODUCT_VERSION

log = logging.getLogger(__name__)


def now_us() -> int:
    """Return UTC wall clock."""
    return time.time_ns() // 1_000


async def serve(
    place: DaemonPlace,
    lock: WorkspaceLock,
    directory: PrivateDirectory,
    assemble: Assemble,
    ready: Callable[[], None],
) -> None:
    """Serve until the end is asked for.

    Args:
        place: where.
        lock: the workspace's, held.
        directory: the runtime directory.
        assemble: makes the parts.
        ready: called once connections are taken.

    Raises:
        FusionError: the start failed; everything is undone.
    """
    stop = StopRequest()
    undo_signals = stop_on_signals(stop)
    try:
        parts = await assemble(place)
        try:
            await _serve_parts(place, lock, directory, parts, stop, ready)
        finally:
            await parts.close()
    finally:
        undo_signals()
    log.info("stopped", extra=fields(reason=stop.reason))


async def _serve_parts(
    place: DaemonPlace,
    lock: WorkspaceLock,
    directory: PrivateDirectory,
    parts: Assembly,
    stop: StopRequest,
    ready: Callable[[], None],
) -> None:
    hub = StepHub(parts.steps)
    await hub.start()
    about = About(stop, now_us(), parts.facts)
    about.bind(parts.handlers)
    registry = Registry(parts.handlers, parts.keyed)
    services = Services(
        product=PRODUCT_VERSION,
        workspace=WorkspaceId(place.workspace.id),
        path=place.workspace.root,
        tenant=place.settings.tenant,
        now_us=now_us,
        registry=registry,
        hub=hub,
        outputs=parts.outputs,
    )
    server = Server(services)
    about.serve(server)
    listening = bind_control_socket(directory)
    try:
        # The parts begin before anybody can ask, so that no request meets half of them.
        await parts.start(hub.announce)
        await server.start(listening)
        lock.tell(directory.path)
        log.info("ready", extra=fields(pid=os.getpid(), product=PRODUCT_VERSION, epoch=hub.epoch))
        ready()
        await watch_workspace(lock, stop)
        log.info("stopping", extra=fields(reason=stop.reason, hurried=stop.hurried))
        await _drain(server, registry, parts, stop, place.settings.drain_us)
    finally:
        listening.close()
        await server.close()
        remove_control_socket(directory)


async def _drain(
    server: Server, registry: Registry, parts: Assembly, stop: StopRequest, drain_us: int
) -> None:
    """Come to rest in order, unless time is up or somebody is in a hurry.

    Reading goes on until everything is at rest, so that whoever follows sees it.
    """

    async def in_order() -> None:
        registry.refuse_mutations()
        await parts.drain()
        await registry.settle()
        await server.drain()

    if not stop.hurried:
        await _first_of(in_order(), stop.wait_hurried(), drain_us)


async def _first_of(
    work: Coroutine[None, None, None], hurry: Coroutine[None, None, None], limit_us: int
) -> None:
    tasks = [asyncio.create_task(work), asyncio.create_task(hurry)]
    done, left = await asyncio.wait(tasks, timeout=limit_us / 1e6, return_when=asyncio.FIRST_COMPLETED)
    for each in left:
        each.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for each in done:
        # What draining found wrong must be seen.
        each.result()
