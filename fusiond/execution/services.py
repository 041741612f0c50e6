"""What execution works with: the ports, bundled, and the settings of this daemon.

Nothing here does anything. `daemon.bootstrap` fills it with adapters, tests
fill it with fakes.
"""

from collections.abc import Callable

from fusiond.domain.ids import WorkerId, WorkspaceId
from fusiond.domain.records import dataclass
from fusiond.ports.clock import Clock, Randomness
from fusiond.ports.content import ContentStore
from fusiond.ports.launcher import Launcher
from fusiond.ports.ledger import Appended, Ledger, StageQueue
from fusiond.ports.snapshots import Documents, Snapshots
from fusiond.ports.watcher import Watcher
from fusiond.ports.workspace import Checkout, CodeEvidence, Results, SetupCache, Workspace

OnAppend = Callable[[Appended], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one daemon.

    Args:
        workspace: whose attempts these are; part of each process's marker.
        worker: owner of the leases taken here: boot id and worker.
        root: host path of the workspace, for reading flow files.
        lease_ttl_us: how long a claim holds without renewal.
        environment: variables of the daemon that a flow's `env:` may name.
        cores: how many stages of a run go on at once where its flow does not say.
        parallel: how many attempts of all runs together may be at work at once.
        attempt_program: host directory with `fusion-attempt`, laid read-only.
        last_alive_us: when an earlier daemon was last known to be alive, UTC; 0 for never.
    """

    workspace: WorkspaceId
    worker: WorkerId
    root: str
    lease_ttl_us: int
    environment: tuple[tuple[str, str], ...]
    cores: int
    parallel: int
    attempt_program: str
    last_alive_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Every port that execution uses. `on_append` is told of each commit, in order of a run."""

    ledger: Ledger
    queue: StageQueue
    content: ContentStore
    workspace: Workspace
    checkout: Checkout
    results: Results
    setups: SetupCache
    code: CodeEvidence
    snapshots: Snapshots
    documents: Documents
    launcher: Launcher
    watcher: Watcher
    clock: Clock
    randomness: Randomness
    settings: Settings
    on_append: OnAppend
