"""The digests that a trace is made of: the codec's half of `domain.finalize`."""

from collections.abc import Iterable

from fusiond.codec.canonical import canonical_record
from fusiond.codec.records import unstructure
from fusiond.codec.steps import comparison_digest
from fusiond.domain.digest import Digest, digest_fields
from fusiond.domain.steps.record import Payload

RECORDS_TAG = "fusion.trace.records.v1"


class TraceDigester:
    """See `domain.finalize.Digester`."""

    def payload(self, payload: Payload) -> Digest:
        """Return the digest over what is compared of a payload."""
        return comparison_digest(payload)

    def records(self, records: Iterable[object]) -> Digest:
        """Return the digest over whole records, in order; each by its canonical bytes."""
        return digest_fields(RECORDS_TAG, [canonical_record(unstructure(each)) for each in records])
