"""What legal flow files mean: quantities, references, defaults, YAML's own freedoms."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.codec.flowfile.plan_hash import plan_hash
from fusiond.codec.flowfile.read import read_flow
from fusiond.codec.flowfile.reading.compose import compose
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.source import source_of
from fusiond.codec.flowfile.shape.shape import Shape
from fusiond.codec.flowfile.shape.texts import ENV_NAME, NAME, NODE_ID, TENANT, Text
from fusiond.codec.flowfile.shape.units import (
    COST,
    DURATION,
    MAX_COST_UUSD,
    MAX_DURATION_US,
    MAX_SIZE_BYTES,
    PPM,
    SCORE,
    SIZE,
)
from fusiond.domain.flow import AcpWork, ApprovalWork, CodeAccess, Comparison, FlowInput, InputType, RunWork
from fusiond.domain.ids import is_name, is_node_id, is_tenant
from fusiond.domain.plan import resolve
from fusiond.domain.replay_policy import (
    Acceptability,
    Determinism,
    EntropyIntent,
    EntropySource,
    Magnitude,
    OnExhaustion,
    ReplayMode,
)
from fusiond.domain.verification import ArbitrationRule
from tests.unit.codec.flowfile.marked import good, read

NODE = 'flow: f\nnodes:\n  a:\n    run: "true"\n'
AGENT = "flow: f\nnodes:\n  a:\n    acp: codex\n    prompt: fix it\n"


def value_of(shape: Shape[object], text: str) -> object:
    """Return what a shape reads from one value; None where it refuses it."""
    report = Report(source_of(text))
    node = compose(report)
    assert node is not None
    return shape.read(Spot(path=(), key=0, node=node), report)


@pytest.mark.parametrize(
    "text,value_us",
    [("500ms", 500_000), ("30s", 30_000_000), ("5m", 300_000_000), ("2h", 7_200_000_000), ("8784h", MAX_DURATION_US)],
)  # fmt: skip
def test_durations(text: str, value_us: int) -> None:
    assert value_of(DURATION, text) == value_us
    assert value_of(DURATION, f'"{text}"') == value_us


@pytest.mark.parametrize(
    "text,size", [("1B", 1), ("64KiB", 65536), ("2MiB", 1 << 21), ("1GiB", 1 << 30), ("1024GiB", MAX_SIZE_BYTES)]
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert value_of(SIZE, text) == size


@pytest.mark.parametrize(
    "text,value_uusd",
    [("5.00", 5_000_000), ("5", 5_000_000), ("0", 0), ("0.1", 100_000), ("0.000001", 1), ("1.10000000", 1_100_000)],
)  # fmt: skip
def test_costs_are_exact(text: str, value_uusd: int) -> None:
    assert value_of(COST, text) == value_uusd


@given(st.integers(1, MAX_DURATION_US // 1000).map(lambda ms: ms * 1000))
def test_durations_are_written_as_they_are_read(value_us: int) -> None:
    assert value_of(DURATION, DURATION.show(value_us)) == value_us


@given(st.integers(1, MAX_SIZE_BYTES))
def test_sizes_are_written_as_they_are_read(size: int) -> None:
    assert value_of(SIZE, SIZE.show(size)) == size


@given(st.integers(0, MAX_COST_UUSD))
def test_costs_are_written_as_they_are_read(value_uusd: int) -> None:
    text = COST.show(value_uusd)
    assert value_of(COST, text) == value_uusd
    assert Decimal(text) * 1_000_000 == value_uusd


@given(st.integers(0, PPM))
def test_scores_are_written_as_they_are_read(value_ppm: int) -> None:
    assert value_of(SCORE, SCORE.show(value_ppm)) == value_ppm


@given(st.text(max_size=12) | st.from_regex(r"[a-z0-9A-Z._-]{0,45}", fullmatch=True))
def test_patterns_for_editors_say_what_the_rules_say(text: str) -> None:
    rules = {NAME: is_name, NODE_ID: is_node_id, TENANT: is_tenant}
    for shape, valid in rules.items():
        assert isinstance(shape, Text)
        # JSON Schema's $ is the end of the text; Python's also stands before a last line feed.
        pattern = (shape.pattern or "").removesuffix("$") + r"\Z"
        assert bool(re.match(pattern, text)) == valid(text)
    if ENV_NAME.problem(text) is None:
        assert re.match(ENV_NAME.pattern or "", text)


def test_a_byte_order_mark_windows_line_ends_and_json_are_yaml() -> None:
    plain = good(NODE)
    assert read_flow(b"\xef\xbb\xbf" + NODE.encode()).flow == plain
    assert good(NODE.replace("\n", "\r\n")) == plain
    assert good('{"flow": "f", "nodes": {"a": {"run": "true"}}}') == plain
    assert good(f"%YAML 1.2\n---\n{NODE}...\n") == plain


def test_columns_count_characters_behind_a_byte_order_mark() -> None:
    reading = read_flow(b"\xef\xbb\xbf\xc3\xa9: 1")
    assert [(problem.line, problem.column) for problem in reading.problems[:1]] == [(1, 1)]


def test_yes_is_text_and_so_is_a_date() -> None:
    flow = good(NODE.replace('"true"', "yes") + "datasets: {d: {path: d, version: 2026-11, state: frozen}}\n")
    assert flow.nodes[0].work == RunWork(run="yes")
    assert flow.datasets[0].version == "2026-11"


def test_an_alias_stands_for_its_value() -> None:
    text = "flow: f\nnodes:\n  a:\n    run: x\n    gates: &g [t]\n  b:\n    run: y\n    gates: *g\n"
    first, second = good(text).nodes
    assert first.gates == second.gates


def test_commands_and_gates_are_never_templates() -> None:
    flow = good(NODE.replace('"true"', "'echo {{ not.a.template }}'") + "    gates: ['{{ x ', '}}']\n")
    assert flow.nodes[0].work == RunWork(run="echo {{ not.a.template }}")
    assert [gate.run for gate in flow.nodes[0].gates] == ["{{ x ", "}}"]


def test_prompts_and_questions_may_hold_templates() -> None:
    text = (
        "flow: f\ninputs: {i: {}}\nnodes:\n  a:\n    acp: codex\n"
        "    prompt: '{{inputs.i}} {{ run.id }} {{\tnode.id }} {{ attempt.number}} }}'\n"
        "  b:\n    approval: {ask: 'merge {{ run.id }}?'}\n"
    )
    assert isinstance(good(text).nodes[1].work, ApprovalWork)


def test_gates_without_names_are_numbered_by_position() -> None:
    flow = good(f"{NODE}    gates: [x, {{name: lint, run: y}}, z]\n")
    assert [gate.name for gate in flow.nodes[0].gates] == ["gate-1", "lint", "gate-3"]


def test_references_of_every_form() -> None:
    flow = good(
        "flow: f\nnodes:\n"
        "  a: {acp: codex, prompt: x, outputs: {o: {path: o, optional: true}, p: {path: p}}}\n"
        "  b:\n    run: x\n    needs: [a]\n    inputs:\n"
        "      one: a.o\n      two: a.p\n      all: a.*\n      patch: a.changes\n"
        "      logs: {from: a, match: 'logs/*', optional: true}\n"
    )
    inputs = {each.name: each for each in flow.nodes[1].inputs}
    assert {name: (each.output, each.match, each.optional) for name, each in inputs.items()} == {
        "one": ("o", None, True),
        "two": ("p", None, False),
        "all": (None, None, False),
        "patch": ("changes", None, False),
        "logs": (None, "logs/*", True),
    }
    assert flow.nodes[1].dependencies == ("a",)


def test_an_approval_may_show_what_is_further_back() -> None:
    text = (
        "flow: f\nnodes:\n  a: {run: x, outputs: {o: {path: o}}}\n  b: {run: x, needs: [a]}\n"
        "  c: {approval: {ask: ok?, show: [a.o, a, b]}, needs: [b]}\n"
    )
    assert good(text).nodes[2].work == ApprovalWork(ask="ok?", show=("a.o", "a", "b"))


def test_an_agent_by_profile_or_by_command() -> None:
    assert good(AGENT.replace("codex", "{profile: codex}")) == good(AGENT)
    work = good(AGENT.replace("codex", "{command: [agent, --acp]}")).nodes[0].work
    assert work == AcpWork(command=("agent", "--acp"), prompt="fix it")


def test_profiles_are_not_checked_where_none_are_known() -> None:
    assert read_flow(AGENT.replace("codex", "mine").encode()).problems == ()


@pytest.mark.parametrize(
    "kind,code,network",
    [("run: x", "read", False), ("acp: codex\n    prompt: x", "write", True), ("agent: a.md", "write", True)],
    ids=["run", "acp", "agent"],
)
def test_what_a_node_may_do_by_its_kind(kind: str, code: str, network: bool) -> None:  # noqa: FBT001
    (node,) = good(f"flow: f\nnodes:\n  a:\n    {kind}\n").nodes
    assert (node.code, node.network) == (CodeAccess(code), network)
    (other,) = good(
        f"flow: f\nnodes:\n  a:\n    {kind}\n    code: none\n    network: {not network}\n".lower()
    ).nodes
    assert (other.code, other.network) == (CodeAccess.NONE, not network)


@pytest.mark.parametrize(
    "declared,mode,acceptability",
    [
        ("determinism: strict", ReplayMode.STRICT, Acceptability.EXACT_MATCH),
        ("determinism: bounded", ReplayMode.BOUNDED, Acceptability.INVARIANT_PRESERVING),
        ("determinism: probabilistic", ReplayMode.BOUNDED, Acceptability.STATISTICALLY_BOUNDED),
        ("determinism: unconstrained", ReplayMode.OBSERVATIONAL, Acceptability.STATISTICALLY_BOUNDED),
        ("replay: {mode: bounded}", ReplayMode.BOUNDED, Acceptability.INVARIANT_PRESERVING),
        ("replay: {acceptability: statistically_bounded}", ReplayMode.STRICT, Acceptability.STATISTICALLY_BOUNDED),
    ],
)  # fmt: skip
def test_replay_follows_determinism(declared: str, mode: ReplayMode, acceptability: Acceptability) -> None:
    replay = good(f"{NODE}{declared}\n").replay
    assert (replay.mode, replay.acceptability) == (mode, acceptability)


def test_a_flow_of_commands_is_strict_and_uses_no_entropy() -> None:
    flow = good(NODE)
    assert flow.determinism is Determinism.STRICT
    assert flow.entropy.sources == ()
    assert flow.entropy.max_magnitude is Magnitude.LOW


def test_what_reaches_out_is_inferred() -> None:
    flow = good("flow: f\nnodes:\n  b: {run: x, network: true}\n  a: {approval: {ask: ok?}}\n")
    assert flow.determinism is Determinism.STRICT
    assert flow.entropy.intents == (
        EntropyIntent(source=EntropySource.HUMAN_INPUT, max_magnitude=Magnitude.LOW, justification="a person decides in a", inferred=True),
        EntropyIntent(source=EntropySource.DATA, max_magnitude=Magnitude.MEDIUM, justification="b may read the network", inferred=True),
    )  # fmt: skip
    assert flow.entropy.max_magnitude is Magnitude.MEDIUM


@pytest.mark.parametrize(
    "node",
    [
        "{run: x, gates: [{name: g, run: x, network: true}]}",
        "{run: x, outputs: {o: {path: o, media_type: application/vnd.fusion.evidence+json}}}",
    ],
)
def test_other_uses_of_data_are_inferred(node: str) -> None:
    assert good(f"flow: f\nnodes: {{a: {node}}}\n").entropy.sources == (EntropySource.DATA,)


def test_declared_sources_admit_only_themselves() -> None:
    flow = good(f"{AGENT}entropy: {{sources: [external_oracle]}}\n")
    assert [each.source for each in flow.entropy.intents] == [EntropySource.EXTERNAL_ORACLE]


def test_a_slice_declares_its_source_and_takes_the_common_action() -> None:
    entropy = good(
        f"{NODE}entropy: {{on_exhaustion: degrade, per_source: {{data: {{max: high}}}}}}\n"
    ).entropy
    assert entropy.sources == (EntropySource.DATA,)
    assert entropy.max_magnitude is Magnitude.HIGH
    assert entropy.per_source[0].on_exhaustion is OnExhaustion.DEGRADE


def test_an_intent_may_repeat_what_is_inferred_and_say_so() -> None:
    text = "entropy:\n  intents: [{source: external_oracle, max: high, justification: a model answers in a, inferred: true}]\n"
    assert good(AGENT + text).entropy == good(AGENT).entropy


def test_arbitration_of_every_form() -> None:
    for declared, rule, quorum in (
        ("unanimous", ArbitrationRule.UNANIMOUS, 0),
        ("quorum", ArbitrationRule.QUORUM, 0),
        ("{quorum: 2}", ArbitrationRule.QUORUM, 2),
    ):
        verification = good(f"{NODE}verification: {{arbitration: {declared}}}\n").verification
        assert (verification.arbitration, verification.quorum) == (rule, quorum)


def test_comparisons_of_every_form() -> None:
    for declared, how, ignore in (
        ("bytes", Comparison.BYTES, ()),
        ("presence", Comparison.PRESENCE, ()),
        ("json", Comparison.JSON, ()),
        ("{json: {ignore: [/a, /b~0c]}}", Comparison.JSON, ("/a", "/b~0c")),
    ):
        flow = good(f"{NODE}    outputs: {{o: {{path: o, compare: {declared}}}}}\n")
        assert (flow.nodes[0].outputs[0].compare.how, flow.nodes[0].outputs[0].compare.ignore) == (
            how,
            ignore,
        )


def test_a_schema_makes_an_output_json() -> None:
    (output,) = good(f"{NODE}    outputs: {{o: {{path: o, schema: s.json}}}}\n").nodes[0].outputs
    assert output.media_type == "application/json"


def test_inputs_of_every_type() -> None:
    flow = good(
        f"{NODE}inputs:\n  a: {{}}\n  b: {{type: file, default: x/y}}\n"
        "  c: {type: json, default: {k: [1, 2.50, null, true, 'é']}}\n  d: {default: '', optional: true}\n"
    )
    assert flow.inputs == (
        FlowInput(name="a"),
        FlowInput(name="b", type=InputType.FILE, default="x/y"),
        FlowInput(name="c", type=InputType.JSON, default='{"k": [1, 2.50, null, true, "é"]}'),
        FlowInput(name="d", optional=True, default=""),
    )


def test_a_protected_gate_may_be_written_in_plain_words() -> None:
    gates = "protected_gates:\n  g: {run: \"pytest -q 'a b'\", inputs: [t], adapter: pytest}\n"
    flow = good(f"flow: f\n{gates}nodes:\n  a: {{run: x}}\n  j: {{protected: g, needs: [a]}}\n")
    assert flow.protected_gates[0].run == ("pytest", "-q", "a b")


def test_a_node_may_narrow_what_the_flow_allows() -> None:
    limits = "limits: {attempts: 1, wall_clock: 10m, tokens: 5, cost_usd: 1, tool_calls: 3}"
    flow = good(f"{NODE}    {limits}\nlimits: {{tokens: 5}}\n")
    assert flow.nodes[0].limits.cost_uusd == 1_000_000
    assert flow.nodes[0].timeout_us == 600_000_000


def test_the_default_of_parallel_is_the_machine_and_no_part_of_the_plan() -> None:
    assert good(NODE).limits.parallel == 0
    said = good(f"{NODE}limits: {{parallel: 0}}\n")
    assert plan_hash(resolve(said)) == plan_hash(resolve(good(NODE)))


def test_what_decides_the_plan_hash() -> None:
    same = {plan_hash(resolve(good(text))) for text in (NODE, NODE + "tenant: local # the default\n")}
    other = {
        plan_hash(resolve(good(text))) for text in (NODE + "tenant: other\n", NODE.replace("true", "false"))
    }
    assert len(same) == 1
    assert len(same | other) == 3


def test_one_reading_reports_every_problem() -> None:
    reading = read(
        "flow: F\nstate: x\nlimits: {attempts: 0, tokens: a}\nnodes:\n"
        "  a: {run: x, needs: [b, c]}\n  b: {run: y, needs: [a], gates: [{name: g}]}\n  d: {acp: no, prompt: '{{ x }}'}\n"
    )
    assert [problem.code.value for problem in reading.problems] == [
        "name", "value", "limit", "type", "cycle", "unknown_node", "missing_key", "unknown_profile", "template",
    ]  # fmt: skip


def test_a_problem_does_not_cause_others() -> None:
    """A node, output or input that is there but wrong is still there for what names it."""
    reading = read(
        "flow: f\ninputs: {i: nothing}\nnodes:\n  a: text\n  b: {run: x, outputs: {o: text}}\n"
        "  c: {acp: codex, prompt: '{{ inputs.i }}', needs: [a], inputs: {x: b.o, y: a.z}}\n"
    )
    assert [(problem.line, problem.code.value) for problem in reading.problems] == [
        (2, "type"),
        (4, "type"),
        (5, "type"),
    ]
