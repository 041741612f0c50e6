"""Results of the methods, where no record of the domain is the result already.

Clients read them tolerantly: a newer daemon may add fields.
"""

from enum import StrEnum

from fusiond.domain.artifacts import FrozenArtifact
from fusiond.domain.digest import Digest
from fusiond.domain.ids import AttemptNumber, CommitId, NodeId, RunId
from fusiond.domain.records import dataclass
from fusiond.domain.steps.record import Step
from fusiond.domain.views import RunDetail, RunSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """The daemon's wall clock."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """What the daemon is and does.

    Args:
        started_us: UTC.
        position: of the last step in the ledger.
        facts: further lines for people, such as the isolation it can give.
    """

    product: str
    pid: int
    started_us: int
    workspace: str
    epoch: str
    position: int
    connections: int
    subscriptions: int
    draining: bool
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef:
    """The run that was made or changed."""

    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """Runs, newest first, all at least as new as `position`: subscribe from there."""

    runs: tuple[RunSummary, ...]
    epoch: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShown:
    """A run as it stands, at least as new as `position`.

    `hints` say what the manifests of running attempts still lack; nothing decides by them.
    """

    detail: RunDetail
    epoch: str
    position: int
    hints: tuple[tuple[NodeId, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSteps:
    """Steps of a run, checked against its chain; none when there are no more by now."""

    run: RunId
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWhy:
    """Why a run is not a success, in one screen.

    Args:
        headline: what failed, one line.
        lines: further facts, one line each.
        output: the end of the output that shows it, untrusted.
        cure: what to do.
    """

    run: RunId
    headline: str
    lines: tuple[str, ...] = ()
    output: bytes = b""
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What `run.merge` did with the result of `run`; with conflict paths it did nothing.

    `unchanged` says that the run's result is the commit it started from.
    """

    run: RunId
    flow: str
    ref: str
    before: CommitId | None
    after: CommitId | None
    fast_forward: bool
    conflict_paths: tuple[str, ...] = ()
    unchanged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One output that is kept. `size` counts what was written; `live` is still growing."""

    node: NodeId
    attempt: AttemptNumber
    what: str
    size: int
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogList:
    """Outputs in the order in which they began."""

    logs: tuple[LogEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyPage:
    """One page of a body: `data` starts at `offset`, the whole is `total` bytes.

    `offset` is past the one that was asked for where bytes were not kept.
    """

    offset: int
    total: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactEntry:
    """One frozen artifact and whose it is."""

    node: NodeId
    attempt: AttemptNumber
    artifact: FrozenArtifact


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactList:
    """Artifacts by node, attempt and path."""

    artifacts: tuple[ArtifactEntry, ...]


class CodeKind(StrEnum):
    """Kinds of entries in a code listing."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeItem:
    """One entry: path, size, media type, digest, nothing else."""

    path: str
    kind: CodeKind
    size: int
    media_type: str
    digest: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeList:
    """The entries of one directory, by path."""

    entries: tuple[CodeItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """A subscription of this connection; pushes carry its number.

    Pushes start after this reply. `epoch` and `position` are the ledger's at this moment.
    """

    subscription: int
    epoch: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A subscription to output; pushes carry its number."""

    subscription: int
