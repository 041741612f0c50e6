"""What a flow declares about replay, determinism and entropy; no comparing here."""

from enum import StrEnum

from fusiond.domain.records import dataclass


class Determinism(StrEnum):
    """How much of a run is expected to come out the same again."""

    STRICT = "strict"
    BOUNDED = "bounded"
    PROBABILISTIC = "probabilistic"
    UNCONSTRAINED = "unconstrained"


class ReplayMode(StrEnum):
    """How differences are judged; see the table in `evidence.md`."""

    STRICT = "strict"
    BOUNDED = "bounded"
    OBSERVATIONAL = "observational"


class Acceptability(StrEnum):
    """Which differences bounded mode may permit."""

    EXACT_MATCH = "exact_match"
    INVARIANT_PRESERVING = "invariant_preserving"
    STATISTICALLY_BOUNDED = "statistically_bounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Bounds of statistically bounded replay.

    Args:
        min_claim_overlap_ppm: |expected ∩ observed| / |expected|, parts per million.
        max_contradiction_delta: largest permitted change of the contradiction count.
    """

    min_claim_overlap_ppm: int = 1_000_000
    max_contradiction_delta: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayContract:
    """The flow's `replay:` section."""

    mode: ReplayMode = ReplayMode.STRICT
    acceptability: Acceptability = Acceptability.EXACT_MATCH
    envelope: Envelope = Envelope()


class EntropySource(StrEnum):
    """Where non-determinism may come from; each use must be declared."""

    SEEDED_RNG = "seeded_rng"
    EXTERNAL_ORACLE = "external_oracle"
    HUMAN_INPUT = "human_input"
    DATA = "data"


class Magnitude(StrEnum):
    """How much entropy a use may bring."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class OnExhaustion(StrEnum):
    """What happens when the entropy budget is spent."""

    HALT = "halt"
    DEGRADE = "degrade"
    MARK_NON_CERTIFIABLE = "mark_non_certifiable"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropySlice:
    """A narrower budget for one source."""

    source: EntropySource
    max_magnitude: Magnitude
    on_exhaustion: OnExhaustion


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyIntent:
    """A declared use of a source, with its reason.

    `inferred` is true where the resolver derived it from a node's kind.
    """

    source: EntropySource
    max_magnitude: Magnitude
    justification: str
    inferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyBudget:
    """The flow's `entropy:` section."""

    sources: tuple[EntropySource, ...] = ()
    max_magnitude: Magnitude = Magnitude.LOW
    on_exhaustion: OnExhaustion = OnExhaustion.HALT
    per_source: tuple[EntropySlice, ...] = ()
    intents: tuple[EntropyIntent, ...] = ()
