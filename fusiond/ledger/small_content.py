"""The port `SmallContent` over SQLite: bytes committed with the steps that name them."""

from fusiond.domain.digest import ContentRef, digest_bytes
from fusiond.domain.errors import CorruptError, ErasedError
from fusiond.domain.ids import RunId, TenantId
from fusiond.ledger.database import Database
from fusiond.ledger.failures import FAILURES, as_fusion_error


class SqliteSmallContent:
    """Content of at most 64 KiB; see `ports.ledger.SmallContent`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def belongs(self, tenant: TenantId, run: RunId) -> bool:
        """See the port."""
        try:
            rows = await self._database.reader.execute_fetchall(
                "SELECT 1 FROM run_head WHERE run_id = ? AND tenant = ?", (run, tenant)
            )
        except FAILURES as error:
            raise as_fusion_error(error) from error
        return bool(list(rows))

    async def small(self, run: RunId, ref: ContentRef) -> bytes | None:
        """See the port. Also CorruptError when the bytes are not those that the digest names."""
        try:
            rows = list(
                await self._database.reader.execute_fetchall(
                    "SELECT bytes FROM content WHERE run_id = ? AND digest = ?", (run, ref.digest)
                )
            )
        except FAILURES as error:
            raise as_fusion_error(error) from error
        if not rows:
            return None
        data: bytes | None = rows[0][0]
        if data is None:
            raise ErasedError(
                f"content {ref.digest[:12]} of run {run} was erased", fields={"digest": ref.digest}
            )
        if len(data) != ref.size or digest_bytes(data) != ref.digest:
            raise CorruptError(
                f"content {ref.digest[:12]} of run {run} is damaged",
                expected=f"{ref.size} bytes of that digest",
                cure="restore the ledger from a backup",
                fields={"run": run, "digest": ref.digest},
            )
        return data
