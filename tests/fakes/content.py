"""The content store in memory; only live logs are files, since a launcher writes them.

`tests/contract` holds it and the real one to one suite. Owns no durability.
"""

import asyncio
import re
from pathlib import Path

from fusiond.domain.digest import ContentRef, Digest, digest_bytes, ref_of
from fusiond.domain.errors import CorruptError, InvalidError, NotFoundError, StorageError
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.steps.turn import OutputRef
from fusiond.ports.content import Page
from fusiond.ports.ledger import SmallContent

MAX_PAGE_BYTES = 1024 * 1024


class MemoryContent:
    """Content of runs; see `ports.content.ContentStore`.

    Args:
        live: an existing directory for live logs.
        small: content that was committed with its steps.
    """

    def __init__(self, live: Path, small: SmallContent) -> None:
        self._live = live
        self._small = small
        self.files: dict[tuple[RunId, Digest], bytes] = {}
        self.full = False

    async def put(self, run: RunId, data: bytes) -> ContentRef:
        """See the port. `full` makes it fail as on a full disk."""
        await asyncio.sleep(0)
        if self.full:
            raise StorageError("the disk is full", state="nothing was stored")
        self.files[run, digest_bytes(data)] = data
        return ref_of(data)

    async def get(self, tenant: TenantId, run: RunId, ref: ContentRef) -> bytes:
        """See the port."""
        await self._check_tenant(tenant, run)
        small = await self._small.small(run, ref)
        return self._file(run, ref) if small is None else small

    def _file(self, run: RunId, ref: ContentRef) -> bytes:
        data = self.files.get((run, ref.digest))
        if data is None:
            raise NotFoundError(f"run {run} has no content {ref.digest[:12]}")
        if ref_of(data) != ref:
            raise CorruptError(f"content {ref.digest[:12]} of run {run} is damaged")
        return data

    def log_path(self, run: RunId, name: str) -> str:
        """See the port."""
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,199}", name):
            raise InvalidError(f"log name {name!r}")
        return str(self._live / f"{run}-{name}.log")

    async def adopt(self, run: RunId, path: str, hole: tuple[int, int] | None) -> OutputRef:
        """See the port."""
        log = Path(path)
        if log.parent != self._live:
            raise InvalidError(f"{path} is no live log")
        if not log.exists():
            raise NotFoundError(f"there is no log {log.name}")
        data = log.read_bytes()
        start, length = hole or (len(data), 0)
        if not 0 <= start <= start + length <= len(data):
            raise InvalidError(f"the log {log.name} has no room for the hole")
        kept = await self.put(run, data[:start] + data[start + length :])
        log.unlink()
        return OutputRef(content=kept, total_bytes=len(data), hole=hole)

    async def page(self, tenant: TenantId, run: RunId, ref: OutputRef, offset: int, limit: int) -> Page:
        """See the port."""
        await self._check_tenant(tenant, run)
        data = self._file(run, ref.content)
        start, length = ref.hole or (ref.total_bytes, 0)
        offset = min(max(offset, 0), ref.total_bytes)
        if start <= offset < start + length:
            offset = start + length
        piece = data[offset:start] if offset < start else data[offset - length :]
        return Page(offset=offset, total=ref.total_bytes, data=piece[: min(max(limit, 0), MAX_PAGE_BYTES)])

    async def sweep(self) -> int:
        """See the port."""
        logs = list(self._live.iterdir())
        for log in logs:
            log.unlink()
        return len(logs)

    async def _check_tenant(self, tenant: TenantId, run: RunId) -> None:
        if not await self._small.belongs(tenant, run):
            raise NotFoundError(f"no run {run} for tenant {tenant}")
