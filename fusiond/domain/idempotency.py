"""Idempotency keys: what makes a repeated request one act (`interfaces.md`, Wire). Pure."""

from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.ids import TenantId


def act_key(act: str, tenant: TenantId, key: str) -> Digest:
    """Return the key under which an act is on record, unique in the ledger.

    Args:
        act: the act's name; the same client key may serve different acts.
        tenant: whose act it is; tenants cannot meet each other's keys.
        key: made by the client, the same when it asks again.
    """
    return digest_fields(f"fusion.{act}.v1", (tenant.encode(), key.encode()))
