"""Whole instructions: constraints put into English, in one of four length formats and one of four styles.

    who asks and what for   contexts.yaml, by kind of text      persona, background; very long: also in other styles
    a reason                wordings.yaml, by family            from medium on, and for each ban
    the demand              contexts.yaml, phrases by family    always, within the first fifty words
    what is not wanted      the same, of the opposite           from long on, and in the style `negation`
    what else there is      contexts.yaml                       very long: what was found so far, or does not matter

Formats and styles are those of Promptriever (section 3.1). Nothing is said more than twice, once as a demand and once
as an exclusion, which is how TREC's narratives put it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar, get_args

import yaml

from foil.prompts.constraints.constraint import Constraint
from foil.prompts.constraints.families import Kind
from foil.prompts.constraints.wordings import plural, third_person

Length = Literal["brief", "short", "medium", "long", "very_long"]
"""`brief`, a line of about 12 words as people type them, is ours; the others are Promptriever's grid."""
Style = Literal["plain", "negation", "background", "persona"]
LENGTHS: tuple[Length, ...] = get_args(Length)[1:]  # of the grid
STYLES: tuple[Style, ...] = get_args(Style)
T = TypeVar("T")

CIRCLE = re.compile(
    r"\b(?:class|students?|pupils?|children|child|learners|group|readers?|listeners|audience|visitors|customers|editor|"
    r"teacher|teach|boss|team|colleagues?|son|daughter|grandson|tutor|supervisor|publisher|treasurer|co-author|neighbour|"
    r"course|lesson|talk|podcast|report|essay|newsletter|thesis|handout|quiz|worksheet|exam|test|homework|seminar|"
    r"chapter|lexicon|paper|survey|article|speech|letter|handbook|letters)\b"
)
"""People and pieces of writing of which a context and a reason must not name different ones."""
_TRIES = 12
_CONTEXTS: Mapping[str, Any] = yaml.load(
    Path(__file__).with_name("contexts.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


def pick(rng: Random, options: Sequence[T]) -> T:
    """One of the options."""
    return options[int(rng.random() * len(options))]


def compose(rng: Random, constraints: Sequence[Constraint], length: Length, style: Style, kind: Kind = "text") -> str:
    """An instruction that demands the constraints, all of them. `kind` chooses the nouns and who asks."""
    noun = pick(rng, _CONTEXTS[kind]["nouns"])
    ban = next((c for c in constraints if c.negated), None)
    if length == "short":
        why = [ban.reason(_variant(rng))] if ban else []
        demand = _exclusion(rng, constraints, noun) if style == "negation" else _demand(rng, constraints, noun)
        return " ".join([*why, demand])
    is_long, is_very_long = length != "medium", length == "very_long"
    opening = style if style in {"persona", "background"} else "background" if is_very_long else ""
    context = _context(rng, opening, kind)
    reason = _reason(rng, ban or pick(rng, constraints), context) if ban or not opening or is_very_long else ""
    sentences = [context, reason]
    if style != "negation" or is_long:
        sentences += _demands(rng, constraints, noun) if is_long else [_demand(rng, constraints, noun)]
    if style == "negation" or is_very_long or (is_long and rng.random() < 0.5):
        sentences.append(_exclusion(rng, constraints, noun))
    if is_very_long:
        sentences.append(_context(rng, pick(rng, ("progress", "indifference")), kind, constraints))
    return " ".join(filter(None, sentences))


def _reason(rng: Random, constraint: Constraint, context: str) -> str:
    """A reason for the constraint that speaks of no other people and no other text than the context does, or ""."""
    context_circles = frozenset(CIRCLE.findall(context.lower()))
    reasons = (constraint.reason(_variant(rng)) for _ in range(_TRIES))
    return next((r for r in reasons if not context or context_circles.issuperset(CIRCLE.findall(r.lower()))), "")


def _variant(rng: Random) -> int:
    return int(rng.random() * 1_000_000)


def _demand(rng: Random, constraints: Sequence[Constraint], noun: str, frames: str = "demands") -> str:
    return _fill_frame(pick(rng, _CONTEXTS[frames]), [c.render(_variant(rng)) for c in constraints], noun, "and")


def _demands(rng: Random, constraints: Sequence[Constraint], noun: str) -> list[str]:
    """One sentence a constraint."""
    first, *further = constraints
    return [_demand(rng, [first], noun), *(_demand(rng, [c], noun, "further_demands") for c in further)]


def _exclusion(rng: Random, constraints: Sequence[Constraint], noun: str) -> str:
    positive_first = sorted(constraints, key=lambda c: not c.negated)  # "state a price or do not", never "do not or"
    opposites = [c.negate().render(_variant(rng), plainly=True) for c in positive_first]
    return _fill_frame(pick(rng, _CONTEXTS["exclusions"]), opposites, noun, "or")


def _fill_frame(frame: str, phrases: Sequence[str], noun: str, conjunction: str) -> str:
    """A frame filled with the phrases, each in the form that the frame asks for, joined by the conjunction."""
    inflections: Mapping[str, Callable[[str], str]] = {"{base}": str, "{third}": third_person, "{plural}": plural}
    slot = next(slot for slot in inflections if slot in frame)
    *most, last = (inflections[slot](phrase) for phrase in phrases)
    filled = _insert_noun(frame, noun).replace(slot, f" {conjunction} ".join(filter(None, [", ".join(most), last])))
    return filled.replace("has to not ", "must not ")


def _insert_noun(text: str, noun: str) -> str:
    if noun[0] in "aeiou":
        text = text.replace("a {noun}", "an {noun}").replace("A {noun}", "An {noun}")
    plurals = {"entry": "entries"}
    many = plurals.get(noun, f"{noun}s")
    text = text.replace("{noun}s", many).replace("{Noun}s", many.capitalize())
    return text.replace("{noun}", noun).replace("{Noun}", noun.capitalize())


def _context(rng: Random, part: str, kind: Kind, constraints: Sequence[Constraint] = ()) -> str:
    """A sentence of `contexts.yaml`, its slots filled; "" for no part. Nobody is indifferent to what the constraints
    are about.
    """
    if not part:
        return ""
    own = _CONTEXTS[kind]
    touched = [word for c in constraints for word in _CONTEXTS["touched"].get(c.family, ())]
    first, second = rng.sample([a for a in own["aspects"] if not any(word in a for word in touched)], 2)
    slots = {name: pick(rng, choices) for name, choices in pick(rng, own["circles"]).items()}
    slots |= {name: pick(rng, _CONTEXTS[name]) for name in ("some", "pages", "gap")}
    frame: str = pick(rng, _CONTEXTS["frames"][part])
    return frame.format(a=first, b=second, **slots)
