"""The adapter of the content port: who may read what, and in which thread.

Small content lives in the ledger's database and is asked for first; the rest is
files (`content.objects`). Every read names tenant and run.
"""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from fusiond.content.objects import Objects, loading, storing
from fusiond.content.outputs import adopt_log, span
from fusiond.domain.digest import ContentRef, ref_of
from fusiond.domain.errors import InvalidError, NotFoundError
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.steps.turn import OutputRef
from fusiond.ports.content import Page
from fusiond.ports.ledger import SmallContent

MAX_PAGE_BYTES = 1024 * 1024
MAX_VERIFIED = 10_000
"""Outputs remembered as hashed; beyond, all are hashed once more."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,199}\Z")


class FileContentStore:
    """Content over 64 KiB and all command output.

    Args:
        marker: the workspace's `.fusion` directory.
        small: content that was committed with its steps.
        token: gives a fresh word for a temporary file's name.
    """

    def __init__(self, marker: Path, small: SmallContent, token: Callable[[], str]) -> None:
        self._objects = Objects(marker / "content")
        self._live = marker / "live"
        self._small = small
        self._token = token
        self._verified: set[tuple[str, int, int]] = set()
        self._objects.create()
        self._live.mkdir(mode=0o700, exist_ok=True)

    async def put(self, run: RunId, data: bytes) -> ContentRef:
        """Store bytes durably before anybody names them."""
        ref = ref_of(data)

        def work() -> None:
            with storing(f"content {ref.digest[:12]} of run {run}"):
                self._objects.write(run, data, ref, self._token())

        await asyncio.to_thread(work)
        return ref

    async def get(self, tenant: TenantId, run: RunId, ref: ContentRef) -> bytes:
        """Return the bytes, hashed on the way."""
        await self._check_tenant(tenant, run)
        small = await self._small.small(run, ref)
        if small is not None:
            return small
        return await asyncio.to_thread(self._read, run, ref)

    def _read(self, run: RunId, ref: ContentRef) -> bytes:
        with loading(f"content {ref.digest[:12]} of run {run}"):
            return self._objects.read(run, ref)

    def log_path(self, run: RunId, name: str) -> str:
        """Return the host path of a live output log."""
        if not _NAME.match(name):
            raise InvalidError(f"log name {name!r}", expected="lower-case letters, digits, - and _")
        return str(self._live / f"{run}-{name}.log")

    async def adopt(self, run: RunId, path: str, hole: tuple[int, int] | None) -> OutputRef:
        """Make a finished log durable content."""
        log = Path(path)
        if log.parent != self._live:
            raise InvalidError(f"{path} is no live log", expected=f"a file in {self._live}")

        def work() -> OutputRef:
            with storing(f"output {log.name}"):
                try:
                    return adopt_log(self._objects, run, log, hole, self._token())
                except FileNotFoundError:
                    raise NotFoundError(f"there is no log {log.name}") from None

        return await asyncio.to_thread(work)

    async def page(self, tenant: TenantId, run: RunId, ref: OutputRef, offset: int, limit: int) -> Page:
        """Read a page of captured output at a true offset.

        A page that begins in the hole begins at its end instead, and its `offset`
        says so. The whole is hashed on its first page, and again when the file changed.
        """
        await self._check_tenant(tenant, run)
        return await asyncio.to_thread(self._page, run, ref, offset, min(max(limit, 0), MAX_PAGE_BYTES))

    def _page(self, run: RunId, ref: OutputRef, offset: int, limit: int) -> Page:
        with loading(f"output {ref.content.digest[:12]} of run {run}"):
            descriptor = self._objects.open(run, ref.content.digest)
            try:
                self._verify(run, ref.content, descriptor)
                true_offset, place, length = span(ref, offset, limit)
                data = os.pread(descriptor, length, place)
            finally:
                os.close(descriptor)
        return Page(offset=true_offset, total=ref.total_bytes, data=data)

    def _verify(self, run: RunId, ref: ContentRef, descriptor: int) -> None:
        facts = os.fstat(descriptor)
        known = (ref.digest, facts.st_ino, facts.st_mtime_ns)
        if known not in self._verified:
            self._objects.verify(run, ref, descriptor)
            if len(self._verified) >= MAX_VERIFIED:
                self._verified.clear()
            self._verified.add(known)

    async def sweep(self) -> int:
        """Remove unfinished writes and the logs of processes that no longer exist."""
        return await asyncio.to_thread(self._sweep)

    def _sweep(self) -> int:
        with storing("sweep of content"):
            logs = list(self._live.iterdir())
            for log in logs:
                log.unlink()
            return len(logs) + self._objects.sweep()

    async def _check_tenant(self, tenant: TenantId, run: RunId) -> None:
        if not await self._small.belongs(tenant, run):
            raise NotFoundError(f"no run {run} for tenant {tenant}", cure="`fusion ls` lists runs")
