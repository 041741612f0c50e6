"""Flow files that break a rule of nodes: kinds, limits, gates, outputs, edges, templates."""

from tests.unit.codec.flowfile.marked import Case

NODE = 'flow: f\nnodes:\n  a:\n    run: "true"\n'
AGENT = "flow: f\nnodes:\n  a:\n    acp: codex\n    prompt: fix it\n"
TWO = 'flow: f\nnodes:\n  a:\n    run: "true"\n    outputs:\n      out: {path: out.txt}\n  b:\n    run: "true"\n'

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

BROKEN_NODES = [*NODES, *LIMITS, *GATES, *OUTPUTS, *EDGES, *TEMPLATES]
