"""The first check: is this topic well-formed? Every later check may rely on that.

Promise: each fault is a verdict of its own that names the part and shows the value.
"""

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from pydantic import Field

from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict, intent_id, passage_id
from foil.validators.verdicts import TopicCheck, pass_verdicts, reject_verdict, truncate

_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")  # not white space; not C1, common in web text

Value = TypeVar("Value", bound=Hashable)
Fault = tuple[str, str, str]
"""Scope, reason, evidence."""


class ShapeSettings(Settings):
    """Bounds that no sound topic passes."""

    kind: Literal["shape"] = "shape"
    max_instruction_chars: int = Field(5_000, gt=0, le=10**9, description="longest instruction")
    max_query_chars: int = Field(
        20_000, gt=0, le=10**9, description="longest query; problem statements are queries too"
    )
    max_passage_chars: int = Field(
        200_000, gt=0, le=10**9, description="longest passage; source files are passages too"
    )
    positive_for_every_intent: bool = Field(True, description="whether each intent needs a relevant passage")


class ShapeCheck(TopicCheck[ShapeSettings]):
    """Ids resolve and follow from the content, judgments are +1 or -1 and one a pair, texts are present and bounded."""

    name = "shape"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a verdict for each fault."""
        if _is_plain_row(topic):
            faults: tuple[Fault, ...] = tuple(_row(topic, self._settings))
        else:
            faults = (*_identity(topic), *_judgments(topic), *_balance(topic, self._settings), *self._texts(topic))
        return topic, [reject_verdict(self.name, *fault) for fault in faults] or pass_verdicts(self.name)

    def _texts(self, topic: Topic) -> Iterator[Fault]:
        bounds = self._settings
        yield from _text("topic", "query", topic.query, bounds.max_query_chars)
        for intent in topic.intents:
            yield from _text(intent.id, "query", intent.query, bounds.max_query_chars)
            if intent.role != "original":
                yield from _text(intent.id, "instruction", intent.instruction, bounds.max_instruction_chars)
            elif intent.instruction:
                evidence = f"an original intent has none: {truncate(intent.instruction)!r}"
                yield intent.id, "instruction_of_original", evidence
        for passage in topic.passages:
            yield from _text(passage.id, "text", passage.text, bounds.max_passage_chars)
            if passage.title:
                yield from _text(passage.id, "title", passage.title, bounds.max_passage_chars)


def _text(scope: str, field: str, text: str, most: int) -> Iterator[Fault]:
    if not text.strip():
        yield scope, "empty_text", f"{field} is {text!r}"
    if len(text) > most:
        size = f"{field} has {len(text)} characters, at most {most} are allowed"
        yield scope, "long_text", f"{size}: {truncate(text, 80)!r}"
    control = _CONTROL.search(text)
    if control:
        context = text[max(0, control.start() - 20) : control.start() + 20]
        yield scope, "control_character", f"{field} has {control[0]!r} at character {control.start()}: {context!r}"


def _is_plain_row(topic: Topic) -> bool:
    """Whether the topic is a row of the recipe `custom`: columns in the attribute `row`, and no matrix."""
    return "row" in topic.attributes and not (topic.intents or topic.passages or topic.judgments)


def _row(topic: Topic, bounds: ShapeSettings) -> Iterator[Fault]:
    """The columns are one JSON object, and each text among them is present and bounded."""
    try:
        columns = json.loads(topic.attributes["row"])
    except ValueError as error:
        yield "topic", "bad_row", f"the attribute `row` is not JSON: {error}"
        return
    if not isinstance(columns, dict) or not columns:
        yield "topic", "bad_row", f"the attribute `row` holds no columns: {truncate(topic.attributes['row'])}"
        return
    for name, value in columns.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield from _text("topic", name, text, bounds.max_passage_chars)


def _identity(topic: Topic) -> Iterator[Fault]:
    """Ids are unique and follow from the content."""
    for kind, ids in (("intents", [i.id for i in topic.intents]), ("passages", [p.id for p in topic.passages])):
        if not ids:
            yield "topic", "nothing_to_judge", f"the topic has no {kind}"
        yield from ((id_, "double_id", f"{count} {kind} have this id") for id_, count in _repeated(ids))
    for intent in topic.intents:
        expected = intent_id(topic.id, intent.instruction, intent.query)
        if intent.id != expected:
            yield intent.id, "foreign_id", f"the intent's content gives the id {expected}"
    for passage in topic.passages:
        expected = passage_id(passage.title, passage.text)
        if passage.id != expected:
            yield passage.id, "foreign_id", f"the passage's content gives the id {expected}"


def _judgments(topic: Topic) -> Iterator[Fault]:
    """Judgments name intents and passages of this topic, say +1 or -1, and stand once a pair."""
    intents, passages = {i.id for i in topic.intents}, {p.id for p in topic.passages}
    for judgment in topic.judgments:
        pair = f"intent {judgment.intent_id}, passage {judgment.passage_id}"
        if judgment.intent_id not in intents or judgment.passage_id not in passages:
            yield "topic", "unresolved_id", f"judged but not in the topic: {pair}"
        if judgment.relevance not in {-1, 1}:
            yield judgment.intent_id, "relevance", f"{judgment.relevance!r} is neither 1 nor -1: {pair}"
    pairs = [(judgment.intent_id, judgment.passage_id) for judgment in topic.judgments]
    for (intent, passage), count in _repeated(pairs):
        yield intent, "double_judgment", f"passage {passage} is judged {count} times"


def _balance(topic: Topic, settings: ShapeSettings) -> Iterator[Fault]:
    """Some passage is relevant and some is not; each intent has a relevant (or at least a judged) passage."""
    relevances = {judgment.relevance for judgment in topic.judgments}
    for relevance in {-1, 1} - relevances:
        yield "topic", "one_sided", f"no judgment of the topic is {relevance:+d}"
    sufficient = {1} if settings.positive_for_every_intent else {-1, 1}
    served = {judgment.intent_id for judgment in topic.judgments if judgment.relevance in sufficient}
    for intent in topic.intents:
        if intent.id not in served:
            missing = "relevant" if settings.positive_for_every_intent else "judged"
            yield intent.id, "unserved_intent", f"the {intent.role} intent has no {missing} passage"


def _repeated(values: Iterable[Value]) -> Iterator[tuple[Value, int]]:
    return ((value, count) for value, count in Counter(values).items() if count > 1)
