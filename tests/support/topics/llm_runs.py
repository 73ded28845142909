"""Runs of a real small model as run folders: what `llm_runs/*.jsonl.gz` of the private data keeps, committed again.

    a line a seed -> its topic and calls -> the job's own validators over the stored replies -> verdicts -> CommitLog

    def test_that_needs_one(tmp_path, shared_data):
        out = llm_run(shared_data, "infir_rules_off", tmp_path / "run")  # one of JOBS

The folder has run.json with a job that can be read again (`out.yaml` and `out.jsonl` stand next to it), all tables,
and no journal, as after `foil gc`. The judge's votes and canaries are found by asking `judge_scenarios` once more,
which gets the stored replies; `tests/cluster/desk/test_llm_runs.py` says that each topic ends as its line has it.
Votes of `judge_relevance` are those of the labels that stand: what it dropped is not stored. Nor are the titles of
passages, so that the ids of a few are not those of their texts.
"""

import asyncio
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from foil.cluster.build import build_parts, build_run
from foil.cluster.job import load_job
from foil.datasets_out.commits.log import CommitLog
from foil.engine.errors import UnreadableReplyError
from foil.engine.flow.seed_outcome import SeedOutcome, with_outcome
from foil.engine.ids import canonical_json, content_id
from foil.engine.protocols import Cost, Validator
from foil.engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict
from foil.prompts.parse import parse_reply
from foil.validators.verdicts import pass_verdicts, reject_verdict

SCENARIOS = "{kind: shape}, {kind: leak}, {kind: judge_scenarios}"
UNRULED = "{kind: shape}, {kind: judge_scenarios}"
JOBS = {
    "infir": ("infir", SCENARIOS, ("msmarco",)),
    "infir_code_math": ("infir", SCENARIOS, ("leetcode", "gsm8k")),
    "infir_rules_off": ("infir", UNRULED, ("msmarco",)),
    "promptriever_rules_off": ("promptriever", "{kind: shape}, {kind: judge_relevance}", ("msmarco",)),
    "dual_view_rules_off": ("dual_view", "{kind: shape}, {kind: judge_relevance}", ("msmarco",)),
    "infosearch": ("infosearch", "{kind: shape}, {kind: leak}", ("msmarco",)),
}
"""Name to recipe, validators, and the corpora whose seeds follow each other in turn."""
_PARTITION_SEEDS = 256
_JOB = """\
seeds:
{seeds}
recipe: {{kind: {recipe}}}
models:
  writer: &qwen {{kind: hosted, model: qwen, url: "{url}"}}
  judge: *qwen
validators: [{validators}]
out: {out}
limits: {{partition_seeds: {size}}}
"""
_SEEDS = (
    "  - {{kind: table, corpus: {corpus}, path: {path}, columns: "
    "{{query: query, id: id, positives: positives, negatives: negatives}}}}"
)


def llm_run(shared_data: Path, name: str, out: Path, url: str = "http://127.0.0.1:9/v1") -> Path:
    """Commits the run of a name under `out`, of which no model is asked, and returns it; skips without the data.

    `url`: where the job's models would be, for who goes on with the run.
    """
    stored = shared_data / "llm_runs" / f"{name}.jsonl.gz"
    if not stored.is_file():
        pytest.skip(f"{stored} is absent: the replies of a real model are private data")
    with gzip.open(stored, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    recipe, _, corpora = JOBS[name]
    job = load_job(_write_job(out, rows, name, url))
    spec, checks = build_run(job), build_parts(job).validators
    log = CommitLog(out)
    log.open(spec.fingerprint, spec.identity)
    topics = [
        asyncio.run(_topic(row, str(number), corpora[number % len(corpora)], recipe, checks))
        for number, row in enumerate(rows)
    ]
    parts = [topics[at : at + _PARTITION_SEEDS] for at in range(0, len(topics), _PARTITION_SEEDS)]
    for number, part in enumerate(parts):
        log.commit(number, part, {})
    log.put_plan({"seeds": len(topics), "partitions": len(parts)})
    return out


def _write_job(out: Path, rows: Sequence[Any], name: str, url: str) -> Path:
    """The job file; its seeds have the passages that the rows show, and no others."""
    recipe, validators, corpora = JOBS[name]
    sources = []
    for place, corpus in enumerate(corpora):
        table = out.with_name(f"{out.name}_{corpus}.jsonl")
        table.write_text("".join(_seed_lines(rows, place, len(corpora))), encoding="utf-8")
        sources.append(_SEEDS.format(corpus=corpus, path=table))
    job = out.with_suffix(".yaml")
    seeds = "\n".join(sources)
    job.write_text(
        _JOB.format(seeds=seeds, recipe=recipe, validators=validators, out=out, url=url, size=_PARTITION_SEEDS),
        encoding="utf-8",
    )
    return job


def _seed_lines(rows: Sequence[Any], place: int, step: int) -> Iterator[str]:
    for number in range(place, len(rows), step):
        texts = {role: [p["text"] for p in rows[number]["passages"] if p["role"] == role]
                 for role in ("seed_positive", "seed_negative")}  # fmt: skip
        yield json.dumps({"id": str(number), "query": rows[number]["query"], "positives": texts["seed_positive"],
                          "negatives": texts["seed_negative"]}) + "\n"  # fmt: skip


async def _topic(row: Any, seed_id: str, corpus: str, recipe: str, checks: Sequence[Validator]) -> Topic:
    """The topic of a row with its calls and verdicts, ended as the row says."""
    topic = Topic(
        row["topic_id"],
        seed_id,
        corpus,
        recipe,
        row["query"],
        tuple(Intent(each["intent_id"], each["role"], each["instruction"], each["query"]) for each in row["intents"]),
        tuple(Passage(each["text"], each["role"], id=each["passage_id"]) for each in row["passages"]),
        tuple(Judgment(*each) for each in row["judgments"]),
    )
    calls = [_call(row["topic_id"], place, each) for place, each in enumerate(row["calls"])]
    verdicts = await _verdicts(topic, row, calls, checks) if topic.passages else []
    failure = None if row["status"] == "accepted" else SeedOutcome(row["status"], row["reason"], row["detail"])
    return with_outcome(topic, verdicts, calls, failure)


def _call(topic: str, place: int, stored: Any) -> Call:
    prompt, completion = stored["prompt_tokens"], stored["completion_tokens"]
    return Call(
        content_id("request", topic, str(place)), stored["task"], "qwen", stored["template"], prompt, completion, 0.0,
        stored["finish_reason"], stored["reply_text"],
    )  # fmt: skip


async def _verdicts(topic: Topic, row: Any, calls: Sequence[Call], checks: Sequence[Validator]) -> list[Verdict]:
    """What the job's validators said, up to the one that rejects."""
    ask = StoredReplies([call for call in calls if call.task.startswith("judges.")])
    verdicts: list[Verdict] = []
    for check in checks:
        if check.name == "judge_relevance":
            return verdicts + list(_relevance_votes(topic, row))
        if check.cost == Cost.MODEL and not ask.left:  # an earlier form of the last check rejected it
            return [*verdicts[:-1], reject_verdict(verdicts[-1].validator, "topic", row["reason"], row["detail"])]
        said = (await check(topic, ask) if check.cost == Cost.MODEL else check(topic))[1]
        verdicts += said if _fits(said, row) else pass_verdicts(check.name)
        if verdicts[-1].outcome == "reject":
            break
    return verdicts


def _fits(said: Sequence[Verdict], row: Any) -> bool:
    """Whether a check says what it said then, of the topic as it was before a judge reviewed it."""
    return all(each.outcome != "reject" or each.reason == row["reason"] for each in said)


def _relevance_votes(topic: Topic, row: Any) -> Iterator[Verdict]:
    """A verdict for each label that the judge made, and the one that rejects."""
    for label in topic.judgments:
        if label.judge.startswith("judge:"):
            choice = label.passage_id if label.relevance > 0 else "none"
            facts = {"intent": label.intent_id, "shown": [label.passage_id], "votes": [["judge", choice]]}
            yield Verdict("judge_relevance", label.passage_id, "pass", evidence=canonical_json(facts), score=1.0)
    if row["reason"] in ("no_negative_left", "positive_lost", "label_disputed"):
        yield Verdict("judge_relevance", "topic", "reject", row["reason"], row["detail"])


class StoredReplies:
    """An `ask` that gives a topic's stored replies in order; one that cannot be read was corrected by the next."""

    def __init__(self, left: list[Call]) -> None:
        self.left, self.calls = left, list[Call]()

    async def __call__(self, prompt, answer, *, role="writer", check=None):
        while self.left:
            self.calls.append(self.left.pop(0))
            try:
                return parse_reply(self.calls[-1].reply_text, answer)
            except UnreadableReplyError:
                continue
        raise UnreadableReplyError("no stored reply can be read")
