"""Votes of judges over one question, and what they decide: the choice of more than half of all slots, or nothing."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from foil.engine.ids import canonical_json
from foil.engine.topic import Intent, Passage

NONE, TIE, UNREADABLE = "none", "tie", "unreadable_judge"
"""What a vote may be besides the id of a passage."""
_ABSTENTIONS = (TIE, UNREADABLE)


@dataclass(frozen=True, slots=True)
class VoteSlot:
    """One vote to be cast: by which judge, and which of its votes."""

    judge: str
    number: int


@dataclass(frozen=True, slots=True)
class Vote:
    """The id of the passage named, or NONE, TIE, UNREADABLE; `score` is P(true) where the model gives logprobs,
    `reason` what the judge says for it where it is asked."""

    judge: str
    choice: str
    score: float | None = None
    problem: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class VoteCount:
    """The votes over one question. `slots` counts the votes that could have been cast."""

    intent: Intent
    passages: tuple[Passage, ...]
    votes: tuple[Vote, ...]
    slots: int

    @property
    def decision(self) -> str:
        """The choice of more than half of all slots, or TIE. An unreadable vote is for nothing."""
        choice, count = self._leader()
        return choice if 2 * count > self.slots else TIE

    @property
    def is_decided(self) -> bool:
        """Whether no vote still out can change the decision."""
        _, count = self._leader()
        return 2 * count > self.slots or 2 * (count + self.slots - len(self.votes)) <= self.slots

    @property
    def score(self) -> float:
        """The mean P(true) of the votes that have one, else the share of the votes for the leading choice."""
        scores = [vote.score for vote in self.votes if vote.score is not None]
        _, count = self._leader()
        return round((sum(scores) if scores else count) / len(scores or self.votes), 4)

    def votes_on(self, passage_id: str) -> tuple[int, ...]:
        """What each vote makes of a passage: 1 relevant, -1 not relevant, 0 no answer."""
        return tuple(
            0 if vote.choice in _ABSTENTIONS else 1 if vote.choice == passage_id else -1 for vote in self.votes
        )

    def failure_reason(self, expected: Collection[str] = ()) -> str:
        """The reason code of a decision that is none of the expected choices."""
        if self.decision != TIE:
            return "no_passage_named" if self.decision == NONE else "other_passage_named"
        commonest = Counter(vote.choice for vote in self.votes if vote.choice not in expected).most_common(1)
        return {UNREADABLE: UNREADABLE, TIE: "order_decides"}.get(commonest[0][0] if commonest else "", "no_majority")

    def evidence(self, **more: str) -> str:
        """Intent, passages and votes, as JSON."""
        votes = [[vote.judge, vote.choice] for vote in self.votes]
        facts = {"intent": self.intent.id, "shown": [p.id for p in self.passages], "votes": votes, **more}
        problem = next((vote.problem for vote in self.votes if vote.problem), "")
        reasons = [[vote.judge, vote.reason] for vote in self.votes if vote.reason]
        details = {"problem": problem, "reasons": reasons}
        return canonical_json(facts | {key: value for key, value in details.items() if value})

    def _leader(self) -> tuple[str, int]:
        counts = Counter(vote.choice for vote in self.votes if vote.choice not in _ABSTENTIONS)
        return counts.most_common(1)[0] if counts else (TIE, 0)
