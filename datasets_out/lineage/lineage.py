"""Where a record comes from, as one tree: its seed, prompts, models, votes, and the file that holds it.

    id -> the topics that it belongs to -> seed, calls, intents with judgments, passages with parents, verdicts, storage

Promise: the tree is read from committed files and their entries alone. Price: a search through the id columns of four
tables, about two seconds over a million topics.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foil.datasets_out.commits.entries import entry_name
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.curation.origins import RunSource, read_sources
from foil.datasets_out.lineage.evidence_words import evidence_words
from foil.datasets_out.lineage.records import RecordMatch, TopicPlace, find_records, read_topics
from foil.datasets_out.sql.views import dataset
from foil.engine.errors import CommitError, CorruptDataError, NoRunError
from foil.engine.ids import canonical_json
from foil.engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict
from foil.engine.visible_text import visible

TOPICS_SHOWN = 5
EXCERPT = 160
_LINE = 240
_LEAST_WIDTH = 30

_HASH = re.compile(r"\b[0-9a-f]{24,64}\b")


@dataclass(frozen=True, slots=True)
class LineageNode:
    """One line of the tree: what it is, its id ("" for a heading), a line for readers, and facts for machines."""

    kind: str
    id: str
    line: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    children: tuple[LineageNode, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The tree as plain JSON: kind, id, the facts, and children where there are some."""
        node = {"kind": self.kind, **({"id": self.id} if self.id else {}), **self.facts}
        return node | ({"children": [child.to_json() for child in self.children]} if self.children else {})


def trace_lineage(out: Path, name: str) -> LineageNode:
    """The tree of a topic, seed, intent, passage or call, by its id or a prefix of it that no other id has.

    The root is what was asked for; its children are the topics that it belongs to (the first TOPICS_SHOWN). Raises
    UsageError if nothing has this id or several have, CorruptDataError if a file that must be read is damaged.
    """
    snapshot = load_snapshot(out, None)
    matches = find_records(snapshot, name)
    return tree_of(out, matches, read_topics(snapshot, [match.place for match in matches[:TOPICS_SHOWN]]))


def tree_of(out: Path, matches: Sequence[RecordMatch], topics: Sequence[Topic]) -> LineageNode:
    """The tree of a record that was found, from the topics that its first matches belong to."""
    log = CommitLog(out)
    pairs = zip(topics, matches, strict=False)
    trees = tuple(_topic_node(topic, _stored(log, match.place)) for topic, match in pairs)
    if matches[0].kind == "topic":
        return trees[0]
    more = f", in {len(matches)} topics" if len(matches) > 1 else ""
    hidden = f" (the first {TOPICS_SHOWN} are shown)" if len(matches) > TOPICS_SHOWN else ""
    kind, record_id = matches[0].kind, matches[0].id
    return LineageNode(kind, record_id, f"{kind} {record_id}{more}{hidden}", {"topics": len(matches)}, trees)


def render(node: LineageNode, digits: int | None = None, width: int | None = None) -> str:
    """The tree as text in Unicode box lines, no line wider than `width` (None: one line a node).

    Of each id and hash the first `digits` are shown, and of a line its beginning (None: all).
    """
    hashes = set(_hashes(node)) if digits else set()
    lines = []
    for lead, later_lead, line in (("", "", node.line), *_branches(node)):
        text = _HASH.sub(lambda match: match[0][:digits] if match[0] in hashes else match[0], _printable(line))
        if digits and len(text) > _LINE:
            text = f"{text[:_LINE]} … {len(text) - _LINE:,} more characters"
        parts = textwrap.wrap(text, max(_LEAST_WIDTH, width - len(lead))) if width else [text]
        lines += [f"{later_lead if place else lead}{part}" for place, part in enumerate(parts)]
    return "\n".join(lines)


def _hashes(node: LineageNode) -> Iterable[str]:
    """The ids and hashes that the tree's own records have; what only looks like one in a text is none of them."""
    yield from (node.id, *(str(value) for value in node.facts.values()))
    for child in node.children:
        yield from _hashes(child)


def _branches(node: LineageNode, indent: str = "") -> Iterable[tuple[str, str, str]]:
    """For each node below: what stands before its line, what before the rest of it, and the line."""
    for number, child in enumerate(node.children, start=1):
        last = number == len(node.children)
        below = indent + ("   " if last else "│  ")
        yield f"{indent}{'└─ ' if last else '├─ '}", below + ("│  " if child.children else "   "), child.line
        yield from _branches(child, below)


def _printable(line: str) -> str:
    """The line as one line, whatever its texts hold: none can draw branches or steer a terminal."""
    return visible(line).replace("\n", "\\n").replace("\t", "\\t")


def _topic_node(topic: Topic, storage: LineageNode) -> LineageNode:
    detail = _short(evidence_words(topic.detail, topic))
    outcome = topic.status if topic.status == "accepted" else f"{topic.status}: {topic.reason} - {detail}"
    judgments = defaultdict(list)
    for judgment in topic.judgments:
        judgments[judgment.intent_id].append(judgment)
    passages = {passage.id: passage for passage in topic.passages}
    parts = (
        _seed_node(topic),
        _heading("recipe", f"recipe {topic.recipe}", map(_call_node, topic.calls)),
        _heading("intents", "intents", (_intent_node(i, judgments[i.id], passages) for i in topic.intents)),
        _heading("passages", "passages", (_passage_node(passage, passages) for passage in topic.passages)),
        _heading("verdicts", "verdicts", (_verdict_node(verdict, topic) for verdict in topic.verdicts)),
        storage,
    )
    facts = _facts(topic, "recipe", "status", "reason", "detail", "attributes")
    return LineageNode("topic", topic.id, f"topic {topic.id} ({outcome})", facts, parts)


def _facts(record: Any, *names: str) -> dict[str, Any]:
    """The fields of a record that are named; all but its id if none are."""
    names = names or tuple(field.name for field in dataclasses.fields(record) if field.name != "id")
    return {name: getattr(record, name) for name in names}


def _heading(kind: str, line: str, children: Iterable[LineageNode]) -> LineageNode:
    nodes = tuple(children)
    return LineageNode(kind, "", line if nodes else f"{line} (none)", {}, nodes)


def _seed_node(topic: Topic) -> LineageNode:
    rights = f"{topic.licence or 'licence unknown'}, {'' if topic.redistributable else 'not '}redistributable"
    line = f"seed {topic.corpus}/{topic.seed_id}: {_short(topic.query)} ({rights})"
    return LineageNode("seed", topic.seed_id, line, _facts(topic, "corpus", "query", "licence", "redistributable"))


def _call_node(call: Call) -> LineageNode:
    tokens = f"{call.prompt_tokens} + {call.completion_tokens} tokens, ${call.cost_usd:.6f}"
    line = f"call {call.request_id}: {call.task} by {call.model} with {call.template}, {tokens}, {call.finish_reason}"
    line += "".join(f", {words}" for words in call_remarks(call))
    reply = LineageNode("reply", "", f"reply {_short(call.reply_text)}", {"text": call.reply_text})
    return LineageNode("call", call.request_id, line, _facts(call), (reply,))


def call_remarks(call: Call) -> list[str]:
    """What a reader wants to know of a call that was not the first of its prompt, or whose reply was not taken."""
    turns = {"": "", "correction": "asked for a correction", "candidates": "drawn anew"}
    mended = f"{call.salvaged} mended" if call.salvaged else ""
    refused = f"not taken: {call.fault.partition(':')[0]}" if call.fault else ""
    return [words for words in (turns.get(call.turn, call.turn), mended, refused) if words]


def _intent_node(intent: Intent, judgments: Iterable[Judgment], passages: Mapping[str, Passage]) -> LineageNode:
    text = f"{_short(intent.instruction)} + {_short(intent.query)}" if intent.instruction else _short(intent.query)
    children = tuple(_judgment_node(judgment, passages) for judgment in judgments)
    return LineageNode("intent", intent.id, f"{intent.role} {intent.id}: {text}", _facts(intent), children)


def _judgment_node(judgment: Judgment, passages: Mapping[str, Passage]) -> LineageNode:
    votes = f", votes {' '.join(f'{vote:+d}' for vote in judgment.votes)}" if judgment.votes else ""
    role = passages[judgment.passage_id].role if judgment.passage_id in passages else "not in this topic"
    line = f"{judgment.relevance:+d} passage {judgment.passage_id} ({role}) says {judgment.judge}{votes}"
    return LineageNode("judgment", "", line, _facts(judgment))


def _passage_node(passage: Passage, passages: Mapping[str, Passage]) -> LineageNode:
    source = f" from {passage.source_id}" if passage.source_id else ""
    title = f"{_short(passage.title)} " if passage.title else ""
    line = f"{passage.role} {passage.id}{source}: {title}{_short(passage.text)}"
    return LineageNode("passage", passage.id, line, _facts(passage), _parent_nodes(passage, passages))


def _parent_nodes(passage: Passage, passages: Mapping[str, Passage]) -> tuple[LineageNode, ...]:
    if not passage.edited_from:
        return ()
    parent = passages.get(passage.edited_from)
    description = f"{parent.role}: {_short(parent.text)}" if parent else "not kept in this topic"
    return (LineageNode("parent", passage.edited_from, f"edited from {passage.edited_from} ({description})"),)


def _verdict_node(verdict: Verdict, topic: Topic) -> LineageNode:
    reason = f", {verdict.reason}" if verdict.reason else ""
    score = f", score {verdict.score:g}" if verdict.score is not None else ""
    evidence = f": {_short(evidence_words(verdict.evidence, topic))}" if verdict.evidence else ""
    line = f"{verdict.validator}: {verdict.outcome} of {verdict.scope}{reason}{score}{evidence}"
    return LineageNode("verdict", "", line, _facts(verdict))


def _stored(log: CommitLog, place: TopicPlace) -> LineageNode:
    """Where a topic lies, and beneath it where it lay in each run that this one was made of, back to the first."""
    node = _storage_node(log, place.partition)
    origins = tuple(_origin_node(source, place.topic_id) for source in read_sources(log.out))
    return dataclasses.replace(node, children=(*node.children, *filter(None, origins)))


def _origin_node(source: RunSource, topic_id: str) -> LineageNode | None:
    """The topic in a run that this run was made of; None where that run has no such topic."""
    out, facts = Path(source.out), dataclasses.asdict(source)
    try:
        log, snapshot = CommitLog(out), load_snapshot(out, None)
        same = log.fingerprint() == source.fingerprint
        rows = dataset("topics", snapshot).to_table(columns=["partition"], filter=pc.field("topic_id") == topic_id)
    except (NoRunError, CommitError, CorruptDataError, pa.ArrowInvalid, OSError):
        return LineageNode("origin", "", f"from the run {source.fingerprint} in {out}, which does not read here", facts)
    if not same:
        return LineageNode("origin", "", f"from the run {source.fingerprint}, which is not in {out} any more", facts)
    if not len(rows):
        return None
    stored = _stored(log, TopicPlace(rows["partition"][0].as_py(), topic_id))
    return LineageNode("origin", "", f"from the run {source.fingerprint} in {out}", facts, (stored,))


def _storage_node(log: CommitLog, partition: int) -> LineageNode:
    entry = log.entry(partition)
    files = (
        LineageNode("file", "", f"{file.path} sha256 {file.sha256} ({file.rows} rows)", _facts(file))
        for file in entry.files.values()
    )
    run = LineageNode("run", "", f"run {entry.fingerprint}", {"fingerprint": entry.fingerprint})
    short_facts = {name: fact for name, fact in entry.facts.items() if name != "seeds"}  # digests: 8 digits a seed
    facts = f" {canonical_json(short_facts)}" if short_facts else ""
    line = f"partition {partition}, committed by {entry_name(partition)}{facts}"
    return LineageNode("entry", "", line, {"partition": partition, "facts": entry.facts}, (*files, run))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= EXCERPT else f'"{line[:EXCERPT]}..."'
