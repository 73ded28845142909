"""What a worker says of itself while it works, and how its seeds ended, as far as a breaker must know it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.flow.progress import Counts
from engine.topic import Topic

_WORDS = 200


@dataclass(frozen=True, slots=True)
class SeedEndings:
    """Seeds that ended, those of them that failed, what they cost (US dollars), and the last failure in words."""

    ended: int = 0
    failed: int = 0
    usd: float = 0.0
    example: str = ""

    @classmethod
    def of(cls, seed_id: str, topics: Sequence[Topic], counts: Counts) -> "SeedEndings":
        """The ending of one seed."""
        failed = next((topic for topic in topics if topic.status == "failed"), None)
        if not counts.seeds["failed"] or failed is None:
            return cls(1, 0, counts.cost_usd)
        reply = f"; its last reply begins {failed.calls[-1].reply_text[:_WORDS]!r}" if failed.calls else ""
        example = f"seed {seed_id!r}: {failed.reason}: {failed.detail[:_WORDS]}{reply}"
        return cls(1, 1, counts.cost_usd, example)

    def __add__(self, later: "SeedEndings") -> "SeedEndings":
        return SeedEndings(
            self.ended + later.ended, self.failed + later.failed, self.usd + later.usd, later.example or self.example
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
