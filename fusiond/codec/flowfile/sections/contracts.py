"""Sections of what a flow declares about itself: replay, entropy, limits, verification.

A value that another value decides where the file leaves it out is None in the
drafts here; `defaults` fills it in.
"""

from fusiond.codec.flowfile.problems import FlowProblemCode
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.shape.containers import Closed, Hint, ListOf, MapOf
from fusiond.codec.flowfile.shape.shape import Default, Either, Entries, Field, Made
from fusiond.codec.flowfile.shape.texts import PROSE, RULE_NAME, Flag, Word
from fusiond.codec.flowfile.shape.units import COST, DURATION, PPM, SCORE, US_PER_SECOND, Count
from fusiond.domain.flow import NodeLimits
from fusiond.domain.records import dataclass
from fusiond.domain.replay_policy import (
    Acceptability,
    EntropyIntent,
    EntropySource,
    Envelope,
    Magnitude,
    OnExhaustion,
    ReplayMode,
)
from fusiond.domain.verification import ArbitrationRule, Engine, VerificationPolicy

_OVERLAP = Field(
    "min_claim_overlap",
    SCORE,
    "Share of the expected claims that must be seen again.",
    default=Default(PPM, 1.0, "every expected claim"),
)
_DELTA = Field(
    "max_contradiction_delta",
    Count(0, 1_000_000),
    "Largest change of the number of contradictions.",
    default=Default(0, 0, "no change"),
)


def _envelope(entries: Entries, _: Report) -> Envelope:
    return Envelope(
        min_claim_overlap_ppm=entries.get(_OVERLAP, PPM), max_contradiction_delta=entries.get(_DELTA, 0)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDraft:
    """`replay:` as declared."""

    mode: ReplayMode | None
    acceptability: Acceptability | None
    envelope: Envelope


_MODE = Field("mode", Word(ReplayMode), "How differences are judged.")
_ACCEPTABILITY = Field("acceptability", Word(Acceptability), "Which differences bounded mode permits.")
_ENVELOPE = Field(
    "envelope",
    Closed("the envelope", (_OVERLAP, _DELTA), _envelope),
    "Bounds of statistically bounded replay.",
    implied=True,
)


def _replay(entries: Entries, _: Report) -> ReplayDraft:
    return ReplayDraft(
        mode=entries.get(_MODE),
        acceptability=entries.get(_ACCEPTABILITY),
        envelope=entries.get(_ENVELOPE, Envelope()),
    )


REPLAY = Closed("the replay contract", (_MODE, _ACCEPTABILITY, _ENVELOPE), _replay)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDraft:
    """One entry of `per_source:`; `source` is as written."""

    source: str
    max_magnitude: Magnitude
    on_exhaustion: OnExhaustion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyDraft:
    """`entropy:` as declared."""

    sources: tuple[EntropySource, ...] | None
    max_magnitude: Magnitude | None
    on_exhaustion: OnExhaustion
    per_source: tuple[SliceDraft, ...]
    intents: tuple[EntropyIntent, ...] | None


_SLICE_MAX = Field("max", Word(Magnitude), "How much this source may bring.", required=True)
_SLICE_ACTION = Field("on_exhaustion", Word(OnExhaustion), "What happens when it brings more.")


def _slice(entries: Entries, _: Report) -> SliceDraft:
    return SliceDraft(
        source=entries.spot.name,
        max_magnitude=entries.get(_SLICE_MAX, Magnitude.LOW),
        on_exhaustion=entries.get(_SLICE_ACTION),
    )


_INTENT_SOURCE = Field("source", Word(EntropySource), "Where it comes from.", required=True)
_INTENT_MAX = Field("max", Word(Magnitude), "How much this use may bring.", required=True)
_INTENT_WHY = Field("justification", PROSE, "Why the flow needs it.", required=True)
_INTENT_INFERRED = Field(
    "inferred",
    Flag(),
    "Written by --explain where the intent follows from a node's kind.",
)


def _intent(entries: Entries, _: Report) -> EntropyIntent:
    return EntropyIntent(
        source=entries.get(_INTENT_SOURCE, EntropySource.DATA),
        max_magnitude=entries.get(_INTENT_MAX, Magnitude.LOW),
        justification=entries.get(_INTENT_WHY, ""),
        inferred=entries.get(_INTENT_INFERRED, otherwise=False),
    )


_SOURCES = Field(
    "sources", ListOf(Word(EntropySource), "sources", distinct=True), "Every source of non-determinism."
)
_MAX_MAGNITUDE = Field("max_magnitude", Word(Magnitude), "How much any use may bring.")
_ON_EXHAUSTION = Field(
    "on_exhaustion",
    Word(OnExhaustion),
    "What happens when a use brings more.",
    default=Default(OnExhaustion.HALT, OnExhaustion.HALT.value, "the strictest"),
)
_PER_SOURCE = Field(
    "per_source",
    MapOf(Word(EntropySource), Closed("a slice", (_SLICE_MAX, _SLICE_ACTION), _slice), "sources"),
    "Narrower budgets of single sources.",
)
_INTENTS = Field(
    "intents",
    ListOf(
        Closed("an intent", (_INTENT_SOURCE, _INTENT_MAX, _INTENT_WHY, _INTENT_INFERRED), _intent),
        "intents",
        distinct=True,
    ),
    "Declared uses of a source, each with its reason.",
)


def _entropy(entries: Entries, _: Report) -> EntropyDraft:
    return EntropyDraft(
        sources=entries.get(_SOURCES),
        max_magnitude=entries.get(_MAX_MAGNITUDE),
        on_exhaustion=entries.get(_ON_EXHAUSTION, OnExhaustion.HALT),
        per_source=entries.get(_PER_SOURCE, ()),
        intents=entries.get(_INTENTS),
    )


ENTROPY = Closed(
    "the entropy budget", (_SOURCES, _MAX_MAGNITUDE, _ON_EXHAUSTION, _PER_SOURCE, _INTENTS), _entropy
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsDraft:
    """`limits:` of a flow as declared; `parallel` 0 means one attempt a core."""

    repair_reruns: int
    attempts: int
    parallel: int
    wall_clock_us: int
    tokens: int | None
    cost_uusd: int | None
    tool_calls: int | None


_ATTEMPTS_SHAPE = Count(1, 100)
_RERUNS = Field(
    "repair_reruns",
    Count(0, 100),
    "Reruns of one attempt after a failed gate; the flow's alone.",
    default=Default(2, 2),
)
_ATTEMPTS = Field("attempts", _ATTEMPTS_SHAPE, "Attempts of each stage.", default=Default(2, 2))
_PARALLEL = Field(
    "parallel",
    Count(0, 1024),
    "Attempts at once in one run; 0 means one a core of the machine.",
    default=Default(0, 0, "one attempt a core of the machine that runs it"),
)
_WALL_CLOCK = Field(
    "wall_clock",
    DURATION,
    "How long a run may work; waiting for people does not count.",
    default=Default(3600 * US_PER_SECOND, "1h"),
)
_NODE_ATTEMPTS = Field("attempts", _ATTEMPTS_SHAPE, "Fewer attempts than the flow allows.")
_NODE_WALL_CLOCK = Field("wall_clock", DURATION, "Less time than the flow allows.")
_TOKENS = Field("tokens", Count(1), "Tokens of all model calls.")
_COST = Field("cost_usd", COST, "Cost of all model calls, in USD.")
_TOOL_CALLS = Field("tool_calls", Count(1), "Tool calls.")


def _limits(entries: Entries, _: Report) -> LimitsDraft:
    return LimitsDraft(
        repair_reruns=entries.get(_RERUNS, 0),
        attempts=entries.get(_ATTEMPTS, 0),
        parallel=entries.get(_PARALLEL, 0),
        wall_clock_us=entries.get(_WALL_CLOCK, 0),
        tokens=entries.get(_TOKENS),
        cost_uusd=entries.get(_COST),
        tool_calls=entries.get(_TOOL_CALLS),
    )


def _node_limits(entries: Entries, _: Report) -> NodeLimits:
    return NodeLimits(
        attempts=entries.get(_NODE_ATTEMPTS),
        wall_clock_us=entries.get(_NODE_WALL_CLOCK),
        tokens=entries.get(_TOKENS),
        cost_uusd=entries.get(_COST),
        tool_calls=entries.get(_TOOL_CALLS),
    )


RERUNS_BELONG_TO_FLOW = Hint(
    code=FlowProblemCode.RERUN_LIMIT,
    expected="no such key: the rerun limit belongs to the flow",
    suggestion="limits.repair_reruns at the top of the file",
)

LIMITS = Closed("limits", (_RERUNS, _ATTEMPTS, _PARALLEL, _WALL_CLOCK, _TOKENS, _COST, _TOOL_CALLS), _limits)
NODE_LIMITS = Closed(
    "limits of a node",
    (_NODE_ATTEMPTS, _NODE_WALL_CLOCK, _TOKENS, _COST, _TOOL_CALLS),
    _node_limits,
    hints={"repair_reruns": RERUNS_BELONG_TO_FLOW},
)

Arbitration = tuple[ArbitrationRule, int]
_QUORUM = Field("quorum", Count(1, len(Engine)), "How many engines must pass.", required=True)


def _word(rule: ArbitrationRule, _: Spot, __: Report) -> Arbitration:
    return rule, 0


_ARBITRATION: Field[Arbitration] = Field(
    "arbitration",
    Either(
        Made(Word(ArbitrationRule), _word),
        Closed("a quorum", (_QUORUM,), lambda entries, _: (ArbitrationRule.QUORUM, entries.get(_QUORUM, 1))),
    ),
    "How the engines' results become one decision; the word quorum alone means a majority.",
    default=Default(
        (ArbitrationRule.STRICT_FIRST_FAILURE, 0), ArbitrationRule.STRICT_FIRST_FAILURE.value, "the strictest"
    ),
)
_RULES = ListOf(RULE_NAME, "rules", distinct=True)
_FAIL_ON = Field("fail_on", _RULES, "Rules whose violation fails.", default=Default((), []))
_ESCALATE_ON = Field("escalate_on", _RULES, "Rules whose violation asks a person.", default=Default((), []))


def _verification(entries: Entries, _: Report) -> VerificationPolicy:
    rule, quorum = entries.get(_ARBITRATION, (ArbitrationRule.STRICT_FIRST_FAILURE, 0))
    return VerificationPolicy(
        arbitration=rule,
        quorum=quorum,
        fail_on=entries.get(_FAIL_ON, ()),
        escalate_on=entries.get(_ESCALATE_ON, ()),
    )


VERIFICATION = Closed("verification", (_ARBITRATION, _FAIL_ON, _ESCALATE_ON), _verification)
