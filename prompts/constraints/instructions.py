"""Whole instructions: constraints put into English, in one of four length formats and one of four styles.

Formats and styles are those of Promptriever (section 3.1). The demand stands within the first fifty words of every
instruction, so that an encoder that cuts its input still sees it. Longer formats repeat it in other words, and say what
is not wanted.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Literal, get_args

from prompts.constraints.constraint import Constraint
from prompts.constraints.families import Kind
from prompts.constraints.wordings import plural, third_person

Length = Literal["short", "medium", "long", "very_long"]
Style = Literal["plain", "negation", "background", "persona"]
LENGTHS: tuple[Length, ...] = get_args(Length)
STYLES: tuple[Style, ...] = get_args(Style)

_NOUNS: Mapping[Kind, tuple[str, ...]] = {
    "text": ("passage", "document", "text"),
    "documentation": ("passage", "page", "document", "text"),
    "code": ("solution", "implementation", "passage", "program"),
    "mathematics": ("solution", "answer", "passage"),
}
_DEMANDS = (
    "A relevant {noun} must {base}.",
    "The {noun} should {base}.",
    "To be relevant, a {noun} has to {base}.",
    "I need a {noun} that {third}.",
    "Find a {noun} that {third}.",
    "Look for a {noun} that {third}.",
    "Only a {noun} that {third} is relevant.",
    "Return {noun}s that {plural}.",
    "Relevant {noun}s {plural}.",
    "I am only interested in {noun}s that {plural}.",
    "Please pick a {noun} that {third}.",
    "What I want to read is a {noun} that {third}.",
)
_EXCLUSIONS = (
    "{Noun}s that {plural} are not relevant.",
    "A {noun} that {third} is of no use here.",
    "Do not return a {noun} that {third}.",
    "Leave out {noun}s that {plural}.",
    "Discard any {noun} that {third}.",
    "A {noun} does not count if it {third}.",
    "I cannot use {noun}s that {plural}.",
    "Anything that {third} should be ranked low.",
)
_REPETITIONS = (
    "To say it once more: the {noun} has to {base}.",
    "In other words, the right {noun} will {base}.",
    "So, before anything else, check that the {noun} does what was asked: it must {base}.",
    "Put differently, a good {noun} should {base}.",
    "Judge every candidate by this: it has to {base}.",
)
_OPENERS = (
    "Several texts answer this question.",
    "The question has more than one good answer.",
    "There will be many candidates.",
    "The topic alone does not decide this search.",
    "Answering the question is not enough this time.",
    "I have one more requirement besides the question itself.",
)
_CLOSINGS = (
    "Of course it must also answer the question.",
    "It still has to answer the question that I asked.",
    "Everything else about it is open.",
    "Apart from that, any {noun} that answers the question will do.",
    "Please apply this strictly, even if another candidate looks closer to the question at first sight.",
    "Closeness to the topic alone does not make up for missing this.",
    "If two candidates are equally good otherwise, this is what decides.",
    "I will check the result against this before I use it.",
)
_BACKGROUNDS: Mapping[Kind, tuple[str, ...]] = {
    "text": (
        "I am putting together a short overview of this subject and already have the general outline.",
        "This is for a report in which each source has to contribute something particular.",
        "Earlier searches brought up texts that all say roughly the same.",
        "We are collecting sources for a reading list, and each one has a set place in it.",
        "The basic facts are known to me, and now I am filling a particular gap.",
        "An earlier draft was sent back because its sources did not fit the purpose.",
        "The material will be part of a leaflet, so what it does and does not contain matters.",
    ),
    "documentation": (
        "Our project keeps a collection of reference material, sorted by what each entry contains.",
        "I am tidying up the notes that our team uses when reviewing code.",
        "Several pages describe the same functionality, and they do not cover the same ground.",
        "The code base that this is for has been growing for years and follows fixed conventions.",
        "We are moving parts of an older program to a new one, and one detail is still open.",
        "The overview is clear to me, and what remains is one particular aspect.",
        "A colleague asked about this yesterday, and the usual page did not help.",
    ),
    "code": (
        "Our project keeps a collection of solutions, sorted by how they work.",
        "I am tidying up the examples that our team uses in code reviews.",
        "There are many ways to solve this, and I have seen a few of them already.",
        "The code that this goes into has grown for years and follows fixed conventions.",
        "We are moving parts of an older program to a new one.",
        "A colleague solved this yesterday in a way that does not suit us.",
        "The task itself is clear to me.",
    ),
    "mathematics": (
        "I am collecting worked solutions for a set of exercises.",
        "The exercise has been solved in class in several ways.",
        "These solutions go into a workbook in which each one shows something particular.",
        "The result itself is known, and the way to it is what matters now.",
        "We compare different write-ups of the same problem.",
        "The solutions found so far all look alike.",
    ),
}
_PERSONAS: Mapping[Kind, tuple[str, ...]] = {
    "text": (
        "I am a librarian answering a reader's request.",
        "I am a journalist checking details for an article.",
        "I teach an introductory course and prepare a handout.",
        "As a student writing a term paper, I choose my sources with care.",
        "I work at an advice desk and get this question often.",
        "As an editor of a reference work, I compare sources every day.",
        "I am a curious layperson who reads about this in the evenings.",
    ),
    "documentation": (
        "I am a developer who maintains a library used by many others.",
        "As a data scientist, I look such things up several times a day.",
        "I teach programming to beginners and prepare the next lesson.",
        "I am a technical writer revising a manual.",
        "As a reviewer, I want to check one thing before I approve a change.",
        "I am new to this language and am learning step by step.",
        "I write tests for a living and need precise sources.",
    ),
    "code": (
        "I am preparing for a programming interview.",
        "I teach programming to beginners and prepare the next lesson.",
        "As a reviewer, I compare solutions to the same task.",
        "I am new to this language and am learning step by step.",
        "I maintain a collection of algorithms.",
        "As a developer, I want to put this into an existing program.",
    ),
    "mathematics": (
        "I teach mathematics at a primary school.",
        "As a tutor, I pick solutions that suit the child in front of me.",
        "I am a parent helping with homework.",
        "I am a pupil preparing for a test.",
        "As the author of a workbook, I select sample solutions.",
        "I grade exercises and compare how they are written up.",
    ),
}


def pick(rng: Random, options: Sequence[str]) -> str:
    """One of the options."""
    return options[int(rng.random() * len(options))]


def _join_phrases(phrases: Sequence[str], conjunction: str) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} {conjunction} {phrases[-1]}"


def _fill_frame(
    rng: Random, frames: Sequence[str], constraints: Sequence[Constraint], noun: str, conjunction: str
) -> str:
    """A frame filled with one wording of each constraint, joined by the conjunction."""
    phrases = [constraint.render(int(rng.random() * 1000)) for constraint in constraints]
    frame = _insert_noun(pick(rng, frames), noun)
    inflections: Mapping[str, Callable[[str], str]] = {"{base}": str, "{third}": third_person, "{plural}": plural}
    slot = next(slot for slot in inflections if slot in frame)
    return frame.replace(slot, _join_phrases([inflections[slot](phrase) for phrase in phrases], conjunction))


def _insert_noun(text: str, noun: str) -> str:
    if noun[0] in "aeiou":
        text = text.replace("a {noun}", "an {noun}").replace("A {noun}", "An {noun}")
    return text.replace("{noun}", noun).replace("{Noun}", noun.capitalize())


def compose(rng: Random, constraints: Sequence[Constraint], length: Length, style: Style, kind: Kind = "text") -> str:
    """An instruction that demands the constraints, all of them. `kind` chooses the nouns, personas and backgrounds."""
    noun = pick(rng, _NOUNS[kind])
    opposites = [constraint.negate() for constraint in constraints]
    demand = partial(_fill_frame, rng, _DEMANDS, constraints, noun, "and")
    exclude = partial(_fill_frame, rng, _EXCLUSIONS, opposites, noun, "or")
    opening = {
        "plain": "" if length == "short" else pick(rng, _OPENERS),
        "negation": "",
        "background": pick(rng, _BACKGROUNDS[kind]),
        "persona": pick(rng, _PERSONAS[kind]),
    }[style]
    if length == "short":
        return " ".join(filter(None, [opening, exclude() if style == "negation" else demand()]))
    sentences = [opening, demand()]
    closings = [_insert_noun(closing, noun) for closing in rng.sample(_CLOSINGS, 2)]
    if length == "medium":
        sentences += [*([exclude()] if style == "negation" else []), closings[0]]
    if length == "long":
        sentences += [exclude(), *closings]
    text = " ".join(filter(None, sentences))
    if length == "very_long":
        repetition = _fill_frame(rng, _REPETITIONS, constraints, noun, "and")
        text += "\n\n" + " ".join([repetition, exclude(), *closings])
    return text
