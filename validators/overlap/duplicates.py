"""Rejects duplicate seeds over the whole stream: exact repeats of the words, and near repeats by MinHash.

This screen sees the seeds in stream order in one process, so that no concurrency changes what it decides. It rejects
the later seed. Evidence is the earlier seed, which was kept, and the exact similarity of the two: what resembles a
rejected seed alone is kept. `TopicRepeats` finds topics of one run that repeat topics of earlier runs, in the same way.

Promise: no seed is rejected on an estimate. Exact repeats are always found; of near repeats at 0.8 one in 120 is
missed, fewer above (`minhash`). Price: about 0.1 ms a seed of 100 words; for each seed kept about 230 bytes
plus its id, and 4 bytes a word among the temporary files (`minhash`).
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from foil.engine.ids import canonical_json
from foil.engine.settings import Settings
from foil.engine.topic import Seed, Topic, Verdict
from foil.validators.overlap.minhash import Sketcher, SketchStore, TextSketch
from foil.validators.verdicts import fingerprint, reject_verdict


class DuplicatesSettings(Settings):
    """What of a seed is compared, and how alike is too alike."""

    kind: Literal["duplicates"] = "duplicates"
    text: Literal["query", "query_and_positives"] = Field(
        "query_and_positives", description="what must repeat: the query alone, or with its relevant passages"
    )
    similarity: float = Field(0.8, ge=0.5, le=1, description="Jaccard similarity of 3-word shingles that is a repeat")
    random_seed: int = Field(0, ge=0, le=2**63 - 1, description="of the hash functions")


class SeedSketcher:
    """What of a seed is compared: the sketch of its words, or None where it has none."""

    def __init__(self, settings: DuplicatesSettings) -> None:
        self._query_alone = settings.text == "query"
        self._sketcher = Sketcher(settings.random_seed)

    def __call__(self, seed: Seed) -> TextSketch | None:
        passages = () if self._query_alone else (f"{p.title}\n{p.text}" for p in seed.positives)
        return self._sketcher("\n".join([seed.query, *passages]))


class Duplicates:
    """Rejects a seed that repeats an earlier one."""

    name = "duplicates"

    def __init__(self, settings: DuplicatesSettings) -> None:
        self._settings = settings
        self.sketch = SeedSketcher(settings)
        self._store = SketchStore()
        self._ids, self._ends = bytearray(), array("Q", [0])
        self.fingerprint = fingerprint(settings, version=2)

    def __call__(self, seed: Seed) -> Verdict | None:
        """A rejecting verdict, or None; then the seed is remembered. A seed without words repeats nothing."""
        return self.decide(seed.id, self.sketch(seed))

    def decide(self, seed_id: str, sketch: TextSketch | None) -> Verdict | None:
        """The same as calling it with the seed of this sketch. Raises SpoolError."""
        if sketch is None:
            return None
        match = self._store.match_or_add(sketch, self._settings.similarity)
        if match is None:
            self._ids += seed_id.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._ids))
            return None
        reason, score = "duplicate" if match.exact else "near_duplicate", round(match.similarity, 4)
        evidence = canonical_json({"seed": self._id(match.number), "similarity": score})
        return reject_verdict(self.name, "topic", reason, evidence, score)

    @property
    def nbytes(self) -> int:
        """Bytes held for the seeds kept."""
        return self._store.nbytes + len(self._ids) + self._ends.itemsize * len(self._ends)

    def _id(self, number: int) -> str:
        return self._ids[self._ends[number] : self._ends[number + 1]].decode("utf-8", "surrogatepass")


class TopicRepeats:
    """Finds the accepted topics that an earlier run has; `end_run` after the last topic of each run.

    Topics of one run are not compared with each other: several of one seed are alike by intent.
    """

    def __init__(self, similarity: float) -> None:
        self.similarity = similarity
        self._sketcher, self._store = Sketcher(0), SketchStore()
        self._own: list[TextSketch] = []

    def find(self, topic: Topic) -> str:
        """`duplicate` or `near_duplicate` where an earlier run has such a topic, else "": then this one is kept."""
        sketch = self._sketcher(_text(topic)) if topic.status == "accepted" else None
        if sketch is None:
            return ""
        match = self._store.match(sketch, self.similarity)
        if match is None:
            self._own.append(sketch)
            return ""
        return "duplicate" if match.exact else "near_duplicate"

    def end_run(self) -> None:
        """From now on the topics of this run are those of an earlier one. Raises SpoolError."""
        for sketch in self._own:
            self._store.add(sketch)
        self._own.clear()


def _text(topic: Topic) -> str:
    first = topic.intents[0].id if topic.intents else ""
    relevant = {j.passage_id for j in topic.judgments if j.intent_id == first and j.relevance > 0}
    passages = (f"{p.title}\n{p.text}" for p in topic.passages if p.id in relevant)
    return "\n".join([topic.query, *passages])


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
    """The groups of two texts and more, the largest first: each text joins the earlier one most like it.

    Texts without words belong to none. Promise: the same texts in the same order give the same groups; each member has
    at least the similarity asked for to the first text of its group. Price: about 0.1 ms for 100 words.
    """
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
