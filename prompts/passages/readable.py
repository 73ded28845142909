"""Whether a text of prose can be used as it stands: what a reader takes for a broken page is left out.

    flaw_of(passage) -> "" or the name of the first flaw: cut_off, repeated, menu, markup, noise

Only what no reader would accept counts. A passage that begins within a subject, or is dull, is readable.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping

from foil.engine.texts.words import SENTENCE_GAP
from foil.engine.topic import Passage
from foil.prompts.constraints.families import Kind
from foil.prompts.passages.kinds import kind_of

_CUT = re.compile(
    r"(?:\.\.\.|\u2026|\b(?:the|a|an|of|and|or|to|in|for|with|by|is|are|was|that|which|from|as|at|on))$", re.IGNORECASE
)
_TAIL = re.compile(r"[a-z]{3}[.?!:] [A-Z][a-z]+(?: [a-z]+)?\.\s*$")
"""One or two words after the last sentence: the heading of what followed, or the beginning of a sentence."""
_MENU = re.compile(
    r"you are here|\bslide \d+ of \d|\u00bb|\u203a|\w \| [^|]{1,40} \| [^|]{1,40} \| |\b(?:click here|sign in|"
    r"log in (?:to|for)|add to cart|read more|see more|subscribe|scroll down|add your answer|best answer|"
    r"expert answered|marked as answer|last editorial review|more information\. question|points \d+\||report abuse|"
    r"cancel\.)",
    re.IGNORECASE,
)
_SHOUTED = re.compile(r"\b[A-Z]{2,}(?: [A-Z]{2,}){4,}\b")
"""A heading or a button of the page."""
_MARKUP = re.compile(
    r"</?(?:div|span|p|br|li|td|a|img)\b[^<>]{0,200}>|\bdata-[a-z]+-[a-z]+=|&(?:nbsp|amp|quot|#\d+);|\{ ?\w{1,30}:"
)
_NOISE = re.compile(
    r"\u00e2\u20ac|\u00c3[\u0080-\u00bf]|\ufffd|\ufeff|(?:\b\w\b ){6}|[^\w\s]{8}|[a-z]\u2026[a-z]|:\s*\.(?:\s|$)|"
    r"\bthe (?:on|of|in|at|by|to|and|is)\b|\b(?:in|of|to|by|with|for|from) (?:a|an|the)\.|\[\w+_\w+ \w+=|"
    r"[a-z\d]\.(?!(?:py|js|md|com|net|org|edu|gov|io|co|uk|txt|pdf|exe|doc|jpg|png|gif|zip|xml|csv|htm|php|ini|dll|bat|sh)\b)"
    r"[a-z]{1,3} [a-z]|\?[A-Z]{2} ?=|\b(?:v\. t\. e|portal\. [A-Z]\w+ portal)\b"
)
_LOST_SPACE = re.compile(r"[a-z]{2}\.[a-z]{2}")
_LOST_LETTER = re.compile(
    r"(?<![/@.\w-])[A-Za-z]{2,}[.?!](?!(?:com|org|net|edu|gov|info|html?|php|pdf|exe|txt|docx?|jpe?g|png|biz|mil)\b)"
    r"[a-z]{3,}(?![\w]*[./@(_])|[a-z]{4}(?<!pprox)\. [a-z]+ [a-z]+ [a-z]+"
)
"""A sentence without its first letters: MS MARCO's passages lose them where they were joined or cut."""
_RESUMED = re.compile(r"[.!?]([a-z]\w* \w+ \w+)")
"""What stands after a full stop without a blank: MS MARCO's passages begin again so, a letter short."""
_TORN = re.compile(
    r"\b(?:of|the|a|an|at|between|from|by|with|when|where|is|are|to|for|and) ?[.,](?:\s|$)|\.\. |\b(\w{2,}) \1\b|"
    r"\b(?:between|from|of|by|with) (?:to|of|from|by|were|was|is|are|has|and)\b|\bto (?:of|from|were|was|is|are|has)\b|"
    r"\b(?:the|a|an) (?:of|to|from|by|at|in|were|was|is|are|has|and)\b"
)
_ABSTRACT_WORDS = 40
"""A shorter record has no abstract, but a title and a source alone."""
_WORDS = re.compile(r"\w+")
_LOOKED_AT = 10_000
_LONG = 5
"""Words of a sentence that nobody writes twice in one passage."""


def flaw_of(passage: Passage) -> str:
    """The first flaw of a passage of prose, or ""; code, documentation and others have forms of their own, and so have
    texts with a fenced listing.

    An abstract is `torn` where a line was lost: old collections were typed from cards. A record without one is `bare`.
    """
    flaws = _FLAWS.get(kind_of(passage), {}) if "```" not in passage.text else {}
    return next((name for name, has_flaw in flaws.items() if has_flaw(passage.text)), "")


def _is_cut_off(text: str) -> bool:
    return bool(_CUT.search(text.rstrip()[-20:]) or _TAIL.search(text[-60:]))


def _is_menu(text: str) -> bool:
    return bool(_MENU.search(text) or _SHOUTED.search(text))


def _is_noise(text: str) -> bool:
    return bool(_LOST_LETTER.search(text) or len(_LOST_SPACE.findall(text)) > 3 or _NOISE.search(text))


def _repeats(text: str) -> bool:
    if any(text.count(words) > 1 for words in _RESUMED.findall(text[:_LOOKED_AT])):
        return True
    sentences = (tuple(_WORDS.findall(sentence.lower())) for sentence in SENTENCE_GAP.split(text))
    counts = Counter(words for words in sentences if len(words) >= _LONG)
    return any(count > 1 for count in counts.values())


_FLAWS: Mapping[Kind, Mapping[str, Callable[[str], bool]]] = {
    "abstract": {
        "torn": lambda text: bool(_TORN.search(text)),
        "bare": lambda text: len(text.split()) < _ABSTRACT_WORDS,
    },
    "text": {
        "cut_off": _is_cut_off,
        "menu": _is_menu,
        "markup": lambda text: bool(_MARKUP.search(text)),
        "repeated": _repeats,
        "noise": _is_noise,
    },
}
"""The flaws that each kind of text may have, in the order in which they are looked for."""
