"""Every rule of the flow file: what breaks it, where that is reported, and what is said."""

import pytest

from fusiond.codec.flowfile.render import problem_line
from tests.unit.codec.flowfile.marked import marked, read

NODE = 'flow: f\nnodes:\n  a:\n    run: "true"\n'
AGENT = "flow: f\nnodes:\n  a:\n    acp: codex\n    prompt: fix it\n"
TWO = 'flow: f\nnodes:\n  a:\n    run: "true"\n    outputs:\n      out: {path: out.txt}\n  b:\n    run: "true"\n'
GATED = (
    "flow: f\nprotected_gates:\n  good:\n    run: [pytest]\n    inputs: [tests]\n    adapter: pytest\n"
    'nodes:\n  a:\n    run: "true"\n  j:\n    protected: good\n    needs: [a]\n'
)

# Name of the rule, the file with a mark at each problem, code and a part of each line, in order.
Case = tuple[str, str, list[tuple[str, str]]]

TOP: list[Case] = [
    ("not a map", "▶- flow", [("type", "found a list, expected a flow: a map with flow, nodes")]),
    ("scalar at the top", "▶just text", [("type", 'found "just text"')]),
    ("no flow", "▶nodes:\n  a:\n    run: x\n", [("missing_key", "flow: found nothing, expected a name")]),
    ("no nodes", "▶flow: f\n", [("missing_key", "nodes: found nothing, expected a map of nodes")]),
    ("empty nodes", "flow: f\nnodes: ▶{}\n", [("limit", "nodes: found 0 nodes, expected 1 to 256")]),
    ("nothing as nodes", "flow: f\n▶nodes:\n", [("type", "found nothing, expected a map of nodes by name")]),
    ("unknown key", f"{NODE}▶tennant: x\n", [("unknown_key", "did you mean tenant?")]),
    (
        "unknown key far from any",
        f"{NODE}▶zzz: x\n",
        [("unknown_key", "expected one of flow, tenant, state")],
    ),
    ("key of other tools", "flow: f\n▶steps: {}\nnodes: {a: {run: x}}\n", [("unknown_key", "mean nodes?")]),
    ("key in capitals", f"{NODE}▶Tenant: x\n", [("unknown_key", "did you mean tenant?")]),
    ("flow name", "flow: ▶Fix It\nnodes: {a: {run: x}}\n", [("name", "which is no such name")]),
    (
        "flow name as number",
        "flow: ▶12\nnodes: {a: {run: x}}\n",
        [("type", "the number 12, expected a name")],
    ),
    ("tenant", f"{NODE}tenant: ▶'a b'\n", [("name", "tenant:")]),
    (
        "state",
        f"{NODE}state: ▶frosen\n",
        [("value", "expected one of draft, frozen, deprecated, did you mean frozen?")],
    ),
    ("word in capitals", f"{NODE}state: ▶Draft\n", [("value", "did you mean draft?")]),
    ("word as list", f"{NODE}state: ▶[draft]\n", [("type", "found a list, expected one of draft")]),
]

YAML: list[Case] = [
    (
        "merge key",
        "flow: f\nx: &x {run: a}\nnodes:\n  a:\n    ▶<<: *x\n    run: b\n".replace("x: &x", "▶x: &x"),
        [
            ("unknown_key", '"x"'),
            ("merge_key", "the merge key <<, expected a key (merge keys are not YAML 1.2"),
        ],
    ),
    ("tag", "flow: ▶!!str f\nnodes: {a: {run: x}}\n", [("tag", "quotes make text of anything")]),
    (
        "tag of a language",
        "flow: f\nnodes: ▶!!python/object:os.system {a: {run: x}}\n",
        [("tag", "python/object")],
    ),
    (
        "duplicate key",
        "flow: f\nnodes:\n  a:\n    run: x\n  ▶a:\n    run: y\n",
        [("duplicate_key", 'the key "a" again, expected each key once (first on line 3)')],
    ),
    ("number as key", "flow: f\nnodes:\n  a: {run: x}\n  ▶1: {run: x}\n", [("key", "the number 1")]),
    (
        "truth value as key",
        "flow: f\nnodes:\n  a: {run: x}\n  ▶true: {run: x}\n",
        [("key", "the truth value true")],
    ),
    ("list as key", "flow: f\nnodes:\n  a: {run: x}\n  ? ▶[a]\n  : {run: x}\n", [("key", "found a list")]),
    ("unknown alias", "flow: ▶*f\nnodes: {}\n", [("alias", "*f, which no anchor names")]),
    ("alias in itself", "flow: f\nnodes: &n\n  a: ▶*n\n", [("alias", "*n inside its own anchor")]),
    ("escape of NUL", 'flow: f\nnodes:\n  a:\n    run: ▶"a\\0b"\n', [("character", "U+0000")]),
    ("escape of half a character", 'flow: f\nnodes:\n  a:\n    run: ▶"\\ud800"\n', [("character", "U+D800")]),
]

INPUTS: list[Case] = [
    ("input as text", f"{NODE}inputs:\n  i: ▶text\n", [("type", "expected an input: a map")]),
    ("input name", f"{NODE}inputs:\n  ▶I: {{}}\n", [("name", 'inputs.I: found "I"')]),
    ("input type", f"{NODE}inputs:\n  i: {{type: ▶string}}\n", [("value", "text, file, json")]),
    (
        "flag as yes",
        f"{NODE}inputs:\n  i: {{optional: ▶yes}}\n",
        [("type", "expected true or false, did you mean true?")],
    ),
    ("flag as text", f"{NODE}inputs:\n  i: {{optional: ▶'false'}}\n", [("type", "did you mean false?")]),
    (
        "default of text as number",
        f"{NODE}inputs:\n  i: {{default: ▶5}}\n",
        [("type", "put it in quotes to make it text")],
    ),
    (
        "default of a file",
        f"{NODE}inputs:\n  i: {{type: file, default: ▶../x}}\n",
        [("path", "has a `..` component")],
    ),
    (
        "default of JSON",
        f"{NODE}inputs:\n  i: {{type: json, default: [▶.inf]}}\n",
        [("value", "a finite decimal number")],
    ),
    (
        "dataset without version",
        f"{NODE}datasets:\n  ▶d: {{path: d, state: frozen}}\n",
        [("missing_key", "datasets.d.version")],
    ),
    (
        "dataset version as number",
        f"{NODE}datasets:\n  d: {{path: d, state: frozen, version: ▶1.0}}\n",
        [("type", "the decimal number 1.0")],
    ),
    (
        "dataset path",
        f"{NODE}datasets:\n  d: {{path: ▶/etc, state: frozen, version: v}}\n",
        [("path", "is absolute")],
    ),
    ("toolchain", f"{NODE}toolchains:\n  go: ▶'1.22'\n", [("value", "is no version range")]),
    ("toolchain as number", f"{NODE}toolchains:\n  go: ▶1.22\n", [("type", "put it in quotes")]),
    ("env name", f"{NODE}env: [▶A-B]\n", [("value", "is no name of a variable")]),
    ("env of ours", f"{NODE}env: [▶FUSION_RUN]\n", [("value", "is set by the runner alone")]),
    ("env twice", f"{NODE}env: [A, ▶A]\n", [("duplicate", "expected each of the names once")]),
    ("env as text", f"{NODE}env: ▶A\n", [("type", "expected a list of names")]),
]

QUANTITIES: list[Case] = [
    (
        "duration without unit",
        f"{NODE}limits: {{wall_clock: ▶30}}\n",
        [("type", "found the number 30, expected a duration, such as 30s, 5m or 2h, did you mean 30s?")],
    ),
    ("duration in words", f"{NODE}limits: {{wall_clock: ▶30 minutes}}\n", [("type", "did you mean 30m?")]),
    ("duration of two units", f"{NODE}limits: {{wall_clock: ▶1h30m}}\n", [("type", 'found "1h30m"')]),
    ("duration with a point", f"{NODE}limits: {{wall_clock: ▶1.5h}}\n", [("type", 'found "1.5h"')]),
    (
        "no duration",
        f"{NODE}limits: {{wall_clock: ▶0s}}\n",
        [("limit", "expected more than 0 and at most 8784h")],
    ),
    ("endless duration", f"{NODE}limits: {{wall_clock: ▶9999999h}}\n", [("limit", "at most 8784h")]),
    (
        "size in powers of ten",
        f"{TWO}    outputs: {{o: {{path: p, max_size: ▶64KB}}}}\n",
        [("type", "did you mean 64KiB?")],
    ),
    (
        "size without unit",
        f"{TWO}    outputs: {{o: {{path: p, max_size: ▶64}}}}\n",
        [("type", "did you mean 64B?")],
    ),
    ("cost in quotes", f"{NODE}limits: {{cost_usd: ▶'5.00'}}\n", [("type", "write it without quotes")]),
    (
        "cost with a sign",
        f"{NODE}limits: {{cost_usd: ▶$5}}\n",
        [("type", "expected decimal USD, such as 5.00")],
    ),
    ("negative cost", f"{NODE}limits: {{cost_usd: ▶-5}}\n", [("value", "the number -5")]),
    (
        "cost finer than a millionth",
        f"{NODE}limits: {{cost_usd: ▶0.0000001}}\n",
        [("value", "with at most six decimals")],
    ),
    ("cost as exponent", f"{NODE}limits: {{cost_usd: ▶5e1}}\n", [("value", "5e1")]),
    (
        "score",
        f"{NODE}replay: {{envelope: {{min_claim_overlap: ▶1.5}}}}\n",
        [("limit", "expected at most 1.0")],
    ),
    ("count as decimal", f"{NODE}limits: {{tokens: ▶4e5}}\n", [("type", "expected a whole number")]),
    ("count as text", f"{NODE}limits: {{tokens: ▶'400'}}\n", [("type", 'found "400"')]),
    ("count in octal", f"{NODE}limits: {{tokens: ▶0o17}}\n", [("limit", "the number 0o17")]),
    ("count with a leading zero", f"{NODE}limits: {{tokens: ▶017}}\n", [("limit", "the number 017")]),
    (
        "no attempts",
        f"{NODE}limits: {{attempts: ▶0}}\n",
        [("limit", "expected a whole number from 1 to 100")],
    ),
    ("negative reruns", f"{NODE}limits: {{repair_reruns: ▶-1}}\n", [("limit", "from 0 to 100")]),
    ("parallel", f"{NODE}limits: {{parallel: ▶0}}\n", [("limit", "from 1 to 1024")]),
    (
        "number of a million digits",
        f"{NODE}limits: {{tokens: ▶{'9' * 5000}}}\n",
        [("limit", "999…, expected")],
    ),
]

PROMISES: list[Case] = [
    (
        "strict with an agent",
        f"{AGENT}determinism: ▶strict\n",
        [("determinism", 'found "strict" with the agent a')],
    ),
    (
        "undeclared oracle",
        f"{AGENT}entropy:\n  sources: ▶[human_input]\n",
        [("entropy", "external_oracle among the sources, for node a")],
    ),
    (
        "undeclared person",
        "flow: f\nentropy: {sources: ▶[]}\nnodes:\n  a:\n    approval: {ask: ok?}\n",
        [("entropy", "no human_input, although a person decides in a")],
    ),
    (
        "intent of an undeclared source",
        f"{NODE}entropy:\n  sources: []\n  intents: [{{source: ▶data, max: low, justification: x}}]\n",
        [("entropy", "expected one of entropy.sources")],
    ),
    (
        "intent without a reason",
        f"{NODE}entropy:\n  intents: [▶{{source: data, max: low}}]\n",
        [("missing_key", "entropy.intents[0].justification")],
    ),
    (
        "intent with a blank reason",
        f"{NODE}entropy:\n  intents: [{{source: data, max: low, justification: ▶' '}}]\n",
        [("value", "which is blank")],
    ),
    (
        "intent that claims to be inferred",
        f"{NODE}entropy:\n  intents: [{{source: data, max: low, justification: x, inferred: ▶true}}]\n",
        [("entropy", "an intent that a person wrote")],
    ),
    (
        "slice of an undeclared source",
        f"{NODE}entropy:\n  sources: []\n  per_source: {{▶data: {{max: low}}}}\n",
        [("entropy", 'found "data", expected one of entropy.sources')],
    ),
    (
        "slice of no source",
        f"{NODE}entropy:\n  per_source: {{▶dota: {{max: low}}}}\n",
        [("value", "did you mean data?")],
    ),
    (
        "wider slice",
        f"{NODE}entropy:\n  max_magnitude: low\n  per_source: {{data: {{max: ▶high}}}}\n",
        [("entropy", "at most max_magnitude, low")],
    ),
    (
        "arbitration",
        f"{NODE}verification: {{arbitration: ▶majority}}\n",
        [("value", "one of strict_first_failure, unanimous, quorum")],
    ),
    (
        "quorum of nobody",
        f"{NODE}verification: {{arbitration: {{quorum: ▶0}}}}\n",
        [("limit", "from 1 to 5")],
    ),
    (
        "quorum without a number",
        f"{NODE}verification: {{▶arbitration: {{}}}}\n",
        [("missing_key", "arbitration.quorum")],
    ),
    (
        "a rule that fails and asks",
        f"{NODE}verification: {{fail_on: [x], escalate_on: [▶x]}}\n",
        [("duplicate", "not in fail_on as well")],
    ),
    ("rule name", f"{NODE}verification: {{fail_on: [▶A B]}}\n", [("name", "which is no such name")]),
    ("policy as list", f"{NODE}policy: ▶[]\n", [("type", "or tool gate rules: a map")]),
    ("policy outside", f"{NODE}policy: ▶../p.yaml\n", [("path", "has a `..` component")]),
    (
        "policy with an endless number",
        f"{NODE}policy: {{rules: [{{limit: ▶.nan}}]}}\n",
        [("value", "policy.rules[0].limit")],
    ),
]

PROTECTED: list[Case] = [
    (
        "unknown gate",
        GATED.replace("protected: good", "protected: ▶god"),
        [
            (
                "unknown_gate",
                'the unknown gate "god", expected one of the protected gates good, did you mean good?',
            ),
        ],
    ),
    (
        "gate that no node judges",
        "flow: f\nprotected_gates:\n  good: ▶{run: [x], inputs: [t], adapter: go}\nnodes: {a: {run: x}}\n",
        [("unused_gate", "a merge waits for the receipt of every protected gate")],
    ),
    (
        "gate that judges nothing",
        GATED.replace("  j:", "  ▶j:").replace("    needs: [a]\n", ""),
        [("missing_key", "nodes.j.needs: found nothing, expected at least one node")],
    ),
    (
        "shell string",
        GATED.replace("[pytest]", "▶pytest || true"),
        [("value", "shell syntax can hide an exit code")],
    ),
    ("assignment", GATED.replace("[pytest]", "▶A=1 pytest"), [("value", "a list of arguments")]),
    ("unended quote", GATED.replace("[pytest]", "▶pytest 'a"), [("value", "a list of arguments")]),
    ("no arguments", GATED.replace("[pytest]", "▶[]"), [("type", "a list of at least 1 arguments")]),
    ("no inputs", GATED.replace("[tests]", "▶[]"), [("type", "a list of at least 1 globs")]),
    ("adapter", GATED.replace("adapter: pytest", "adapter: ▶pitest"), [("value", "did you mean pytest?")]),
    (
        "evidence without an adapter",
        GATED.replace("adapter: pytest", "adapter: ▶none"),
        [("value", "without a test report nothing is evidenced")],
    ),
    (
        "level",
        GATED.replace("    adapter", "    min_level: ▶high\n    adapter"),
        [("value", "restored, sealed, evidenced, separated")],
    ),
    (
        "keys of other kinds",
        GATED.replace("    needs: [a]\n", "    needs: [a]\n    ▶gates: [x]\n"),
        [("not_for_kind", 'found "gates", expected a key of a node with protected:')],
    ),
]

NODES: list[Case] = [
    ("node id", "flow: f\nnodes:\n  ▶A_b: {run: x}\n", [("name", "a node id like")]),
    ("node as text", "flow: f\nnodes:\n  a: ▶x\n", [("type", "expected a node: a map")]),
    (
        "no kind",
        "flow: f\nnodes:\n  a: ▶{}\n",
        [("node_kind", "exactly one of run:, agent:, acp:, protected:, approval:")],
    ),
    ("two kinds", f"{NODE}    acp: ▶codex\n    prompt: x\n", [("node_kind", "found acp: beside run:")]),
    (
        "unknown key of a node",
        f"{NODE}    ▶output: {{}}\n",
        [("unknown_key", 'nodes.a.output: found the unknown key "output"')],
    ),
    ("node key of other tools", f"{NODE}    ▶depends_on: []\n", [("unknown_key", "did you mean needs?")]),
    (
        "rerun limit",
        f"{NODE}    ▶repair_reruns: 5\n",
        [
            (
                "rerun_limit",
                "the rerun limit belongs to the flow, did you mean limits.repair_reruns at the top",
            )
        ],
    ),
    (
        "rerun limit among limits",
        f"{NODE}    limits: {{▶repair_reruns: 5}}\n",
        [("rerun_limit", "nodes.a.limits.repair_reruns")],
    ),
    ("prompt of a command", f"{NODE}    ▶prompt: x\n", [("not_for_kind", "a key of a node with run:")]),
    (
        "agent that is asked nothing",
        "flow: f\nnodes:\n  ▶a:\n    acp: codex\n",
        [("missing_key", "nodes.a.prompt: found nothing, expected prompt: or prompt_file:")],
    ),
    (
        "agent that is asked twice",
        f"{AGENT}    prompt_file: ▶p.md\n",
        [("value", "found prompt_file: beside prompt:, expected one of the two")],
    ),
    ("blank prompt", AGENT.replace("fix it", "▶''"), [("value", "which is blank")]),
    ("blank command", NODE.replace('"true"', "▶' '"), [("value", "a shell command")]),
    ("command as list", NODE.replace('"true"', "▶[a]"), [("type", "found a list, expected a shell command")]),
    (
        "unknown profile",
        AGENT.replace("codex", "▶codx"),
        [("unknown_profile", "expected one of the profiles codex, opencode, did you mean codex?")],
    ),
    (
        "unknown profile in a map",
        AGENT.replace("codex", "{profile: ▶codx}"),
        [("unknown_profile", "acp.profile")],
    ),
    (
        "profile and command",
        AGENT.replace("codex", "{profile: codex, command: ▶[x]}"),
        [("value", "found command: beside profile:")],
    ),
    (
        "neither profile nor command",
        AGENT.replace("acp: codex", "▶acp: {}"),
        [("missing_key", "found nothing, expected profile: or command:")],
    ),
    ("empty argument", AGENT.replace("codex", "{command: [x, ▶'']}"), [("value", "which is empty")]),
    ("agent definition outside", "flow: f\nnodes: {a: {agent: ▶/etc/passwd}}\n", [("path", "is absolute")]),
    ("code", f"{NODE}    code: ▶rw\n", [("value", "one of none, read, write")]),
    ("network", f"{NODE}    network: ▶off\n", [("type", "did you mean false?")]),
    ("node env", f"{NODE}    env: [▶fusion_x]\n", [("value", "is set by the runner alone")]),
    ("setup without a command", f"{NODE}    ▶setup: {{key: [a]}}\n", [("missing_key", "nodes.a.setup.run")]),
    ("setup key", f"{NODE}    setup: {{run: x, key: [▶../a]}}\n", [("path", "has a `..` component")]),
    (
        "more nodes than there may be",
        "flow: f\nnodes:\n  ▶" + "  ".join(f"n{n}: {{run: x}}\n" for n in range(257)),
        [("limit", "found 257 nodes, expected 1 to 256")],
    ),
]

LIMITS: list[Case] = [
    (
        "more attempts",
        f"{NODE}    limits: {{attempts: ▶3}}\n",
        [("limit", "at most the flow's 2: a node may narrow a limit, never widen it")],
    ),
    ("longer wall clock", f"{NODE}    limits: {{wall_clock: ▶61m}}\n", [("limit", "at most the flow's 1h")]),
    (
        "more tokens",
        f"{NODE}    limits: {{tokens: ▶11}}\nlimits: {{tokens: 10}}\n",
        [("limit", "the flow's 10")],
    ),
    (
        "more money",
        f"{NODE}    limits: {{cost_usd: ▶5.01}}\nlimits: {{cost_usd: 5}}\n",
        [("limit", "the flow's 5.00")],
    ),
    (
        "more tool calls",
        f"{NODE}    limits: {{tool_calls: ▶2}}\nlimits: {{tool_calls: 1}}\n",
        [("limit", "the flow's 1")],
    ),
    (
        "parallel of a node",
        f"{NODE}    limits: {{▶parallel: 2}}\n",
        [("unknown_key", "expected one of attempts")],
    ),
    ("timeout beyond the run", f"{NODE}    timeout: ▶2h\n", [("limit", "at most the wall clock, 1h")]),
    (
        "timeout beyond the node",
        f"{NODE}    timeout: ▶20m\n    limits: {{wall_clock: 10m}}\n",
        [("limit", "at most the wall clock, 10m")],
    ),
]

GATES: list[Case] = [
    (
        "gate without a name",
        f"{NODE}    gates:\n      - ▶{{run: x}}\n",
        [("missing_key", "nodes.a.gates[0].name")],
    ),
    (
        "gate without a command",
        f"{NODE}    gates:\n      - ▶{{name: x}}\n",
        [("missing_key", "nodes.a.gates[0].run")],
    ),
    ("gate name", f"{NODE}    gates:\n      - {{name: ▶X, run: x}}\n", [("name", "gates[0].name")]),
    (
        "gates of one name",
        f"{NODE}    gates:\n      - {{name: x, run: x}}\n      - {{name: ▶x, run: y}}\n",
        [("duplicate", 'the gate "x" again, expected gates with different names')],
    ),
    (
        "name that a short gate gets",
        f"{NODE}    gates:\n      - {{name: gate-2, run: x}}\n      - ▶y\n",
        [("duplicate", 'the gate "gate-2" again')],
    ),
    (
        "short name that is taken later",
        f"{NODE}    gates:\n      - y\n      - {{name: ▶gate-1, run: x}}\n",
        [("duplicate", 'the gate "gate-1" again')],
    ),
    ("gates as text", f"{NODE}    gates: ▶pytest\n", [("type", "expected a list of gates")]),
    ("gate as list", f"{NODE}    gates: [▶[a]]\n", [("type", "a shell command, or a gate: a map")]),
    ("gate key", f"{NODE}    gates: [{{name: x, run: x, ▶retries: 3}}]\n", [("unknown_key", "retries")]),
    (
        "gate timeout",
        f"{NODE}    gates: [{{name: x, run: x, timeout: ▶10}}]\n",
        [("type", "did you mean 10s?")],
    ),
]


def outputs(*lines: str) -> str:
    """Return a flow whose node has these outputs."""
    return NODE + "    outputs:\n" + "".join(f"      {line}\n" for line in lines)


OUTPUTS: list[Case] = [
    ("nothing to produce", outputs("▶o: {}"), [("missing_key", "expected path: or collect:")]),
    (
        "path and collect",
        outputs("o: {path: p, collect: ▶'q/*'}"),
        [("value", "found collect: beside path:")],
    ),
    (
        "reserved",
        outputs("▶changes: {path: p}"),
        [("reserved", "changes is the patch of every attempt that writes code")],
    ),
    ("output name", outputs("▶O: {path: p}"), [("name", "outputs.O")]),
    ("parent directory", outputs("o: {path: ▶a/../b}"), [("path", "has a `..` component")]),
    ("absolute", outputs("o: {path: ▶/a}"), [("path", "is absolute")]),
    ("here", outputs("o: {path: ▶./a}"), [("path", "has a `.` component")]),
    ("glob outside", outputs("o: {collect: ▶'../*'}"), [("path", "has a `..` component")]),
    ("glob beside more", outputs("o: {collect: ▶'a**/b'}"), [("path", "has `**` beside other characters")]),
    (
        "equal paths",
        outputs("o: {path: a}", "p: {path: ▶a}"),
        [("collision", 'found "a", which is the path "a" of o')],
    ),
    (
        "paths equal but for case",
        outputs("o: {path: a.txt}", "p: {path: ▶A.TXT}"),
        [("collision", "outputs that share no file")],
    ),
    (
        "paths equal but for form",
        outputs("o: {path: ﬁle}", "p: {path: ▶file}"),
        [("collision", "which is the path")],
    ),
    (
        "file and directory",
        outputs("o: {path: a/b}", "p: {path: ▶a}"),
        [("collision", 'cannot be beside the path "a/b" of o')],
    ),
    (
        "directory and file",
        outputs("o: {path: a}", "p: {path: ▶a/b}"),
        [("collision", 'cannot be beside the path "a" of o')],
    ),
    (
        "equal globs",
        outputs("o: {collect: 'a/*'}", "p: {collect: ▶'a/*'}"),
        [("collision", "which is the glob of o")],
    ),
    (
        "glob over a file",
        outputs("o: {path: a/b}", "p: {collect: ▶'a/*'}"),
        [("collision", "which matches the file of o")],
    ),
    (
        "file under a glob",
        outputs("o: {collect: 'a/*'}", "p: {path: ▶a/b}"),
        [("collision", "which names what is the file of o")],
    ),
    (
        "glob below a file",
        outputs("o: {path: a}", "p: {collect: ▶'a/*.txt'}"),
        [("collision", "which needs a directory that is the file of o")],
    ),
    (
        "media type",
        outputs("o: {path: a, media_type: ▶markdown}"),
        [("value", "a media type, such as text/markdown")],
    ),
    (
        "schema of text",
        outputs("o: {path: a, media_type: ▶text/plain, schema: s.json}"),
        [("value", "since schema: is for JSON")],
    ),
    (
        "JSON comparison of text",
        outputs("o: {path: a, media_type: ▶text/plain, compare: json}"),
        [("value", "since compare: is for JSON")],
    ),
    ("comparison", outputs("o: {path: a, compare: ▶exact}"), [("value", "one of bytes, json, presence")]),
    (
        "pointer",
        outputs("o: {path: a, compare: {json: {ignore: [▶duration]}}}"),
        [("value", "a JSON pointer, such as /duration")],
    ),
    (
        "whole document ignored",
        outputs("o: {path: a, compare: {json: {ignore: [▶'']}}}"),
        [("value", "is no JSON pointer")],
    ),
]

EDGES: list[Case] = [
    (
        "unknown node",
        TWO + "    needs: [▶c]\n",
        [("unknown_node", 'the unknown node "c", expected one of the nodes a')],
    ),
    (
        "misspelled node",
        TWO.replace("  a:", "  plan:") + "    needs: [▶paln]\n",
        [("unknown_node", "did you mean plan?")],
    ),
    ("ill-formed node", TWO + "    needs: [▶A]\n", [("name", "a node id like")]),
    ("node twice", TWO + "    needs: [a, ▶a]\n", [("duplicate", "each of the nodes once")]),
    (
        "itself",
        TWO + "    needs: [▶b]\n",
        [("self_dependency", '"b", the node itself, expected another node')],
    ),
    ("input from itself", TWO + "    inputs: {x: ▶b.out}\n", [("self_dependency", "nodes.b.inputs.x")]),
    (
        "input without an output",
        TWO + "    inputs: {x: ▶a}\n",
        [("value", "expected node.output or node.*, did you mean a.*?")],
    ),
    ("name of a node input", TWO + "    inputs: {▶X: a.out}\n", [("name", "nodes.b.inputs.X")]),
    ("input from an unknown node", TWO + "    inputs: {x: ▶c.out}\n", [("unknown_node", '"c"')]),
    (
        "input from the flow",
        TWO + "    inputs: {x: ▶inputs.issue}\n",
        [("unknown_node", "read in prompts, as {{ inputs.NAME }}")],
    ),
    (
        "unknown output",
        TWO + "    inputs: {x: ▶a.ot}\n",
        [
            (
                "unknown_output",
                'the unknown output "a.ot", expected one of the outputs of a: out, did you mean a.out?',
            )
        ],
    ),
    (
        "output of a node without any",
        TWO + "    inputs: {x: a.out}\n  c: {run: x, inputs: {x: ▶b.out}}\n",
        [("unknown_output", "but there is none")],
    ),
    (
        "everything of a node without any",
        TWO + "    inputs: {x: a.out}\n  c: {run: x, inputs: {x: ▶b.*}}\n",
        [("unknown_output", '"b.*"')],
    ),
    (
        "changes of a node that only reads",
        TWO + "    inputs: {x: ▶a.changes}\n",
        [("unknown_output", '"a.changes"')],
    ),
    (
        "extras of a node not needed",
        TWO + "    inputs:\n      x: {from: ▶a, match: 'l/*'}\n",
        [("not_needed", "extra artifacts make no dependency; add a to needs")],
    ),
    (
        "extras of an unknown node",
        TWO + "    inputs:\n      x: {from: ▶c, match: 'l/*'}\n",
        [("unknown_node", "nodes.b.inputs.x.from")],
    ),
    (
        "extras without a glob",
        TWO + "    needs: [a]\n    inputs:\n      ▶x: {from: a}\n",
        [("missing_key", "inputs.x.match")],
    ),
    (
        "extras with a bad glob",
        TWO + "    needs: [a]\n    inputs:\n      x: {from: a, match: ▶/l}\n",
        [("path", "is absolute")],
    ),
    (
        "cycle of two",
        "flow: f\nnodes:\n  b: {run: x, needs: [a]}\n  a: {run: x, needs: [▶b]}\n",
        [("cycle", "the cycle a -> b -> a, expected")],
    ),
    (
        "cycle through an input",
        "flow: f\nnodes:\n  a: {run: x, needs: [c]}\n  b: {run: x, needs: [a], outputs: {o: {path: o}}}\n  c: {run: x, inputs: {i: b.o}}\n".replace(
            "[c]", "[▶c]"
        ),
        [("cycle", "a -> c -> b -> a")],
    ),
    (
        "two cycles",
        "flow: f\nnodes:\n  a: {run: x, needs: [▶b]}\n  b: {run: x, needs: [a]}\n  c: {run: x, needs: [▶d]}\n  d: {run: x, needs: [c]}\n",
        [("cycle", "a -> b -> a"), ("cycle", "c -> d -> c")],
    ),
    (
        "shown but not waited for",
        "flow: f\nnodes:\n  a: {run: x}\n  b: {approval: {ask: ok?, show: [▶a]}}\n",
        [("not_needed", "a node that this one waits for")],
    ),
    (
        "shown but unknown",
        "flow: f\nnodes:\n  a: {run: x}\n  b: {approval: {ask: ok?, show: [▶c]}, needs: [a]}\n",
        [("unknown_node", '"c"')],
    ),
    (
        "shown output unknown",
        "flow: f\nnodes:\n  a: {run: x}\n  b: {approval: {ask: ok?, show: [▶a.o]}, needs: [a]}\n",
        [("unknown_output", '"a.o"')],
    ),
    (
        "approval without a question",
        "flow: f\nnodes:\n  a: {▶approval: {}}\n",
        [("missing_key", "approval.ask")],
    ),
]

TEMPLATES: list[Case] = [
    (
        "unknown input",
        AGENT.replace("fix it", '"fix ▶{{ inputs.isue }}"') + "inputs: {issue: {}}\n",
        [
            (
                "unknown_input",
                'the template "inputs.isue", expected one of the templates {{ attempt.number }}, {{ inputs.issue }}, {{ node.id }}, {{ run.id }}, did you mean {{ inputs.issue }}?',
            )
        ],
    ),
    ("other name", AGENT.replace("fix it", '"a ▶{{ env.HOME }}"'), [("template", '"env.HOME"')]),
    (
        "filter",
        AGENT.replace("fix it", '"a ▶{{ run.id | upper }}"'),
        [("template", "the malformed template")],
    ),
    ("unended", AGENT.replace("fix it", '"a ▶{{ run.id"'), [("template", "the malformed template")]),
    (
        "literal braces",
        AGENT.replace("fix it", '"▶{{}}"'),
        [("template", "text with literal braces can come in through an input")],
    ),
    (
        "at its line in a block",
        AGENT.replace("fix it", "|\n      first\n\n      second ▶{{ x }}\n      third"),
        [("template", 'nodes.a.prompt: found the template "x"')],
    ),
    (
        "in a folded text",
        AGENT.replace("fix it", ">\n      first\n      second {{ run.id }} ▶{{ y }}"),
        [("template", '"y"')],
    ),
    ("in a text of several lines", AGENT.replace("fix it", "one\n      two ▶{{ z }}"), [("template", '"z"')]),
    ("behind an escape", AGENT.replace("fix it", '▶"\\x7b{ z }}"'), [("template", '"z"')]),
    (
        "two in one text",
        AGENT.replace("fix it", '"▶{{ a }} ▶{{ b }}"'),
        [("template", '"a"'), ("template", '"b"')],
    ),
    (
        "in a question",
        "flow: f\nnodes:\n  a: {approval: {ask: '▶{{ secret }}'}}\n",
        [("template", "approval.ask")],
    ),
]

CASES = [
    *TOP,
    *YAML,
    *INPUTS,
    *QUANTITIES,
    *PROMISES,
    *PROTECTED,
    *NODES,
    *LIMITS,
    *GATES,
    *OUTPUTS,
    *EDGES,
    *TEMPLATES,
]


@pytest.mark.parametrize("text,expected", [pytest.param(case[1], case[2], id=case[0]) for case in CASES])
def test_rule_is_reported_where_it_is_broken(text: str, expected: list[tuple[str, str]]) -> None:
    file = marked(text)
    reading = read(file.text)
    assert reading.flow is None
    lines = [problem_line(problem, "f.yaml") for problem in reading.problems]
    assert [problem.code.value for problem in reading.problems] == [code for code, _ in expected], lines
    assert [(problem.line, problem.column) for problem in reading.problems] == list(file.places), lines
    for line, (_, part) in zip(lines, expected, strict=True):
        assert part in line
