"""Answers in place of texts: what a model says to whoever asked it, and no reader of the text should see.

"I'm sorry, but I can't help with that."    refusal
"As an AI language model, I ..."            speaks_as_model
"Sure! Here is a passage that ..."          chatter
"The passage does not mention ..."          speaks_of_task
"""

import re
from collections.abc import Iterator

_SCANNED_CHARS = 2000
_UNABLE = r"(?:cannot|can ?not|can[’']?t|could not|couldn[’']t|won[’']t|will not|(?:am|[’']m) (?:not able|unable) to)"
_WORK = (
    r"(?:assist|help|comply|fulfil+|satisfy|complete|provide|generate|create|write|produce|answer|respond|continue"
    r"|do (?:this|that|so)|think of|rewrite)"
)
_SORRY = (
    r"(?:(?:I[’']?m|I am|we[’']?re) (?:very |so |really )?sorry|sorry|(?:my|I) apologi[sz]e?s?|unfortunately"
    r"|(?:my )?apologies)"
)
_SPEAKER = r"an? (?:AI|artificial intelligence|(?:large )?language model|chatbot|virtual assistant)"
_SHOWN = r"(?:the|this) (?:given |original |revised |rewritten |above )?(?:passage|text|prompt|request)"
_AT_THE_START = {
    "refusal": rf"(?:{_SORRY}\b[^.!?\n]{{0,60}}?\b)?(?:I|we) {_UNABLE} {_WORK}\b|{_SORRY}[,.!]? (?:but|I)\b"
    rf"|{_SORRY} for (?:any|the|my) (?:confusion|inconvenience|misunderstanding|mistake|error)",
    "chatter": r"(?:sure|certainly|of course|okay)[,.!:]* (?:here(?: is|[’']s| are)|please (?:provide|share|send))\b",
    "speaks_of_task": rf"{_SHOWN} (?:does not|doesn[’']t|mentions|discusses|states|says|asks)\b"
    r"|I(?: have|[’']ve) (?:prepared|written|rewritten|revised)\b",
}
_PATTERNS = {reason: re.compile(rf"\W*(?:{pattern})", re.IGNORECASE) for reason, pattern in _AT_THE_START.items()}
_AS_MODEL = re.compile(
    rf"\bas {_SPEAKER}\b|\bI(?:[’']m| am) (?:just |only )?{_SPEAKER}\b|\bmy (?:training data|knowledge cutoff)\b",
    re.IGNORECASE,
)


def small_talk(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The reasons why a text is an answer to its writer's task, each with the span of what shows it.

    All but `speaks_as_model` are looked for at the beginning: an instruction may well say "I cannot use passages that".
    """
    beginning = text[:_SCANNED_CHARS]
    matches = [(reason, pattern.match(beginning)) for reason, pattern in _PATTERNS.items()]
    for reason, match in [*matches, ("speaks_as_model", _AS_MODEL.search(beginning))]:
        if match:
            yield reason, match.span()
