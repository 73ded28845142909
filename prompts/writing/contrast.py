"""The stages by which a model writes a contrast: two instructions for one query, and a passage for each.

    (query, P+)          -> questions that P+ answers, and questions that it leaves open
    (query, questions)   -> an instruction that asks for them            its writer sees no passage, and can quote none
    (query, P+, task)    -> a passage that answers some questions and not others
    (query, P+, I+)      -> another query, with which the same instruction makes sense

The questions are the demands of the instruction, short enough for a small model to write and a small judge to decide
(attribute `demands`). Every stage is checked (`contrast_checks`), corrected in words and marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foil.engine.errors import FaultyReply, UnreadableReplyError
from foil.engine.ids import canonical_json
from foil.engine.protocols import Ask
from foil.engine.topic import Passage, PassageRole
from foil.prompts.constraints.instructions import LENGTHS, STYLES, Length, Style
from foil.prompts.demands import Demands
from foil.prompts.passages.answering import stems
from foil.prompts.render import PromptTemplate, load
from foil.prompts.sampling import KEEPING_TEMPERATURE, writing
from foil.prompts.writing.answers import Questions
from foil.prompts.writing.checks import OnFail, Problem, Reason
from foil.prompts.writing.contrast_checks import (
    instruction_problems,
    mended_questions,
    passage_problems,
    query_problems,
    question_problems,
)
from foil.prompts.writing.examples import WORDS, TopicExample, example_for, own_words
from foil.prompts.writing.frames import framed
from foil.prompts.writing.material import WritingMaterial
from foil.prompts.writing.stage import Stages

TEMPLATES = tuple(
    f"writing/{name}" for name in ("questions", "pair_questions", "instruction", "passage", "other_query")
)
MOST_DEMANDS = 2
_PASSAGE_WORDS = (40, 300)
"""Words that a passage of prose is asked to have: as many as P+, within these bounds."""
_TITLE_WORDS = 20
"""Most words of a title: a longer first line is the first paragraph."""
_FORMATS: Sequence[tuple[Length, int]] = (("brief", 20), ("short", 60), ("medium", 95), ("long", 140))


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of Promptriever's grid, which `brief` adds to: how long an instruction is, and how it is put."""

    length: Length
    style: Style


def cell_of(number: int, lengths: Sequence[Length] = LENGTHS, styles: Sequence[Style] = STYLES) -> GridCell:
    """The cell that a number draws."""
    return GridCell(lengths[number % len(lengths)], styles[number // len(lengths) % len(styles)])


def length_of(instruction: str) -> Length:
    """The length format that is nearest to an instruction's number of words."""
    words = len(instruction.split())
    return next((name for name, most in _FORMATS if words <= most), "very_long")


MANNERS: Mapping[Style, str] = {
    "plain": "a plain demand",
    "negation": "a demand that also says what is not wanted",
    "background": "first what the search is for, then the demand",
    "persona": "first who is asking, then the demand",
}
"""The styles of the grid in the words that a writer reads."""


def contrast_of(questions: Questions, material: WritingMaterial, cell: GridCell) -> tuple[Demands, Demands]:
    """What I+ asks for and what I- asks for: one question or two, which P+ answers, and which it leaves open.

    In the style `negation` each also bans the first question of the other. Where one of them has no question, it asks
    for nothing and bans what the other asks for.
    """
    number = material.number("demands")
    most = 1 if cell.length in ("brief", "short") else 1 + number % MOST_DEMANDS
    plus, minus = questions.answered[:most], questions.open[:most]
    if cell.style == "negation" or not (plus and minus):
        return Demands(plus, minus[:1]), Demands(minus, plus[:1])
    return Demands(plus), Demands(minus)


@dataclass(frozen=True, slots=True)
class PassageTask:
    """What a passage has to do: the query that it answers, what else it answers, and what it leaves open.

    `category`: how an instruction negative fails (Promptriever, section 2.2), kept as an attribute of the passage.
    """

    role: PassageRole
    query: str
    must: tuple[str, ...]
    must_not: tuple[str, ...]
    category: str = ""


class ContrastWriter(Stages):
    """Writes the parts of one seed's topic. `frames`: an instruction that no turn brought is put together."""

    def __init__(
        self, material: WritingMaterial, ask: Ask, policy: Mapping[Reason, OnFail], *, frames: bool = False
    ) -> None:
        super().__init__(material, ask, policy)
        self._frames = frames

    async def questions(self, passage: Passage, second: Passage | None = None) -> Questions:
        """Up to three questions that the passage answers besides the query, and as many that the second one does."""
        kind = "pair_questions" if second else "questions"
        material, example = self.material, self._example(kind)
        sample = {"answered": example.demands, "open": (*example.demands_minus, *(() if second else example.bans))}
        prompt = _template(kind).render(
            material.code,
            noun=material.noun,
            query=material.seed.query,
            passage=passage.text,
            example=example,
            example_answer=canonical_json(sample),
            **({"other": second.text} if second else {"title": passage.title}),
        )
        of_example = own_words(example.id, material.kind) - stems(" ".join(material.texts))
        listed = Questions()

        def mend(reply: Questions) -> Questions:
            """A small writer that is to mend one list gives that one alone; the other is as it was."""
            nonlocal listed
            listed = Questions(answered=reply.answered or listed.answered, open=reply.open or listed.open)
            return mended_questions(
                listed, query=material.seed.query, noun=material.noun, prompt=prompt, of_example=of_example
            )

        request = writing(prompt, 60, temperature=KEEPING_TEMPERATURE)

        def problems(reply: Questions) -> Iterator[Problem]:  # of a pair a list may be left empty, not be of no use
            return question_problems(reply, of_pair=bool(second) and not listed.open)

        return await self.answer(request, Questions, "instruction_writer", mend=mend, problems=problems)

    async def instruction(self, demands: Demands, cell: GridCell, *, poisoned: bool = False, unlike: str = "") -> str:
        """An instruction that asks for these demands; `unlike` is the other one of the topic. Mere bans are put
        together: a small writer would ask for what it is to ban."""
        if self._frames and not demands.demands:
            instruction = self._framed(demands, poisoned)
        else:
            instruction = await self._written(demands, cell, poisoned, unlike)
        if length_of(instruction) != cell.length:
            self.marks.add("other_length")
        return instruction

    async def _written(self, demands: Demands, cell: GridCell, poisoned: bool, unlike: str) -> str:
        material = self.material
        least = 5 if cell.length == "brief" else 8
        style = cell.style if demands.bans or cell.style != "negation" else "plain"
        example = self._example(f"instruction {poisoned}", style)
        instructions = example.i_minus if poisoned else example.i_plus
        prompt = _template("instruction").render(
            material.code,
            noun=material.noun,
            manner=MANNERS[style],
            query=material.seed.query,
            demands=demands.demands,
            bans=demands.bans,
            words=WORDS[cell.length],
            example=example,
            example_demands=example.demands_minus if poisoned else example.demands,
            example_bans=example.bans_minus if poisoned else example.bans,
            example_instruction=instructions[cell.length],
        )
        try:
            return await self.text(
                writing(prompt, round(1.5 * WORDS[cell.length])),
                "instruction_writer",
                lambda text: instruction_problems(text, material.seed.query, demands, unlike, least),
            )
        except (FaultyReply, UnreadableReplyError):
            if not self._frames:
                raise
            return self._framed(demands, poisoned)

    def _framed(self, demands: Demands, poisoned: bool) -> str:
        """An instruction put together from its questions, with the mark that says so."""
        self.marks.add("framed_instruction")
        return framed(demands, self.material.kind, self.material.number(f"frame {poisoned}"))

    async def passage(self, task: PassageTask, siblings: Sequence[Passage]) -> Passage:
        """A passage that does what its task says; no copy of the others, nor a passage of the seed."""
        material, example = self.material, self._example(f"passage {task.role}")
        words = self._words()
        prompt = _template("passage").render(
            material.code,
            noun=material.noun,
            query=material.seed.query,
            passage=material.positive.text,
            task=_told(task),
            words=words,
            language=material.language,
            titled=bool(material.positive.title) and material.kind != "code",
            example=example,
            example_task=_told(_example_task(example, task.role)),
            example_words=len(_example_text(example, task.role).split()),
            example_passage=_example_text(example, task.role),
        )
        room = 3 * len(material.positive.text.split()) if material.kind == "code" else 2 * words
        written = await self.text(
            writing(prompt, max(room, 120)),
            "passage_writer",
            lambda text: passage_problems(self._title_and_text(text)[1], material, task.query, siblings, words),
        )
        title, text = self._title_and_text(written)
        attributes = {"language": material.language, "category": task.category}
        return Passage(text, task.role, title=title, attributes={k: v for k, v in attributes.items() if v})

    async def other_query(self, instruction: str) -> str:
        """Q-: another query, which P+ does not answer, and with which the instruction makes sense."""
        material, example = self.material, self._example("other_query")
        prompt = _template("other_query").render(
            material.code,
            noun=material.noun,
            query=material.seed.query,
            passage=material.positive.text,
            instruction=instruction,
            example=example,
            example_instruction=example.i_plus["short"],
        )
        words = len(material.seed.query.split())
        return await self.text(
            writing(prompt, 30 + 2 * words),
            "instruction_writer",
            lambda text: query_problems(text, material.seed.query),
            one_line="\n" not in material.seed.query.strip(),
        )

    def _title_and_text(self, written: str) -> tuple[str, str]:
        """A short line before the text is its title, where P+ has one."""
        head, _, rest = written.partition("\n")
        is_short = len(head.split()) <= _TITLE_WORDS and rest.strip() != ""
        is_title = bool(self.material.positive.title) and self.material.kind != "code" and is_short
        return (head.strip(" #*").strip(), rest.strip()) if is_title else ("", written)

    def _words(self) -> int:
        words = len(self.material.positive.text.split())
        return round(min(max(words, _PASSAGE_WORDS[0]), _PASSAGE_WORDS[1]), -1)

    def _example(self, purpose: str, style: str = "") -> TopicExample:
        return example_for(self.material.kind, self.material.number(f"example {purpose}"), style)


def _template(stage: str) -> PromptTemplate:
    return load(f"writing/{stage}")


def _told(task: PassageTask) -> Mapping[str, Any]:
    """What the writer of a passage reads about the one that is wanted."""
    return {"query": task.query, "must": task.must, "must_not": task.must_not}


def _example_task(example: TopicExample, role: PassageRole) -> PassageTask:
    if role == "query_negative":
        return PassageTask(role, example.q_minus, example.demands, (example.query,))
    return PassageTask(role, example.query, example.demands_minus, example.demands)


def _example_text(example: TopicExample, role: PassageRole) -> str:
    return example.p2_minus if role == "query_negative" else example.p1_minus
