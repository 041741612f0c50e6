"""The flow as declared: records only, no parsing, no resolving.

Field names are those of the flow file (`flow.md`), units are in the names.
`domain.plan` turns a flow into a resolved one; `codec.flowfile` reads the file.
"""

from enum import StrEnum

from fusiond.domain.digest import ContentRef
from fusiond.domain.ids import GateName, NodeId, OutputName, TenantId
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import Determinism, EntropyBudget, ReplayContract
from fusiond.domain.verification import VerificationPolicy


class FlowState(StrEnum):
    """Only a frozen flow's run may be certified."""

    DRAFT = "draft"
    FROZEN = "frozen"
    DEPRECATED = "deprecated"


class DatasetState(StrEnum):
    """Lifecycle of a dataset."""

    EXPERIMENTAL = "experimental"
    FROZEN = "frozen"
    DEPRECATED = "deprecated"


class RunMode(StrEnum):
    """How a run treats effects (`flow.md`, Run modes); `plan` makes no run."""

    DRY_RUN = "dry-run"
    LIVE = "live"
    OBSERVE = "observe"
    UNSAFE = "unsafe"


class NodeKind(StrEnum):
    """What a node runs; the value is the key in the flow file."""

    RUN = "run"
    AGENT = "agent"
    ACP = "acp"
    PROTECTED = "protected"
    APPROVAL = "approval"


class CodeAccess(StrEnum):
    """What a node may do to the code."""

    NONE = "none"
    READ = "read"
    WRITE = "write"


class InputType(StrEnum):
    """Type of a flow input."""

    TEXT = "text"
    FILE = "file"
    JSON = "json"


class Comparison(StrEnum):
    """How replay compares an output."""

    BYTES = "bytes"
    JSON = "json"
    PRESENCE = "presence"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile:
    """A file that the flow names: its workspace-relative path and, once read, its content."""

    path: str
    content: ContentRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowInput:
    """One entry of `inputs:` at the top of the flow. `default` None means required."""

    name: str
    type: InputType = InputType.TEXT
    optional: bool = False
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One entry of `datasets:`; its bytes are hashed at submit."""

    name: str
    path: str
    version: str
    state: DatasetState


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSpec:
    """`compare:` of an output. `ignore` are JSON pointers, only for JSON."""

    how: Comparison = Comparison.BYTES
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """One required or optional output; exactly one of `path` and `collect` is set."""

    name: OutputName
    path: str | None = None
    collect: str | None = None
    media_type: str | None = None
    max_size_bytes: int
    schema: PinnedFile | None = None
    optional: bool = False
    compare: CompareSpec = CompareSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """One input of a node.

    Args:
        name: where it is laid: `$FUSION_INPUTS/<name>`.
        node: whose frozen version is read.
        output: a declared output, or None for `node.*` (all declared) and for extras.
        match: glob over extra artifacts (`from:` + `match:`), else None.
        optional: absence is no failure.
    """

    name: str
    node: NodeId
    output: OutputName | None = None
    match: str | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSpec:
    """Run once per key in a tree of its own; its results are laid read-only."""

    run: str
    key: tuple[str, ...] = ()
    network: bool = True
    timeout_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSpec:
    """A unit gate: a shell command judged by exit code in the attempt's worktree."""

    name: GateName
    run: str
    timeout_us: int
    network: bool = False
    output_cap_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A toolchain the flow needs, such as go ">=1.22"; probed before any agent starts."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Frozen at run start. None means no ceiling was declared.

    `repair_reruns` belongs to the flow alone and holds for each attempt. `parallel` 0
    means one attempt a core of the machine that runs it, so that a plan is the same
    on every machine.
    """

    repair_reruns: int
    attempts: int
    parallel: int
    wall_clock_us: int
    tokens: int | None = None
    cost_uusd: int | None = None
    tool_calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Narrower budgets of one node; never wider, and never the rerun limit."""

    attempts: int | None = None
    wall_clock_us: int | None = None
    tokens: int | None = None
    cost_uusd: int | None = None
    tool_calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork:
    """`run:` a shell command."""

    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWork:
    """`agent:` a governed agent by definition file."""

    definition: PinnedFile
    prompt: str | None = None
    prompt_file: PinnedFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpWork:
    """`acp:` an external agent, by profile or by command (exactly one is set)."""

    profile: str | None = None
    command: tuple[str, ...] = ()
    prompt: str | None = None
    prompt_file: PinnedFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedWork:
    """`protected:` a protected gate, by its name in `protected_gates`."""

    gate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalWork:
    """`approval:` a question to a person; `show` are `node` or `node.output` references."""

    ask: str
    show: tuple[str, ...] = ()


Work = RunWork | AgentWork | AcpWork | ProtectedWork | ApprovalWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One vertex of the flow."""

    id: NodeId
    work: Work
    inputs: tuple[NodeInput, ...] = ()
    needs: tuple[NodeId, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    gates: tuple[GateSpec, ...] = ()
    setup: SetupSpec | None = None
    code: CodeAccess
    network: bool = False
    env: tuple[str, ...] = ()
    timeout_us: int | None = None
    limits: NodeLimits = NodeLimits()

    @property
    def kind(self) -> NodeKind:
        """Return the kind, which is the kind of the work."""
        match self.work:
            case RunWork():
                return NodeKind.RUN
            case AgentWork():
                return NodeKind.AGENT
            case AcpWork():
                return NodeKind.ACP
            case ProtectedWork():
                return NodeKind.PROTECTED
            case ApprovalWork():
                return NodeKind.APPROVAL

    @property
    def dependencies(self) -> tuple[NodeId, ...]:
        """Return the nodes this one waits for, once each, in name order."""
        return tuple(sorted({*self.needs, *(each.node for each in self.inputs)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedGateSpec:
    """One entry of `protected_gates:`; judged in a later stage of the product.

    `adapter`, `expect_base` and `min_level` are kept as declared words.
    """

    name: str
    run: tuple[str, ...]
    inputs: tuple[str, ...]
    good: str | None = None
    scenarios: tuple[str, ...] = ()
    adapter: str = "none"
    expect_base: str = "fail"
    min_level: str = "evidenced"
    setup: SetupSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The declared graph, with every default filled in."""

    name: str
    tenant: TenantId
    state: FlowState
    inputs: tuple[FlowInput, ...] = ()
    datasets: tuple[Dataset, ...] = ()
    determinism: Determinism
    replay: ReplayContract
    entropy: EntropyBudget
    limits: Limits
    policy: PinnedFile | None = None
    policy_inline: str | None = None
    verification: VerificationPolicy = VerificationPolicy()
    protected_gates: tuple[ProtectedGateSpec, ...] = ()
    toolchains: tuple[Toolchain, ...] = ()
    env: tuple[str, ...] = ()
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFlow:
    """A flow whose order is fixed and whose files are pinned; named by its plan hash.

    Args:
        flow: the flow with every default written out and every named file pinned.
        order: node ids, topological with lexical tie-break.
        resolver: version of the rules that filled defaults in.
        explained: `path: reason` of each value that a rule and not the file gave.
    """

    flow: Flow
    order: tuple[NodeId, ...]
    resolver: str
    explained: tuple[tuple[str, str], ...] = ()
