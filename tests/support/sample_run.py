"""A small committed run, made by hand, that the tests of SQL and lineage read: five topics in two partitions."""

from collections.abc import Mapping
from pathlib import Path

from foil.datasets_out.commits.log import CommitLog
from foil.engine.topic import Call, Intent, Judgment, Passage, Seed, Topic, Verdict, intent_id, topic_id

SORT = Passage(
    "sorted() returns a new list. It was added in 2001.", "seed_positive", title="sorted", source_id="b/sorted"
)
SHORT = Passage("sorted() returns a new list.", "instruction_negative", edited_from=SORT.id)
PLOT = Passage("A figure holds axes.", "query_negative")


def accepted(name: str, attributes: Mapping[str, str] | None = None) -> Topic:
    """Two intents over three passages; five judgments, so three triplets."""
    tid = topic_id("verifiable", Seed(name, "docs", "", ()))
    query = f"how does {name} sort?"
    original = Intent(intent_id(tid, "", query), "original", "", query)
    dated = Intent(intent_id(tid, "Give a year.", query), "instructed", "Give a year.", query, {"style": "plain"})
    return Topic(
        id=tid,
        seed_id=name,
        corpus="docs",
        recipe="verifiable",
        query=query,
        intents=(original, dated),
        passages=(SORT, SHORT, PLOT),
        judgments=(
            Judgment(original.id, SORT.id, 1, "seed"),
            Judgment(original.id, SHORT.id, 1, "construction"),
            Judgment(original.id, PLOT.id, -1, "mined"),
            Judgment(dated.id, SORT.id, 1, "rule", (1, 1, -1)),
            Judgment(dated.id, SHORT.id, -1, "rule"),
        ),
        verdicts=(Verdict("shape", "topic", "pass"), Verdict("leak", dated.id, "pass", score=0.25)),
        calls=(
            Call(f"call-{name}", "verifiable.topic", "rule_writer", "topic@abc123", 120, 40, 0.002, "stop", "a reply"),
        ),
        licence="PSF-2.0",
        redistributable=True,
        attributes=attributes or {},
    )


def rejected(name: str, reason: str, verdicts: tuple[Verdict, ...] = ()) -> Topic:
    tid = topic_id("verifiable", Seed(name, "docs", "", ()))
    return Topic(
        id=tid, seed_id=name, corpus="docs", recipe="verifiable", query=f"what is {name}?",
        verdicts=verdicts, status="rejected", reason=reason, detail=f"{name} does not do",
    )  # fmt: skip


def topics() -> list[list[Topic]]:
    """The topics of partitions 0 and 1."""
    leak = (
        Verdict("shape", "topic", "pass"),
        Verdict("leak", "topic", "reject", "leak", "the instruction says 2001"),
    )
    failed = Topic(
        id=topic_id("verifiable", Seed("broken", "docs", "", ())), seed_id="broken", corpus="docs",
        recipe="verifiable", query="?", status="failed", reason="unreadable_reply", detail="no JSON",
    )  # fmt: skip
    return [
        [accepted("list"), rejected("tuple", "leak", leak)],
        [accepted("dict", {"tag": "=1+1"}), rejected("set", "no_negative"), failed],
    ]


def make(out: Path) -> Path:
    """Commits the sample run under `out` and returns it."""
    log = CommitLog(out)
    log.open("f" * 64, {"recipe": {"kind": "verifiable"}, "seeds": {"kind": "table", "path": "it's.jsonl"}})
    for partition, partition_topics in enumerate(topics()):
        log.commit(partition, partition_topics, {})
    log.put_plan({"seeds": 5, "partitions": 2})
    return out
