"""Checks of what a model wrote: each says what is wrong to a reader, and to the writer how to mend it.

    answer = await ask_checked(ask, prompt, WrittenText, AnswerChecks(mend, problems, policy), role=..., marks=...)

What a program can mend is mended first (`mend`). Of the problems that are left, `policy` says what each one does:

    correct            the writer is corrected and asked again; after the last turn the seed is rejected
    correct_or_mark    the same, but after the last turn, or where its writer gives the same text again, the answer is
                       taken, and the topic marked
    mark               the answer is taken, and the topic marked
    reject             the seed is rejected at once

A topic's marks stand in its attribute `marks`. `docs/recipes.md` has the table of checks and their defaults.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Literal, TypeVar, get_args

from pydantic import BaseModel

from foil.engine.answer_forms import WRITE_AGAIN
from foil.engine.errors import FaultyReply, Rejected, UnreadableReplyError
from foil.engine.protocols import Ask, Prompt
from foil.prompts.writing.small_talk import small_talk

A = TypeVar("A", bound=BaseModel)
OnFail = Literal["correct", "correct_or_mark", "mark", "reject"]

Reason = Literal[
    "no_questions", "empty_text", "refusal", "echo", "speaks_of_task", "same_instruction", "same_query", "same_passage",
    "near_copy", "not_code", "wrong_answer", "too_short", "too_long", "ignores_demand", "repeats_query", "wrong_length",
    "condition_not_met", "answer_lost", "answers_query", "not_reversed", "property_not_named",
    "answers_question", "not_a_query", "query_changed",
]  # fmt: skip

_OTHERS: Mapping[str, OnFail] = {"wrong_length": "correct_or_mark", "ignores_demand": "mark", "repeats_query": "mark"}
DEFAULTS: Mapping[Reason, OnFail] = {reason: _OTHERS.get(reason, "correct") for reason in get_args(Reason)}
"""What a problem does where the job says nothing."""

CHECKS_DESCRIPTION = "what each check does that finds something: correct, correct_or_mark, mark or reject"
ECHO_WORDS = 8
"""Words in a row that a reply may not share with the rules and examples of its own prompt."""
_NEAR_COPY = 0.6
"""Share of the runs of three words that two texts have in common, above which one is a copy of the other."""
_FEWEST_RUNS = 20
_WORD = re.compile(r"\w+")
_SPEAKS_OF_TASK = re.compile(
    r"\b(?:P[12]\b|(?<!\ba )(?:first|second|given|shown|original) (?:passage|program|solution)\b|as instructed\b|"
    r"as requested\b|the (?:instruction|addition|questions?) (?:cannot|must|should|needs|requires?|states?)\b|"
    r"(?:the|your|this) (?:search query|instruction|addition) (?:asks|is|says|wants)|it has \d+ words\b)|"
    r"\A\s*(?:Tells|Leaves out|Not wanted|Manner):",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|without|except|excluding|exclude|avoid|skip|lacks?|omit|cannot)\b|n['’]t\b", re.IGNORECASE
)
_DENIES = re.compile(
    rf"{_DENIAL.pattern}|\b(?:nothing|neither|nor|other than|but|leave out|unlike|instead of|rather than|free of|"
    r"anything else)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[;,.:!?]\s")
_NUMBER = re.compile(r"(?<![A-Za-z\d])(?<![A-Z]-)-?\d[\d,_]*(?:\.\d+)?(?:/\d+)?")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a reply: its code, what a reader sees, and what its writer reads."""

    reason: Reason
    detail: str
    advice: str


@dataclass(frozen=True, slots=True)
class AnswerChecks(Generic[A]):
    """How an answer is mended, what is wrong with one, and what each problem does."""

    mend: Callable[[A], A]
    problems: Callable[[A], Iterable[Problem]]
    policy: Mapping[Reason, OnFail]

    def on_fail(self, problem: Problem) -> OnFail:
        return self.policy.get(problem.reason) or DEFAULTS[problem.reason]


async def ask_checked(
    ask: Ask, prompt: Prompt, answer: type[A], checks: AnswerChecks[A], *, role: str, marks: set[str]
) -> A:
    """The answer, mended, without a problem that the policy does not let pass; adds the others to `marks`.

    Raises FaultyReply (a Rejected) after the last turn, Rejected at once where the policy says so.
    """
    corrections = [WRITE_AGAIN]
    refused: list[A] = []

    def check(reply: A) -> A:
        mended = checks.mend(reply)
        faults = [*_repeats_advice(mended, corrections), *checks.problems(mended)]
        grave = [p for p in faults if checks.on_fail(p) != "mark"]
        corrections.extend(p.advice for p in grave)
        if not grave:
            return mended
        first = min(grave, key=lambda p: _GRAVITY.index(checks.on_fail(p)))
        if checks.on_fail(first) == "reject":
            raise Rejected(first.reason, first.detail)
        usable = mended if checks.on_fail(first) == "correct_or_mark" else None
        if usable and usable in refused:
            return usable
        refused.append(mended)
        raise FaultyReply(first.reason, first.detail, "\n".join(p.advice for p in grave), usable)

    answered = await ask(prompt, answer, role=role, check=check)
    marks.update(p.reason for p in checks.problems(answered))
    return answered


def _repeats_advice(reply: BaseModel, corrections: Iterable[str]) -> Iterator[Problem]:
    """A small model hands back the words by which it was corrected."""
    for advice in corrections:
        if any(_letters(advice) in _letters(text) for text in texts_of(reply)):
            yield Problem("echo", f"it repeats the correction {advice!r}", "Do not repeat this. Write the text itself.")


def _letters(text: str) -> str:
    return re.sub(r"[\W\d_]+", " ", text).strip().casefold()


def texts_of(reply: BaseModel) -> Iterator[str]:
    """All texts of an answer, those in lists too."""
    for _, value in reply:
        yield from [value] if isinstance(value, str) else [text for text in value or () if isinstance(text, str)]


_GRAVITY: Sequence[OnFail] = ("reject", "correct", "correct_or_mark", "mark")


def text_problems(text: str, prompt: Prompt, echo_words: int | None = None) -> Iterator[Problem]:
    """What no written text may be: empty, a refusal, about its own task, or taken from the prompt's example."""
    if not text.strip():
        yield Problem("empty_text", "the reply has no text", "Your answer was empty. Write the text.")
    elif talk := next(small_talk(text), None):
        kind, (start, end) = talk
        advice = f"Do not answer {text[start:end].strip()!r}. Write the text as well as you can, and it alone."
        if kind == "speaks_of_task":
            yield Problem("speaks_of_task", text[:200], advice)
        else:
            yield Problem("refusal", text[:200], advice)
    elif match := _SPEAKS_OF_TASK.search(text):
        yield Problem(
            "speaks_of_task",
            f"it says {match[0]!r}",
            f"It says {match[0]!r}, which whoever reads it later has never seen. Write the text itself.",
        )
    if echo := echo_of(text, prompt, echo_words or ECHO_WORDS):
        yield Problem(
            "echo", f"it repeats {echo!r}", f'"{echo}" is taken from the example or the rules. Use none of it.'
        )


def echo_of(text: str, prompt: Prompt, least: int = ECHO_WORDS) -> str:
    """The first run of `least` words that a text shares with the prompt's rules and examples and not with its material.

    The material is the last message of the prompt, rules and examples are all before it.
    """
    *own, last = prompt.messages
    words = _WORD.findall(text.lower())
    ours, material = _grams("\n".join(m.content for m in own), least), _grams(last.content, least)
    for start in range(len(words) - least + 1):
        gram = tuple(words[start : start + least])
        if gram in ours and gram not in material:
            return " ".join(gram)
    return ""


def denies(text: str) -> bool:
    """Whether a sentence excludes something: it has a word such as "not", "without" or "except"."""
    return bool(_DENIES.search(text))


def denies_twice(text: str) -> bool:
    """Whether one clause has two denials, as in "no texts that are not in English", and so none."""
    return any(len(_DENIAL.findall(clause)) > 1 for clause in _CLAUSE.split(text))


def figures_in(text: str) -> set[str]:
    """The numbers of a text, without separators. A digit in a name, as in MP3 or SR-71, is none."""
    return {re.sub("[,_]", "", number) for number in _NUMBER.findall(text)}


def _grams(text: str, least: int) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return {tuple(words[i : i + least]) for i in range(len(words) - least + 1)}


def problem_of(fault: FaultyReply | UnreadableReplyError) -> str:
    """Why a part of a topic was left out: the code, and the detail."""
    return f"{fault.reason}: {fault.detail}" if isinstance(fault, FaultyReply) else f"unreadable_reply: {fault}"


def near_copy(text: str, candidates: Iterable[str], share: float = _NEAR_COPY) -> str:
    """The first of the others with which the text shares more of its runs of three words; "" where there is none."""
    return next((candidate for candidate in candidates if _shared(text, candidate) > share), "")


def _shared(text: str, candidate: str) -> float:
    """The share of the shorter text's runs of three words that the other has too."""
    runs, other_runs = _runs(text), _runs(candidate)
    fewest = min(len(runs), len(other_runs))
    if fewest < _FEWEST_RUNS:
        return float(_WORD.findall(text.lower()) == _WORD.findall(candidate.lower()))
    return len(runs & other_runs) / fewest


def _runs(text: str) -> set[tuple[tuple[str, str], ...]]:
    return set(pairwise(pairwise(_WORD.findall(text.lower()))))


def reaches(text: str, answer: str) -> bool:
    """Whether the result is among the numbers of the last line that has any; of another result, its last words."""
    result = answer.replace(",", "").strip()
    if not _NUMBER.fullmatch(result):
        return result in text[-200:]
    lines = [numbers for line in text.splitlines() if (numbers := _NUMBER.findall(line.replace(",", "")))]
    return bool(lines) and _same_number(result, lines[-1])


def _same_number(result: str, numbers: Sequence[str]) -> bool:
    if "/" in result:
        return result in numbers
    return any(abs(float(number) - float(result)) < 1e-9 for number in numbers if "/" not in number)
