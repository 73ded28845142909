"""Which blocks of a text answer a query, and whether a passage is about it: by words, figures, and the known answer."""

import re
from collections.abc import Sequence
from functools import lru_cache

from foil.engine.topic import Passage
from foil.prompts.constraints.families import Kind
from foil.prompts.constraints.phrases import COMMON_WORDS
from foil.prompts.passages.kinds import kind_of
from foil.prompts.passages.layout import leans

_WORD = re.compile(r"[A-Za-z][\w'-]+|\d+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ASKS_AMOUNT = re.compile(
    r"\bhow (?:many|much|long|far|old|tall|big|large|fast|high|often|deep|hot|cold|late)\b|\bwhen\b"
    r"|\bwhat (?:year|time|date|day|age)\b"
    r"|\b(?:cost|price|salary|average|population|temperature|number|calories|phone|wage|rate|age)\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|year|month|week|day|hour|minute|dozen|hundred)s?\b",
    re.IGNORECASE,
)
_ASKS_MEANING = re.compile(r"\b(?:what (?:is|are|does)|define|definition|meaning)\b", re.IGNORECASE)
_MEANING = re.compile(
    r"\b(?:is|are) (?:an?|the|defined|called|when)\b|\brefers? to\b|\bmeans?\b|\bstands? for\b", re.IGNORECASE
)
_HEADING = 45
"""A matching block of fewer characters is taken for a heading."""
_FINAL = re.compile(r"^#### |^A: |\banswer(?: is|:)", re.IGNORECASE)


@lru_cache(maxsize=256)
def stems(text: str) -> frozenset[str]:
    """The text's content words without a final s, by their first five letters: enough to see that two texts speak of
    the same thing."""
    words = (w for w in map(str.lower, _WORD.findall(text)) if w not in COMMON_WORDS and len(w) > 2)
    return frozenset((w[:-1] if len(w) > 3 and w.endswith("s") else w)[:5] for w in words)


_PROSE = frozenset({"text", "abstract"})
"""Kinds of text that say what a query asks for in its words."""
_MOST_WORDS, _ENOUGH_WORDS, _ENOUGH_IF_JUDGED = 2 / 3, 5, 7


def is_judged(passage: Passage) -> bool:
    """Whether an assessor of a collection called it relevant, not its owner."""
    return passage.attributes.get("relevance") == "judged"


def is_about(query: str, passage: Passage) -> bool:
    """Whether prose has most of the query's words, or five of a long one: else it seldom answers. Other kinds may.

    Of a collection's judged passages (`relevance: judged`), all words or seven: of those with fewer, readers found 28 %
    without an answer, of those with all 16 % (lab/2026-11-26-audits.md).
    """
    if is_judged(passage):
        return _has_words(query, passage, min(len(stems(query)), _ENOUGH_IF_JUDGED))
    return may_answer(query, passage)


def may_answer(query: str, passage: Passage) -> bool:
    """Whether prose has most of the query's words (of two, one), or five of a long one: nobody may say that it does not
    answer.
    """
    return _has_words(query, passage, min(_MOST_WORDS * len(stems(query)) - 1 / 3, _ENOUGH_WORDS))


def _has_words(query: str, passage: Passage, least: float) -> bool:
    text_stems = stems(f"{passage.title}\n{passage.text}")
    return kind_of(passage) not in _PROSE or len(stems(query) & text_stems) >= least


def core_of(texts: Sequence[str], query: str, answer: str, kind: Kind) -> frozenset[int]:
    """The blocks that answer: the last two of a worked solution, those that give the known answer, or the best match.

    What follows a heading or a question that matches stays with it. In a text of four blocks or more the better
    neighbour of the best match stays too, since an answer often leans on the sentence next to it, and what a kept block
    leans on always does. The first block of a documentation page is its description and always stays.
    """
    if len(texts) < 2:
        return frozenset(range(len(texts)))
    if _FINAL.search(texts[-1]):
        return frozenset({len(texts) - 1, len(texts) - 2})
    return _with_supports(texts, _answering(texts, query, answer, kind))


def is_sure(core: str, text: str, query: str) -> bool:
    """Whether the core has all of the query that the text has, or the amount asked for near a word of the query."""
    query_stems, core_stems = stems(query), stems(core)
    gives_amount = bool(_ASKS_AMOUNT.search(query) and _AMOUNT.search(core) and query_stems & core_stems)
    return gives_amount or query_stems & stems(text) <= core_stems


def _with_supports(texts: Sequence[str], indices: frozenset[int]) -> frozenset[int]:
    """The kept blocks and those that they lean on."""
    needed = {i - 1 for i in indices if i and leans(texts[i])} - indices
    return _with_supports(texts, indices | needed) if needed else indices


def _answering(texts: Sequence[str], query: str, answer: str, kind: Kind) -> frozenset[int]:
    always = frozenset({0}) if kind == "documentation" else frozenset[int]()
    known_answer = giving(texts, answer, query) if answer else frozenset[int]()
    if known_answer:
        return always | known_answer
    scores = _match(texts, query)
    best = max(range(len(texts)), key=lambda i: (scores[i], -i))
    core = {best}
    if best + 1 < len(texts) and (len(texts[best]) < _HEADING or texts[best].endswith("?")):
        core.add(best + 1)
    if len(texts) >= 4:
        neighbours = [i for i in (best - 1, best + 1) if 0 <= i < len(texts)]
        core.add(max(neighbours, key=lambda i: (scores[i], -i)))
    return always | core


def giving(texts: Sequence[str], answer: str, query: str) -> frozenset[int]:
    """The blocks that give the answer and name what the query is about: as few as possible, figures above all.

    None where the passage shares no figure and fewer than two words with the answer, those of the query not counted.
    """
    text_words = [_words(text) for text in texts]
    spoken, query_words = frozenset().union(*text_words), _words(query)
    chosen = {next((i for i, text in enumerate(texts) if answer in text), -1)} - {-1}
    if not chosen and sum(map(_weight, (_words(answer) - query_words) & spoken)) < 2:
        return frozenset()
    needed_words = query_words if chosen else query_words | _words(answer)
    missing = (needed_words & spoken).difference(*(text_words[i] for i in chosen))
    while missing:
        best = max(range(len(texts)), key=lambda i: (sum(map(_weight, missing & text_words[i])), -i))
        chosen.add(best)
        missing -= text_words[best]
    return frozenset(chosen)


def _words(text: str) -> frozenset[str]:
    return stems(text) | frozenset(_NUMBER.findall(text))


def _weight(word: str) -> int:
    return 3 if word[0].isdigit() else 1


def _match(texts: Sequence[str], query: str) -> list[float]:
    """How well each text answers: shared words, and whether it has the kind of thing that the query asks for."""
    query_stems = stems(query)
    amount, meaning = _ASKS_AMOUNT.search(query), _ASKS_MEANING.search(query)
    scores = []
    for i, text in enumerate(texts):
        score = float(len(query_stems & stems(text)))
        score += 1.5 if amount and _AMOUNT.search(text) else 0.0
        score += 1.0 if meaning and not amount and _MEANING.search(text) else 0.0
        scores.append(score + (0.5 if i == 0 else 0.0))
    return scores
