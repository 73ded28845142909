"""Does each label of a topic stand? Every demand of an instruction is asked of the passage as a question by itself.

    P(relevant) = P(answers the query) x P(answers each demand) x (1 - P(answers each ban)), from P(true) of one word
    +1: stands from `keep` on, goes under `drop`;   -1: stands under `drop`, goes from `keep` on;   between: `unsure`

A writer gives the questions with its instruction (prompts.demands); an instruction without them is asked as a whole.
Prompts begin with the passage, so that a prefix cache pays for it once. Questions are asked until the product is under
`drop`, since it only falls. lab/2026-11-26-judges.md compares questions with whole instructions.

A label that falls leaves the matrix, or is turned or marked as the settings say, with a verdict that says why; an
intent without a relevant passage and a passage without a label go with it. The topic is rejected only where nothing is
left to learn from an instruction: under none is there both a relevant passage and one that answers the query and is not
relevant.

Small models say true too often, and by how much differs between models: `neutral` takes that out, and `keep` and `drop`
follow from labels of people. `foil calibrate` finds all three. `compare` takes it out of each demand by itself, since
what parts two passages is which of them answers more; P(answers the query) then counts only where it is under `drop`.
It cannot tell that all passages answer a demand, or none.

`template` names a published judge's own prompt, with or without a system turn, of which `{{ passage }}`, `{{ query }}`
and `{{ instruction }}` are filled in; a passage is then asked about once.

What the corpus says of the bare query is taken as given. A label by construction that stands becomes the judge's, with
its votes. Price: a request of one word for each query, demand and ban of a passage, and judge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from foil.engine.errors import UsageError
from foil.engine.protocols import Ask, Cost, Prompt
from foil.engine.topic import Intent, IntentRole, Judgment, Outcome, Passage, Topic, Verdict
from foil.prompts.demands import demands_of
from foil.prompts.judge_logprobs import mean_of_odds
from foil.prompts.judge_questions import probability_true, question_prompt
from foil.prompts.render import PromptTemplate, load
from foil.validators.judges.canaries import CanaryMonitor
from foil.validators.judges.panel import AskedJudges, JudgeSettings, panel_fingerprint
from foil.validators.judges.votes import NONE, TIE, UNREADABLE, Vote, VoteCount, VoteSlot
from foil.validators.verdicts import pass_verdicts, reject_verdict

_NAME = "judge_demands"
_TEMPLATE = "judges/demand"
_UNREVIEWED = ("construction", "mined")
_PARTING: tuple[IntentRole, ...] = ("instructed", "dual", "reversed", "poisoned_instruction")
"""Intents whose instruction parts passages that all answer their query."""
FALSE_NEGATIVE, DOUBTFUL_POSITIVE = "negative_is_relevant", "positive_not_relevant"
"""Reasons for which a label does not stand."""
_QUERY = "answers the query"
_INPUTS = frozenset({"code", "passage", "query", "instruction", "question"})
"""What a template may name."""


class JudgeDemandsSettings(JudgeSettings):
    """From when on a passage counts as relevant or not, and what becomes of labels in between."""

    kind: Literal["judge_demands"] = "judge_demands"
    keep: float = Field(0.5, gt=0, lt=1, description="P(relevant) from which on a passage counts as relevant")
    drop: float = Field(0.2, gt=0, lt=1, description="P(relevant) under which it counts as not relevant")
    neutral: float = Field(
        0.5, gt=0, lt=1, description="P(true) by which this model says neither; `foil calibrate` tells it"
    )
    compare: bool = Field(
        False,
        description="count a demand's log odds from their mean over the topic's labelled passages; for small models",
    )
    template: Path | None = Field(
        None, description="an own template (.j2) of one word; without `question` it is asked once a passage"
    )
    unsure: Literal["keep", "drop"] = Field("keep", description="what becomes of labels between the two")
    logprobs: bool = Field(True, description="whether P(true) is asked for; without, an answer counts 0 or 1")
    false_negatives: Literal["drop", "turn", "keep"] = Field(
        "drop", description="what becomes of a -1 that counts as relevant; `turn` makes it a +1"
    )
    doubtful_positives: Literal["drop", "mark"] = Field(
        "drop", description="what becomes of a +1 that counts as not relevant; `mark` keeps it, with a verdict"
    )
    as_positives: bool = Field(
        False, description="a -1 counts as relevant only from the least P(relevant) of its intent's +1 on"
    )
    contrast: bool = Field(
        True, description="whether a topic is rejected under none of whose instructions passages part"
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.drop > self.keep:
            raise ValueError(f"drop is {self.drop} and keep is {self.keep}; drop is at most keep")
        return self


class Asked(NamedTuple):
    """One question about a passage: in words, what the template is given, and whether a relevant passage answers it."""

    words: str
    instruction: str = ""
    question: str = ""
    expects_yes: bool = True


def questions_of(intent: Intent, *, whole: bool = False) -> Iterator[Asked]:
    """Whether it answers the query, then each demand and ban, or the whole instruction where it has neither.

    `whole`: query and instruction in one question.
    """
    if whole:
        yield Asked("is what the search asks for", instruction=intent.instruction)
        return
    yield Asked(_QUERY)
    demands, bans = demands_of(intent)
    for question in demands:
        yield Asked(f"answers {question!r}", question=question)
    for question in bans:
        yield Asked(f"answers {question!r}, which it must not", question=question, expects_yes=False)
    if intent.instruction and not (demands or bans):
        yield Asked("is what the instruction asks for", instruction=intent.instruction)


def template_of(settings: JudgeDemandsSettings) -> PromptTemplate:
    """The judge's own template, or the one that the settings name. Raises UsageError for one that cannot be asked."""
    if settings.template is None:
        return load(_TEMPLATE)
    template = load(settings.template.stem, settings.template.parent)
    unknown, missing = template.variables - _INPUTS, {"query", "passage"} - template.variables
    if unknown or missing:
        raise UsageError(
            f"{settings.template} names {sorted(unknown)} and lacks {sorted(missing)}; it is given "
            f"{', '.join(sorted(_INPUTS))}, and names query and passage"
        )
    return template


def shifted(probability: float, neutral: float) -> float:
    """A probability with its log odds counted from those of `neutral`, which becomes 0.5.

    >>> shifted(0.7, 0.7), round(shifted(0.9, 0.7), 3), shifted(0.0, 0.7)
    (0.5, 0.794, 0.0)
    """
    yes, no = probability * (1 - neutral), (1 - probability) * neutral
    return yes / (yes + no)


class JudgeDemands:
    """Edits as above. Rejects with `no_contrast_left`."""

    name = _NAME
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgeDemandsSettings) -> None:
        self._settings, self._monitor = settings, CanaryMonitor(settings.canaries, self.name)
        apart = settings.model_copy(update={"template": None})
        self.fingerprint = panel_fingerprint(apart, version=1) + template_of(settings).digest

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic without the labels that fell, with a verdict for each label asked."""
        judges = DemandJudges(self.name, self._settings, topic, ask)
        review = _CellReview(self._settings, topic, judges)
        await review.run()
        canaries = await judges.ask_canaries(judges.decide_canary, self._monitor, 1)
        return review.reviewed_topic(), [*review.verdicts, *canaries] or pass_verdicts(self.name)


class DemandJudges(AskedJudges):
    """Asks the questions of one topic's cells, each once a judge. `probabilities`: each P(true) of the logprobs."""

    def __init__(self, validator: str, settings: JudgeDemandsSettings, topic: Topic, ask: Ask) -> None:
        super().__init__(validator, settings, topic, ask)
        self._settings, self._template = settings, template_of(settings)
        self._whole = "question" not in self._template.variables
        queries = {intent.id: intent.query for intent in topic.intents if not intent.instruction}
        self._given = {
            (queries[label.intent_id], label.passage_id): float(label.relevance > 0)
            for label in topic.judgments
            if label.judge == "seed" and label.intent_id in queries
        }
        self._labelled = {(label.intent_id, label.passage_id) for label in topic.judgments}
        self._answers: dict[tuple[str, str, Asked, str], float | None] = {}
        self.probabilities: list[float] = []

    async def rate(self, intent: Intent, passage: Passage) -> VoteCount:
        """A vote of each judge. The mean of their P(relevant) is the count's score, where any has one."""
        slots = [VoteSlot(judge, 0) for judge in self._settings.judges]
        votes = [await self.decide(intent, [passage], slot) for slot in slots]
        return VoteCount(intent, (passage,), tuple(votes), len(slots))

    async def decide(self, intent: Intent, passages: Sequence[Passage], slot: VoteSlot) -> Vote:
        """A question: is this one passage relevant? TIE where P(relevant) is between `drop` and `keep`. The product is
        left once it is under `drop`, and is then a bound."""
        [passage] = passages
        probability, parts = 1.0, []

        async def choice() -> str:
            nonlocal probability
            for question in questions_of(intent, whole=self._whole):
                answered = await self._compared(intent, passage, question, slot)
                if answered is None:
                    return UNREADABLE
                parts.append(f"{question.words}: {answered:.2f}")
                factor = answered if question.expects_yes else 1 - answered
                if factor < self._settings.drop or not self._only_gates(intent, question):
                    probability *= factor
                if probability < self._settings.drop:
                    return NONE
            return passage.id if probability >= self._settings.keep else TIE

        vote = await self._vote(slot, choice)
        score = None if vote.choice == UNREADABLE else round(probability, 4)
        return replace(vote, score=score, reason="; ".join(parts))

    def _only_gates(self, intent: Intent, question: Asked) -> bool:
        """Whether the question may only speak against a passage: the query, where demands are compared."""
        return self._settings.compare and question.words == _QUERY and bool(intent.instruction)

    async def decide_canary(self, intent: Intent, passages: Sequence[Passage], slot: VoteSlot) -> Vote:
        """As `decide`; in between, whatever is nearer."""
        vote = await self.decide(intent, passages, slot)
        middle = (self._settings.keep + self._settings.drop) / 2
        relevant = vote.score is not None and vote.score >= middle
        return replace(vote, choice=passages[0].id if relevant else NONE) if vote.choice == TIE else vote

    def is_given(self, intent: Intent, label: Judgment) -> bool:
        """Whether the label follows from what the corpus says of the bare query."""
        of_bare_query = not intent.instruction and label.judge == "seed"
        return of_bare_query or (label.relevance < 0 and self._given.get((intent.query, label.passage_id)) == 0)

    def answers_query(self, query: str, passage: Passage) -> float | None:
        """The mean P(answers the query), as far as it is given or was asked."""
        if (query, passage.id) in self._given:
            return self._given[query, passage.id]
        answers = [self._answers.get((judge, query, Asked(_QUERY), passage.id)) for judge in self._settings.judges]
        readable = [answer for answer in answers if answer is not None]
        return sum(readable) / len(readable) if readable else None

    async def _compared(self, intent: Intent, passage: Passage, question: Asked, slot: VoteSlot) -> float | None:
        """P(true), of a demand counted from what is usual among the passages labelled under the intent, if there are
        two and the settings say so."""
        own = await self._probability(intent, passage, question, slot)
        if own is None or question.words == _QUERY or not self._settings.compare:
            return own
        peers = [peer for peer in self._topic.passages if (intent.id, peer.id) in self._labelled]
        probabilities = [await self._probability(intent, peer, question, slot) for peer in peers]
        readable = [each for each in probabilities if each is not None]
        return shifted(own, mean_of_odds(readable)) if len(readable) > 1 else own

    async def _probability(self, intent: Intent, passage: Passage, question: Asked, slot: VoteSlot) -> float | None:
        """P(true), by logprobs or else by the answer; None where the reply says neither."""
        if question.words == _QUERY and (intent.query, passage.id) in self._given:
            return self._given[intent.query, passage.id]
        key = (slot.judge, intent.query, question, passage.id)
        if key not in self._answers:
            self._answers[key] = await self._ask_once(intent, passage, question, slot)
        return self._answers[key]

    async def _ask_once(self, intent: Intent, passage: Passage, question: Asked, slot: VoteSlot) -> float | None:
        prompt = self._prompt(intent, passage, question)
        probability, is_sure = await probability_true(self._ask, prompt, slot.judge, logprobs=self._settings.logprobs)
        if probability is None or not is_sure:
            return probability
        self.probabilities.append(probability)
        return shifted(probability, self._settings.neutral)

    def _prompt(self, intent: Intent, passage: Passage, question: Asked) -> Prompt:
        """The prompt, whose code follows from the passage alone: questions about a passage share all that stands before
        them."""
        inputs = {"query": intent.query, "instruction": question.instruction, "question": question.question}
        return question_prompt(self._template, passage, self._settings.passage_chars, inputs)


class _CellReview:
    """The review of one topic, cell by cell."""

    def __init__(self, settings: JudgeDemandsSettings, topic: Topic, judges: DemandJudges) -> None:
        self._settings, self._topic, self._judges = settings, topic, judges
        self.verdicts: list[Verdict] = []
        self._labels = {(label.passage_id, label.intent_id): label for label in topic.judgments}
        self._least: dict[str, float] = {}  # P(relevant) of an intent's positives, which stand first in a set

    async def run(self) -> None:
        """Asks about every label, a passage's one after the other, and then looks at what is left."""
        for passage in self._topic.passages:
            for intent in self._topic.intents:
                label = self._labels.get((passage.id, intent.id))
                if label and not self._judges.is_given(intent, label):
                    await self._review(passage, intent, label)
        self._drop_unserved()
        parting = [intent for intent in self._topic.intents if self._settings.contrast and intent.role in _PARTING]
        if parting and not any(map(self._parts, parting)):
            lost = len(self._topic.judgments) - len(self._labels)
            evidence = (
                f"{lost} of {len(self._topic.judgments)} labels fell; under no instruction is there still both a "
                "relevant passage and one that answers the query and is not relevant"
            )
            self.verdicts.append(reject_verdict(_NAME, "topic", "no_contrast_left", evidence))

    def reviewed_topic(self) -> Topic:
        """The topic with what is left of its matrix."""
        before, after = ({id_ for label in labels for id_ in (label.intent_id, label.passage_id)}
                         for labels in (self._topic.judgments, self._labels.values()))  # fmt: skip
        return replace(
            self._topic,
            intents=tuple(intent for intent in self._topic.intents if intent.id not in before - after),
            passages=tuple(passage for passage in self._topic.passages if passage.id not in before - after),
            judgments=tuple(self._labels.values()),
        )

    async def _review(self, passage: Passage, intent: Intent, label: Judgment) -> None:
        """Keeps the label, as the judge's own where nobody had judged it before, or does as the settings say."""
        count = await self._judges.rate(intent, passage)
        if label.relevance > 0 and _scores(count):
            self._least[intent.id] = min(count.score, self._least.get(intent.id, 1))
        reason = self._failure(count, label)
        judged = replace(label, judge=self._judges.label_source(count), votes=count.votes_on(passage.id))
        if not reason:
            if label.judge in _UNREVIEWED and _scores(count):
                self._labels[passage.id, intent.id] = judged
            self.verdicts.append(self._judges.verdict(count, passage.id))
            return
        fate = self._fate(reason)
        if fate == "drop":
            del self._labels[passage.id, intent.id]
        elif fate == "turn":
            self._labels[passage.id, intent.id] = replace(judged, relevance=1)
        outcome: Outcome = "edit" if fate in ("drop", "turn") else "pass"
        sign = "relevant" if label.relevance > 0 else "not relevant"
        why = f"the label says {sign}; P(relevant) is {count.score:.2f}" if _scores(count) else "no readable answer"
        self.verdicts.append(self._judges.verdict(count, passage.id, outcome, reason, why=why))

    def _fate(self, reason: str) -> str:
        """What the settings say of a label that does not stand."""
        settings = self._settings
        fates = {FALSE_NEGATIVE: settings.false_negatives, DOUBTFUL_POSITIVE: settings.doubtful_positives}
        return fates.get(reason, "drop")

    def _failure(self, count: VoteCount, label: Judgment) -> str:
        """The reason for which a label goes, or ""."""
        scores = _scores(count)
        settings, probability = self._settings, sum(scores) / len(scores) if scores else None
        if probability is None or settings.drop <= probability < settings.keep:
            unsure = "label_unsure" if scores else UNREADABLE
            return unsure if settings.unsure == "drop" else ""
        relevant = probability >= settings.keep
        if relevant == (label.relevance > 0):
            return ""
        if relevant and settings.as_positives and probability < self._least.get(label.intent_id, 0):
            return ""
        return FALSE_NEGATIVE if relevant else DOUBTFUL_POSITIVE

    def _drop_unserved(self) -> None:
        """Drops each intent that has lost its last relevant passage, with the labels that it has left."""
        before = {label.intent_id for label in self._topic.judgments if label.relevance > 0}
        after = {label.intent_id for label in self._labels.values() if label.relevance > 0}
        for intent in self._topic.intents:
            if intent.id in before - after:
                self._labels = {key: label for key, label in self._labels.items() if label.intent_id != intent.id}
                evidence = f"no relevant passage of the {intent.role} intent is left"
                self.verdicts.append(Verdict(_NAME, intent.id, "edit", "no_positive_left", evidence))

    def _parts(self, intent: Intent) -> bool:
        """Whether the intent still has a relevant passage, and one that answers the query and is not relevant."""
        own = [label for label in self._labels.values() if label.intent_id == intent.id]
        relevance = {label.passage_id: label.relevance for label in own}
        return 1 in relevance.values() and any(
            relevance.get(passage.id) == -1 and self._answers_query(intent.query, passage)
            for passage in self._topic.passages
        )

    def _answers_query(self, query: str, passage: Passage) -> bool:
        probability = self._judges.answers_query(query, passage)
        return passage.role == "instruction_negative" if probability is None else probability >= self._settings.drop


def _scores(count: VoteCount) -> list[float]:
    return [vote.score for vote in count.votes if vote.score is not None]
