"""A run whose texts would do harm in a page that obeyed them: markup, control characters, marks of direction, 1 MB."""

from dataclasses import replace
from pathlib import Path

from foil.datasets_out.commits.log import CommitLog
from foil.engine.topic import Judgment, Passage, Verdict
from tests.support import sample_run

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202egnp.exe\u200b{{ 7*7 }}'\"&amp;"
SHOWN = r"<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202egnp.exe\u200b{{ 7*7 }}'\"&amp;".replace(
    r"\"", '"'
)
"""HOSTILE as a reader sees it."""


def hostile_run(out: Path) -> Path:
    """Commits topics that hold HOSTILE in every place that a page shows."""
    topic = sample_run.accepted("list")
    long = Passage("word " * 200_000, "seed_positive", title=HOSTILE)
    intents = tuple(
        replace(intent, instruction=intent.instruction and HOSTILE, query=HOSTILE) for intent in topic.intents
    )
    verdict = Verdict("contamination", "topic", "reject", "contaminated", '{"set": "<b>", "item": "1", "span": "<i>"}')
    calls = tuple(replace(call, reply_text=HOSTILE, model=HOSTILE) for call in topic.calls)
    log = CommitLog(out)
    log.open("f" * 64, {"recipe": "hostile"})
    passages = (*topic.passages[1:], replace(topic.passages[0], title=HOSTILE), long)
    judgments = (*topic.judgments, Judgment(topic.intents[1].id, long.id, 1, "rule"))
    shown = replace(
        topic, query=HOSTILE, intents=intents, passages=passages, corpus=HOSTILE, calls=calls, judgments=judgments
    )
    bad = replace(sample_run.rejected("tuple", HOSTILE, (verdict,)), query=HOSTILE, detail=HOSTILE, licence=HOSTILE)
    log.commit(0, [shown, bad], {})
    return out
