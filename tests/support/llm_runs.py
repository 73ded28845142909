"""Runs of a real small model, one JSON line a seed, as run folders."""

import gzip
import json

from foil.engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict
from tests.support.trainer_world import commit


def load_llm_run(path, out):
    """The run of a file, a thousand topics a partition."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return commit(out, [_topic(json.loads(line), number) for number, line in enumerate(lines)], 1000)


def _topic(row, number):
    votes = row["detail"].startswith('{"intent"')
    verdicts = (Verdict("judge_scenarios", "topic", "reject", row["reason"], row["detail"]),) if votes else ()
    return Topic(
        id=row["topic_id"],
        seed_id=f"seed-{number}",
        corpus="llm",
        recipe="infir",
        query=row["query"],
        intents=tuple(Intent(i["intent_id"], i["role"], i["instruction"], i["query"]) for i in row["intents"]),
        passages=tuple(Passage(p["text"], p["role"], id=p["passage_id"]) for p in row["passages"]),
        judgments=tuple(Judgment(*judgment) for judgment in row["judgments"]),
        verdicts=verdicts,
        calls=tuple(
            Call(
                request_id=f"{number}-{place}",
                model="small",
                cost_usd=0.0,
                **call,
            )
            for place, call in enumerate(row["calls"])
        ),
        status=row["status"],
        reason=row["reason"],
        detail=row["detail"],
    )
