"""The whole flow file: its top-level keys and the draft that they make."""

from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.sections.contracts import (
    ENTROPY,
    LIMITS,
    REPLAY,
    VERIFICATION,
    EntropyDraft,
    LimitsDraft,
    ReplayDraft,
)
from fusiond.codec.flowfile.sections.gates import PROTECTED_GATES
from fusiond.codec.flowfile.sections.nodes import NODES, NodeDraft
from fusiond.codec.flowfile.sections.things import DATASETS, INPUTS, TOOLCHAINS
from fusiond.codec.flowfile.shape.containers import Closed, Hint, ListOf
from fusiond.codec.flowfile.shape.loose import JsonText
from fusiond.codec.flowfile.shape.shape import Default, Either, Entries, Field, Made
from fusiond.codec.flowfile.shape.texts import ENV_NAME, FILE_PATH, NAME, TENANT, Word
from fusiond.domain.flow import (
    Dataset,
    FlowInput,
    FlowState,
    PinnedFile,
    ProtectedGateSpec,
    Toolchain,
)
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import Determinism
from fusiond.domain.verification import VerificationPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDraft:
    """A flow as declared: what other values decide is None, names may name nothing."""

    name: str
    tenant: str
    state: FlowState
    inputs: tuple[FlowInput, ...]
    datasets: tuple[Dataset, ...]
    determinism: Determinism | None
    replay: ReplayDraft | None
    entropy: EntropyDraft | None
    limits: LimitsDraft | None
    policy: PinnedFile | str | None
    verification: VerificationPolicy
    protected_gates: tuple[ProtectedGateSpec, ...]
    toolchains: tuple[Toolchain, ...]
    env: tuple[str, ...]
    nodes: tuple[NodeDraft, ...]


_FLOW = Field("flow", NAME, "The name of the flow.", required=True)
_TENANT = Field("tenant", TENANT, "Whose runs these are.", default=Default("local", "local"))
_STATE = Field(
    "state",
    Word(FlowState),
    "Only a frozen flow's run may be certified.",
    default=Default(
        FlowState.FROZEN, FlowState.FROZEN.value, "a run pins the flow and every file it names by digest"
    ),
)
_INPUTS = Field("inputs", INPUTS, "What a run is given.")
_DATASETS = Field("datasets", DATASETS, "Data whose bytes are hashed at submit.")
_DETERMINISM = Field(
    "determinism",
    Word(Determinism),
    "How much of a run comes out the same again; else strict without agents and bounded with them.",
)
_REPLAY = Field("replay", REPLAY, "How replay judges differences.", implied=True)
_ENTROPY = Field("entropy", ENTROPY, "Every source of non-determinism, declared.", implied=True)
_LIMITS = Field("limits", LIMITS, "Frozen at run start; nodes may narrow them.", implied=True)
_POLICY: Field[PinnedFile | str] = Field(
    "policy",
    Either(
        Made(FILE_PATH, lambda path, _, __: PinnedFile(path=path)),
        JsonText("tool gate rules: a map", map_only=True, indented=True),
    ),
    "Tool gate rules: a file, or the rules themselves.",
)
_VERIFICATION = Field("verification", VERIFICATION, "How engines' results are arbitrated.", implied=True)
_PROTECTED_GATES = Field("protected_gates", PROTECTED_GATES, "Gates judged outside the agents' reach.")
_TOOLCHAINS = Field("toolchains", TOOLCHAINS, "Toolchains that are probed before any agent starts.")
_ENV = Field(
    "env", ListOf(ENV_NAME, "names", distinct=True), "Environment variables that every attempt is given."
)
_NODES = Field("nodes", NODES, "What runs.", required=True)

_FIELDS: tuple[Field[object], ...] = (
    _FLOW,
    _TENANT,
    _STATE,
    _INPUTS,
    _DATASETS,
    _TOOLCHAINS,
    _ENV,
    _DETERMINISM,
    _REPLAY,
    _ENTROPY,
    _LIMITS,
    _POLICY,
    _VERIFICATION,
    _PROTECTED_GATES,
    _NODES,
)
_HINTS = {
    "name": Hint(suggestion="flow"),
    "steps": Hint(suggestion="nodes"),
    "jobs": Hint(suggestion="nodes"),
    "stages": Hint(suggestion="nodes"),
    "tasks": Hint(suggestion="nodes"),
    "repair_reruns": Hint(suggestion="limits.repair_reruns"),
    "gates": Hint(suggestion="protected_gates", cure="unit gates belong to a node"),
}


def _flow(entries: Entries, _: Report) -> FlowDraft:
    return FlowDraft(
        name=entries.get(_FLOW, ""),
        tenant=entries.get(_TENANT, ""),
        state=entries.get(_STATE, FlowState.DRAFT),
        inputs=entries.get(_INPUTS, ()),
        datasets=entries.get(_DATASETS, ()),
        determinism=entries.get(_DETERMINISM),
        replay=entries.get(_REPLAY),
        entropy=entries.get(_ENTROPY),
        limits=entries.get(_LIMITS),
        policy=entries.get(_POLICY),
        verification=entries.get(_VERIFICATION, VerificationPolicy()),
        protected_gates=entries.get(_PROTECTED_GATES, ()),
        toolchains=entries.get(_TOOLCHAINS, ()),
        env=entries.get(_ENV, ()),
        nodes=entries.get(_NODES, ()),
    )


FLOW = Closed("a flow", _FIELDS, _flow, _HINTS)
