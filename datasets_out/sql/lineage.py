"""Where a record comes from: from its seed over prompts, models and votes to the file that holds it, as one tree.

    id -> the topics that it belongs to -> seed, calls, intents with judgments, passages with parents, verdicts, storage

Promise: all that is shown is read from committed files and their entries; pages are checked against their checksums.
Price: an id is looked for in the id columns of four tables, about two seconds over a million topics.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from datasets_out.commits.log import CommitLog
from datasets_out.commits.schema import TABLES, from_tables
from datasets_out.commits.snapshot import Snapshot, load_snapshot
from datasets_out.sql.views import dataset
from engine.errors import CorruptDataError, UsageError
from engine.ids import canonical_json
from engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict

SHORTEST_PREFIX = 4
TOPICS_SHOWN = 5
EXCERPT = 160

_IDS = (
    ("topic", "topics", "topic_id"),
    ("seed", "topics", "seed_id"),
    ("intent", "intents", "intent_id"),
    ("passage", "passages", "passage_id"),
    ("call", "calls", "request_id"),
)


@dataclass(frozen=True, slots=True)
class Node:
    """One line of the tree: what it is, its id ("" for a heading), a line for readers, and facts for machines."""

    kind: str
    id: str
    line: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    children: tuple[Node, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The tree as plain JSON: kind, id, the facts, and children where there are some."""
        own = {"kind": self.kind, **({"id": self.id} if self.id else {}), **self.facts}
        return own | ({"children": [child.to_json() for child in self.children]} if self.children else {})


@dataclass(frozen=True, slots=True)
class _Hit:
    kind: str
    id: str
    topic_id: str
    partition: int


def lineage(out: Path, name: str) -> Node:
    """The tree of a topic, seed, intent, passage or call, by its id or a prefix of it that no other id has.

    The root is what was asked for; its children are the topics that it belongs to (the first TOPICS_SHOWN). Raises
    UsageError if nothing has this id or several have, CorruptDataError if a file that must be read is damaged.
    """
    log, held = CommitLog(out), load_snapshot(out, None)
    try:
        hits = _resolve(out, held, name)
        topics = [(_topic(held, hit), hit) for hit in hits[:TOPICS_SHOWN]]
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptDataError(f"{out}: {error}; `foil verify` names the damaged files") from error
    trees = tuple(_topic_node(topic, _storage_node(log, hit.partition)) for topic, hit in topics)
    if hits[0].kind == "topic":
        return trees[0]
    more = f", in {len(hits)} topics" if len(hits) > 1 else ""
    hidden = f" (the first {TOPICS_SHOWN} are shown)" if len(hits) > TOPICS_SHOWN else ""
    return Node(hits[0].kind, hits[0].id, f"{hits[0].kind} {hits[0].id}{more}{hidden}", {"topics": len(hits)}, trees)


def render(node: Node) -> str:
    """The tree as text, one line a node, in Unicode box lines."""
    return "\n".join([_printable(node.line), *_branches(node)])


def _branches(node: Node, indent: str = "") -> Iterable[str]:
    for number, child in enumerate(node.children, start=1):
        last = number == len(node.children)
        yield f"{indent}{'└─ ' if last else '├─ '}{_printable(child.line)}"
        yield from _branches(child, indent + ("   " if last else "│  "))


def _printable(line: str) -> str:
    """The line without what could draw branches of its own or steer a terminal: text of a corpus is anyone's."""
    return "".join(char if char.isprintable() else "\ufffd" for char in line)


def _resolve(out: Path, held: Snapshot, name: str) -> list[_Hit]:
    hits = _search(held, lambda column: pc.equal(column, name))
    if not hits and len(name) >= SHORTEST_PREFIX:
        hits = _search(held, lambda column: pc.starts_with(column, name))
    if not hits:
        raise UsageError(
            f"{out} has no topic, seed, intent, passage or call {name!r}; give an id, or at least its first "
            f"{SHORTEST_PREFIX} characters: `foil sql {out} 'FROM topics LIMIT 5'` shows some"
        )
    meant = sorted({(hit.kind, hit.id) for hit in hits})
    if len(meant) > 1:
        shown = ", ".join(f"{kind} {found}" for kind, found in meant[:10])
        more = f" and {len(meant) - 10} more" if len(meant) > 10 else ""
        raise UsageError(f"{name!r} begins {len(meant)} ids ({shown}{more}); give more characters of the one you mean")
    return hits


def _search(held: Snapshot, matches: Callable[[pc.Expression], pc.Expression]) -> list[_Hit]:
    hits = []
    for kind, table, column in _IDS:
        names = list(dict.fromkeys([column, "topic_id", "partition"]))
        rows = dataset(table, held).to_table(columns=names, filter=matches(pc.field(column)))
        columns = (rows[column].to_pylist(), rows["topic_id"].to_pylist(), rows["partition"].to_pylist())
        hits += [_Hit(kind, *row) for row in zip(*columns, strict=True)]
    return sorted(set(hits), key=lambda hit: (hit.kind, hit.id, hit.partition, hit.topic_id))


def _topic(held: Snapshot, hit: _Hit) -> Topic:
    own = (pc.field("partition") == hit.partition) & (pc.field("topic_id") == hit.topic_id)
    return from_tables({table: dataset(table, held).to_table(filter=own) for table in TABLES})[0]


def _topic_node(topic: Topic, storage: Node) -> Node:
    outcome = topic.status if topic.status == "accepted" else f"{topic.status}: {topic.reason} - {_short(topic.detail)}"
    judged = defaultdict(list)
    for judgment in topic.judgments:
        judged[judgment.intent_id].append(judgment)
    passages = {passage.id: passage for passage in topic.passages}
    parts = (
        _seed_node(topic),
        _heading("recipe", f"recipe {topic.recipe}", map(_call_node, topic.calls)),
        _heading("intents", "intents", (_intent_node(i, judged[i.id], passages) for i in topic.intents)),
        _heading("passages", "passages", (_passage_node(passage, passages) for passage in topic.passages)),
        _heading("verdicts", "verdicts", map(_verdict_node, topic.verdicts)),
        storage,
    )
    facts = _facts(topic, "recipe", "status", "reason", "detail", "attributes")
    return Node("topic", topic.id, f"topic {topic.id} ({outcome})", facts, parts)


def _facts(noun: Any, *names: str) -> dict[str, Any]:
    """Those fields of a noun by name; all but its id where none are named."""
    chosen = names or [field.name for field in dataclasses.fields(noun) if field.name != "id"]
    return {name: getattr(noun, name) for name in chosen}


def _heading(kind: str, line: str, children: Iterable[Node]) -> Node:
    below = tuple(children)
    return Node(kind, "", line if below else f"{line} (none)", {}, below)


def _seed_node(topic: Topic) -> Node:
    rights = f"{topic.licence or 'licence unknown'}, {'' if topic.redistributable else 'not '}redistributable"
    line = f"seed {topic.corpus}/{topic.seed_id}: {_short(topic.query)} ({rights})"
    return Node("seed", topic.seed_id, line, _facts(topic, "corpus", "query", "licence", "redistributable"))


def _call_node(call: Call) -> Node:
    tokens = f"{call.prompt_tokens} + {call.completion_tokens} tokens, ${call.cost_usd:.6f}"
    line = f"call {call.request_id}: {call.task} by {call.model} with {call.template}, {tokens}, {call.finish_reason}"
    reply = Node("reply", "", f"reply {_short(call.reply_text)}", {"text": call.reply_text})
    return Node("call", call.request_id, line, _facts(call), (reply,))


def _intent_node(intent: Intent, judgments: Iterable[Judgment], passages: Mapping[str, Passage]) -> Node:
    asked = f"{_short(intent.instruction)} + {_short(intent.query)}" if intent.instruction else _short(intent.query)
    below = tuple(_judgment_node(judgment, passages) for judgment in judgments)
    return Node("intent", intent.id, f"{intent.role} {intent.id}: {asked}", _facts(intent), below)


def _judgment_node(judgment: Judgment, passages: Mapping[str, Passage]) -> Node:
    votes = f", votes {' '.join(f'{vote:+d}' for vote in judgment.votes)}" if judgment.votes else ""
    role = passages[judgment.passage_id].role if judgment.passage_id in passages else "not in this topic"
    line = f"{judgment.relevance:+d} passage {judgment.passage_id} ({role}) says {judgment.judge}{votes}"
    return Node("judgment", "", line, _facts(judgment))


def _passage_node(passage: Passage, passages: Mapping[str, Passage]) -> Node:
    source = f" from {passage.source_id}" if passage.source_id else ""
    title = f"{_short(passage.title)} " if passage.title else ""
    line = f"{passage.role} {passage.id}{source}: {title}{_short(passage.text)}"
    return Node("passage", passage.id, line, _facts(passage), _parent_nodes(passage, passages))


def _parent_nodes(passage: Passage, passages: Mapping[str, Passage]) -> tuple[Node, ...]:
    if not passage.edited_from:
        return ()
    parent = passages.get(passage.edited_from)
    known = f"{parent.role}: {_short(parent.text)}" if parent else "not kept in this topic"
    return (Node("parent", passage.edited_from, f"edited from {passage.edited_from} ({known})"),)


def _verdict_node(verdict: Verdict) -> Node:
    reason = f", {verdict.reason}" if verdict.reason else ""
    score = f", score {verdict.score:g}" if verdict.score is not None else ""
    evidence = f": {_short(verdict.evidence)}" if verdict.evidence else ""
    line = f"{verdict.validator}: {verdict.outcome} of {verdict.scope}{reason}{score}{evidence}"
    return Node("verdict", "", line, _facts(verdict))


def _storage_node(log: CommitLog, partition: int) -> Node:
    entry = log.entry(partition)
    files = (
        Node("file", "", f"{fact.path} sha256 {fact.sha256} ({fact.rows} rows)", _facts(fact))
        for fact in entry.files.values()
    )
    run = Node("run", "", f"run {entry.fingerprint}", {"fingerprint": entry.fingerprint})
    given = f" {canonical_json(entry.facts)}" if entry.facts else ""
    line = f"partition {partition}, committed by commits/{partition:08d}.json{given}"
    return Node("entry", "", line, {"partition": partition, "facts": entry.facts}, (*files, run))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= EXCERPT else f'"{line[:EXCERPT]}..."'
