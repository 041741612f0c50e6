"""The tables of `state.db`, the triggers that guard them, and the migrations.

Owns every DDL statement. The rules that no writer may break live here as
triggers, so that they hold for every process and every future writer: place
in the chain, fence, claims, immutability (`engine.md`, Ledger and Leases).
A migration is never edited once released; a change is a new one.
"""

APPLICATION_ID = 0x46555351
"""`PRAGMA application_id`, so that another program's database is not taken for ours."""

# What the triggers below say when they refuse; `ledger.failures` reads it back.
REFUSED_PLACE = "fusion:place"
REFUSED_POSITION = "fusion:position"
REFUSED_FENCE = "fusion:fence"
REFUSED_CLAIM = "fusion:claim"
REFUSED_CHANGE = "fusion:immutable"

INBOX_COLUMNS = (
    "position",
    "run_id",
    "seq",
    "kind",
    "node",
    "attempt",
    "payload",
    "refs",
    "labels",
    "cost_uusd",
    "idempotency_key",
    "at_us",
    "prev_hash",
    "hash",
    "epoch",
    "content_digest",
    "content_bytes",
    "claim_owner",
    "claim_now_us",
    "claim_expires_us",
)
"""The columns of the view `inbox`, through which one INSERT writes steps, content and claims.

A row is a step (`seq` set), content (`content_digest` set), both, or a claim (`claim_owner`
set). One statement in autocommit is one transaction and one hop to SQLite's thread.
"""

# A step's hash does not tell NULL from the empty string, so no column may hold both.
_STEPS = """
CREATE TABLE steps (
    position INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0),
    kind TEXT NOT NULL,
    node TEXT CHECK (node <> ''),
    attempt INTEGER,
    payload BLOB NOT NULL,
    refs TEXT NOT NULL,
    labels TEXT NOT NULL,
    cost_uusd INTEGER NOT NULL,
    idempotency_key TEXT CHECK (idempotency_key <> ''),
    at_us INTEGER NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    epoch INTEGER,
    UNIQUE (run_id, seq)
) STRICT
"""

_STEPS_KEY = """
CREATE UNIQUE INDEX steps_idempotency_key ON steps (idempotency_key) WHERE idempotency_key IS NOT NULL
"""

_RUN_HEAD = """
CREATE TABLE run_head (
    run_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    seq INTEGER NOT NULL,
    hash TEXT NOT NULL,
    last_kind TEXT NOT NULL,
    started_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    finished INTEGER NOT NULL
) STRICT, WITHOUT ROWID
"""

_RUN_HEAD_OPEN = "CREATE INDEX run_head_open ON run_head (started_us) WHERE finished = 0"

# `expires_us` 0 means released; the epoch stays, so that it never counts from 1 again.
_LEASE = """
CREATE TABLE lease (
    run_id TEXT NOT NULL,
    node TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    PRIMARY KEY (run_id, node)
) STRICT, WITHOUT ROWID
"""

_LEASE_EXPIRY = "CREATE INDEX lease_expiry ON lease (expires_us) WHERE expires_us > 0"

# `bytes` NULL means erased; the row stays, so that a reader is told so.
_CONTENT = """
CREATE TABLE content (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    bytes BLOB,
    UNIQUE (run_id, digest)
) STRICT
"""

_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"

_STEPS_FENCE = """
CREATE TRIGGER steps_fence BEFORE INSERT ON steps
WHEN NEW.epoch IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM lease
    WHERE run_id = NEW.run_id AND node = NEW.node AND epoch = NEW.epoch AND expires_us > 0
)
BEGIN
    SELECT RAISE(ABORT, 'fusion:fence');
END
"""

# Readers follow the ledger by position, so a step may never appear behind one they have seen.
_STEPS_POSITION = """
CREATE TRIGGER steps_position AFTER INSERT ON steps
WHEN NEW.position <> (SELECT max(position) FROM steps)
BEGIN
    SELECT RAISE(ABORT, 'fusion:position');
END
"""

_STEPS_FIRST = """
CREATE TRIGGER steps_first AFTER INSERT ON steps WHEN NEW.seq = 1
BEGIN
    SELECT RAISE(ABORT, 'fusion:place') WHERE NEW.prev_hash <> '0000000000000000000000000000000000000000000000000000000000000000';
    INSERT INTO run_head (run_id, tenant, seq, hash, last_kind, started_us, updated_us, finished)
    VALUES (
        NEW.run_id,
        json_extract(CAST(NEW.payload AS TEXT), '$.compared.tenant'),
        1,
        NEW.hash,
        NEW.kind,
        NEW.at_us,
        NEW.at_us,
        0
    );
END
"""

_STEPS_NEXT = """
CREATE TRIGGER steps_next AFTER INSERT ON steps WHEN NEW.seq > 1
BEGIN
    UPDATE run_head SET
        seq = NEW.seq,
        hash = NEW.hash,
        last_kind = NEW.kind,
        updated_us = NEW.at_us,
        finished = finished OR NEW.kind = 'run_finished'
    WHERE run_id = NEW.run_id AND seq = NEW.seq - 1 AND hash = NEW.prev_hash;
    SELECT RAISE(ABORT, 'fusion:place') WHERE changes() <> 1;
END
"""

# An erasure and its record are one act (`engine.md`, Ledger).
_STEPS_ERASE = """
CREATE TRIGGER steps_erase AFTER INSERT ON steps WHEN NEW.kind = 'content_erased'
BEGIN
    UPDATE content SET bytes = NULL
    WHERE run_id = NEW.run_id AND digest IN (
        SELECT value FROM json_each(CAST(NEW.payload AS TEXT), '$.compared.digests')
    );
END
"""

_STEPS_UPDATE = """
CREATE TRIGGER steps_update BEFORE UPDATE ON steps
BEGIN
    SELECT RAISE(ABORT, 'fusion:immutable');
END
"""

_STEPS_DELETE = """
CREATE TRIGGER steps_delete BEFORE DELETE ON steps
BEGIN
    SELECT RAISE(ABORT, 'fusion:immutable');
END
"""

_LEASE_UPDATE = """
CREATE TRIGGER lease_update BEFORE UPDATE ON lease
WHEN NEW.epoch < OLD.epoch OR NEW.epoch > OLD.epoch + 1
BEGIN
    SELECT RAISE(ABORT, 'fusion:claim');
END
"""

_LEASE_DELETE = """
CREATE TRIGGER lease_delete BEFORE DELETE ON lease
BEGIN
    SELECT RAISE(ABORT, 'fusion:immutable');
END
"""

_INBOX = f"""
CREATE VIEW inbox AS SELECT {", ".join(f"NULL AS {name}" for name in INBOX_COLUMNS)} WHERE 0
"""

_INBOX_STEP = """
CREATE TRIGGER inbox_step INSTEAD OF INSERT ON inbox WHEN NEW.seq IS NOT NULL
BEGIN
    INSERT INTO steps (
        position, run_id, seq, kind, node, attempt, payload, refs, labels, cost_uusd,
        idempotency_key, at_us, prev_hash, hash, epoch
    ) VALUES (
        NEW.position, NEW.run_id, NEW.seq, NEW.kind, NEW.node, NEW.attempt, NEW.payload, NEW.refs,
        NEW.labels, NEW.cost_uusd, NEW.idempotency_key, NEW.at_us, NEW.prev_hash, NEW.hash, NEW.epoch
    );
END
"""

# Bytes that were erased stay erased: DO NOTHING also where `bytes` is NULL.
_INBOX_CONTENT = """
CREATE TRIGGER inbox_content INSTEAD OF INSERT ON inbox WHEN NEW.content_digest IS NOT NULL
BEGIN
    INSERT INTO content (run_id, digest, bytes)
    VALUES (NEW.run_id, NEW.content_digest, NEW.content_bytes)
    ON CONFLICT DO NOTHING;
END
"""

# The claimer read the lease and computed `epoch` by `domain.leases`; this holds it to what it read.
_INBOX_CLAIM = """
CREATE TRIGGER inbox_claim INSTEAD OF INSERT ON inbox WHEN NEW.claim_owner IS NOT NULL
BEGIN
    INSERT INTO lease (run_id, node, owner, epoch, expires_us)
    VALUES (NEW.run_id, NEW.node, NEW.claim_owner, NEW.epoch, NEW.claim_expires_us)
    ON CONFLICT (run_id, node) DO UPDATE SET
        owner = excluded.owner,
        epoch = excluded.epoch,
        expires_us = excluded.expires_us
    WHERE lease.epoch = excluded.epoch - 1
        AND (lease.owner = excluded.owner OR lease.expires_us <= NEW.claim_now_us);
    SELECT RAISE(ABORT, 'fusion:claim') WHERE changes() <> 1;
END
"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        _STEPS,
        _STEPS_KEY,
        _RUN_HEAD,
        _RUN_HEAD_OPEN,
        _LEASE,
        _LEASE_EXPIRY,
        _CONTENT,
        _META,
        _STEPS_FENCE,
        _STEPS_POSITION,
        _STEPS_FIRST,
        _STEPS_NEXT,
        _STEPS_ERASE,
        _STEPS_UPDATE,
        _STEPS_DELETE,
        _LEASE_UPDATE,
        _LEASE_DELETE,
        _INBOX,
        _INBOX_STEP,
        _INBOX_CONTENT,
        _INBOX_CLAIM,
    ),
)
"""Number n (from 1) brings the schema from version n - 1 to n; the version is `PRAGMA user_version`."""

SCHEMA_VERSION = len(MIGRATIONS)
