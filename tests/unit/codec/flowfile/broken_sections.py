"""Flow files that break a rule of the file as a whole or of a section beside the nodes."""

from tests.unit.codec.flowfile.marked import Case

NODE = 'flow: f\nnodes:\n  a:\n    run: "true"\n'
AGENT = "flow: f\nnodes:\n  a:\n    acp: codex\n    prompt: fix it\n"
TWO = 'flow: f\nnodes:\n  a:\n    run: "true"\n    outputs:\n      out: {path: out.txt}\n  b:\n    run: "true"\n'
GATED = (
    "flow: f\nprotected_gates:\n  good:\n    run: [pytest]\n    inputs: [tests]\n    adapter: pytest\n"
    'nodes:\n  a:\n    run: "true"\n  j:\n    protected: good\n    needs: [a]\n'
)

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
    ("parallel", f"{NODE}limits: {{parallel: ▶1025}}\n", [("limit", "from 0 to 1024")]),
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

BROKEN_SECTIONS = [*TOP, *YAML, *INPUTS, *QUANTITIES, *PROMISES, *PROTECTED]
