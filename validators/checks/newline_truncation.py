r"""Cuts generated text at its first newline: a model that goes on after the line it was asked for adds noise.

InF-IR (appendix B.1) applies this rule to synthetic instructions and queries. White space before the first line does
not count as a line. What is cut off is the evidence of an `edit` verdict.

Promise: the new texts get new ids, and every judgment follows them. Only generated text is cut: never the seed's own
query, nor a passage of the corpus.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from foil.engine.ids import canonical_json
from foil.engine.settings import Settings
from foil.engine.topic import Intent, Passage, Topic, Verdict, intent_id, passage_id
from foil.validators.verdicts import EVIDENCE_CHARS, TopicCheck, pass_verdicts, reject_verdict, truncate

_CORPUS_ROLES = ("seed_positive", "seed_negative", "mined_negative")


class NewlineTruncationSettings(Settings):
    """Which generated fields must be one line."""

    kind: Literal["newline_truncation"] = "newline_truncation"
    instructions: bool = Field(True, description="cut instructions")
    queries: bool = Field(True, description="cut queries other than the seed's own")
    passages: bool = Field(False, description="cut generated passages; code and lists need their newlines")


class NewlineTruncation(TopicCheck[NewlineTruncationSettings]):
    """Edits with `newline_cut`. Rejects with `cut_to_the_same`."""

    name = "newline_truncation"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic with one-line texts; rejected where two texts become one by the cut."""
        intents = {old.id: self._cut_intent(topic, old) for old in topic.intents}
        passages = {old.id: self._cut_passage(old) for old in topic.passages}
        verdicts = [*self._edits(topic.intents, intents), *self._edits(topic.passages, passages)]
        if not verdicts:
            return topic, pass_verdicts(self.name)
        ids = {old: new.id for old, new in intents.items()} | {old: new.id for old, new in passages.items()}
        clashes = [new for new, count in Counter(ids.values()).items() if count > 1]
        if clashes:
            return topic, [reject_verdict(self.name, "topic", "cut_to_the_same", f"several texts become {clashes[0]}")]
        return _with_new_ids(topic, intents, passages, ids), verdicts

    def _cut_intent(self, topic: Topic, old: Intent) -> Intent:
        instruction = _first_line(old.instruction) if self._settings.instructions else old.instruction
        query = _first_line(old.query) if self._settings.queries and old.query != topic.query else old.query
        if (instruction, query) == (old.instruction, old.query):
            return old
        return replace(old, instruction=instruction, query=query, id=intent_id(topic.id, instruction, query))

    def _cut_passage(self, old: Passage) -> Passage:
        text = _first_line(old.text) if self._settings.passages and old.role not in _CORPUS_ROLES else old.text
        if text == old.text:
            return old
        return replace(old, text=text, id=passage_id(old.title, text), edited_from=old.edited_from or old.id)

    def _edits(self, old: Sequence[Intent | Passage], new: Mapping[str, Intent | Passage]) -> Iterator[Verdict]:
        for before in old:
            after = new[before.id]
            for field in ("instruction", "query", "text"):
                old_text, new_text = getattr(before, field, ""), getattr(after, field, "")
                if old_text != new_text:
                    cut = truncate(old_text.lstrip()[len(new_text) :], 3 * EVIDENCE_CHARS)
                    evidence = canonical_json({"cut": cut, "field": field, "was": before.id})
                    yield Verdict(self.name, after.id, "edit", "newline_cut", evidence)


def _first_line(text: str) -> str:
    """The text up to its first newline, if it has one past its leading white space."""
    return text.strip().partition("\n")[0].rstrip() if "\n" in text else text


def _with_new_ids(
    topic: Topic, intents: Mapping[str, Intent], passages: Mapping[str, Passage], ids: Mapping[str, str]
) -> Topic:
    """The topic with the new parts, and everything that named an old id naming the new one."""
    judgments = (
        replace(j, intent_id=ids.get(j.intent_id, j.intent_id), passage_id=ids.get(j.passage_id, j.passage_id))
        for j in topic.judgments
    )
    origins = (replace(passage, edited_from=_origin(passage, ids)) for passage in passages.values())
    return replace(topic, intents=tuple(intents.values()), passages=tuple(origins), judgments=tuple(judgments))


def _origin(passage: Passage, ids: Mapping[str, str]) -> str:
    """The new id of what the passage is an edit of; of a passage cut here, the id before the cut."""
    new_id = ids.get(passage.edited_from, passage.edited_from)
    return passage.edited_from if new_id == passage.id else new_id
