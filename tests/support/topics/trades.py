"""Forty seeds of the character's world (tests/support/models/character.py): eight trades in five towns."""

import json
from pathlib import Path
from typing import Any

from foil.engine.topic import Passage, Seed
from tests.support.models.character import pick

TOWNS = ("Vellmar", "Quarrow", "Tindale", "Osmory", "Brackwell")
TRADES = {
    "slate": "split", "wool": "dyed", "cheese": "ripened", "rope": "twisted", "glass": "blown", "honey": "strained",
    "leather": "tanned", "bread": "leavened",
}  # fmt: skip
SAYS = {
    "price": "The price rises a little whenever the road is closed.",
    "season": "Their season is short, because the pass is snowed in until May.",
    "injuries": "The doctor of the valley counts more injuries here than on the farms.",
    "wages": "The wages are low, yet nobody has left for the city.",
    "century": "It has been so for a century at least, as the parish books show.",
    "apprentice": "Each house takes one apprentice, mostly a cousin.",
    "chisel": "They swear by a broad chisel with a handle of ash wood.",
    "leftovers": "All leftovers are burnt behind the church on the first Monday of the month.",
}
OPENINGS = (
    "In {town} {thing} is {done} by hand, in low rooms behind the square, one piece after the other.",
    "{Thing} from {town} is {done} slowly, for the people think that nothing good was ever made in a hurry.",
)


def paragraph(town: str, thing: str, number: int) -> dict[str, str]:
    """A passage that tells how it is done there, and three aspects of it."""
    opening = OPENINGS[number].format(town=town, thing=thing, Thing=thing.capitalize(), done=TRADES[thing])
    at = pick(range(8), town, thing) + 3 * number
    aspects = [SAYS[[*SAYS][(at + i) % 8]] for i in range(3)]
    return {"title": f"{thing.capitalize()} work at {town}", "text": " ".join([opening, *aspects])}


def trade_rows() -> list[dict[str, Any]]:
    """A row a seed, each with two passages that answer and two that do not."""
    things = [*TRADES]
    return [
        {
            "id": f"{thing}-{town.lower()}",
            "query": f"How is {thing} {TRADES[thing]} in {town}?",
            "positives": [paragraph(town, thing, 0), paragraph(town, thing, 1)],
            "negatives": [paragraph(TOWNS[i - 1], thing, 0), paragraph(town, things[j - 1], 1)],
        }
        for i, town in enumerate(TOWNS)
        for j, thing in enumerate(things)
    ]


def trade_seeds() -> list[Seed]:
    """The rows as seeds."""
    return [
        Seed(
            row["id"],
            "trades",
            row["query"],
            tuple(Passage(p["text"], "seed_positive", title=p["title"]) for p in row["positives"]),
            tuple(Passage(p["text"], "seed_negative", title=p["title"]) for p in row["negatives"]),
        )
        for row in trade_rows()
    ]


def corpus(path: Path) -> Path:
    """The rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in trade_rows()))
    return path
