"""A blind sheet of a run: topics as a careful reader judges them, without labels, roles or ids.

    topics -> one instruction each, stratified -> AuditItem -> sheet (jsonl, text) for the reader
                                                                     -> key (ids, labels, strata) for the score

A topic enters with one of its instructions, drawn by hash, and all passages judged under it, in an order drawn by hash.
Strata are recipe, corpus, kind of contrast, constraint family and, of rejected topics, the reason; each gives as many
topics as the smallest ones allow.
It is the format of agreement studies too: several readers mark copies of one sheet (InF-IR, appendix F.2).

Promise: the same run and seed give the same sheet. Price: one pass over the accepted topics; in memory are at most
`topics` of each stratum.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from string import ascii_uppercase
from typing import Any

from foil.engine.ids import fraction_of
from foil.engine.topic import Intent, Passage, Topic
from foil.engine.visible_text import visible

LETTERS = (*ascii_uppercase, *(f"{a}{b}" for a in ascii_uppercase for b in ascii_uppercase))
"""Names of the passages of an item, in the order shown."""
_EDIT = "edit"


Key = Mapping[str, Mapping[str, Any]]
"""`key_of` as JSON gives it back."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """What a topic is counted under. `contrast`: `edited` where a judged passage is an edit, `written` where a model
    wrote one, else `whole`. `family`: the constraint families of the instruction, or its dimension, or "".
    `reason`: why a rejected topic was.
    """

    recipe: str
    corpus: str
    contrast: str
    family: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AuditedPassage:
    """A passage of an item. `label` is its judgment under the item's instruction, +1 or -1."""

    letter: str
    passage_id: str
    label: int
    edited: bool
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class AuditItem:
    """One topic with one instruction. `number` counts from 1 within the sheet."""

    number: int
    topic_id: str
    seed_id: str
    intent_id: str
    stratum: Stratum
    query: str
    instruction: str
    passages: tuple[AuditedPassage, ...]


def draw_items(topics: Iterable[Topic], count: int, seed: int) -> list[AuditItem]:
    """At most `count` items, from each stratum in turn; fewer where the run has fewer topics with an instruction."""
    chosen = [(topic, intent, stratum_of(topic, intent)) for topic, intent in _draw(topics, count, seed)]
    return [_item(number, *each, seed) for number, each in enumerate(chosen, start=1)]


def items_of(key: Key, topics: Mapping[str, Topic], seed: int) -> list[AuditItem]:
    """The items of a sheet that was drawn with this seed, out of its key; one whose topic is gone is left out."""
    items = []
    for number, entry in key.items():
        topic = topics.get(entry["topic_id"])
        intents = [intent for intent in topic.intents if intent.id == entry["intent_id"]] if topic else []
        if topic and intents:
            items.append(_item(int(number), topic, intents[0], stratum_of(topic, intents[0]), seed))
    return sorted(items, key=lambda item: item.number)


def _draw(topics: Iterable[Topic], count: int, seed: int) -> list[tuple[Topic, Intent]]:
    heaps: dict[Stratum, list[tuple[float, str, Topic, Intent]]] = {}
    for topic in topics:
        intent = _intent_of(topic, seed)
        if intent is None:
            continue
        heap = heaps.setdefault(stratum_of(topic, intent), [])
        entry = (-fraction_of("audit", str(seed), topic.id), topic.id, topic, intent)
        if len(heap) < count:
            heapq.heappush(heap, entry)
        elif entry[0] > heap[0][0]:
            heapq.heapreplace(heap, entry)
    strata = [sorted(heaps[stratum], key=_rank) for stratum in sorted(heaps, key=_name)]
    rounds = chain.from_iterable(zip_longest(*strata))
    picks = [(entry[2], entry[3]) for entry in rounds if entry is not None]
    return picks[:count]


def _rank(entry: tuple[float, str, Topic, Intent]) -> tuple[float, str]:
    return -entry[0], entry[1]


def _name(stratum: Stratum) -> tuple[str, ...]:
    return stratum.reason, stratum.recipe, stratum.corpus, stratum.contrast, stratum.family


def _intent_of(topic: Topic, seed: int) -> Intent | None:
    """The instruction under which the topic is read: one of those that have a relevant passage or an excluded one."""
    judged = {judgment.intent_id for judgment in topic.judgments}
    intents = [intent for intent in topic.intents if intent.instruction and intent.id in judged]
    return min(intents, key=lambda intent: fraction_of("audit", str(seed), topic.id, intent.id), default=None)


def stratum_of(topic: Topic, intent: Intent) -> Stratum:
    """What the topic is counted under, with this instruction."""
    passages = [passage for passage, _ in _judged(topic, intent)]
    if any(map(is_edited, passages)):
        contrast = "edited"
    else:
        contrast = "written" if any(p.role == "generated_positive" for p in passages) else "whole"
    return Stratum(topic.recipe, topic.corpus, contrast, _family(intent), topic.reason)


def is_edited(passage: Passage) -> bool:
    """Whether the passage is an edit of another text."""
    return bool(passage.edited_from) or _EDIT in passage.attributes


def _family(intent: Intent) -> str:
    constraints = json.loads(intent.attributes.get("constraints", "[]"))
    families = sorted({str(constraint.get("family", "")) for constraint in constraints})
    return "+".join(families) or intent.attributes.get("dimension", "")


def _judged(topic: Topic, intent: Intent) -> Iterator[tuple[Passage, int]]:
    labels = {each.passage_id: each.relevance for each in topic.judgments if each.intent_id == intent.id}
    return ((passage, labels[passage.id]) for passage in topic.passages if passage.id in labels)


def _item(number: int, topic: Topic, intent: Intent, stratum: Stratum, seed: int) -> AuditItem:
    judged = sorted(_judged(topic, intent), key=lambda pair: fraction_of("audit", str(seed), topic.id, pair[0].id))
    passages = tuple(
        AuditedPassage(letter, passage.id, label, is_edited(passage), passage.title, passage.text)
        for letter, (passage, label) in zip(LETTERS, judged, strict=False)
    )
    return AuditItem(number, topic.id, topic.seed_id, intent.id, stratum, intent.query, intent.instruction, passages)


GUIDE = """\
How to mark. Read the query, the instruction and every passage whole; then fill in the line `marks`.
  A+    relevant: it answers the query and keeps the instruction
  A-    not relevant, though it answers the query
  A0    not relevant, and it does not answer the query
  A+u   ... and the text cannot be used as it stands: cut, spliced, garbled, a menu, or it contradicts itself
  natural=y or n    (where it is asked) could a person who searches have written the instruction?
  gives=y or n      (where it is asked) does the instruction give away what the query asks for?
  after `#`: remarks
An item with no mark is left out of the score; an item with some marks must have all.
"""


def sheet_text(items: Sequence[AuditItem]) -> str:
    """The sheet as a person reads and marks it."""
    return visible("\n".join([GUIDE, *map(item_text, items)]))


def item_text(item: AuditItem) -> str:
    """One item as a person reads it, with a line of blanks to mark."""
    head = f"===== item {item.number}\nQUERY: {_block(item.query)}\nINSTRUCTION: {_block(item.instruction)}"
    passages = (f"[{p.letter}] {_block(p.title)}\n    {_block(p.text)}" for p in item.passages)
    blanks = " ".join([*(f"{p.letter}?" for p in item.passages), *(f"{name}=?" for name in _questions(item))])
    return "\n".join([head, *passages, f"marks {item.number}: {blanks} #\n"])


def _questions(item: AuditItem) -> tuple[str, ...]:
    """What is asked of the instruction, where there is one."""
    return ("natural", "gives") if item.instruction else ()


def _block(text: str) -> str:
    """A text whose further lines are indented, so that none of them reads as a line of the sheet."""
    return "\n    ".join(text.splitlines())


def sheet_rows(items: Sequence[AuditItem]) -> Iterator[dict[str, Any]]:
    """The sheet as programs and annotation tools take it: a JSON object an item, with empty marks to fill in."""
    for item in items:
        yield {
            "item": item.number,
            "query": item.query,
            "instruction": item.instruction,
            "passages": {p.letter: {"title": p.title, "text": p.text} for p in item.passages},
            "marks": dict.fromkeys((*(p.letter for p in item.passages), *_questions(item), "remark"), ""),
        }


def key_of(items: Sequence[AuditItem]) -> dict[str, Any]:
    """What the score needs and the reader must not see. No text of a corpus is in it."""
    return {str(item.number): _key(item) for item in items}


def _key(item: AuditItem) -> dict[str, Any]:
    stratum = item.stratum
    return {
        **{name: getattr(item, name) for name in ("topic_id", "seed_id", "intent_id")},
        **{name: getattr(stratum, name) for name in ("recipe", "corpus", "contrast", "family")},
        **({"reason": stratum.reason} if stratum.reason else {}),
        **({} if item.instruction else {"plain": True}),
        "passages": {p.letter: {"id": p.passage_id, "label": p.label, "edited": p.edited} for p in item.passages},
    }
