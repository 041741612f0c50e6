"""The plan hash: what names a resolved flow."""

from dataclasses import replace

from fusiond.codec.canonical import canonical_record
from fusiond.codec.records import unstructure
from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.flow import ResolvedFlow

TAG = "fusion.plan.v1"


def plan_hash(plan: ResolvedFlow) -> Digest:
    """Return the digest of a plan: of everything in it but who gave a value, the file or a rule."""
    return digest_fields(TAG, [plan_bytes(replace(plan, explained=()))])


def plan_bytes(plan: ResolvedFlow) -> bytes:
    """Return the canonical bytes of a plan, explanations included."""
    return canonical_record(unstructure(plan))
