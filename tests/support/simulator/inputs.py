"""The inputs of a run and what people do to them between two attempts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from foil.prompts.recipes import verifiable
from foil.prompts.recipes.custom import recipe as custom
from foil.prompts.rules import topic_writer
from foil.validators.verdicts import TopicCheck
from tests.support.simulator.checker import Version

COLOURS = ("red", "blue", "green", "amber", "violet", "black", "white", "brown")
_OTHER_FOIL = 0.12
"""How often an edit is another version of Foil whose fingerprint is the same."""
_CODES = ("version", "check")
_EDITS = (
    "front", "append", "query", "text", "remove", "swap", "same id", "package", "size", "setting", *_CODES,
)  # fmt: skip
_COMPOSE = topic_writer.compose


def row(number: int, lot: int = 0) -> tuple[tuple[str, str], ...]:
    """A seed whose every sentence names its lot."""
    colour = COLOURS[number % len(COLOURS)]
    return tuple(
        {"id": f"s{number}", "query": f"How is the {colour} kite number {number} built?", "lot": f"{lot}"}.items()
    )


def first_rows(dice: Random, count: int) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Seeds, of which some share a query with an earlier one, and some say too little for a topic."""
    rows = [dict(row(number)) for number in range(count)]
    if dice.random() < 0.3:
        rows[-1]["query"] = rows[0]["query"]
    if dice.random() < 0.4:
        rows[1]["poor"] = "yes"
    return tuple(tuple(one.items()) for one in rows)


def _good(topic: str, number: str, lot: str) -> str:
    return (
        f"The {topic} of lot {lot} is built from two spars and a sail. The lot {lot} of {number} first flew in "
        f"19{int(number[1:]) % 90 + 10}. Spars of lot {lot} weigh {int(number[1:]) + 3} grams each. The sail of lot "
        f"{lot} is cut from one paper sheet. A tail keeps lot {lot} steady in wind. Builders sell lot {lot} at "
        "markets, for example in Harbour Town."
    )


def record(seed: dict[str, str]) -> dict[str, object]:
    """The line of the seed file."""
    number, lot = seed["id"], seed["lot"]
    topic = seed["query"].removeprefix("How is the ").removesuffix(" built?")
    good = f"The {topic} of lot {lot} is built."
    if "poor" not in seed:
        good = _good(topic, number, lot)
    return {
        "id": seed["id"],
        "query": seed["query"],
        "good": good,
        "bad": [f"The boat number {number} has a keel of oak.", f"A paper lamp number {number} burns for hours."],
    }


def write(version: Version, path: Path) -> None:
    """The seed file of a version."""
    path.write_text("".join(json.dumps(record(dict(one))) + "\n" for one in version.rows))


def edited(dice: Random, version: Version, *, with_foil: bool = True) -> Version:
    """Another version: its rows, its cut, its settings or its code changed."""
    if with_foil and dice.random() < _OTHER_FOIL:
        return replace(version, foil=dice.choice(("", "wordings", "weights")))
    kind = dice.choice(_EDITS)
    if kind == "size":
        return replace(version, size=version.size + 1)
    if kind == "setting":
        return replace(version, settings=("recipe.negatives=1",))
    if kind in _CODES:
        return replace(version, code=kind)
    return replace(version, rows=_edited_rows(dice, kind, list(version.rows)))


def _edited_rows(dice: Random, kind: str, rows: list[Any]) -> tuple[Any, ...]:
    place, fresh = dice.randrange(len(rows)), row(100 + dice.randrange(50))
    match kind:
        case "front":
            rows.insert(0, fresh)
        case "append":
            rows.append(fresh)
        case "query":
            rows[place] = tuple({**dict(rows[place]), "query": dict(fresh)["query"]}.items())
        case "text":
            rows[place] = tuple({**dict(rows[place]), "lot": f"{dice.randrange(1, 99)}"}.items())
        case "remove":
            del rows[place]
        case "swap":
            rows[place], rows[0] = rows[0], rows[place]
        case "same id":
            rows.append(tuple({**dict(fresh), "id": dict(rows[place])["id"]}.items()))
        case "package":  # the library that the seeds are read from was upgraded
            rows[place:] = [tuple({**dict(one), "lot": f"{int(dict(one)['lot']) + 1}"}.items()) for one in rows[place:]]
    return tuple(rows)


@contextmanager
def code_of(version: Version) -> Iterator[None]:
    """Foil as it was when this version ran: another recipe or check, or other rules under the same names."""
    with pytest.MonkeyPatch.context() as patch:
        if version.code == "version":
            patch.setattr(verifiable, "VERSION", "next")
            patch.setattr(custom, "VERSION", "next")
        if version.code == "check":
            patch.setattr(TopicCheck, "version", 99)
        if version.foil == "wordings":
            patch.setattr(topic_writer, "compose", lambda *words: f"{_COMPOSE(*words)} Thank you.")
        if version.foil == "weights":
            patch.setattr(verifiable, "WEIGHTS", dict(reversed(verifiable.WEIGHTS.items())))
        yield
