"""The six dimensions of InfoSearch: what a document is like besides what it says, and the program that decides it.

    dimension -> conditions;  meets(dimension, condition, passage) -> True or False, exactly, for four of the six

Audience and Source are matters of judgement and have no check here. For the others, `describe` tells the
writer exactly what the program checks:

    Keyword    the words stand in the title or text, whole and in any case (the constraint `mentions`)
    Length     sentence: one line of 3 to 40 words that is one sentence; paragraph: 30 to 130 words without a blank
               line or heading, more than one sentence or line; article: 140 words or more in two paragraphs or
               more; code has none
    Language   what `prompts.languages` identifies
    Format     post: a line that starts with `Question:` and a later one that starts with `Answer:`; code snippet:
               fenced blocks alone, or plain code, of which no line but comments is prose; manual: neither, with a
               heading and at least ten words outside of fenced blocks

At most one condition of Length, Language or Format holds of a text. Each Chinese or Japanese character is a word.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, get_args

import yaml

from foil.engine.texts.words import SENTENCE_END, word_set
from foil.engine.topic import Intent, Passage
from foil.prompts.constraints.code_detectors import count_code_lines
from foil.prompts.constraints.constraint import Constraint
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.constraints.families import FAMILIES
from foil.prompts.languages import identify

Dimension = Literal["audience", "keyword", "format", "language", "length", "source"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
EXACT_DIMENSIONS: frozenset[str] = frozenset({"keyword", "format", "language", "length"})
"""The dimensions that `meets` decides."""

CONDITIONS: Mapping[Dimension, tuple[str, ...]] = {
    "audience": ("layman", "expert"),
    "format": ("stackoverflow_post", "code_snippet", "manual"),
    "language": ("zh", "en"),
    "length": ("sentence", "paragraph", "article"),
    "source": ("blog", "forum", "news"),
}
"""The fixed conditions. Keyword has none: its conditions are words of the seed's passages."""

SENTENCE_WORDS = (3, 40)
PARAGRAPH_WORDS = (30, 130)
ARTICLE_WORDS = 140
"""Bounds of the length classes, both ends included."""

_MANUAL_WORDS = 10
_LANGUAGE_NAMES = {"zh": "Chinese", "en": "English", "de": "German", "fr": "French", "es": "Spanish", "ja": "Japanese"}
_CONDITIONS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_TOKEN = re.compile(r"[぀-ヿ㐀-鿿]|[^\s぀-ヿ㐀-鿿]+")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|vs|No|Fig|Eq|cf|etc|al|e\.g|i\.e|U\.S|[A-Z])$")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_QUESTION = re.compile(r"^(?:#{1,4} |\*\*)?Question\b", re.MULTILINE)
_ANSWER = re.compile(r"^(?:#{1,4} |\*\*)?(?:Accepted )?[Aa]nswer\b", re.MULTILINE)
_COMMENT = re.compile(r"\s*(?:#|//|/?\*)")
_PROSE = re.compile(r"(?:\b[A-Za-z'’-]{2,}[,;:]? ){4}\b[A-Za-z'’-]{2,}\b")
_NO_STATEMENT = re.compile(r"\"{3}[^\"]*\"{3}|\s(?:#|//|--)\s.*|\"[^\"\n]*\"|(?<!\w)'[^'\n]*'|(?m:^\s*for\b.*\):$)")
"""Docstrings, comments behind a statement, strings, and heads of loops."""
_CODE_WORDS = word_set("and or not is in if else elif for while return None True False null lambda assert")
_HEADING = re.compile(r"^#{1,4} [^\s\d]|^\S[^\n]{0,80}\n[-=~^]{3,}[ \t]*$", re.MULTILINE)


def describe(dimension: str, condition: str) -> str:
    """A condition in the words that the writer reads."""
    if dimension == "keyword":
        return f'a passage that mentions "{condition}"'
    if dimension == "language":
        return f"a text in {language_name(condition)}"
    return str(_CONDITIONS[dimension][condition]["asked"])


def name_of(dimension: str, condition: str) -> str:
    """A condition as somebody names it who has never seen how it is decided."""
    if dimension == "keyword":
        return f'texts that mention "{condition}"'
    if dimension == "language":
        return f"texts in {language_name(condition)}"
    return str(_CONDITIONS[dimension][condition]["name"])


def names(dimension: str, condition: str, text: str) -> bool:
    """Whether a sentence speaks of a condition. Of Keyword and Language it must have the word itself."""
    if dimension in ("keyword", "language"):
        return fold_text(condition if dimension == "keyword" else language_name(condition)) in fold_text(text)
    beginnings = "|".join(map(re.escape, _CONDITIONS[dimension][condition]["words"].split()))
    return re.search(rf"\b(?:{beginnings})", text, re.IGNORECASE) is not None


def language_name(code: str) -> str:
    """The English name of a language, or its code."""
    return _LANGUAGE_NAMES.get(code, f"the language with the ISO code {code}")


def meets(dimension: str, condition: str, passage: Passage) -> bool:
    """Whether a passage meets a condition of one of the `EXACT_DIMENSIONS`."""
    if dimension == "keyword":
        return Constraint("mentions", condition).holds(passage)
    if dimension == "length" and passage.attributes.get("form") in ("source", "documentation", "abstract"):
        return False  # nobody asks for a paragraph of code, or for an abstract that is an article
    return _CLASSIFIERS[dimension](passage.text) == condition


def is_decidable(intent: Intent) -> bool:
    """Whether a program can decide whether a passage has what the intent asks for."""
    return intent.attributes.get("dimension") in EXACT_DIMENSIONS


def obeys(intent: Intent, passage: Passage) -> bool:
    """Whether a passage has the condition that the intent asks for, or lacks it where the intent is reversed.

    True where no program can tell: the intent has no dimension, or one that a judge must decide.
    """
    if not is_decidable(intent):
        return True
    has_condition = meets(intent.attributes["dimension"], intent.attributes["condition"], passage)
    return has_condition is not (intent.role == "reversed")


def count_words(text: str) -> int:
    """Runs of characters other than white space; each Chinese or Japanese character by itself."""
    return sum(1 for _ in _TOKEN.finditer(text))


def classify_length(text: str) -> str:
    """The length class of a text, or "" for one that is in none."""
    text = text.strip()
    count, text_format = count_words(text), classify_format(text)
    if text_format == "code_snippet":
        return ""
    if _BLANK_LINE.search(text):
        return "article" if count >= ARTICLE_WORDS else ""
    if "\n" not in text and _is_one_sentence(text):
        return "sentence" if _is_within(count, SENTENCE_WORDS) else ""
    return "paragraph" if _is_within(count, PARAGRAPH_WORDS) and not text_format else ""


def classify_format(text: str) -> str:
    """The format of a text, or "" for one that has no format."""
    unfenced = _drop_fenced_blocks(text)
    question = _QUESTION.search(unfenced)
    if question and _ANSWER.search(unfenced, question.end()):
        return "stackoverflow_post"
    if not text.strip() or _is_code(unfenced):
        return "code_snippet" if text.strip() and not says_prose(text) else ""
    has_heading = _HEADING.search(unfenced) or any(FAMILIES["section"].detector.offer(unfenced, {}))
    return "manual" if has_heading and count_words(unfenced) >= _MANUAL_WORDS else ""


_CLASSIFIERS: Mapping[str, Callable[[str], str]] = {
    "length": classify_length,
    "format": classify_format,
    "language": lambda text: identify(text)[0],
}


def _drop_fenced_blocks(text: str) -> str:
    """The text without the blocks between two lines that open with ```; the last fence may be missing."""
    kept_lines, inside = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            kept_lines.append(line)
    return "\n".join(kept_lines)


def _is_code(unfenced: str) -> bool:
    """Whether the text outside of fenced blocks is code, or empty."""
    lines = [line for line in unfenced.splitlines() if line.strip()]
    has_code = count_code_lines(unfenced) or any(line.lstrip().startswith(">>>") for line in lines)
    is_page = any(FAMILIES["section"].detector.offer(unfenced, {}))
    return not lines or (bool(has_code) and not is_page and not says_prose(unfenced))


def says_prose(code: str) -> bool:
    """Whether a line that is no code, comment or string has five words in a row, three of them no words of code."""
    lines = (line for line in code.splitlines() if not _COMMENT.match(line) and not count_code_lines(line))
    prose_lines = _NO_STATEMENT.sub("", "\n".join(lines)).splitlines()
    return any(len(set(run[0].split()) - _CODE_WORDS) > 2 for line in prose_lines for run in _PROSE.finditer(line))


def _is_one_sentence(text: str) -> bool:
    return all(_ABBREVIATION.search(text[max(0, end.start() - 8) : end.start()]) for end in SENTENCE_END.finditer(text))


def _is_within(count: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= count <= bounds[1]
