"""Words of names and summaries: which of them carry meaning, and how much two sets of words share."""

import re

from foil.engine.texts.words import word_set

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*|\d+")


_STOP_WORDS = word_set(
    """a an the of in on to for from by with at as and or is are be been that this these those it its into over given
    each all any one which whose whether if when not no using used use via based such other than then between per
    along"""
)
_LIBRARY_WORDS = word_set(
    """return compute calculate get array tensor element wise elementwise input output new value object function python
    numpy torch pandas scipy pyarrow arrow x y s dataframe sery series index ndarray matrix like specified provided axis
    dimension current create construct make perform apply evaluate self obj instance argument"""
)


def split_words(text: str) -> list[str]:
    """The words and numbers of a text."""
    return _WORD.findall(text)


def content_words(text: str) -> frozenset[str]:
    """The words of a text without function words, in lower case, verbs and nouns without their final s."""
    return frozenset(_content(text))


def _content(text: str) -> list[str]:
    return [_singular(word) for word in split_words(text.lower()) if word not in _STOP_WORDS]


def specific_words(words: frozenset[str]) -> frozenset[str]:
    """The content words that say what an object does, without those that every library uses for everything."""
    return words - _LIBRARY_WORDS


def word_order(text: str, words: frozenset[str]) -> list[str]:
    """Those of the content words in the order in which the text first has them."""
    return list(dict.fromkeys(word for word in _content(text) if word in words))


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """The share of common words among all words of both sets (Jaccard index); 0 if both are empty."""
    return len(first & second) / len(first | second) if first or second else 0.0


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _without_unshared(text: str, shared: frozenset[str]) -> tuple[list[str], list[str], list[int]]:
    """The words that stay, those dropped at the end, and where "the" may stand before a bare noun."""
    words: list[str] = []
    dropped: list[str] = []
    bare: list[int] = []
    for token in text.split():
        meant = content_words(token)
        if (meant and not meant <= shared) or not (meant or words):
            dropped.append(token)
        elif not dropped or (not words and not (_PREPOSITIONS | _CLAUSES) & {word.lower() for word in dropped}):
            words.append(token)
            dropped = []
        elif meant and words and words[-1] in _BEFORE_NOUNS and _are_attributes(dropped):
            bare += [len(words)] if words[-1] == "the" else []
            words.append(token)
            dropped = []
        elif meant:
            return [], [], []
        else:
            dropped.append(token)
    return words, dropped, bare


def shared_phrase(text: str, shared: frozenset[str]) -> str:
    """The text without the content words that are not among the shared; "" where the rest would be no phrase.

    A beginning may go up to a preposition, an end from a preposition on, with a participle before it, and attributes
    between an article and a noun, unless "the" would then stand before a bare noun. What begins a clause stays.
    ("Return the last day of the month", {"day", "month"}) -> "day of the month"
    """
    words, dropped, bare = _without_unshared(text, shared)
    if dropped and words and content_words(dropped[0]) and content_words(words[-1]) and not words[-1].endswith(","):
        return ""
    end: list[str] = []
    while words and (not content_words(words[-1]) or (dropped and words[-1].endswith("ed"))):
        end.append(words.pop())
    follows = [words[place + 1 : place + 2] for place in bare if place < len(words)]
    if (
        not words
        or (_JOINING | _VERBS) & set(end)
        or _ARTICLES & set(end[-1:])
        or any(not _defines(word) for word in follows)
    ):
        return ""
    if words[0].endswith(",") or words[-1] in _OPEN_ENDS or words[-1].endswith("ing"):
        return ""
    phrase = agree(" ".join(words).strip(" ,;:.-"))
    return "" if _LOST_NOUN.search(phrase) else phrase


def agree(text: str) -> str:
    """The text with "a" or "an" as the next letter asks: "an file" -> "a file". Sounds are not known ("an hour")."""
    text = _AN.sub("a ", text)
    return _A.sub("an ", text)


def _are_attributes(dropped: list[str]) -> bool:
    return len(dropped) <= _MAX_ATTRIBUTES and not (_PREPOSITIONS | _JOINING) & set(dropped)


def _defines(following: list[str]) -> bool:
    """Whether "the" before a noun still points at something: the noun is an attribute itself, or has an "of"."""
    return bool(following) and (following == ["of"] or bool(content_words(following[0])))


_AN = re.compile(r"\ban (?=(?:[bcdfgjklpqtvwxyz]|[mnrs][a-z]{2})[a-z])", re.IGNORECASE)
_A = re.compile(r"\ba (?=[aeiAEI][a-z]{3})")
_LOST_NOUN = re.compile(r"\b(?:an?|the) (?:without|just|\w+ing (?:an?|the))\b", re.IGNORECASE)
"""Where an article lost the noun that it stood before: "to a without changing", "as a containing the bytes"."""
_MAX_ATTRIBUTES = 2
_VERBS = word_set("is are be was were")
_OPEN_ENDS = word_set("respect vs common")
_ARTICLES = word_set("a an the")
_PREPOSITIONS = word_set("of in for with from by on into over at to as between along per under within without")
_BEFORE_NOUNS = _ARTICLES | word_set("its this each all any")
_CLAUSES = word_set("that which whose if whether when then where")
_JOINING = word_set("and or and/or")
