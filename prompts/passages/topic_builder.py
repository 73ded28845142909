"""Building a topic: intents x passages, judged pair by pair, each part once."""

from collections.abc import Mapping, Sequence
from itertools import islice

from foil.engine.errors import Rejected
from foil.engine.topic import Intent, IntentRole, Judgment, Passage, Seed, Topic, intent_id, topic_id
from foil.prompts.constraints.constraint import Constraint, dump_constraints
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.passages.answer_evidence import Evidence, dump_evidence


class TopicBuilder:
    """The topic of a seed while it is built. Its intents and passages stand in the order in which they were added."""

    def __init__(self, recipe: str, seed: Seed) -> None:
        self._recipe, self._seed = recipe, seed
        self._id = topic_id(recipe, seed)
        self._intents: dict[str, Intent] = {}
        self._passages: dict[str, Passage] = {}  # by their folded text: another title or line break makes no other text
        self._judgments: list[Judgment] = []

    def add_intent(
        self,
        role: IntentRole,
        instruction: str = "",
        query: str = "",
        *,
        constraints: Sequence[Constraint] = (),
        evidence: Evidence = (),
        attributes: Mapping[str, str] | None = None,
        **more: str,
    ) -> Intent:
        """A new row; the query is the seed's unless another is given. Raises Rejected(same_instruction)."""
        attributes = {**(attributes or {}), **more}
        if constraints:
            attributes["constraints"] = dump_constraints(constraints)
        if evidence:
            attributes["evidence"] = dump_evidence(evidence)
        query = query or self._seed.query
        intent = Intent(intent_id(self._id, instruction, query), role, instruction, query, attributes)
        if intent.id in self._intents:
            raise Rejected("same_instruction", f"the {role} intent is the {self._intents[intent.id].role} one again")
        self._intents[intent.id] = intent
        return intent

    def add_passages(self, *passages: Passage) -> None:
        """New columns. Raises Rejected (`empty_text`, or `same_passage` where two have one text)."""
        for passage in passages:
            if not passage.text.strip():
                raise Rejected("empty_text", f"the {passage.role} has no text")
            if not self._add(passage):
                raise Rejected("same_passage", f"two passages of the topic have the text {passage.text[:80]!r}")

    def add_new(self, passages: Sequence[Passage], most: int) -> list[Passage]:
        """Adds up to `most` passages whose text is not in the topic yet, and returns them."""
        return list(islice(filter(self._add, passages), most))

    def _add(self, passage: Passage) -> bool:
        """Adds the passage if it has a text, and a new one."""
        text = fold_text(passage.text)
        is_new = bool(text) and text not in self._passages
        if is_new:
            self._passages[text] = passage
        return is_new

    def judge(self, intent: Intent, judge: str, *labels: tuple[Passage, int]) -> None:
        """Fills a row: each passage +1 or -1. The corpus (`seed`) judged no edit of its passages: construction does."""
        for passage, relevance in labels:
            source = "construction" if judge == "seed" and passage.edited_from else judge
            self._judgments.append(Judgment(intent.id, passage.id, relevance, source))

    def build(self, **attributes: str) -> Topic:
        """The topic. A seed that is held out (attribute `split`) makes a topic that is held out."""
        seed = self._seed
        return Topic(
            id=self._id,
            seed_id=seed.id,
            corpus=seed.corpus,
            recipe=self._recipe,
            query=seed.query,
            intents=tuple(self._intents.values()),
            passages=tuple(self._passages.values()),
            judgments=tuple(self._judgments),
            licence=seed.licence,
            redistributable=seed.redistributable,
            attributes={**attributes, **held_out(seed)},
        )


def held_out(seed: Seed) -> dict[str, str]:
    """The attribute of the topics of a seed that is held out of training; none of others."""
    return {"split": seed.attributes["split"]} if "split" in seed.attributes else {}
