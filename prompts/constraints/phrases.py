"""Salient phrases of a text: what a passage can be said to talk about, found without any model or corpus statistics.

A run of words between function words, common verbs and punctuation is taken for a noun phrase (after Rose et al. 2010,
rapid automatic keyword extraction). About 30 microseconds for 100 words; results are cached for the last texts.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from foil.engine.texts.words import word_set, words_of

COMMON_WORDS = words_of(Path(__file__).with_name("common_words.txt"))
"""Words that say nothing by themselves: function words, common verbs, adverbs, and words of every text."""
VAGUE_NOUNS = words_of(Path(__file__).with_name("vague_nouns.txt"))
"""Nouns that name no subject by themselves, nor at the end of a phrase."""
_TOKEN = re.compile(r"[A-Za-z][\w'-]*[A-Za-z0-9]|[A-Za-z]|\d[\w.,]*|\n|[^\w\s]")
_NON_LETTERS = frozenset("_0123456789")
_MAX_WORDS = 3


@dataclass(frozen=True, slots=True)
class Phrases:
    """`terms`: noun phrases of up to three words; `names`: capitalised in a sentence."""

    terms: tuple[str, ...]
    names: tuple[str, ...]


_BEFORE_VERB = word_set(
    "to can could will would may might must should not don't doesn't cannot they we you i he she it who that which and"
)
_CALENDAR = word_set(
    "January February March April May June July August September October November December Monday Tuesday Wednesday"
    " Thursday Friday Saturday Sunday Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs"
    " Fri Sat Sun"
)
_INDEFINITE = word_set("a an")
_ARTICLES = word_set("the a an of its his her this their our my")
_BEFORE_NOUN = _ARTICLES | word_set(
    "of in on at with by from for into over under between among through during without within about against near across"
)
_OBJECTS = word_set("it them him her us me the a an its their his this these")
_AFTER_ADJECTIVE = word_set("one ones and or than")
_NOUN_ENDINGS = tuple(word_set("tion sion ment ity ness ance ence ism ist ship ure logy phy ers ors ings"))
_NON_NOUN_ENDINGS = ("ed", "ing", "ive", "ous", "able", "ible", "ful", "less", "ize", "ise")


def _is_content_word(word: str) -> bool:
    lower = word.lower()
    is_common = len(word) <= 2 or lower in COMMON_WORDS or lower.endswith("ly")
    return not is_common and word[0].isalpha() and "'" not in word


def _is_noun_like(word: str) -> bool:
    """A guess from the ending, for words that stand alone or last."""
    return not word.endswith(_NON_NOUN_ENDINGS)


def is_noun_by_ending(word: str) -> bool:
    """Whether a single lower-case word is surely a noun: by an ending of nouns, or as a plural."""
    return word.endswith(_NOUN_ENDINGS) or (word.endswith("s") and not word.endswith(("ss", "us", "is", "ous")))


def is_vague(phrase: str) -> bool:
    """Whether the phrase, in the singular or plural, ends in a noun that names no subject."""
    last = phrase.lower().split()[-1]
    singulars = (last, last.removesuffix("s"), last.removesuffix("es"), last.removesuffix("ies") + "y")
    return not VAGUE_NOUNS.isdisjoint(singulars)


@dataclass(slots=True)
class _Run:
    """Content words in a row. `opening`: at the start of a sentence or line; `before`, `after`: tokens next to it."""

    words: list[str]
    opening: bool
    before: str
    after: str = ""


def _find_runs(text: str) -> list[_Run]:
    runs: list[_Run] = []
    run: _Run | None = None
    before = "\n"
    for token in _TOKEN.findall(text):
        if _is_content_word(token):
            if run is None:
                run = _Run([], before in ".!?\n:;-*#>|", before)
                runs.append(run)
            run.words.append(token)
        elif run is not None:
            run.after = token
            run = None
        before = token.lower()
    return runs


def _find_name(run: _Run) -> str:
    """The first capitalised words of the run, the start of a sentence aside; "" if there are none, or too many.

    What stands behind "a" or "an" is no name, but one of many.
    """
    if run.before in _INDEFINITE:
        return ""
    name_words: list[str] = []
    for word in run.words[1:] if run.opening else run.words:
        if word[0].isupper() and word[1:].islower():
            name_words.append(word)
        elif name_words:
            break
    return "" if _CALENDAR.issuperset(name_words) or len(name_words) > _MAX_WORDS else " ".join(name_words)


@lru_cache(maxsize=128)
def phrases_of(text: str) -> Phrases:
    """The salient phrases of a text, in their order; a phrase is at most three words long."""
    terms: dict[str, None] = {}
    names: dict[str, None] = {}
    for run in _find_runs(text):
        name = _find_name(run)
        if name:
            names[name] = None
        letter_words = [word for word in run.words if _NON_LETTERS.isdisjoint(word)]
        term = _find_term(run) if len(letter_words) == len(run.words) else ""
        if term:
            terms[term if name else term.lower()] = None
    return Phrases(tuple(terms), tuple(names))


def _find_term(run: _Run) -> str:
    """The run as a noun phrase: without a verb or participle at either end; "" where nothing specific is left.

    What stands behind an article or a preposition is one; what an object follows ends in a verb.
    """
    words = run.words
    is_name = all(word[0].isupper() for word in words) and not run.opening
    if not is_name and (run.before not in _BEFORE_NOUN or (len(words) > 1 and run.after.lower() in _OBJECTS)):
        return ""
    if run.before in _BEFORE_VERB and not words[0][0].isupper():
        words = words[1:]
    while words and not _is_noun_like(words[-1]):
        words = words[:-1]
    if len(words) > 1 and words[0].endswith("ing"):
        words = words[1:]
    if len({word.lower() for word in words}) < len(words):
        return ""
    if not 1 <= len(words) <= _MAX_WORDS or (len(words) == 1 and not _is_surely_noun(words[0], run)):
        return ""
    return " ".join(words)


def _is_surely_noun(word: str, run: _Run) -> bool:
    """Whether a single word is surely a noun: by its ending, by its capital, or by what stands before and after it."""
    if len(word) < 4 or run.after in _AFTER_ADJECTIVE:
        return False
    stands_alone = (
        len(run.words) == 1 and run.before in _BEFORE_NOUN and not (run.before in _ARTICLES and run.after == ",")
    )
    return stands_alone or word.endswith(_NOUN_ENDINGS) or (word[0].isupper() and not run.opening)
