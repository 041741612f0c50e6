"""Section of nodes: what runs, what it reads and may do. One table of keys by kind.

What depends on other nodes or on the flow's limits is judged in `rules` and
filled in by `defaults`; a draft holds None for what the file leaves out.
"""

from fusiond.codec.canonical import JsonValue
from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.tree import quoted
from fusiond.codec.flowfile.sections.contracts import NODE_LIMITS, RERUNS_BELONG_TO_FLOW
from fusiond.codec.flowfile.sections.gates import GATES, SETUP
from fusiond.codec.flowfile.sections.outputs import OUTPUTS
from fusiond.codec.flowfile.shape.containers import Closed, Hint, ListOf, MapOf, closed_schema
from fusiond.codec.flowfile.shape.shape import Default, Either, Entries, Field, JsonSchema, Made
from fusiond.codec.flowfile.shape.texts import (
    ARGUMENT,
    COMMAND,
    ENV_NAME,
    FILE_PATH,
    GLOB,
    NAME,
    NODE_ID,
    PROSE,
    Flag,
    Reference,
    ReferenceText,
    Word,
)
from fusiond.codec.flowfile.shape.units import DURATION
from fusiond.domain.flow import (
    AcpWork,
    AgentWork,
    ApprovalWork,
    CodeAccess,
    GateSpec,
    NodeKind,
    NodeLimits,
    OutputSpec,
    PinnedFile,
    ProtectedWork,
    RunWork,
    SetupSpec,
    Work,
)
from fusiond.domain.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDraft:
    """One input of a node as declared.

    Args:
        name: where it is laid.
        node: as written; may name no node.
        output: a name, `*`, or None for extras.
        match: glob over extras.
        optional: as declared, or None.
    """

    name: str
    node: str
    output: str | None
    match: str | None
    optional: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDraft:
    """A node as declared; `work` None where its kind could not be read."""

    id: str
    kind: NodeKind | None
    work: Work | None
    inputs: tuple[InputDraft, ...]
    needs: tuple[str, ...]
    outputs: tuple[OutputSpec, ...]
    gates: tuple[GateSpec, ...]
    setup: SetupSpec | None
    code: CodeAccess | None
    network: bool | None
    env: tuple[str, ...]
    timeout_us: int | None
    limits: NodeLimits


_FROM = Field("from", NODE_ID, "The node whose extra artifacts are read; it must be in needs.", required=True)
_MATCH = Field("match", GLOB, "A glob over the names of extra artifacts.", required=True)
_INPUT_OPTIONAL = Field(
    "optional", Flag(), "That nothing matches is no failure.", default=Default(value=False, shown=False)
)


def _referenced(reference: Reference, spot: Spot, _: Report) -> InputDraft:
    return InputDraft(name=spot.name, node=reference.node, output=reference.output, match=None, optional=None)


def _matched(entries: Entries, _: Report) -> InputDraft:
    return InputDraft(
        name=entries.spot.name,
        node=entries.get(_FROM, ""),
        output=None,
        match=entries.get(_MATCH, ""),
        optional=entries.get(_INPUT_OPTIONAL, otherwise=False),
    )


NODE_INPUTS = MapOf(
    NAME,
    Either(
        Made(ReferenceText(whole=True, bare=False), _referenced),
        Closed("an input from extra artifacts", (_FROM, _MATCH, _INPUT_OPTIONAL), _matched),
    ),
    "inputs",
)

_PROFILE = Field("profile", NAME, "The name of an agent profile.")
_COMMAND = Field("command", ListOf(ARGUMENT, "arguments", least=1), "The agent's command, as arguments.")


def _acp(entries: Entries, _: Report) -> AcpWork:
    return AcpWork(profile=entries.get(_PROFILE), command=entries.get(_COMMAND, ()))


_ACP = Field(
    "acp",
    Either(
        Made(NAME, lambda profile, _, __: AcpWork(profile=profile)),
        Closed("an agent", (_PROFILE, _COMMAND), _acp, one_of=("profile", "command")),
    ),
    "An external coding agent over the Agent Client Protocol, by profile or by command.",
)
_RUN = Field("run", COMMAND, "A shell command, run in the attempt's worktree.")
_AGENT = Field("agent", FILE_PATH, "The definition of a governed agent.")
_PROTECTED = Field("protected", NAME, "A protected gate, by name: it judges the merge of what it needs.")
_ASK = Field("ask", PROSE, "The question; may hold templates.", required=True)
_SHOW = Field(
    "show",
    ListOf(ReferenceText(whole=False, bare=True), "nodes or outputs", distinct=True),
    "What the approver is shown.",
    default=Default((), []),
)


def _approval(entries: Entries, _: Report) -> ApprovalWork:
    shown = (
        each.node if each.output is None else f"{each.node}.{each.output}" for each in entries.get(_SHOW, ())
    )
    return ApprovalWork(ask=entries.get(_ASK, ""), show=tuple(shown))


_APPROVAL = Field("approval", Closed("an approval", (_ASK, _SHOW), _approval), "A question to a person.")

_INPUTS = Field("inputs", NODE_INPUTS, "Frozen versions that the node reads; each makes a dependency.")
_NEEDS = Field("needs", ListOf(NODE_ID, "nodes", distinct=True), "Nodes that this one waits for.")
_PROMPT = Field("prompt", PROSE, "What the agent is asked; may hold templates.")
_PROMPT_FILE = Field("prompt_file", FILE_PATH, "A file with the prompt; may hold templates.")
_SETUP = Field("setup", SETUP, "Run once per key, cached, not writable by agents.")
_GATES = Field("gates", GATES, "Unit gates, in order.")
_OUTPUTS = Field("outputs", OUTPUTS, "What the node must produce.")
_CODE = Field(
    "code", Word(CodeAccess), "What it may do to the code: agents write, commands read unless it says."
)
_NETWORK = Field("network", Flag(), "It may reach the network: agents may, commands may not unless it says.")
_ENV = Field("env", ListOf(ENV_NAME, "names", distinct=True), "Environment variables that it is given.")
_TIMEOUT = Field("timeout", DURATION, "When an attempt is stopped; else the wall clock alone.")
_LIMITS = Field("limits", NODE_LIMITS, "Narrower limits than the flow's.")

_KIND_FIELDS: dict[NodeKind, Field[object]] = {
    NodeKind.RUN: _RUN,
    NodeKind.AGENT: _AGENT,
    NodeKind.ACP: _ACP,
    NodeKind.PROTECTED: _PROTECTED,
    NodeKind.APPROVAL: _APPROVAL,
}
_WORK_FIELDS = (_INPUTS, _NEEDS, _SETUP, _GATES, _OUTPUTS, _CODE, _NETWORK, _ENV, _TIMEOUT, _LIMITS)
_FIELDS: dict[NodeKind, tuple[Field[object], ...]] = {
    NodeKind.RUN: (_RUN, *_WORK_FIELDS),
    NodeKind.AGENT: (_AGENT, _PROMPT, _PROMPT_FILE, *_WORK_FIELDS),
    NodeKind.ACP: (_ACP, _PROMPT, _PROMPT_FILE, *_WORK_FIELDS),
    NodeKind.PROTECTED: (_PROTECTED, _NEEDS),
    NodeKind.APPROVAL: (_APPROVAL, _NEEDS),
}
_HINTS = {
    "repair_reruns": RERUNS_BELONG_TO_FLOW,
    "depends_on": Hint(suggestion="needs"),
    "after": Hint(suggestion="needs"),
    "command": Hint(suggestion="run"),
    "cmd": Hint(suggestion="run"),
    "script": Hint(suggestion="run"),
    "shell": Hint(suggestion="run"),
    "checks": Hint(suggestion="gates"),
    "tests": Hint(suggestion="gates"),
    "artifacts": Hint(suggestion="outputs"),
}
_KIND_WORDS = ", ".join(f"{kind}:" for kind in NodeKind)


def _work(kind: NodeKind, entries: Entries) -> Work | None:
    file = entries.get(_PROMPT_FILE)
    prompt, prompt_file = entries.get(_PROMPT), None if file is None else PinnedFile(path=file)
    match kind:
        case NodeKind.RUN:
            return RunWork(run=entries.get(_RUN, ""))
        case NodeKind.AGENT:
            definition = PinnedFile(path=entries.get(_AGENT, ""))
            return AgentWork(definition=definition, prompt=prompt, prompt_file=prompt_file)
        case NodeKind.ACP:
            agent = entries.get(_ACP, AcpWork())
            return AcpWork(
                profile=agent.profile, command=agent.command, prompt=prompt, prompt_file=prompt_file
            )
        case NodeKind.PROTECTED:
            return ProtectedWork(gate=entries.get(_PROTECTED, ""))
        case NodeKind.APPROVAL:
            return entries.get(_APPROVAL)


def _kind(spot: Spot, report: Report) -> NodeKind | None:
    """Return the node's kind, and report where it has none or several, or keys of another kind."""
    kinds = [kind for kind in NodeKind if report.spot((*spot.path, kind.value))]
    if not kinds:
        expected = f"exactly one of {_KIND_WORDS}"
        report.at(spot.path, FlowProblemCode.NODE_KIND, "a node that runs nothing", expected)
    if len(kinds) != 1:
        for kind in kinds[1:]:
            found, expected = f"{kind}: beside {kinds[0]}:", f"exactly one of {_KIND_WORDS}"
            report.at((*spot.path, kind.value), FlowProblemCode.NODE_KIND, found, expected)
        return None
    kind = kinds[0]
    for each in _ALL_FIELDS.keys() - {field.key for field in _FIELDS[kind]}:
        if place := report.spot((*spot.path, each)):
            expected = f"a key of a node with {kind}:"
            report.add(FlowProblemCode.NOT_FOR_KIND, place.key, place.path, quoted(each), expected)
    return kind


def _node(entries: Entries, report: Report) -> NodeDraft:
    kind = _kind(entries.spot, report)
    return NodeDraft(
        id=entries.spot.name,
        kind=kind,
        work=None if kind is None else _work(kind, entries),
        inputs=entries.get(_INPUTS, ()),
        needs=entries.get(_NEEDS, ()),
        outputs=entries.get(_OUTPUTS, ()),
        gates=entries.get(_GATES, ()),
        setup=entries.get(_SETUP),
        code=entries.get(_CODE),
        network=entries.get(_NETWORK),
        env=entries.get(_ENV, ()),
        timeout_us=entries.get(_TIMEOUT),
        limits=entries.get(_LIMITS, NodeLimits()),
    )


class NodeShape(Closed[NodeDraft]):
    """A node: read with the keys of every kind, described as one closed map for each kind."""

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of a node of any kind."""
        kinds: list[JsonValue] = [
            closed_schema(fields) | {"required": [kind.value]} | _KIND_RULES.get(kind, {})
            for kind, fields in _FIELDS.items()
        ]
        return {"oneOf": kinds}


# What `rules` asks of nodes of one kind, as far as a schema can say it.
_KIND_RULES: dict[NodeKind, JsonSchema] = {
    NodeKind.AGENT: {"not": {"required": ["prompt", "prompt_file"]}},
    NodeKind.ACP: {"oneOf": [{"required": ["prompt"]}, {"required": ["prompt_file"]}]},
    NodeKind.PROTECTED: {"required": [NodeKind.PROTECTED.value, "needs"]},
}


_ALL_FIELDS = {each.key: each for fields in _FIELDS.values() for each in fields}
_NODE = NodeShape("a node", tuple(_ALL_FIELDS.values()), _node, _HINTS)
NODES = MapOf(NODE_ID, _NODE, "nodes", least=1, most=256)
