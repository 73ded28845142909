"""What the judges share: how a panel of models is asked a question, when voting stops, and what a verdict keeps.

    intent + passages -> one vote a slot (own order, own code) -> strict majority, or none -> Verdict

A panel has `votes` slots for each judge. A model is asked at temperature 0 unless the job's `params` for it say
otherwise, and then it repeats itself: so every slot shows the passages in an order and under a code of its own. The
slots are asked one after another; voting stops once the result is certain. An unreadable reply and a refused request
count as a vote for nothing; where the other votes decide nothing, a refusal fails the topic, which nobody has judged
then. An error that ends a run (a spent budget, an outage) passes through.

Promise: the same topic has the same questions, and only the replies decide. Passages are data: see
prompts.untrusted_text. Price: at most `votes` calls a judge and question, half of that where the first votes agree.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import Field

from foil.engine.errors import DiscardedReplyError, ModelError, RefusedRequestError, UnreadableReplyError
from foil.engine.ids import canonical_json, fraction_of, sha256_hex
from foil.engine.protocols import Ask, Prompt
from foil.engine.settings import Settings
from foil.engine.topic import Intent, Outcome, Passage, Topic, Verdict
from foil.engine.visible_text import visible
from foil.prompts.constraints.constraint import full_text
from foil.prompts.judge_answers import (
    LABELS,
    MostRelevant,
    ReasonedMostRelevant,
    ReasonedRelevance,
    ReasonedRelevant,
    Relevance,
    Relevant,
    reason_of,
)
from foil.prompts.judge_logprobs import probability_of_true
from foil.prompts.judge_questions import QUERY_CHARS
from foil.prompts.parse import StructuredReply
from foil.prompts.passages.kinds import kind_of
from foil.prompts.render import load
from foil.prompts.sampling import judging
from foil.prompts.untrusted_text import inert, nonce
from foil.validators.judges.canaries import Canary, CanaryMonitor, CanarySettings, make_canary
from foil.validators.judges.votes import NONE, TIE, UNREADABLE, Vote, VoteCount, VoteSlot
from foil.validators.verdicts import truncate

VERSION = 5
"""Raised when the same topic and replies would give other votes."""

_PROBLEM_CHARS = 200
_LOGPROBS = MappingProxyType({"logprobs": True, "top_logprobs": 5})

Judged = TypeVar("Judged", bound=StructuredReply)
Question = Callable[[Intent, Sequence[Passage], VoteSlot], Awaitable[Vote]]
"""Asks for the vote of one slot."""


class JudgeSettings(Settings):
    """Who judges, what they see, and how they are watched."""

    judges: tuple[str, ...] = Field(
        ("judge",), min_length=1, description="roles of the models that judge; several are a panel"
    )
    passage_chars: int = Field(8000, ge=200, le=500_000, description="characters of a passage that a judge is shown")
    canaries: CanarySettings = CanarySettings()

    def asks(self) -> tuple[str, ...]:
        return self.judges


class PanelSettings(JudgeSettings):
    """Who judges, how often, and how the judges are watched."""

    votes: int = Field(1, ge=1, le=15, description="votes of each judge, each over passages in another order")
    rationale: bool = Field(
        False, description="have each judge give its reason before the label; it is kept as evidence"
    )


def panel_fingerprint(settings: JudgeSettings, *templates: str, version: int) -> str:
    """The fingerprint of a judge: its settings, its templates, and the version of its code."""
    digests = [load(template).digest for template in templates]
    return canonical_json({**settings.model_dump(mode="json"), "templates": digests, "version": [VERSION, version]})


class AskedJudges:
    """The judges of one topic and one validator: who was asked, what it cost, the canaries, and the verdicts."""

    def __init__(self, validator: str, settings: JudgeSettings, topic: Topic, ask: Ask) -> None:
        self._validator, self._watched, self._topic, self._ask = validator, settings, topic, ask
        self._billed = len(ask.calls)
        self._model_of: dict[str, str] = {}
        self._reason = ""
        self._vote_totals = Counter[str]()
        self._refusals: dict[str, ModelError] = {}

    async def _vote(self, slot: VoteSlot, ask_for_choice: Callable[[], Awaitable[str]]) -> Vote:
        self._vote_totals[slot.judge] += 1
        self._reason = ""
        calls_before = len(self._ask.calls)
        try:
            choice, problem = await ask_for_choice(), ""
        except (UnreadableReplyError, DiscardedReplyError, RefusedRequestError) as error:
            choice, problem = UNREADABLE, truncate(str(error), _PROBLEM_CHARS)
            if not isinstance(error, UnreadableReplyError):
                self._refusals[problem] = error
        if len(self._ask.calls) > calls_before:
            self._model_of[slot.judge] = self._ask.calls[-1].model
        return Vote(slot.judge, choice, problem=problem, reason=truncate(self._reason, _PROBLEM_CHARS))

    def label_source(self, count: VoteCount) -> str:
        """What `Judgment.judge` holds for a label that these votes decided."""
        models = dict.fromkeys(self._model_of.get(vote.judge, vote.judge) for vote in count.votes)
        return "judge:" + "+".join(models)

    def verdict(
        self, count: VoteCount, scope: str, outcome: Outcome = "pass", reason: str = "", **more: str
    ) -> Verdict:
        """The verdict of a vote count. It bears the cost of every call since the verdict before.

        Raises the refusal of a judge instead of one that is not a pass, where the other votes decide nothing.
        """
        refused = next((vote.problem for vote in count.votes if vote.problem in self._refusals), "")
        if refused and outcome != "pass" and count.decision in (TIE, UNREADABLE):
            raise self._refusals[refused]
        return Verdict(self._validator, scope, outcome, reason, count.evidence(**more), count.score, self._cost())

    async def ask_canaries(self, question: Question, monitor: CanaryMonitor, passages: int) -> list[Verdict]:
        """Asks each judge the canaries that its share requires. Raises JudgeUnreliableError (CanaryMonitor)."""
        verdicts = []
        for judge, votes in sorted(self._vote_totals.items()):
            offset = fraction_of("canaries", self._validator, judge, self._topic.id)
            for number in range(int(votes * self._watched.canaries.share + offset)):
                purpose = f"{self._validator} {number}"
                if canary := make_canary(self._topic, purpose, passages, self._watched.passage_chars):
                    verdicts.append(await self._ask_canary(canary, question, VoteSlot(judge, number), monitor))
        return verdicts

    async def _ask_canary(self, canary: Canary, question: Question, slot: VoteSlot, monitor: CanaryMonitor) -> Verdict:
        right = NONE if canary.none_relevant else canary.passages[0].id
        vote = await question(canary.intent, canary.passages, slot)
        count = VoteCount(canary.intent, canary.passages, (vote,), 1)
        if isinstance(self._refusals.get(vote.problem), RefusedRequestError):
            monitor.record_refusal(slot.judge, vote.problem)
            return self.verdict(count, "topic", "pass", "canary_refused", instruction=canary.intent.instruction)
        reason = "canary_right" if vote.choice == right else "canary_wrong"
        verdict = self.verdict(count, "topic", "pass", reason, instruction=canary.intent.instruction)
        wrong = (
            "" if vote.choice == right else f"{visible(canary.intent.instruction[:200])!r}: {vote.choice}, not {right}"
        )
        monitor.record_answer(slot.judge, right=vote.choice == right, problem=vote.problem or wrong)
        return verdict

    def _cost(self) -> float:
        """The cost of the calls since the last verdict. A call that the topic had made before was counted there."""
        calls, billed = self._ask.calls, self._billed
        paid_ids = {call.request_id for call in calls[:billed]}
        new = {call.request_id: call for call in calls[billed:] if call.request_id not in paid_ids}
        self._billed = len(calls)
        return sum(call.cost_usd for call in new.values() if not call.reused)


class JudgePanel(AskedJudges):
    """The panel for one topic and one validator: asks each judge for its votes, in orders of their own."""

    def __init__(self, validator: str, settings: PanelSettings, topic: Topic, ask: Ask) -> None:
        super().__init__(validator, settings, topic, ask)
        self._settings = settings
        self._slots = [VoteSlot(judge, n) for n in range(settings.votes) for judge in settings.judges]

    async def collect_votes(self, question: Question, intent: Intent, passages: Sequence[Passage]) -> VoteCount:
        """Asks slot after slot until the result is certain."""
        count = VoteCount(intent, tuple(passages), (), len(self._slots))
        for slot in self._slots:
            count = replace(count, votes=(*count.votes, await question(intent, passages, slot)))
            if count.is_decided:
                break
        return count

    async def ask_once(
        self,
        template: str,
        answer_type: type[Judged],
        chosen: Callable[[Judged], str],
        intent: Intent,
        order: Sequence[Passage],
        *,
        slot: VoteSlot,
    ) -> Vote:
        """A vote by any template and type of answer: `chosen` gives the id of the passage that an answer means, or
        NONE, TIE or UNREADABLE."""

        async def choice() -> str:
            answer = await self._ask(self._prompt(template, intent, order, slot), answer_type, role=slot.judge)
            return chosen(self._explained(answer))

        return await self._vote(slot, choice)

    async def choose_best(self, intent: Intent, passages: Sequence[Passage], slot: VoteSlot) -> Vote:
        """A question: which of up to len(LABELS) passages serves the intent best? Their order is the slot's own."""
        order = shuffle_passages(passages, self._topic.id, intent.id, str(slot.number))
        ids = dict(zip(LABELS, [passage.id for passage in order], strict=False))

        def chosen(answer: MostRelevant) -> str:
            return NONE if answer.most_relevant == "none" else ids.get(answer.most_relevant, UNREADABLE)

        answer_type = ReasonedMostRelevant if self._settings.rationale else MostRelevant
        return await self.ask_once("judges/scenario", answer_type, chosen, intent, order, slot=slot)

    async def compare_pair(self, intent: Intent, passages: Sequence[Passage], slot: VoteSlot) -> Vote:
        """A question: which of two passages alone is relevant? If swapping them changes the answer, the vote is a TIE.

        The second order is not asked where the first order already speaks against the first passage.
        """
        expected, rival = passages
        first = await self.compare_once(intent, (expected, rival), slot)
        if first.choice != expected.id:
            return first
        swapped = await self.compare_once(intent, (rival, expected), slot)
        return swapped if swapped.choice in (expected.id, UNREADABLE) else replace(swapped, choice=TIE)

    async def compare_once(self, intent: Intent, order: tuple[Passage, Passage], slot: VoteSlot) -> Vote:
        """A vote on two passages in this order alone: TIE where it names both, NONE where neither."""
        choices = {"A": order[0].id, "B": order[1].id, "both": TIE, "neither": NONE}
        answer_type = ReasonedRelevant if self._settings.rationale else Relevant
        return await self.ask_once(
            "judges/polarity", answer_type, lambda answer: choices[answer.relevant], intent, order, slot=slot
        )

    async def rate_passage(
        self,
        intent: Intent,
        passages: Sequence[Passage],
        slot: VoteSlot,
        *,
        threshold: float = 0.5,
        logprobs: bool = False,
    ) -> Vote:
        """A question: is this one passage relevant? Decided by P(true) if the model gives logprobs, else by its answer.

        A model that refuses to give logprobs is asked without them.
        """
        probability: float | None = None

        async def scored(params: Mapping[str, Any]) -> tuple[Relevance, Any]:
            prompt = self._prompt("judges/relevance", intent, passages, slot, params)
            answer_type = ReasonedRelevance if self._settings.rationale else Relevance
            return await self._ask.scored(prompt, answer_type, role=slot.judge)

        async def choice() -> str:
            nonlocal probability
            try:
                answer, token_logprobs = await scored(_LOGPROBS if logprobs else {})
            except RefusedRequestError:
                if not logprobs:
                    raise
                answer, token_logprobs = await scored({})
            self._explained(answer)
            probability = probability_of_true(token_logprobs)
            relevant = answer.relevant if probability is None else probability >= threshold
            return passages[0].id if relevant else NONE

        return replace(await self._vote(slot, choice), score=probability)

    def _explained(self, answer: Judged) -> Judged:
        """The answer, of which the reason is noted for the vote."""
        self._reason = reason_of(answer)
        return answer

    def _prompt(
        self,
        template: str,
        intent: Intent,
        order: Sequence[Passage],
        slot: VoteSlot,
        params: Mapping[str, Any] = MappingProxyType({}),
    ) -> Prompt:
        texts = [inert(full_text(passage), self._settings.passage_chars) for passage in order]
        query, instruction = inert(intent.query, QUERY_CHARS), inert(intent.instruction, QUERY_CHARS)
        prompt = load(template).render(
            code=nonce([query, instruction, *texts], self._topic.id, template, str(slot.number)),
            query=query,
            instruction=instruction,
            kind=_kind(order),
            rationale=self._settings.rationale,
            shown=[{"label": label, "text": text} for label, text in zip(LABELS, texts, strict=False)],
        )
        return replace(judging(prompt), params=params)


def _kind(passages: Sequence[Passage]) -> str:
    """The kind of most of the passages, in whatever order they are shown."""
    kinds = Counter(kind_of(passage) for passage in sorted(passages, key=lambda passage: passage.id))
    return kinds.most_common(1)[0][0]


def shuffle_passages(passages: Sequence[Passage], *key: str) -> list[Passage]:
    """The passages in an order that follows from `key` and their ids alone."""
    rng = Random(int(sha256_hex("\x1f".join(["order", *key]))[:16], 16))
    ordered = sorted(passages, key=lambda passage: passage.id)
    rng.shuffle(ordered)
    return ordered
