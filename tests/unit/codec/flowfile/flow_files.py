"""Hypothesis strategies of legal flow files, as the maps that JSON would hold (JSON is YAML 1.2)."""

import json

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Document = dict[str, object]

# No lone surrogates and no NUL, which no text may hold; \u escapes reach to 16 bits.
CHARACTERS = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\0")
LINES = st.lists(
    st.sampled_from(["", " ", "a", " b", "c ", "# d", "- e: f", "\t", "é", "|"]), max_size=5
).map("\n".join)
PROSE = (st.text(CHARACTERS, max_size=20) | LINES).filter(
    lambda text: bool(text.strip()) and "{{" not in text
)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True) | st.sampled_from(
    ["null", "true", "yes", "y", "no"]
)
NODE_IDS = st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True) | st.sampled_from(
    ["null", "false", "on", "end"]
)
FILES = st.sampled_from(
    ["a.md", "p/q r.md", "é/ü.json", "#x", "- y", "null", "1", "x: y", "'q'", '"d"', "a,b]", "%p", "&r"]
)
GLOBS = st.sampled_from(["*.md", "n/**", "?x/*", "**/z"])
DURATIONS = st.sampled_from(["500ms", "30s", "90s", "5m", "60m"])
SIZES = st.sampled_from(["1B", "1000B", "64KiB", "2MiB", "1GiB"])
ENV = st.lists(st.sampled_from(["A", "HOME", "_x1", "Y"]), unique=True)
MAGNITUDES = st.sampled_from(["low", "medium", "high"])
ACTIONS = st.sampled_from(["halt", "degrade", "mark_non_certifiable"])
SOURCES = ["seeded_rng", "external_oracle", "human_input", "data"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | PROSE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def some(**keys: SearchStrategy[object]) -> SearchStrategy[Document]:
    """Return maps with any of these keys, in any order."""
    return shuffled(st.fixed_dictionaries({}, optional=keys))


def shuffled(maps: SearchStrategy[Document]) -> SearchStrategy[Document]:
    """Return the same maps with their keys in another order."""
    return maps.flatmap(lambda found: st.permutations(list(found.items())).map(dict))


SETUP = some(key=st.lists(FILES | GLOBS, unique=True), network=st.booleans(), timeout=DURATIONS).flatmap(
    lambda rest: PROSE.map(lambda run: {"run": run, **rest})
)


@st.composite
def gates(draw: DrawFn) -> object:
    """Return gates of both forms, with names of their own."""
    long_form = some(timeout=DURATIONS, network=st.booleans(), output_cap=SIZES)
    names = draw(st.lists(NAMES.filter(lambda name: not name.startswith("gate")), max_size=3, unique=True))
    found: list[object] = [{"name": name, "run": draw(PROSE), **draw(long_form)} for name in names]
    return draw(st.permutations([*found, *draw(st.lists(PROSE, max_size=2))]))


@st.composite
def outputs(draw: DrawFn) -> Document:
    """Return outputs that share no file."""
    names = draw(st.lists(NAMES.filter(lambda name: name != "changes"), max_size=3, unique=True))
    found: Document = {}
    for number, name in enumerate(names):
        where = draw(st.sampled_from(["path", "collect"]))
        rest = some(
            max_size=SIZES, optional=st.booleans(), compare=st.sampled_from(["bytes", "presence", "json"])
        )
        place = f"{number}/{draw(FILES if where == 'path' else GLOBS)}"
        found[name] = {where: place, **draw(rest)}
        if draw(st.booleans()):
            found[name] = {
                where: place,
                "schema": draw(FILES),
                "compare": {"json": {"ignore": ["/a", "/b~1c"]}},
            }
    return found


@st.composite
def work(draw: DrawFn, kind: str) -> Document:
    """Return what a node of one kind runs, with what only such nodes have."""
    nothing: SearchStrategy[Document] = st.just({})
    asked: SearchStrategy[Document] = PROSE.map(lambda text: {"prompt": text})
    asked |= FILES.map(lambda path: {"prompt_file": path})
    match kind:
        case "run":
            return {"run": draw(PROSE)}
        case "agent":
            return {"agent": draw(FILES), **draw(nothing | asked)}
        case "acp":
            command = st.fixed_dictionaries({"command": st.lists(PROSE, min_size=1, max_size=3)})
            return {"acp": draw(st.just("codex") | command), **draw(asked)}
        case "protected":
            return {"protected": "judge"}
        case _:
            return {"approval": {"ask": draw(PROSE)}}


@st.composite
def node(draw: DrawFn, before: dict[str, list[str]]) -> Document:
    """Return a node that may wait for nodes before it, given with the names of their outputs."""
    kind = draw(st.sampled_from(["run", "agent", "acp", *(["protected"] if before else []), "approval"]))
    fewest = 1 if kind == "protected" else 0
    # Drawing from an empty list is an error of its own, so there is a name that is never drawn.
    known = st.lists(st.sampled_from(sorted(before) or [""]), min_size=fewest, unique=True)
    needs = draw(known) if before else []
    found = draw(work(kind))
    if needs:
        found["needs"] = needs
    if kind in {"protected", "approval"}:
        return found
    readable = [
        f"{name}.{output}" for name, names in before.items() for output in [*names, *(["*"] if names else [])]
    ]
    reads: Document = {}
    for name in draw(st.lists(NAMES, max_size=2, unique=True)):
        if readable:
            reads[name] = draw(st.sampled_from(readable))
    with_extras, optional = draw(st.booleans()), draw(st.booleans())
    if needs and with_extras:
        reads["extras"] = {"from": needs[0], "match": draw(GLOBS), "optional": optional}
    limits = some(attempts=st.just(1), wall_clock=st.just("59m"), tokens=st.just(5), cost_usd=st.just(1.25))
    rest = some(
        code=st.sampled_from(["none", "read", "write"]),
        network=st.booleans(),
        env=ENV,
        timeout=st.sampled_from(["500ms", "30s", "5m"]),
        gates=gates(),
        outputs=outputs(),
        setup=SETUP,
        limits=limits,
    )
    return {**found, **({"inputs": reads} if reads else {}), **draw(rest)}


PER_SOURCE = st.dictionaries(
    st.sampled_from(SOURCES),
    st.fixed_dictionaries({"max": st.just("low")}, optional={"on_exhaustion": ACTIONS}),
)
INTENTS = st.lists(
    st.fixed_dictionaries({"source": st.sampled_from(SOURCES), "max": MAGNITUDES, "justification": PROSE}),
    max_size=2,
    unique_by=lambda intent: str(sorted(intent.items())),
)
FLOW_INPUTS = st.dictionaries(
    NAMES,
    some(optional=st.booleans(), default=PROSE)
    | st.fixed_dictionaries({"type": st.just("file"), "default": FILES})
    | st.fixed_dictionaries({"type": st.just("json"), "default": JSON}),
    max_size=3,
)
GATE = st.fixed_dictionaries(
    {
        "run": st.lists(PROSE, min_size=1, max_size=3),
        "inputs": st.lists(FILES, min_size=1, unique=True),
        "adapter": st.just("go"),
    },
    optional={
        "good": FILES,
        "scenarios": st.lists(GLOBS, unique=True),
        "setup": SETUP,
        "min_level": st.just("sealed"),
    },
)
TOP = some(
    tenant=st.sampled_from(["local", "1.2", "t-a"]),
    state=st.sampled_from(["draft", "frozen", "deprecated"]),
    inputs=FLOW_INPUTS,
    datasets=st.dictionaries(NAMES, st.fixed_dictionaries({"path": FILES, "version": PROSE, "state": st.just("frozen")}), max_size=2),
    toolchains=st.dictionaries(NAMES, st.sampled_from([">=1.22", "~=3.11,<4", "==20.*"]), max_size=2),
    env=ENV,
    determinism=st.sampled_from(["bounded", "probabilistic", "unconstrained"]),
    replay=some(
        mode=st.sampled_from(["strict", "bounded", "observational"]),
        acceptability=st.sampled_from(["exact_match", "invariant_preserving", "statistically_bounded"]),
        envelope=some(min_claim_overlap=st.sampled_from([0, 0.5, 0.123456, 1]), max_contradiction_delta=st.integers(0, 9)),
    ),
    entropy=some(sources=st.just(SOURCES), max_magnitude=MAGNITUDES, on_exhaustion=ACTIONS, per_source=PER_SOURCE, intents=INTENTS),
    limits=some(repair_reruns=st.integers(0, 5), attempts=st.integers(1, 5), parallel=st.integers(1, 9), tokens=st.integers(5, 10**12), cost_usd=st.sampled_from([1.25, 2, 5.000001])),
    policy=FILES | st.dictionaries(NAMES, JSON, max_size=3),
    verification=some(
        arbitration=st.sampled_from(["unanimous", "quorum"]) | st.just({"quorum": 2}),
        fail_on=st.lists(st.sampled_from(["a", "b"]), unique=True),
        escalate_on=st.lists(st.sampled_from(["c", "d"]), unique=True),
    ),
)  # fmt: skip


@st.composite
def documents(draw: DrawFn) -> Document:
    """Return a whole legal flow."""
    nodes: Document = {}
    before: dict[str, list[str]] = {}
    for name in draw(st.lists(NODE_IDS, min_size=1, max_size=4, unique=True)):
        each = draw(node(before))
        nodes[name] = each
        made = each.get("outputs")
        before[name] = list(made) if isinstance(made, dict) else []
    judged = any(isinstance(each, dict) and "protected" in each for each in nodes.values())
    guards: Document = {"protected_gates": {"judge": draw(GATE)}} if judged else {}
    return {"flow": draw(NAMES), **draw(TOP), **guards, "nodes": nodes}


def written(document: Document) -> bytes:
    """Return a document as the bytes of a flow file."""
    return json.dumps(document, ensure_ascii=True).encode()


def reordered(value: object) -> object:
    """Return a document with the keys of every map reversed."""
    match value:
        case dict():
            return {key: reordered(value[key]) for key in reversed(value)}
        case list():
            return [reordered(each) for each in value]
        case _:
            return value
