"""Exact verifiers of IFEval's instructions (Zhou et al. 2023, arXiv 2311.07911), by their ids and arguments.

They decide as the released code does (google-research, instruction_following_eval), but: a keyword is looked for as it
is written, not as a pattern; a sentence ends with `.`, `!` or `?` before white space, where the released code has a
trained splitter; a word in capitals is a run of letters and digits; `change_case` does not ask whether the language is
English; a letter may be any character. `language:response_language` is missing, since no exact rule decides it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foil.engine.errors import UsageError
from foil.engine.texts.words import SENTENCE_GAP

Check = Callable[..., bool]
"""(response, **arguments of the instruction) -> whether the response follows it."""

_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}


def _compared(number: int, relation: str, bound: int) -> bool:
    if relation not in {"less than", "at least"}:
        raise ValueError(f"the relation {relation!r} is neither `less than` nor `at least`")
    return number < bound if relation == "less than" else number >= bound


def _times(word: str, text: str) -> int:
    return len(re.findall(re.escape(word.strip()), text, re.IGNORECASE))


def _has_word(word: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) is not None


def _is_json(text: str) -> bool:
    inner = re.sub(r"^```(?:json)?", "", text.strip(), flags=re.IGNORECASE).removesuffix("```").strip()
    try:
        json.loads(inner)
    except (ValueError, RecursionError):
        return False
    return True


def _bullets(text: str) -> int:
    return len(re.findall(r"^\s*\*[^*].*$", text, re.MULTILINE)) + len(re.findall(r"^\s*-.*$", text, re.MULTILINE))


def _highlights(text: str) -> int:
    spans = [*re.findall(r"\*[^\n*]*\*", text), *re.findall(r"\*\*[^\n*]*\*\*", text)]
    return sum(bool(each.strip("*").strip()) for each in spans)


def _inner_parts(text: str, divider: str) -> list[str] | None:
    """What stands between dividers, those at either end left out; None where an inner part is blank.

    >>> _inner_parts("a *** b ***", "***"), _inner_parts("a *** *** b", "***")
    (['a', 'b'], None)
    """
    parts = [part.strip() for part in text.split(divider)]
    inner = [part for place, part in enumerate(parts) if part or 0 < place < len(parts) - 1]
    return inner if all(inner) else None


def _two_responses(text: str) -> bool:
    parts = _inner_parts(text, "******")
    return parts is not None and len(parts) == 2 and parts[0] != parts[1]


def _nth_paragraph(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    paragraphs = text.split("\n\n")
    count = sum(bool(each.strip()) for each in paragraphs)
    words = paragraphs[nth_paragraph - 1].split() if 0 < nth_paragraph <= count else []
    first = re.split(r"[.,?!'\"]", words[0].lstrip("'").lstrip('"'))[0].lower() if words else ""
    return count == num_paragraphs and first == first_word.lower()


def _postscript(text: str, postscript_marker: str) -> bool:
    marker = postscript_marker.strip()
    return re.search(_POSTSCRIPTS.get(marker, re.escape(marker)), text, re.IGNORECASE) is not None


def _sections(text: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.findall(rf"{re.escape(section_spliter.strip())}\s?\d+", text)) >= num_sections


CHECKS: Mapping[str, Check] = {
    "change_case:capital_word_frequency": lambda text, capital_frequency, capital_relation: _compared(
        sum(word.isupper() for word in re.findall(r"\w+", text)), capital_relation, capital_frequency
    ),
    "change_case:english_capital": lambda text: text.isupper(),
    "change_case:english_lowercase": lambda text: text.islower(),
    "combination:repeat_prompt": lambda text, prompt_to_repeat: (
        text.strip().lower().startswith(prompt_to_repeat.strip().lower())
    ),
    "combination:two_responses": _two_responses,
    "detectable_content:number_placeholders": lambda text, num_placeholders: (
        len(re.findall(r"\[.*?\]", text)) >= num_placeholders
    ),
    "detectable_content:postscript": _postscript,
    "detectable_format:constrained_response": lambda text: any(option in text for option in _OPTIONS),
    "detectable_format:json_format": _is_json,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:number_bullet_lists": lambda text, num_bullets: _bullets(text) == num_bullets,
    "detectable_format:number_highlighted_sections": lambda text, num_highlights: _highlights(text) >= num_highlights,
    "detectable_format:title": lambda text: any(
        title.lstrip("<").rstrip(">").strip() for title in re.findall(r"<<[^\n]+>>", text)
    ),
    "keywords:existence": lambda text, keywords: all(_times(word, text) for word in keywords),
    "keywords:forbidden_words": lambda text, forbidden_words: not any(_has_word(w, text) for w in forbidden_words),
    "keywords:frequency": lambda text, keyword, frequency, relation: _compared(
        _times(keyword, text), relation, frequency
    ),
    "keywords:letter_frequency": lambda text, letter, let_frequency, let_relation: _compared(
        text.lower().count(letter.strip().lower()), let_relation, let_frequency
    ),
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "length_constraints:number_paragraphs": lambda text, num_paragraphs: (
        len(_inner_parts(text, "***") or ()) == num_paragraphs
    ),
    "length_constraints:number_sentences": lambda text, num_sentences, relation: _compared(
        len([each for each in SENTENCE_GAP.split(text.strip()) if each]), relation, num_sentences
    ),
    "length_constraints:number_words": lambda text, num_words, relation: _compared(
        len(re.findall(r"\w+", text)), relation, num_words
    ),
    "punctuation:no_comma": lambda text: "," not in text,
    "startend:end_checker": lambda text, end_phrase: (
        text.strip().strip('"').lower().endswith(end_phrase.strip().lower())
    ),
    "startend:quotation": lambda text: len(text.strip()) > 1 and text.strip()[0] == text.strip()[-1] == '"',
}
"""Instruction id -> its verifier; 24 of IFEval's 25."""


def follows_all(response: str, ids: Sequence[str], arguments: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a response follows every instruction. UsageError where an instruction is unknown or lacks an argument.

    >>> follows_all("No, thanks.", ["punctuation:no_comma", "startend:quotation"], [{}, {}])
    False
    """
    return all(_follows(response, name, own) for name, own in zip(ids, arguments, strict=True))


def _follows(response: str, name: str, arguments: Mapping[str, Any]) -> bool:
    if name not in CHECKS:
        raise UsageError(f"{name!r} is no instruction of IFEval that can be verified; known are {', '.join(CHECKS)}")
    options = {key: value for key, value in arguments.items() if value is not None}
    try:
        return CHECKS[name](response, **options)
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the arguments {dict(options)} of {name} do not fit it ({error}); mend the prompts") from None
