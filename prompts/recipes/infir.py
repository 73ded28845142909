"""The recipe `infir`: InF-IR's three rows, each query and instruction poisoned on its own (section 4.1, appendix H).

    (Q+, P+) -> I+ ;  -> I-  and  Q- ;  (I-, Q+) -> P1-  and  (I+, Q-) -> P2-

            P+   P1-  P2-
    (I+,Q+) +1   -1   -1
    (I-,Q+) -1   +1
    (I+,Q-) -1        +1

The original intent (the bare query) stands before them: P1- answers it, P2- does not. A seed takes six requests where
no reply is corrected. What the paper has a writer analyse (aspects of P+ and differences from it) are questions here:
those that P+ answers are the demands of I+, those that it leaves open are the demands of I-
(`prompts.writing.contrast`). A Robust04 narrative may be the instruction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from foil.engine.protocols import Ask
from foil.engine.settings import Settings
from foil.engine.topic import Passage, Seed, Topic
from foil.prompts.constraints.instructions import Length
from foil.prompts.demands import Demands, dump_demands
from foil.prompts.passages.topic_builder import TopicBuilder
from foil.prompts.render import load, recipe_fingerprint
from foil.prompts.writing.checks import CHECKS_DESCRIPTION, OnFail, Reason
from foil.prompts.writing.contrast import TEMPLATES, ContrastWriter, PassageTask, cell_of, contrast_of
from foil.prompts.writing.frames import FRAMES_DESCRIPTION
from foil.prompts.writing.material import writing_material

VERSION = "21"
"""Raised when the same seed, settings and templates would give other topics."""


class InfirSettings(Settings):
    """How InF-IR's rows are made."""

    kind: Literal["infir"] = "infir"
    passage_chars: int = Field(
        2_000, ge=200, le=500_000, description="characters of a passage; a longer positive is cut at a sentence"
    )
    lengths: tuple[Length, ...] = Field(("short", "medium"), min_length=1, description="lengths of instructions")
    distractors: int = Field(
        3, ge=0, le=1_000, description="seed negatives kept in the topic, as distractors of a judge too"
    )
    narrative_as_instruction: bool = Field(
        False, description="take a Robust04 topic's narrative for I+, rather than have one written"
    )
    frames: bool = Field(True, description=FRAMES_DESCRIPTION)
    checks: dict[Reason, OnFail] = Field(default_factory=dict, description=CHECKS_DESCRIPTION)


class Infir:
    """Implements `engine.protocols.Recipe`.

    Rejected with `empty_query`, `no_positive`, `too_long`, or the name of a check (`prompts.writing.checks`).
    """

    name = "infir"

    def __init__(self, settings: InfirSettings) -> None:
        self._settings = settings
        self.fingerprint = recipe_fingerprint(VERSION, [load(name).digest for name in TEMPLATES], settings)

    async def __call__(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        settings = self._settings
        material = writing_material(seed, passage_chars=settings.passage_chars)
        writer = ContrastWriter(material, ask, settings.checks, frames=settings.frames)
        cell = cell_of(material.number("infir"), settings.lengths)
        demands_plus, demands_minus = contrast_of(await writer.questions(material.positive), material, cell)
        narrative = seed.attributes.get("narrative", "") if settings.narrative_as_instruction else ""
        i_plus = narrative.strip() or await writer.instruction(demands_plus, cell)
        i_minus = await writer.instruction(demands_minus, cell, poisoned=True, unlike=i_plus)
        q_minus = await writer.other_query(i_plus)
        first = PassageTask("instruction_negative", seed.query, demands_minus.demands, demands_plus.demands)
        p1 = await writer.passage(first, [])
        p2 = await writer.passage(PassageTask("query_negative", q_minus, demands_plus.demands, (seed.query,)), [p1])
        intents = _Intents(i_plus, i_minus, q_minus, demands_plus, demands_minus)
        return [_build(writer, intents, p1, p2, settings.distractors)]


@dataclass(frozen=True, slots=True)
class _Intents:
    """The two instructions, the other query, and the demands behind them."""

    i_plus: str
    i_minus: str
    q_minus: str
    demands_plus: Demands
    demands_minus: Demands


def _build(writer: ContrastWriter, intents: _Intents, p1: Passage, p2: Passage, distractors: int) -> Topic:
    """The matrix of the method."""
    p_plus, topic = writer.material.positive, TopicBuilder(Infir.name, writer.material.seed)
    topic.add_passages(p_plus, p1, p2)
    negatives = topic.add_new(writer.material.negatives, distractors)
    original = topic.add_intent("original")
    topic.judge(original, "seed", (p_plus, 1), *((p, -1) for p in negatives))
    topic.judge(original, "construction", (p1, 1), (p2, -1))
    instructed = topic.add_intent("instructed", intents.i_plus, demands=dump_demands(*intents.demands_plus))
    topic.judge(instructed, "construction", (p_plus, 1), (p1, -1), (p2, -1))
    poisoned = topic.add_intent("poisoned_instruction", intents.i_minus, demands=dump_demands(*intents.demands_minus))
    topic.judge(poisoned, "construction", (p_plus, -1), (p1, 1))
    other_query = topic.add_intent(
        "poisoned_query", intents.i_plus, intents.q_minus, demands=dump_demands(*intents.demands_plus)
    )
    topic.judge(other_query, "construction", (p_plus, -1), (p2, 1))
    return topic.build(rows="inf_ir", **writer.topic_attributes())
