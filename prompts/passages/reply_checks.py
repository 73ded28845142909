"""Named checks of what a model wrote as free text. What a program put together from a seed's blocks needs none.

    check_wording(instruction, length)       wrong_length, speaks_of_task
    check_passage(passage, ...)              speaks_of_task, not_code, wrong_answer, near_copy, wrong_length

They catch what a careless writer does, cheaply and before a judge is paid. Each raises Rejected with its name.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from engine.errors import Rejected
from engine.topic import Passage
from prompts.constraints.families import Kind
from prompts.constraints.instructions import Length
from prompts.constraints.source_code import GRAMMARS, facts_of, language_of

WORDS: Mapping[Length, tuple[int, int]] = {
    "short": (6, 60),
    "medium": (25, 150),
    "long": (60, 270),
    "very_long": (110, 480),
}
"""Words of an instruction in each length format: what a prompt asks for, and half of it more or less."""

_USUAL_WORDS: Sequence[tuple[Length, int]] = (("short", 42), ("medium", 100), ("long", 180))
_SHOWN = re.compile(
    r"\[[PN]\d+\]|\b(?:passages?|texts?|documents?|solutions?|code|snippets?|answers?) (?:above|below|[PN]\d+|"
    r"(?:that (?:is|was) )?(?:shown|given|provided)(?: above| here| to me|(?=[.,;]|$)))|\bthe (?:shown|given|kept) "
    r"(?:passage|text|document|solution)\b",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"\b(?:th(?:is|e) (?:passage|text|article|document|solution) (?:does not|doesn't|deliberately|intentionally|"
    r"omits|leaves out|answers the query|meets|fails|violates|breaks|satisfies)"
    r"|as (?:requested|instructed)\b|(?:the|your|this) (?:query|search query|instruction) (?:asks|is|wants)"
    r"|(?:meets|fails|violates|breaks|satisfies|answers) the (?:instruction|query|conditions?))\b",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:not|no|never|none|nothing|neither|nor|without|other than|but|except|excluding|exclude|avoid|leave out|skip|"
    r"unlike|instead of|rather than|free of|anything else|cannot|lacks?|omit)\b|n['’]t\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:/\d+)?")
_PROSE_LINE = re.compile(r"\s*[A-Z][a-z]+(?: [a-z']+){4,}.*[.:!]\s*$")
_ASPECTS, _DIFFERENCES = 2, 3
_NEAR_COPY = 0.6
"""Share of the runs of three words that two texts have in common, above which one is a copy of the other."""
_LONG_ENOUGH = 20


def check_wording(instruction: str, length: Length | None = None) -> None:
    """Refuses an instruction that speaks of the passages that its writer saw, or is far from the length asked for."""
    if found := _SHOWN.search(instruction):
        raise Rejected("speaks_of_task", f"the instruction says {found[0]!r}, which a searcher has not seen")
    low, high = WORDS[length] if length else (3, 600)
    words = len(instruction.split())
    if not low <= words <= high:
        raise Rejected("wrong_length", f"the instruction has {words} words; asked for was {length}, {low} to {high}")


def length_of(instruction: str) -> Length:
    """The length format that is nearest to an instruction's number of words."""
    words = len(instruction.split())
    return next((name for name, most in _USUAL_WORDS if words <= most), "very_long")


def check_analysis(aspects: Sequence[str], differences: Sequence[str]) -> None:
    """Refuses a poisoned query or instruction without two aspects and three differences, which the method asks for."""
    named, different = ({" ".join(text.lower().split()) for text in texts} - {""} for texts in (aspects, differences))
    if len(named) < _ASPECTS or len(different) < _DIFFERENCES:
        raise Rejected("no_analysis", f"it names {len(named)} aspects and {len(different)} differences")


def check_passage(
    passage: Passage,
    kind: Kind,
    *,
    others: Sequence[Passage] = (),
    answer: str = "",
    words: tuple[int, int] = (1, 6_000),
) -> None:
    """Refuses a passage that speaks of its task, copies another, or is no code or solution of its kind.

    `answer`: what the corpus knows to be the result of a problem, for a passage that has to solve it.
    """
    text = passage.text
    if kind not in {"code", "mathematics"}:
        _check_prose(text, others, words)
    if found := _TASK.search(text):
        raise Rejected("speaks_of_task", f"the passage says {found[0]!r}")
    if kind == "code":
        _check_code(text, passage.attributes.get("language", ""))
    if kind == "mathematics" and answer and not reaches(text, answer):
        raise Rejected("wrong_answer", f"the solution does not end with {answer!r}: {text[-80:]!r}")


def check_rewritten(text: str, facts: Sequence[str], base: Passage, *, figures: bool) -> None:
    """Refuses a rewritten passage that lost a figure of the answer, or that speaks of its task."""
    if found := _TASK.search(text):
        raise Rejected("speaks_of_task", f"the passage says {found[0]!r}")
    told, known = _figures([text]), _figures([base.text])
    lost = sorted((_figures(facts) & known) - told) if figures else []
    if lost:
        raise Rejected("answer_lost", f"the passage lacks {lost[0]}, which belongs to the answer {list(facts)}")


def check_unanswered(text: str, facts: Sequence[str], query: str) -> None:
    """Refuses a passage that must not answer and yet holds words or figures that its writer knows to be the answer."""
    folded = f" {' '.join(_WORD.findall(text.lower()))} "
    said = [fact for fact in facts if (words := _WORD.findall(fact.lower())) and f" {' '.join(words)} " in folded]
    said += sorted(_figures(facts) & _figures([text]) - _figures([query]))
    if said:
        raise Rejected("answers_query", f"the passage says {said[0]!r}, which answers the query")


def check_reversal(condition: str, reversal: str) -> None:
    """Refuses an opposite that says nothing against what was asked for."""
    if reversal.strip() != condition.strip() and not _DENIES.search(reversal):
        raise Rejected("not_reversed", f"{reversal!r} does not exclude what {condition!r} asks for")


def _figures(texts: Sequence[str]) -> set[str]:
    return {number.replace(",", "") for text in texts for number in _NUMBER.findall(text)}


def _check_prose(text: str, others: Sequence[Passage], words: tuple[int, int]) -> None:
    count = len(text.split())
    if not words[0] <= count <= words[1]:
        raise Rejected("wrong_length", f"the passage has {count} words, not {words[0]} to {words[1]}")
    copied = next((other for other in others if _share(text, other.text) > _NEAR_COPY), None)
    if copied is not None:
        raise Rejected("near_copy", f"most of the passage stands in another one: {copied.text[:80]!r}")


def _check_code(text: str, language: str) -> None:
    if "```" in text or any(_PROSE_LINE.match(line) and not line.lstrip().startswith(_MARKS) for line in _ends(text)):
        raise Rejected("not_code", f"there is a fence or prose around the code: {text[:80]!r}")
    if language_of(language) in GRAMMARS and facts_of(text, language) is None:
        raise Rejected("not_code", f"it cannot be parsed as {language}: {text[:80]!r}")


_MARKS = ("#", "//", "/*", "*", '"', "'", "--", "%")


def _ends(text: str) -> list[str]:
    """The first and the last line, where models put what they say about their code."""
    lines = text.strip().splitlines()
    return [lines[0], lines[-1]] if lines else []


def reaches(text: str, answer: str) -> bool:
    """Whether the result is among the numbers of the last line that has any; of another result, its last words."""
    wanted = answer.replace(",", "").strip()
    if not _NUMBER.fullmatch(wanted):
        return wanted in text[-200:]
    lines = [numbers for line in text.splitlines() if (numbers := _NUMBER.findall(line.replace(",", "")))]
    return bool(lines) and _same_number(wanted, lines[-1])


def _same_number(wanted: str, numbers: Sequence[str]) -> bool:
    try:
        return any(abs(float(number) - float(wanted)) < 1e-9 for number in numbers if "/" not in number)
    except ValueError:
        return wanted in numbers


def _share(text: str, other: str) -> float:
    """The share of the shorter text's runs of three words that the other has too."""
    runs, other_runs = _runs(text), _runs(other)
    fewest = min(len(runs), len(other_runs))
    return len(runs & other_runs) / fewest if fewest >= _LONG_ENOUGH else 0.0


def _runs(text: str) -> set[tuple[tuple[str, str], ...]]:
    pairs = list(pairwise(_WORD.findall(text.lower())))
    return set(pairwise(pairs))
