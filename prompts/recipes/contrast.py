"""The recipe `contrast`: two passages of the corpus that both answer a query, and what each tells and the other lacks.

    (Q, A, B) -> questions of which A answers some and B others -> P(answered) of each, by the judge -> the surest ones
              -> an instruction that asks for A's ; one that asks for B's

              A   B
    Q        +1  +1
    (I_A,Q)  +1  -1
    (I_B,Q)  -1  +1

No method of the literature, where a model writes the passages that fail. Each passage is relevant once and once not, so
its length, title or style alone say nothing of its label. A topic takes up to three requests.
"""

from collections.abc import Sequence
from math import exp
from typing import Literal

from pydantic import Field

from foil.engine.errors import Rejected
from foil.engine.ids import content_id
from foil.engine.protocols import JUDGE, Ask
from foil.engine.settings import Settings
from foil.engine.topic import IntentRole, Passage, Seed, Topic
from foil.prompts.constraints.instructions import Length
from foil.prompts.demands import Demands, dump_demands
from foil.prompts.judge_logprobs import log_odds
from foil.prompts.judge_questions import probability_true, question_prompt
from foil.prompts.passages.readable import flaw_of
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.render import load, recipe_fingerprint
from foil.prompts.writing.answers import Questions
from foil.prompts.writing.checks import CHECKS_DESCRIPTION, OnFail, Reason, near_copy
from foil.prompts.writing.contrast import TEMPLATES, ContrastWriter, PassageTask, cell_of, contrast_of
from foil.prompts.writing.frames import FRAMES_DESCRIPTION
from foil.prompts.writing.material import WritingMaterial, writing_material

VERSION = "6"
"""Raised when the same seed, settings and templates would give other topics."""

_DEMAND, _UNASKED = "judges/demand", 0.5
_SAME = 0.9  # share of runs of three words above which a second passage is a copy; another verdict parts best


class ContrastSettings(Settings):
    """How real passages are set against each other."""

    kind: Literal["contrast"] = "contrast"
    passage_chars: int = Field(
        2_000, ge=200, le=500_000, description="characters of a passage; a longer one is cut at a sentence"
    )
    lengths: tuple[Length, ...] = Field(("short", "medium"), min_length=1, description="lengths of instructions")
    sure: float = Field(
        0.6, ge=0.5, lt=1,
        description="least probability, by the judge, that of the two passages this one answers a question and not the "
        "other; a question under it is left out. 0.5 takes the writer's word, and asks nobody",
    )  # fmt: skip
    write: bool = Field(True, description="for a seed with one relevant passage, have the other one written")
    distractors: int = Field(3, ge=0, le=1_000, description="seed negatives kept in the topic")
    frames: bool = Field(True, description=FRAMES_DESCRIPTION)
    checks: dict[Reason, OnFail] = Field(default_factory=dict, description=CHECKS_DESCRIPTION)

    def asks(self) -> tuple[str, ...]:
        return ("writer",) if self.sure == _UNASKED else ("writer", JUDGE)


class Contrast:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `too_long`, `no_pair` (one relevant passage, and none is written),
    `nothing_parts_them`, or the name of a check (`prompts.writing.checks`).
    """

    name = "contrast"

    def __init__(self, settings: ContrastSettings) -> None:
        self._settings = settings
        names = (*TEMPLATES, _DEMAND)
        self.fingerprint = recipe_fingerprint(VERSION, [load(name).digest for name in names], settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        material = writing_material(seed, passage_chars=settings.passage_chars)
        writer = ContrastWriter(material, ask, settings.checks, frames=settings.frames)
        pair, questions = await self._pair(writer)
        answered = await self._surest(ask, questions.answered, pair)
        opened = await self._surest(ask, questions.open, pair[::-1])
        if not (answered or opened):
            every = [*questions.answered, *questions.open]
            raise Rejected("nothing_parts_them", f"none is answered by one alone, to {settings.sure}: {every}")
        surest = questions.model_copy(update={"answered": answered, "open": opened})
        cell = cell_of(material.number("contrast"), settings.lengths)
        demands = contrast_of(surest, material, cell)
        first = await writer.instruction(demands[0], cell)
        second = await writer.instruction(demands[1], cell, poisoned=True, unlike=first)
        return [self._topic(writer, pair, demands, (first, second))]

    async def _pair(self, writer: ContrastWriter) -> tuple[tuple[Passage, Passage], Questions]:
        """Two passages that both answer, and the questions that each answers alone, as the writer has it."""
        material, settings = writer.material, self._settings
        if real := _real_pair(material):
            return real, await writer.questions(*real)
        if not settings.write:
            raise Rejected("no_pair", "the seed has no two relevant passages that differ, and `recipe.write` is off")
        questions = await writer.questions(material.positive)
        task = PassageTask("generated_positive", material.seed.query, questions.open, questions.answered)
        return (material.positive, await writer.passage(task, [])), questions

    async def _surest(self, ask: Ask, questions: Sequence[str], pair: tuple[Passage, Passage]) -> tuple[str, ...]:
        """The questions that the first passage answers and the second does not, those first that part them best."""
        if self._settings.sure == _UNASKED:
            return tuple(questions)
        sure = {question: await self._parted(ask, question, pair) for question in questions}
        return tuple(sorted((q for q in questions if sure[q] >= self._settings.sure), key=lambda q: -sure[q]))

    async def _parted(self, ask: Ask, question: str, pair: tuple[Passage, Passage]) -> float:
        """P(the first answers | one of the two does), of a judge that knows nothing of the other passage."""
        both = []
        for passage in pair:
            inputs = {"query": "", "instruction": "", "question": question}
            prompt = question_prompt(load(_DEMAND), passage, self._settings.passage_chars, inputs)
            probability, _ = await probability_true(ask, prompt, JUDGE)
            both.append(log_odds(_UNASKED if probability is None else probability))
        return 1 / (1 + exp(both[1] - both[0]))

    def _topic(
        self,
        writer: ContrastWriter,
        pair: tuple[Passage, Passage],
        demands: tuple[Demands, Demands],
        instructions: tuple[str, str],
    ) -> Topic:
        topic = TopicBuilder(self.name, writer.material.seed)
        topic.add_passages(*pair)
        negatives = topic.add_new(writer.material.negatives, self._settings.distractors)
        original = topic.add_intent("original")
        for passage in pair:
            topic.judge(original, "construction" if passage.role == "generated_positive" else "seed", (passage, 1))
        topic.judge(original, "seed", *((p, -1) for p in negatives))
        roles: tuple[IntentRole, ...] = ("instructed", "dual")
        for role, text, own, sign in zip(roles, instructions, demands, (1, -1), strict=True):
            intent = topic.add_intent(role, text, demands=dump_demands(*own))
            topic.judge(intent, "construction", (pair[0], sign), (pair[1], -sign))
        return topic.build(rows="contrast", **writer.topic_attributes())


def _real_pair(material: WritingMaterial) -> tuple[Passage, Passage] | None:
    """Two relevant passages in an order that the seed's hash draws, those that read like a broken page last; the second
    is the first one that is no near copy. None where there is none."""
    seed = material.seed.id
    first, *rest = sorted(material.positives, key=lambda p: (bool(flaw_of(p)), content_id("pair", seed, p.id)))
    second = next((each for each in rest if not near_copy(each.text, [first.text], _SAME)), None)
    return (first, second) if second else None
