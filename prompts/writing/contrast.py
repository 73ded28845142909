"""The stages by which a model writes a contrast: two instructions for one query, and a passage for each.

    (query, P+)          -> questions that P+ answers, and questions that it leaves open
    (query, questions)   -> an instruction that asks for them            its writer sees no passage, and can quote none
    (query, P+, task)    -> a passage that answers some questions and not others
    (query, P+, I+)      -> another query, with which the same instruction makes sense

The questions are the demands of the instruction: short enough for a small model to write and for a small judge to
decide one by one. They stand with the intent (attribute `demands`), and so say why a label stands. Every stage is
checked, corrected in words and marked (`prompts.writing.checks`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from foil.engine.errors import FaultyReply, UnreadableReplyError
from foil.engine.ids import canonical_json
from foil.engine.protocols import Ask, Prompt
from foil.engine.topic import Passage, PassageRole
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.constraints.instructions import LENGTHS, STYLES, Length, Style
from foil.prompts.constraints.source_code import GRAMMARS, facts_of, language_of
from foil.prompts.demands import Demands
from foil.prompts.passages.blocks import stems
from foil.prompts.render import PromptTemplate, load
from foil.prompts.sampling import KEEPING_TEMPERATURE, writing
from foil.prompts.writing.answers import Questions
from foil.prompts.writing.checks import OnFail, Problem, Reason, echo_of, figures_in, near_copy, reaches
from foil.prompts.writing.examples import WORDS, TopicExample, example_for
from foil.prompts.writing.frames import framed
from foil.prompts.writing.material import WritingMaterial
from foil.prompts.writing.stage import Stages

TEMPLATES = tuple(
    f"writing/{name}" for name in ("questions", "pair_questions", "instruction", "passage", "other_query")
)
MOST_QUESTIONS, MOST_DEMANDS = 3, 2
_QUESTION_WORDS = (3, 25)
_INSTRUCTION_WORDS = (8, 320)
_PASSAGE_WORDS = (40, 300)
"""Words that a passage of prose is asked to have: as many as P+, within these bounds."""
_ROOM = (0.5, 2.0)
"""How much shorter or longer than asked for a passage may be."""
_TITLE_WORDS = 20
"""Most words of a title: a longer first line is the first paragraph."""
_FRAGMENT = 0.35
"""Share of the words asked for, below which a passage is none."""
_QUESTION_ECHO = 6
_ANSWERS = re.compile(
    r"\s*(?:(?:yes|no|sure|certainly|absolutely|of course)[,.!:]|my (?:solution|program|code)\b)", re.IGNORECASE
)
"""How an instruction begins whose writer answered the questions instead of asking them."""
_STATES = re.compile(
    r"\W*(?:the|this|these|those|that|its?|there|to|in|on|at|by|for|from|with|an?|our|we|they|s?he|his|her|their|if|since|"
    r"because|when|while|given|indeed|besides|as|one|combining|understanding|according)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:should|shall|must|needs?|needed|wants?|wanted|wish|hop(?:e|ing)|looking|look for|interested|please|only|"
    r"ha(?:s|ve) to|ought|curious|would|require[sd]?|let|due|(?:is|are) to|counts?|qualif(?:y|ies)|matters?|goal|"
    r"no use|useless|useful|(?:ir)?relevant|i am|i['’]m|my|me|enough|tell|show|help|prefer|expect|do not|don['’]t|may|"
    r"welcome|fine|out of)\b|\?|['’]d\b",
    re.IGNORECASE,
)
"""A text that begins like a statement and has none of these asks for nothing. Wrongly so: one of our 288 short and
medium examples, five of InstructIR's 9,906 instructions, none of PIR's 148."""
_PROMPT_LABEL = re.compile(r"\b(?:Manner|Questions|Not wanted|Length|Addition):")
_CODE_LINE = re.compile(r"^\s*(?:class \w+(?:\(.*\))?:\s*$|def \w+\(|from [\w.]+ import \w|#include\b)", re.MULTILINE)
"""A line of a program that no sentence is: a query may well begin with `import duties` or `class action:`."""
_ABOUT_THE_TASK = re.compile(
    r"\b(?:json|passages?|questions?|this text)\b|"
    r"\A(?:is|are|it|was|were)\b.*\b(?:correct|accurate|mistakes?|potential error)\b",
    re.IGNORECASE,
)
"""Of a question that asks about the text itself, or whether it is right, which every text of use is."""
_SAME_PROGRAM = 0.9
"""Share of its runs of three words that a program may have from another: names and idioms recur."""
_AGAIN = 2 / 3
_MOST_ALIKE = 0.8
_FORMATS: Sequence[tuple[Length, int]] = (("short", 60), ("medium", 95), ("long", 140))


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of Promptriever's grid: how long an instruction is, and how it is put."""

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

    In the style `negation` each also bans the first question of the other. Where P+ answers nothing besides the query,
    I+ asks for nothing and bans what I- asks for.
    """
    number = material.number("demands")
    most = 1 if cell.length == "short" else 1 + number % MOST_DEMANDS
    plus, minus = questions.answered[:most], questions.open[:most]
    if cell.style == "negation" or not plus:
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
        """Up to three questions that the passage answers besides the query, and as many that it leaves open; where
        there is an other passage, those that it answers."""
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
        return await self.answer(
            writing(prompt, 60, temperature=KEEPING_TEMPERATURE),
            Questions,
            "instruction_writer",
            mend=partial(_mended_questions, query=material.seed.query, noun=material.noun, prompt=prompt),
            problems=_question_problems,
        )

    async def instruction(self, demands: Demands, cell: GridCell, *, poisoned: bool = False, unlike: str = "") -> str:
        """An instruction that asks for these demands; `unlike` is the other one of the topic."""
        material = self.material
        example = self._example(f"instruction {poisoned}", cell.style)
        instructions = example.i_minus if poisoned else example.i_plus
        prompt = _template("instruction").render(
            material.code,
            noun=material.noun,
            manner=MANNERS[cell.style],
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
            written = await self.text(
                writing(prompt, round(1.5 * WORDS[cell.length])),
                "instruction_writer",
                lambda text: self._instruction_problems(text, demands, unlike),
            )
        except (FaultyReply, UnreadableReplyError):
            if not self._frames:
                raise
            self.marks.add("framed_instruction")
            written = framed(demands, material.kind, material.number(f"frame {poisoned}"))
        if length_of(written) != cell.length:
            self.marks.add("other_length")
        return written

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
            lambda text: self._passage_problems(text, task, siblings, words),
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
            lambda text: self._query_problems(text, words),
            one_line="\n" not in material.seed.query.strip(),
        )

    def _instruction_problems(self, text: str, demands: Demands, unlike: str) -> Iterator[Problem]:
        words = len(text.split())
        low, high = _INSTRUCTION_WORDS
        if words < low:
            yield Problem(
                "too_short", f"the instruction has {words} words", "It is too short. Say more of what is wanted."
            )
        if words > high:
            yield Problem(
                "too_long", f"the instruction has {words} words", f"It has {words} words. Write {high} at most."
            )
        if label := _PROMPT_LABEL.search(text):
            advice = f"It goes on with {label[0]!r}, which is the task. Write what the person adds, and nothing else."
            yield Problem("speaks_of_task", f"it has the label {label[0]!r} of its task", advice)
        if unlike and _is_same_instruction(text, unlike, (*demands.demands, *demands.bans)):
            advice = "It is the other instruction of this query once more. Ask for what this one lists."
            yield Problem("same_instruction", "the instruction is the other one again", advice)
        news = figures_in(text) - figures_in(" ".join((self.material.seed.query, *demands.demands, *demands.bans)))
        if news:
            advice = f"It says {min(news)}, as if it knew the answer. Ask for it, and state no fact."
            yield Problem("answers_question", f"the instruction says {min(news)}", advice)
        elif _ANSWERS.match(text) or (_STATES.match(text) and not _ASKS.search(text)):
            advice = "It answers the questions. Write what a person says who asks for texts that answer them."
            yield Problem(
                "answers_question", f"the instruction states something and asks for nothing: {text[:80]!r}", advice
            )
        text_stems, query_stems = stems(text), stems(self.material.seed.query)
        for question in (*demands.demands, *demands.bans):
            question_stems = stems(question) - query_stems or stems(question)
            if question_stems and not question_stems & text_stems:
                advice = f"It does not {'ask for' if question in demands.demands else 'rule out'} this: {question}"
                yield Problem("ignores_demand", f"it says nothing of: {question}", advice)
        query = fold_text(self.material.seed.query)
        if len(query.split()) > 2 and query in fold_text(text):
            yield Problem("repeats_query", "the instruction holds the query", "Do not repeat the query in it.")

    def _passage_problems(
        self, written: str, task: PassageTask, siblings: Sequence[Passage], words: int
    ) -> Iterator[Problem]:
        material = self.material
        _, text = self._title_and_text(written)
        own = [*material.positives, *material.negatives, *siblings]
        if fold_text(text) in {fold_text(p.text) for p in own}:
            yield Problem(
                "same_passage", f"it is a passage of the topic: {text[:80]!r}", "It is P1 again. Write another."
            )
        elif material.kind == "code":
            yield from _code_problems(text, material.language)
            if near_copy(text, [p.text for p in own], _SAME_PROGRAM):
                advice = "It is another program with few changes. Solve the task in another way."
                yield Problem("near_copy", f"it is another program of the topic: {text[:80]!r}", advice)
        elif copied := near_copy(text, [p.text for p in own]):
            advice = "Most of it is copied. Write it anew, in other sentences, with what the task asks for."
            yield Problem("near_copy", f"most of it stands in another passage: {copied[:80]!r}", advice)
        if material.kind not in ("code", "mathematics"):
            count = len(text.split())
            advice = f"It has {count} words. Write about {words}."
            if count < _FRAGMENT * words:
                yield Problem(
                    "too_short", f"the passage has {count} words", f"It has {count} words. Write about {words}."
                )
            elif not _ROOM[0] * words <= count <= _ROOM[1] * words:
                advice = f"It has {count} words. Write about {words}."
                yield Problem("wrong_length", f"the passage has {count} words, not {words}", advice)
        answer = material.seed.attributes.get("answer", "")
        if (
            material.kind == "mathematics"
            and task.query == material.seed.query
            and answer
            and not reaches(text, answer)
        ):
            advice = "Its result is wrong, or does not stand in the last line. Solve the problem anew, step by step."
            yield Problem("wrong_answer", f"it does not end with {answer!r}: {text[-80:]!r}", advice)

    def _query_problems(self, text: str, words: int) -> Iterator[Problem]:
        if fold_text(text) == fold_text(self.material.seed.query):
            yield Problem(
                "same_query", f"{text!r} is the seed's query", "It is the first query again. Write another one."
            )
        if _CODE_LINE.search(text) and not _CODE_LINE.search(self.material.seed.query):
            advice = "It holds a program. Write the query alone, in words."
            yield Problem("not_a_query", f"the query holds a program: {text[-80:]!r}", advice)
        if len(text.split()) > 20 + 3 * words:
            advice = (
                f"It has {len(text.split())} words, the first query {words}. Write the query alone, as long as that."
            )
            yield Problem("too_long", f"the query has {len(text.split())} words", advice)

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


def _is_same_instruction(text: str, counterpart: str, demands: Sequence[str]) -> bool:
    """Whether it has most of the other's words, and of its own demands no word that the other lacks."""
    own = stems(text) - stems(counterpart)
    alike = near_copy(text, [counterpart]) or _alike(text, counterpart) > _MOST_ALIKE
    return bool(alike) and not own & stems(" ".join(demands))


def _alike(text: str, counterpart: str) -> float:
    """The share of content words that two instructions have in common (Jaccard)."""
    first, second = stems(text), stems(counterpart)
    return len(first & second) / max(1, len(first | second))


def _told(task: PassageTask) -> Mapping[str, Any]:
    """What the writer of a passage reads about the one that is wanted."""
    return {"query": task.query, "must": task.must, "must_not": task.must_not}


def _example_task(example: TopicExample, role: PassageRole) -> PassageTask:
    """The task of an example that has the same role."""
    if role == "query_negative":
        return PassageTask(role, example.q_minus, example.demands, (example.query,))
    return PassageTask(role, example.query, example.demands_minus, example.demands)


def _example_text(example: TopicExample, role: PassageRole) -> str:
    return example.p2_minus if role == "query_negative" else example.p1_minus


def _mended_questions(reply: Questions, *, query: str, noun: str, prompt: Prompt) -> Questions:
    """The first three of each list that are questions, each once, none of them the query or the example's, or one that
    asks what the text does."""
    folded_questions = {fold_text(query)}

    def is_usable(question: str) -> bool:
        low, high = _QUESTION_WORDS
        is_question = question.endswith("?") and low <= len(question.split()) <= high
        is_new = fold_text(question) not in folded_questions and not _says_again(question, query)
        is_about_text = not _ABOUT_THE_TASK.search(question) and not _says_again(question, noun)
        return is_question and is_new and is_about_text and not echo_of(question, prompt, _QUESTION_ECHO)

    def kept(questions: Sequence[str]) -> tuple[str, ...]:
        good: list[str] = []
        for each in questions:
            question = re.sub(r"\.$", "?", " ".join(each.split()))
            if is_usable(question):
                folded_questions.add(fold_text(question))
                good.append(question)
        return tuple(good[:MOST_QUESTIONS])

    return Questions(answered=kept(reply.answered), open=kept(reply.open))


def _says_again(question: str, query: str) -> bool:
    """Whether a question has most of the query's content words, in whatever form, and no other."""
    own, target = stems(question), stems(query)
    is_covered = all(any(stem.startswith(each) or each.startswith(stem) for each in target) for stem in own)
    return bool(own) and is_covered and len(own) >= _AGAIN * len(target)


def _question_problems(reply: Questions) -> Iterator[Problem]:
    """A passage may answer nothing besides its query; without a question that it leaves open there is no contrast."""
    if not reply.open:
        advice = '"open" needs a short question about the same subject that the text leaves without any answer.'
        yield Problem("no_questions", "no usable question under 'open'", advice)


def _code_problems(text: str, language: str) -> Iterator[Problem]:
    if _is_json(text) or (language_of(language) in GRAMMARS and facts_of(text, language) is None):
        advice = f"It does not parse as {language}. Write the program alone, without any word around it."
        yield Problem("not_code", f"it cannot be parsed as {language}: {text[:80]!r}", advice)


def _is_json(text: str) -> bool:
    """Whether it is an object or a list of JSON, which Python would read as well."""
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False
