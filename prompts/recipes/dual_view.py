"""The recipe `dual_view`: the other instruction, under which what was excluded is wanted and what was wanted is not.

    a seed with an instruction I, d+ and an instruction negative d-  -> I' ->      d+  d-
                                                                         (I ,q)    +1  -1
                                                                         (I',q)    -1  +1

Dual-View, section 2: both views stand in one topic, for two more requests: the questions that d- answers and d+ leaves
open, then an instruction that asks for them, about as long as the first, so that no length tells the two apart. The
seed must have an `instruction` and an instruction negative. The topics of another run (`seeds: {kind: run}`) have both,
and so have Promptriever's published rows (`kind: msmarco`). For any other corpus `base` names the recipe that makes the
first view. Under the original intent, the bare query, both passages are relevant.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from foil.engine.errors import Rejected
from foil.engine.protocols import Ask, Recipe
from foil.engine.settings import Settings
from foil.engine.topic import Intent, Passage, Seed, Topic
from foil.prompts.constraints.instructions import STYLES
from foil.prompts.demands import Demands, dump_demands
from foil.prompts.passages.seed_material import distinct
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.recipes.infir import Infir, InfirSettings
from foil.prompts.recipes.promptriever import Promptriever, PromptrieverSettings
from foil.prompts.recipes.verifiable import Verifiable, VerifiableSettings
from foil.prompts.render import load, recipe_fingerprint
from foil.prompts.writing.checks import CHECKS_DESCRIPTION, OnFail, Reason
from foil.prompts.writing.contrast import MOST_DEMANDS, TEMPLATES, ContrastWriter, GridCell, length_of
from foil.prompts.writing.frames import FRAMES_DESCRIPTION
from foil.prompts.writing.material import WritingMaterial, cut_passage, writing_material

VERSION = "22"
"""Raised when the same seed, settings and template would give other topics."""

_BASES: Mapping[str, Callable[[Any], Recipe]] = {"promptriever": Promptriever, "infir": Infir, "verifiable": Verifiable}
_CARRIED = ("constraints", "evidence", "demands", "style", "length_format")
"""What is known of the first instruction, and stays true of it."""


class DualViewSettings(Settings):
    """How the other view is made."""

    kind: Literal["dual_view"] = "dual_view"
    base: PromptrieverSettings | InfirSettings | VerifiableSettings | None = Field(
        None, discriminator="kind", description="the recipe of the first view, for seeds that have none"
    )
    passage_chars: int = Field(
        2_000, ge=200, le=500_000, description="characters of d+ and d- that the writer is shown"
    )
    instruction_negatives: int = Field(
        3, ge=1, le=8, description="instruction negatives kept in the topic, d- among them"
    )
    negatives: int = Field(30, ge=0, le=1_000, description="other negatives kept in the topic")
    frames: bool = Field(True, description=FRAMES_DESCRIPTION)
    checks: dict[Reason, OnFail] = Field(default_factory=dict, description=CHECKS_DESCRIPTION)


class DualView:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `no_instruction` or `no_instruction_negative` where the seed has none of
    it, or with the name of a check (`prompts.writing.checks`).
    """

    name = "dual_view"

    def __init__(self, settings: DualViewSettings) -> None:
        self._settings = settings
        self._base = _BASES[settings.base.kind](settings.base) if settings.base else None
        digests = [*(load(name).digest for name in TEMPLATES), self._base.fingerprint if self._base else ""]
        self.fingerprint = recipe_fingerprint(VERSION, digests, settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        if self._base is None:
            return [await self._both_views(seed, ask)]
        return [await self._both_views(seed_of(topic), ask) for topic in await self._base(seed, ask)]

    async def _both_views(self, seed: Seed, ask: Ask) -> Topic:
        first = _instruction_of(seed)
        excluded = distinct([p for p in seed.negatives if p.role == "instruction_negative"])
        material = writing_material(seed, passage_chars=self._settings.passage_chars)
        d_plus = distinct(seed.positives)[0]
        d_minus = next((p for p in excluded if p.id != d_plus.id), None)
        if d_minus is None:
            raise Rejected("no_instruction_negative", "none of the seed's negatives has the role instruction_negative")
        writer = ContrastWriter(material, ask, self._settings.checks, frames=self._settings.frames)
        writer.marks.update(mark for mark in seed.attributes.get("marks", "").split(", ") if mark)
        passages = [cut_passage(p, self._settings.passage_chars) for p in (d_minus, d_plus)]
        questions = await writer.questions(*passages)
        demands = Demands(questions.answered[:MOST_DEMANDS])
        if not demands.demands:  # what only d+ tells is then what is not wanted
            demands = Demands((), questions.open[:1])
        cell = GridCell(length_of(first.instruction), STYLES[material.number("dual_view") % len(STYLES)])
        second = await writer.instruction(demands, cell, poisoned=True, unlike=first.instruction)
        dual = Intent("", "dual", second, seed.query, {"demands": dump_demands(*demands)})
        return self._topic(material, writer, (first, dual), (d_plus, d_minus, *excluded))

    def _topic(
        self,
        material: WritingMaterial,
        writer: ContrastWriter,
        intents: tuple[Intent, Intent],
        passages: Sequence[Passage],
    ) -> Topic:
        (first, second), (d_plus, d_minus, *more) = intents, passages
        topic = TopicBuilder(self.name, material.seed)
        topic.add_passages(d_plus, d_minus)
        excluded = topic.add_new(more, self._settings.instruction_negatives - 1)
        negatives = topic.add_new(material.negatives, self._settings.negatives)
        original = topic.add_intent("original")
        topic.judge(original, "seed", (d_plus, 1), *((p, -1) for p in negatives))
        topic.judge(original, "construction", *((p, 1) for p in (d_minus, *excluded)))
        instructed = topic.add_intent("instructed", first.instruction, attributes=first.attributes)
        topic.judge(instructed, "seed", (d_plus, 1), (d_minus, -1), *((p, -1) for p in excluded))
        dual = topic.add_intent("dual", second.instruction, attributes=second.attributes)
        topic.judge(dual, "construction", (d_plus, -1), (d_minus, 1))
        dropped = {key: value for key, value in material.seed.attributes.items() if key == "dropped"}
        return topic.build(rows="dual_view", **writer.topic_attributes(), **dropped)


def _instruction_of(seed: Seed) -> Intent:
    """The instruction that comes with the seed, with what the seed knows of it."""
    instruction = seed.attributes.get("instruction", "").strip()
    if not instruction:
        raise Rejected("no_instruction", "the seed's attributes state no `instruction`")
    return Intent("", "instructed", instruction, seed.query, _carried(seed.attributes))


def _carried(attributes: Mapping[str, str]) -> dict[str, str]:
    return {key: attributes[key] for key in _CARRIED if key in attributes}


def seed_of(topic: Topic) -> Seed:
    """The topic's query with what its instructed intent wants and excludes, and what the bare query does not want."""
    instructed = next((i for i in topic.intents if i.role == "instructed"), topic.intents[0])
    labels = {(j.intent_id, j.passage_id): j.relevance for j in topic.judgments}
    original = next((i for i in topic.intents if not i.instruction and i.query == instructed.query), instructed)
    positives = [p for p in topic.passages if labels.get((instructed.id, p.id), 0) > 0]
    unwanted = [p for p in topic.passages if labels.get((instructed.id, p.id), 0) < 0]
    excluded = [p for p in unwanted if p.role == "instruction_negative"]
    query_negatives = [p for p in topic.passages if p not in excluded and labels.get((original.id, p.id), 0) < 0]
    return Seed(
        id=topic.seed_id,
        corpus=topic.corpus,
        query=instructed.query,
        positives=tuple(positives),
        negatives=(*excluded, *query_negatives),
        licence=topic.licence,
        redistributable=topic.redistributable,
        attributes={
            **topic.attributes,
            **_carried(instructed.attributes),
            "instruction": instructed.instruction,
            "topic": topic.id,
        },
    )
