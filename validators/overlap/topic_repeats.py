"""Topics of one run that repeat topics of earlier ones: exactly, or nearly by MinHash.

Compared are the query and the passages that are relevant to it, as the screen `duplicates` compares seeds. Topics of
one run are not compared with each other: several of one seed are alike by intent. Promise and price as `minhash`.
"""

from foil.engine.topic import Topic
from foil.validators.overlap.minhash import Sketcher, SketchStore, TextSketch


class TopicRepeats:
    """Finds the accepted topics that an earlier run has; `end_run` after the last topic of each run."""

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
