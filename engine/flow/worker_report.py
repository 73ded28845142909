"""What a worker says of itself while it works, and how its seeds ended, as far as a breaker must know it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from foil.engine.flow.progress import Counts
from foil.engine.topic import Topic

_WORDS = 200


@dataclass(frozen=True, slots=True)
class AskedSeeds:
    """Seeds that asked a model: how many there are, those of them that were accepted, their accepted topics, what they
    took in tokens, why the others were not accepted, and the last of those in words.
    """

    seeds: int = 0
    accepted: int = 0
    topics: int = 0
    tokens: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    example: str = ""

    @classmethod
    def of(cls, seed_id: str, topics: Sequence[Topic], counts: Counts) -> "AskedSeeds":
        """The ending of one seed; it counts if a request of it was answered."""
        if not counts.calls:
            return cls()
        tokens, example = counts.prompt_tokens + counts.completion_tokens, ""
        if accepted := counts.seeds["accepted"]:
            return cls(1, accepted, counts.topics["accepted"], tokens)
        if topics:
            example = f"seed {seed_id!r}: {topics[-1].reason}: {topics[-1].detail[:_WORDS]}"
        return cls(1, 0, 0, tokens, Counter({topic.reason for topic in topics}), example)

    def __add__(self, later: "AskedSeeds") -> "AskedSeeds":
        return AskedSeeds(
            self.seeds + later.seeds,
            self.accepted + later.accepted,
            self.topics + later.topics,
            self.tokens + later.tokens,
            self.reasons + later.reasons,
            later.example or self.example,
        )

    def since(self, earlier: "AskedSeeds") -> "AskedSeeds":
        """What came after the earlier look."""
        return AskedSeeds(
            self.seeds - earlier.seeds,
            self.accepted - earlier.accepted,
            self.topics - earlier.topics,
            self.tokens - earlier.tokens,
            self.reasons - earlier.reasons,
            self.example,
        )


@dataclass(frozen=True, slots=True)
class SeedEndings:
    """Seeds that ended, those of them that failed, what they cost (US dollars), the last failure in words, and what
    became of those that asked a model."""

    ended: int = 0
    failed: int = 0
    usd: float = 0.0
    example: str = ""
    asked_seeds: AskedSeeds = AskedSeeds()

    @classmethod
    def of(cls, seed_id: str, topics: Sequence[Topic], counts: Counts) -> "SeedEndings":
        asked_seeds = AskedSeeds.of(seed_id, topics, counts)
        failed = next((topic for topic in topics if topic.status == "failed"), None)
        if not counts.seeds["failed"] or failed is None:
            return cls(1, 0, counts.cost_usd, asked_seeds=asked_seeds)
        reply = f"; its last reply begins {failed.calls[-1].reply_text[:_WORDS]!r}" if failed.calls else ""
        example = f"seed {seed_id!r}: {failed.reason}: {failed.detail[:_WORDS]}{reply}"
        return cls(1, 1, counts.cost_usd, example, asked_seeds)

    def __add__(self, later: "SeedEndings") -> "SeedEndings":
        return SeedEndings(
            self.ended + later.ended,
            self.failed + later.failed,
            self.usd + later.usd,
            later.example or self.example,
            self.asked_seeds + later.asked_seeds,
        )


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Seeds in flight, counts of each partition not yet committed, requests answered since the worker started, the age
    of its oldest open request in seconds, and how its seeds ended, but for those of which the journal had every reply.
    `writer` names its stream of the journal.
    """

    in_flight: int = 0
    counts: Mapping[int, Counts] = field(default_factory=dict)
    answers: int = 0
    oldest_request_s: float = 0.0
    endings: SeedEndings = SeedEndings()
    writer: str = ""
