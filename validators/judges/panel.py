"""What the judges share: how a question is put to a panel of models, how votes decide, and what is kept of them.

    intent + passages -> one ballot a voter (own order, own code, temperature 0) -> strict majority, or none -> Verdict

A panel has `votes` seats for each judge. Since temperature 0 repeats itself, every seat sees the passages in an order
and under a code of its own. Seats vote one after another, and the rest is not asked once the outcome is decided. A
reply that cannot be read, and a request that the model refuses, is a vote for nothing, never an error. What ends a run
(a spent budget, an outage) passes.

Promise: the same topic has the same ballots; nothing but the calls' replies decides. Passages are data: see
prompts.untrusted_text. Price: `votes` calls a judge and question at most, half of that where the first votes agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from engine.errors import RefusedRequestError, UnreadableReplyError
from engine.ids import canonical_json, fraction_of, sha256_hex
from engine.protocols import Ask, Prompt
from engine.settings import Settings
from engine.topic import Intent, Outcome, Passage, Topic, Verdict, intent_id
from prompts.constraints.constraint import body
from prompts.judge_answers import LABELS, MostRelevant, Relevance, Relevant
from prompts.render import load
from prompts.untrusted_text import inert, nonce
from validators.judges.canaries import CanarySettings, Tally, canary_of
from validators.verdicts import shown

VERSION = 2
"""Raised when the same topic and replies would give other votes."""

NONE, TIE, UNREADABLE = "none", "tie", "unreadable_judge"
"""What a vote may be besides the id of a passage."""
_QUERY_CHARS = 20_000
_PROBLEM_CHARS = 200
_LOGPROBS = MappingProxyType({"logprobs": True, "top_logprobs": 5})
_BOOLEAN = ("true", "false")


class PanelSettings(Settings):
    """Who judges, how often, and how the judges are watched."""

    judges: tuple[str, ...] = Field(
        default=("judge",), min_length=1, description="roles of the models that judge; several are a panel"
    )
    votes: int = Field(default=1, ge=1, le=15, description="votes of each judge, each over passages in another order")
    passage_chars: int = Field(default=8000, ge=200, description="characters of a passage that a judge is shown")
    canaries: CanarySettings = CanarySettings()

    def asks(self) -> tuple[str, ...]:
        return self.judges


@dataclass(frozen=True, slots=True)
class VoteSlot:
    """One vote to be cast: by which judge, and which of its votes."""

    judge: str
    number: int


@dataclass(frozen=True, slots=True)
class Vote:
    """The id of the passage named, or NONE, TIE, UNREADABLE; `score` is P(true) where the model told it."""

    judge: str
    choice: str
    score: float | None = None
    problem: str = ""


Ballot = Callable[[Intent, Sequence[Passage], VoteSlot], Awaitable[Vote]]


@dataclass(frozen=True, slots=True)
class VoteCount:
    """The votes over one question. `seats` counts the votes that could have been cast."""

    intent: Intent
    passages: tuple[Passage, ...]
    votes: tuple[Vote, ...]
    seats: int

    @property
    def decision(self) -> str:
        """What more than half of all seats say, or TIE; a vote that cannot be read says nothing."""
        choice, count = self._leading()
        return choice if 2 * count > self.seats else TIE

    @property
    def settled(self) -> bool:
        """Whether no vote still out can change the decision."""
        _, count = self._leading()
        return 2 * count > self.seats or 2 * (count + self.seats - len(self.votes)) <= self.seats

    @property
    def score(self) -> float:
        """The mean P(true), where it is known, else the share of the votes cast for what leads."""
        known = [vote.score for vote in self.votes if vote.score is not None]
        _, count = self._leading()
        return round((sum(known) if known else count) / len(known or self.votes), 4)

    def says(self, passage_id: str) -> tuple[int, ...]:
        """What each vote says of a passage: 1 relevant, -1 not, 0 nothing."""
        silent = (TIE, UNREADABLE)
        return tuple(0 if v.choice in silent else 1 if v.choice == passage_id else -1 for v in self.votes)

    def why_not(self, wanted: Collection[str]) -> str:
        """The reason code of a decision that is none of those wanted."""
        if self.decision != TIE:
            return "no_passage_named" if self.decision == NONE else "other_passage_named"
        said = Counter(vote.choice for vote in self.votes if vote.choice not in wanted).most_common(1)
        return {UNREADABLE: UNREADABLE, TIE: "order_decides"}.get(said[0][0] if said else "", "no_majority")

    def evidence(self, **more: str) -> str:
        """Intent, passages and votes, as JSON."""
        votes = [[vote.judge, vote.choice] for vote in self.votes]
        facts = {"intent": self.intent.id, "shown": [p.id for p in self.passages], "votes": votes, **more}
        problem = next((vote.problem for vote in self.votes if vote.problem), "")
        return canonical_json(facts | ({"problem": problem} if problem else {}))

    def _leading(self) -> tuple[str, int]:
        counts = Counter(vote.choice for vote in self.votes if vote.choice not in (TIE, UNREADABLE))
        return counts.most_common(1)[0] if counts else (TIE, 0)


def rules(settings: PanelSettings, *templates: str, version: int) -> str:
    """A judge's rules in one spelling: its settings, its templates, and the version of its code."""
    digests = [load(template).digest for template in templates]
    return canonical_json({**settings.model_dump(mode="json"), "templates": digests, "version": [VERSION, version]})


def bare(topic: Topic, intent: Intent) -> Intent:
    """The intent's query without an instruction: the topic's own such intent, if it has one."""
    found = next((i for i in topic.intents if not i.instruction and i.query == intent.query), None)
    known = {key: value for key, value in intent.attributes.items() if key == "evidence"}
    return found or Intent(intent_id(topic.id, "", intent.query), "original", "", intent.query, known)


class JudgePanel:
    """The panel before one topic: asks, counts what it cost, and writes the verdicts of one validator."""

    def __init__(self, validator: str, settings: PanelSettings, topic: Topic, ask: Ask) -> None:
        self._validator, self._settings, self._topic, self._ask = validator, settings, topic, ask
        self._billed = len(ask.calls)
        self._models: dict[str, str] = {}
        self._asked = Counter[str]()
        self._claims = {(j.intent_id, j.passage_id) for j in topic.judgments if j.relevance > 0}
        self._seats = [VoteSlot(judge, n) for n in range(settings.votes) for judge in settings.judges]

    # --- votes ---

    async def poll(self, ballot: Ballot, intent: Intent, passages: Sequence[Passage]) -> VoteCount:
        """Asks seat after seat until the outcome is decided."""
        poll = VoteCount(intent, tuple(passages), (), len(self._seats))
        for seat in self._seats:
            poll = replace(poll, votes=(*poll.votes, await ballot(intent, passages, seat)))
            if poll.settled:
                break
        return poll

    async def name_best(self, intent: Intent, passages: Sequence[Passage], seat: VoteSlot) -> Vote:
        """A ballot: which of up to len(LABELS) passages, in an order of the seat's own, serves the intent best."""
        order = shuffled(passages, self._topic.id, intent.id, str(seat.number))
        ids = dict(zip(LABELS, [passage.id for passage in order], strict=False))

        async def named() -> str:
            prompt = self._prompt("judges/scenario", intent, order, seat)
            answer = await self._ask(prompt, MostRelevant, role=seat.judge)
            return NONE if answer.most_relevant == "none" else ids.get(answer.most_relevant, UNREADABLE)

        return await self._vote(seat, named)

    async def compare(self, intent: Intent, passages: Sequence[Passage], seat: VoteSlot) -> Vote:
        """A ballot: which of two passages alone is relevant, in both orders; answers that differ are a TIE.

        The second order is not asked where the first already speaks against the first passage.
        """
        wanted, other = passages
        there = await self._compare_once(intent, (wanted, other), seat)
        if there.choice != wanted.id:
            return there
        back = await self._compare_once(intent, (other, wanted), seat)
        return back if back.choice in (wanted.id, UNREADABLE) else replace(back, choice=TIE)

    async def _compare_once(self, intent: Intent, order: tuple[Passage, Passage], seat: VoteSlot) -> Vote:
        choices = {"A": order[0].id, "B": order[1].id, "both": TIE, "neither": NONE}

        async def named() -> str:
            prompt = self._prompt("judges/polarity", intent, order, seat)
            return choices[(await self._ask(prompt, Relevant, role=seat.judge)).relevant]

        return await self._vote(seat, named)

    async def rate(
        self,
        intent: Intent,
        passages: Sequence[Passage],
        seat: VoteSlot,
        *,
        threshold: float = 0.5,
        logprobs: bool = False,
    ) -> Vote:
        """A ballot: whether one passage is relevant, by P(true) where the model tells it, else by its answer.

        A model that refuses to give logprobs is asked without them.
        """
        chance: float | None = None

        async def asked(params: Mapping[str, Any]) -> tuple[Relevance, Any]:
            prompt = self._prompt("judges/relevance", intent, passages, seat, params)
            return await self._ask.scored(prompt, Relevance, role=seat.judge)

        async def named() -> str:
            nonlocal chance
            try:
                answer, told = await asked(_LOGPROBS if logprobs else {})
            except RefusedRequestError:
                if not logprobs:
                    raise
                answer, told = await asked({})
            chance = probability_of_true(told)
            relevant = answer.relevant if chance is None else chance >= threshold
            return passages[0].id if relevant else NONE

        return replace(await self._vote(seat, named), score=chance)

    async def _vote(self, seat: VoteSlot, named: Callable[[], Awaitable[str]]) -> Vote:
        self._asked[seat.judge] += 1
        before = len(self._ask.calls)
        try:
            choice, problem = await named(), ""
        except (UnreadableReplyError, RefusedRequestError) as error:
            choice, problem = UNREADABLE, shown(str(error), _PROBLEM_CHARS)
        if len(self._ask.calls) > before:
            self._models[seat.judge] = self._ask.calls[-1].model
        return Vote(seat.judge, choice, problem=problem)

    def _prompt(
        self,
        template: str,
        intent: Intent,
        order: Sequence[Passage],
        seat: VoteSlot,
        params: Mapping[str, Any] = MappingProxyType({}),
    ) -> Prompt:
        texts = [inert(body(passage), self._settings.passage_chars) for passage in order]
        query, instruction = inert(intent.query, _QUERY_CHARS), inert(intent.instruction, _QUERY_CHARS)
        prompt = load(template).render(
            {"intent": intent, "passages": tuple(order), "claimed": [(intent.id, p.id) in self._claims for p in order]},
            code=nonce([query, instruction, *texts], self._topic.id, template, str(seat.number)),
            query=query,
            instruction=instruction,
            shown=[{"label": label, "text": text} for label, text in zip(LABELS, texts, strict=False)],
        )
        return replace(prompt, params={"temperature": 0.0, **params})

    # --- verdicts ---

    def judge(self, poll: VoteCount) -> str:
        """Who stands behind a label that this poll decided."""
        return "judge:" + "+".join(dict.fromkeys(self._models.get(vote.judge, vote.judge) for vote in poll.votes))

    def verdict(self, poll: VoteCount, scope: str, outcome: Outcome = "pass", reason: str = "", **more: str) -> Verdict:
        """The verdict on a poll; it bears the cost of every call since the verdict before."""
        return Verdict(self._validator, scope, outcome, reason, poll.evidence(**more), poll.score, self._cost())

    async def canaries(self, ballot: Ballot, tally: Tally, passages: int) -> list[Verdict]:
        """Puts the canaries due to each judge of this topic; JudgeUnreliableError if one is surely unreliable."""
        verdicts = []
        for judge, asked in sorted(self._asked.items()):
            due = asked * self._settings.canaries.share
            luck = fraction_of("canaries", self._validator, judge, self._topic.id)
            for number in range(int(due + luck)):
                canary = canary_of(self._topic, f"{self._validator} {number}", passages, self._settings.passage_chars)
                if canary:
                    right = NONE if canary.denied else canary.passages[0].id
                    self._claims.add((canary.intent.id, right))
                    vote = await ballot(canary.intent, canary.passages, VoteSlot(judge, number))
                    poll = VoteCount(canary.intent, canary.passages, (vote,), 1)
                    reason = "canary_right" if vote.choice == right else "canary_wrong"
                    verdicts.append(self.verdict(poll, "topic", "pass", reason, instruction=canary.intent.instruction))
                    tally.count(judge, right=vote.choice == right, problem=vote.problem)
        return verdicts

    def _cost(self) -> float:
        """What the calls since the last verdict cost; one that the topic had made before was paid there."""
        known = {call.request_id for call in self._ask.calls[: self._billed]}
        new = {call.request_id: call for call in self._ask.calls[self._billed :] if call.request_id not in known}
        self._billed = len(self._ask.calls)
        return sum(call.cost_usd for call in new.values() if not call.reused)


def shuffled(passages: Sequence[Passage], *of: str) -> list[Passage]:
    """The passages in an order that follows from `of` and from nothing about them but their ids."""
    rng = Random(int(sha256_hex("\x1f".join(["order", *of]))[:16], 16))
    ordered = sorted(passages, key=lambda passage: passage.id)
    rng.shuffle(ordered)
    return ordered


class _Choice(BaseModel):
    token: str
    logprob: FiniteFloat


class _Place(_Choice):
    top_logprobs: list[_Choice] = []


class _Logprobs(BaseModel):
    content: list[_Place]


def probability_of_true(logprobs: Any) -> float | None:
    """P(true) against P(false) where the answer's last true or false stands; None without logprobs of it.

    Of a word that is not among those listed, the most that it can have is assumed: what all listed leave.
    """
    try:
        places = _Logprobs.model_validate(logprobs).content
    except ValidationError:
        return None
    place = next((place for place in reversed(places) if _word(place.token) in _BOOLEAN), None)
    if place is None:
        return None
    listed = {one.token: math.exp(min(one.logprob, 0.0)) for one in (*place.top_logprobs, place)}
    left = max(0.0, 1.0 - sum(listed.values()))
    true, false = (_sum_of(word, listed) for word in _BOOLEAN)
    true, false = true if true is not None else left, false if false is not None else left
    return round(true / (true + false), 4) if true + false > 0 else None


def _sum_of(word: str, listed: Mapping[str, float]) -> float | None:
    found = [chance for token, chance in listed.items() if _word(token) == word]
    return sum(found) if found else None


def _word(token: str) -> str:
    return token.strip(' \t\n":{}').lower()
