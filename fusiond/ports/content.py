"""The port of the content store: bytes by (tenant, run, reference), hashed both ways."""

from typing import Protocol

from fusiond.domain.digest import ContentRef
from fusiond.domain.ids import RunId, TenantId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.turn import OutputRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a body. `total` is the whole length, `data` starts at `offset`."""

    offset: int
    total: int
    data: bytes


class ContentStore(Protocol):
    """Holds content over 64 KiB and all command output, as files."""

    async def put(self, run: RunId, data: bytes) -> ContentRef:
        """Store bytes durably (fsync) before anybody names them. StorageError on a full disk."""
        ...

    async def get(self, tenant: TenantId, run: RunId, ref: ContentRef) -> bytes:
        """Return the bytes, hashed on the way. NotFoundError, ErasedError, CorruptError."""
        ...

    def log_path(self, run: RunId, name: str) -> str:
        """Return a host path for a live output log; `name` is made of node, attempt and what runs."""
        ...

    async def adopt(self, run: RunId, path: str, hole: tuple[int, int] | None) -> OutputRef:
        """Make a finished log durable content; the digest covers the kept bytes."""
        ...

    async def page(self, tenant: TenantId, run: RunId, ref: OutputRef, offset: int, limit: int) -> Page:
        """Read captured output at a true offset; bytes of the hole are left out, never zeros."""
        ...

    async def sweep(self) -> int:
        """Remove what no finished write left behind (temporary files); return how many."""
        ...
