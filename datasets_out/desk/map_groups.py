"""What the dots of a map are grouped by: how their topics ended, for colours, and where they lie, for names.

topics by reason -> accepted, the commonest reasons, the others -> groups with the WHERE that counts them
places, texts -> k-means -> areas, each named by the words that are commoner in it than elsewhere
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foil.datasets_out.desk.sections import Ask

_MOST_REASONS = 4
OTHERS = _MOST_REASONS + 1
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,60}")
_WORD = re.compile(r"[^\W\d_]{3,30}")
_NAME_WORDS = 3
_MOST_AREAS = 8
_AREA_TEXTS = 30
_ROUNDS = 50
_COMMON_SHARE = 0.2
"""A word in more of the texts names no area, unless the areas are few."""
ENDS = """
SELECT status = 'accepted' AS accepted, CASE WHEN NOT accepted THEN reason END AS reason, count(*) AS topics
FROM topics GROUP BY ALL ORDER BY accepted DESC, topics DESC, reason
"""


@dataclass(frozen=True, slots=True)
class MapGroup:
    """Topics of one colour. `name`: what they share; `where` finds them in SQL."""

    number: int
    name: str
    where: str
    topics: int


@dataclass(frozen=True, slots=True)
class MapArea:
    """A part of the map: its words, its middle, and how many dots lie in it."""

    name: str
    x: float
    y: float
    topics: int


def map_groups(ask: Ask) -> list[MapGroup]:
    """Accepted topics, those of each of the four commonest reasons, and the others, counted over the whole run.

    A reason that is no plain name is among the others, so that no text stands in SQL.
    """
    ends = ask(ENDS)
    accepted = sum(row["topics"] for row in ends if row["accepted"])
    dropped = [row for row in ends if not row["accepted"]]
    plain_rows = [row for row in dropped if _PLAIN.fullmatch(row["reason"])][:_MOST_REASONS]
    other_topics = sum(row["topics"] for row in dropped) - sum(row["topics"] for row in plain_rows)
    lost = "status <> 'accepted'"
    names = ", ".join(f"'{row['reason']}'" for row in plain_rows)
    groups = [
        MapGroup(0, "accepted", "status = 'accepted'", accepted),
        *(
            MapGroup(number, row["reason"], f"{lost} AND reason = '{row['reason']}'", row["topics"])
            for number, row in enumerate(plain_rows, 1)
        ),
        MapGroup(OTHERS, "other reasons", f"{lost} AND reason NOT IN ({names})" if names else lost, other_topics),
    ]
    return [group for group in groups if group.topics]


def group_numbers(points: pa.Table, groups: Sequence[MapGroup]) -> list[int]:
    """Of each point the number of its group."""
    numbers = {group.name: group.number for group in groups if 0 < group.number < OTHERS}
    rows = zip(points["accepted"].to_pylist(), points["reason"].to_pylist(), strict=True)
    return [0 if accepted else numbers.get(reason, OTHERS) for accepted, reason in rows]


def map_areas(points: pa.Table) -> list[MapArea]:
    """The named areas, from left to right."""
    names = np.array(points["area"].to_pylist(), object)
    x, y = (points[axis].to_numpy() for axis in ("x", "y"))
    parts = [(name, names == name) for name in sorted({*names} - {""})]
    areas = [MapArea(name, float(x[own].mean()), float(y[own].mean()), int(own.sum())) for name, own in parts]
    return sorted(areas, key=lambda area: area.x)


def area_names(places: NDArray[np.float32], texts: Sequence[str]) -> list[str]:
    """Of each text the name of the area that it lies in; "" where there are too few texts for areas."""
    count = min(_MOST_AREAS, len(texts) // _AREA_TEXTS)
    if count < 2:
        return [""] * len(texts)
    bags = [set(_WORD.findall(text.lower())) for text in texts]
    everywhere = Counter(word for bag in bags for word in bag)
    telling = {word for word, n in everywhere.items() if n <= len(bags) * max(_COMMON_SHARE, 1 / count)}
    labels = k_means(places, count)
    names = {}
    for label in range(count):
        own = [bag for bag, each in zip(bags, labels, strict=True) if each == label]
        inside = Counter(word for bag in own for word in bag & telling)
        weights = {w: n * np.log(n / len(own) * len(bags) / everywhere[w]) for w, n in inside.items()}
        names[label] = ", ".join(sorted(weights, key=lambda word: (-weights[word], word))[:_NAME_WORDS])
    return [names[int(label)] for label in labels]


def k_means(places: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """[places]: Lloyd's k-means; it starts from places that lie far from each other, so it always ends the same."""
    centres = places[[0]]
    while len(centres) < count:
        far = ((places[:, None] - centres) ** 2).sum(2).min(1).argmax()
        centres = np.vstack([centres, places[far]])
    labels = np.full(len(places), -1)
    for _ in range(_ROUNDS):
        before, labels = labels, ((places[:, None] - centres) ** 2).sum(2).argmin(1)
        if (before == labels).all():
            break
        centres = np.array([places[labels == n].mean(0) if (labels == n).any() else c for n, c in enumerate(centres)])
    return labels
