"""Groups of texts that are nearly the same: what a curator looks at where a run repeats itself.

    texts, in order -> MinHash (validators.overlap.minhash) -> each joins the earlier text most like it

Promise: the same texts in the same order give the same groups; each member has at least the similarity asked for to the
first text of its group. Price: about 0.1 ms for 100 words.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from foil.validators.overlap.minhash import Sketcher, SketchStore

LEAST_SIMILARITY = 0.8
_RANDOM_SEED = 0


@dataclass(frozen=True, slots=True)
class TextGroup:
    """A text and those like it, by their places in the order given. `exact`: of them, those of equal words."""

    first: int
    members: tuple[int, ...]
    exact: int

    @property
    def size(self) -> int:
        """Texts in the group, the first one included."""
        return 1 + len(self.members)


def group_texts(texts: Iterable[str], least: float = LEAST_SIMILARITY) -> list[TextGroup]:
    """The groups of two texts and more, the largest first. Texts without words belong to none."""
    sketch, store = Sketcher(_RANDOM_SEED), SketchStore()
    store_places: list[int] = []  # the place of each text that the store keeps
    members: dict[int, list[int]] = {}
    exact: dict[int, int] = {}
    for place, text in enumerate(texts):
        sketched = sketch(text)
        if sketched is None:
            continue
        match = store.match_or_add(sketched, least)
        if match is None:
            store_places.append(place)
        else:
            members.setdefault(match.number, []).append(place)
            exact[match.number] = exact.get(match.number, 0) + match.exact
    groups = [TextGroup(store_places[number], tuple(places), exact[number]) for number, places in members.items()]
    return sorted(groups, key=lambda group: (-group.size, group.first))
