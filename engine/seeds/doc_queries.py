"""What a user would ask to find an object whose summary line is known.

    "Return the inverse of a matrix."  ->  the line itself, or "How can I get the inverse of a matrix?"

A summary is either an order (`Compute ...`, `Returns ...`) or a noun phrase (`Linear support vector classifier`); each
has its wordings, of which a hash of the object's name picks one. The name itself is never added.
"""

from __future__ import annotations

import re

from engine.ids import fraction_of

_VERBS = frozenset(
    """accumulate acquire activate add adjust advance aggregate align allocate allow alter append apply approximate arrange assert
    assign attach average binarize bind block bracket broadcast build byte-compile calculate call cancel cast center change check
    choose clamp classify clean clear clip clone close cluster collapse collect combine compare compile compress compute
    concatenate configure connect construct convert convolve copy count create cut deactivate decide decode decompose decompress
    decorate define delete deserialize detach detect determine differentiate disable discard discover display divide download draw
    drop dump duplicate embed emit enable encode ensure enumerate erase escape estimate evaluate execute expand export extend extract
    factorize fetch fill filter find fit flatten flip flush force form format fuse gather generate get give group guess handle
    hash highlight identify implement import indicate infer initialize insert inspect install integrate interpolate invert invoke
    iterate join launch learn limit list listen load localize locate look lower make map mark mask match mean measure merge minimize
    modify move multiply normalize obtain open order pack pad parse partition perform permute pick pivot plot pop predict prepare
    prepend pretty-print print process produce project prune push put quantize query raise randomize rank read rearrange receive
    reconstruct record reduce register release reload remove rename render reorder repeat replace report represent request resample
    rescale reset reshape resize resolve restore retrieve reverse roll rotate round run sample save scale scan scatter search seek
    select send serialize set shift show shuffle shut simplify simulate skip slice smooth solve sort split squeeze stack standardize
    start stop store strip subtract sum suppress swap synchronize take terminate tile tokenize train transfer transform translate
    transpose traverse trim truncate try turn unpack unpivot update upload use validate verify visualize wait walk weight wrap
    write yield zip""".split()
)

_ORDERS = (
    "How do I {do}?",
    "How can I {do} in Python?",
    "What is the way to {do}?",
    "Which function should I call to {do}?",
    "I want to {do}, what do I use?",
    "python {do}",
    "Is there something ready-made to {do}?",
    "What can I use to {do}?",
    "I need to {do}",
    "What would you reach for to {do}?",
)
_RESULTS = (
    "How do I get {thing}?",
    "How can I obtain {thing} in Python?",
    "What gives me {thing}?",
    "I am looking for {thing}",
    "Which call returns {thing}?",
    "python get {thing}",
    "What should I use when I need {thing}?",
    "Is there a function that returns {thing}?",
)
_THINGS = (
    "{thing} in Python",
    "What should I use for {thing}?",
    "Which library offers {thing}?",
    "I am looking for {thing}",
    "Where in Python do I find {thing}?",
    "Is {thing} available anywhere in Python?",
    "What do I import for {thing}?",
)
_ARTICLE_THINGS = ("Is there {thing}?", "Does Python have {thing}?", "I am looking for {thing}", "Where do I find {thing}?")
_SENTENCE_STARTERS = frozenset(
    "this these that if for when given only see note as in on by with like once unless it you each any no true false".split()
)
_MAX_QUESTION_WORDS = 22


def question_of(summary: str, name: str) -> str:
    """A question to which the object of this summary is an answer; "" if none sounds natural."""
    phrase = summary.rstrip(".").strip()
    words = phrase.split()
    if not 3 <= len(words) <= _MAX_QUESTION_WORDS or re.search(r"[;:?!=]|\. |^\W", phrase):
        return ""
    verb = base_verb(words[0])
    rest = " ".join(words[1:])
    if verb in {"return", "get", "give", "obtain", "yield", "retrieve"} and re.match(r"(a|an|the|all|one)\b", rest, re.I):
        return _pick(_RESULTS, name).format(thing=rest)
    if verb == "return" or words[0].endswith(","):
        return ""
    if verb:
        return _pick(_ORDERS, name).format(do=f"{verb} {rest}")
    return _noun_question(words, name)


def base_verb(word: str) -> str:
    """The verb with which an order begins, in its base form ("Computes" -> "compute"); "" if it is none."""
    lower = word.lower()
    forms = (lower, lower.removesuffix("s"), lower.removesuffix("es"), lower.removesuffix("ies") + "y")
    return next((form for form in forms if form in _VERBS or form in {"return"}), "")


def _noun_question(words: list[str], name: str) -> str:
    first = words[0].lower()
    if first in _SENTENCE_STARTERS or re.search(r"\b(is|are|was|will|can|should|must|does)\b", " ".join(words[:6])):
        return ""
    ordinary = words[0][1:].islower() or len(words[0]) == 1
    thing = " ".join([first if ordinary else words[0], *words[1:]])
    return _pick(_ARTICLE_THINGS if first in {"a", "an"} else _THINGS, name).format(thing=thing)


def _pick(wordings: tuple[str, ...], name: str) -> str:
    return wordings[int(fraction_of("wording", name) * len(wordings))]
