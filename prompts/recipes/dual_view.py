"""The recipe `dual_view`: the other instruction, under which what was excluded is wanted and what was wanted is not.

    a seed with an instruction I, d+ and an instruction negative d-  -> I' ->      d+  d-
                                                                         (I ,q)    +1  -1
                                                                         (I',q)    -1  +1

Dual-View, section 2: both views in one topic, one request more a topic. A seed states an `instruction` and has an
instruction negative: the topics of another run (`seeds: {kind: run}`) do, and Promptriever's published rows (`kind:
msmarco`). For any other corpus `base` names the recipe that makes the first view. Under the bare query, which stands
first, both passages are relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from engine.errors import Rejected
from engine.ids import canonical_json, sha256_hex
from engine.protocols import Ask, Recipe
from engine.settings import Settings
from engine.topic import Intent, Seed, Topic
from prompts.constraints.constraint import all_hold, constraints_of
from prompts.constraints.instructions import LENGTHS, STYLES
from prompts.passages.answer_evidence import answers, evidence_of
from prompts.passages.blocks import stems
from prompts.passages.reply_types import WrittenInstruction
from prompts.passages.seed_material import Material, views_of
from prompts.passages.topic_builder import Matrix
from prompts.recipes.infir import Infir, InfirSettings
from prompts.recipes.promptriever import Promptriever, PromptrieverSettings
from prompts.recipes.verifiable import Verifiable, VerifiableSettings
from prompts.render import load

VERSION = "1"
"""Raised when the same seed, settings and template would give other topics."""


_BASES: Mapping[str, Callable[[Any], Recipe]] = {
    "promptriever": Promptriever,
    "infir": Infir,
    "verifiable": Verifiable,
}


class DualViewSettings(Settings):
    """How the other view is made."""

    kind: Literal["dual_view"] = "dual_view"
    base: PromptrieverSettings | InfirSettings | VerifiableSettings | None = Field(
        None, discriminator="kind", description="the recipe of the first view, for seeds that have none"
    )
    passage_chars: int = Field(2_000, ge=200, description="characters of d+ and d- that the writer is shown")
    negatives: int = Field(3, ge=0, description="further negatives kept in the topic")
    most_alike: float = Field(
        0.8, gt=0, le=1, description="share of content words that two instructions may have in common (Jaccard)"
    )


class DualView:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `no_instruction` or `no_instruction_negative` where the seed has none of
    it, the writer's own refusal (`no_contrast`), or, for a reply that claims what is not so, `constraint_not_held`,
    `value_not_named`, `bad_constraint`, `same_instruction`.
    """

    name = "dual_view"

    def __init__(self, settings: DualViewSettings) -> None:
        self._settings = settings
        self._template = load("dual_view/instruction")
        self._base = _BASES[settings.base.kind](settings.base) if settings.base else None
        digests = [self._template.digest, self._base.fingerprint if self._base else ""]
        self.fingerprint = sha256_hex(canonical_json([VERSION, digests, settings.model_dump(mode="json")]))

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        if self._base is None:
            return [await self._both_views(seed, ask)]
        return [await self._both_views(seed_of(topic), ask) for topic in await self._base(seed, ask)]

    async def _both_views(self, seed: Seed, ask: Ask) -> Topic:
        first = _instruction_of(seed)
        known = views_of(seed, passage_chars=self._settings.passage_chars)
        number = known.number("dual_view")
        facts = {"material": known, "length": LENGTHS[number % 2], "style": STYLES[number // 2 % 4]}
        d_plus, d_minus = (cut.passage for cut in known.positives)
        prompt = self._template.render(
            facts,
            query=seed.query,
            instruction=first.instruction,
            first=d_plus.text[: self._settings.passage_chars],
            first_title=d_plus.title,
            second=d_minus.text[: self._settings.passage_chars],
            second_title=d_minus.title,
        )
        return self._topic(known, first, await ask(prompt, WrittenInstruction))

    def _topic(self, known: Material, first: Intent, written: WrittenInstruction) -> Topic:
        d_plus, d_minus = (cut.passage for cut in known.positives)
        constraints = written.checked([d_minus], [d_plus])
        second = written.instruction.strip()
        self._differ(first.instruction, second)
        demand, evidence = constraints_of(first), evidence_of(first)
        if demand and not (all_hold(demand, d_plus) and not all_hold(demand, d_minus)):
            raise Rejected("constraint_not_held", f"the seed's own instruction: {first.attributes['constraints']}")
        evidence = evidence if all(answers(evidence, p) for p in (d_plus, d_minus)) else ()
        matrix = Matrix(self.name, known.seed)
        matrix.passages(d_plus, d_minus)
        left = matrix.new([cut.passage for cut in known.negatives], self._settings.negatives)
        bare = matrix.intent("original", evidence=evidence)
        matrix.judge(bare, "seed", (d_plus, 1), *((p, -1) for p in left))
        matrix.judge(bare, "construction", (d_minus, 1))
        asked = matrix.intent("instructed", first.instruction, constraints=demand, evidence=evidence)
        matrix.judge(asked, "rule" if demand else "seed", (d_plus, 1), (d_minus, -1))
        turned = matrix.intent("dual", second, constraints=constraints, evidence=evidence)
        matrix.judge(turned, "rule" if constraints else "construction", (d_plus, -1), (d_minus, 1))
        return matrix.topic(rows="dual_view")

    def _differ(self, first: str, second: str) -> None:
        here, there = stems(first), stems(second)
        alike = len(here & there) / max(1, len(here | there))
        if alike > self._settings.most_alike:
            raise Rejected(
                "same_instruction", f"the two instructions share {alike:.0%} of their content words: {second!r}"
            )


def _instruction_of(seed: Seed) -> Intent:
    """The instruction that comes with the seed, with what is known behind it."""
    instruction = seed.attributes.get("instruction", "").strip()
    if not instruction:
        raise Rejected("no_instruction", "the seed's attributes state no `instruction`")
    behind: dict[str, Any] = {k: seed.attributes[k] for k in ("constraints", "evidence") if k in seed.attributes}
    return Intent("", "instructed", instruction, seed.query, behind)


def seed_of(topic: Topic) -> Seed:
    """The topic's query with what its instructed intent wants and excludes, and what the bare query does not want."""
    asked = next((i for i in topic.intents if i.role == "instructed"), topic.intents[0])
    said = {(j.intent_id, j.passage_id): j.relevance for j in topic.judgments}
    bare = next((i for i in topic.intents if not i.instruction and i.query == asked.query), asked)
    wanted = [p for p in topic.passages if said.get((asked.id, p.id), 0) > 0]
    excluded = [p for p in topic.passages if said.get((asked.id, p.id), 0) < 0 and p.role == "instruction_negative"]
    others = [p for p in topic.passages if p not in excluded and said.get((bare.id, p.id), 0) < 0]
    behind = {key: asked.attributes[key] for key in ("constraints", "evidence") if key in asked.attributes}
    return Seed(
        id=topic.seed_id,
        corpus=topic.corpus,
        query=asked.query,
        positives=tuple(wanted),
        negatives=(*excluded, *others),
        licence=topic.licence,
        redistributable=topic.redistributable,
        attributes={**topic.attributes, **behind, "instruction": asked.instruction, "topic": topic.id},
    )
