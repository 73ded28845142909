"""What each view and column of `foil sql` holds, in a line each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.sql.views import VIEWS

VIEW_WORDS = {
    "topics": "a topic: what a recipe made of one seed, accepted or not",
    "intents": "an instruction with a query, as one topic asks it",
    "passages": "a text of a topic",
    "judgments": "whether a passage is relevant to an intent, and who says so; what nobody judged is absent",
    "verdicts": "what a check or judge said of a topic or a part of it",
    "calls": "a request to a model, and its reply",
    "rejects": "a rejected topic, and who rejected it on what evidence",
    "triplets": "a relevant and a non-relevant passage of one intent, of accepted topics",
    "runs": "the run: its job, and the sums of what is committed",
    "audits": "a passage as a reader marked it on a blind sheet, with its label",
    "evaluations": "a result of `foil evaluate` or `foil ablate`, in points",
    "prompt_evaluations": "what prompts are worth to a system (`foil evaluate --prompts`), in points",
    "notes": "a note or flag that somebody put on a topic in `foil view`",
}
_COMMON = {
    "topic_id": "the topic's id",
    "partition": "number of the partition in which the topic lies; a filter on it reads its files alone",
    "seed_id": "the seed's id in its corpus",
    "corpus": "the corpus of the seed",
    "recipe": "the recipe that made the topic",
    "query": "the query",
    "status": "accepted, rejected or failed",
    "reason": "a short code of why, or empty",
    "detail": "why, in words",
    "licence": "licence of the seed",
    "redistributable": "whether the licence lets the texts be passed on",
    "attributes": "further facts, as a map: attributes['name']",
    "split": "train, dev or heldout, as a trainer with the default shares separates seeds",
    "run": "name of the run, where several are asked",
    "intent_id": "the intent's id",
    "passage_id": "the passage's id, which follows from title and text",
    "instruction": "the instruction, or empty",
    "validator": "the check or judge",
    "scope": "`topic`, or the id of the intent or passage meant",
    "evidence": "what a reader needs to agree",
    "cost_usd": "US dollars",
    "prompt_tokens": "tokens sent",
    "completion_tokens": "tokens received",
    "model": "the model asked",
    "benchmark": "the benchmark",
    "query_group": "the group of queries, or empty for all",
    "measure": "the measure",
    "system": "the system",
    "count": "queries",
    "low": "lower end of the interval of the difference",
    "high": "upper end of it",
    "k": "depth of the ranking",
    "base": "the system that the others are compared with",
    "collections": "digests of the collections, as JSON",
    "facts": "how it was measured, as JSON",
    "versions": "versions of the libraries, as JSON",
}
_OWN = {
    "topics.query": "the seed's query",
    "intents.role": "original, instructed, poisoned_instruction, poisoned_query, reversed or dual",
    "intents.query": "the query asked with the instruction",
    "passages.role": "seed_positive, seed_negative, generated_positive, instruction_negative, query_negative, "
    "distractor or mined_negative",
    "passages.title": "the title, or empty",
    "passages.text": "the text",
    "passages.source_id": "its id in the corpus it came from, or empty where it was written here",
    "passages.edited_from": "id of the passage of which it is an edit, or empty",
    "judgments.relevance": "+1 or -1",
    "judgments.judge": "seed, construction, rule, mined, or judge:MODEL",
    "judgments.votes": "the single votes behind it",
    "verdicts.outcome": "pass, edit or reject",
    "verdicts.score": "a number of the validator's own, or null",
    "calls.request_id": "the request's id, which follows from its content",
    "calls.task": "what was asked for",
    "calls.template": "the prompt's template and its hash",
    "calls.finish_reason": "why the model stopped",
    "calls.reply_text": "the raw reply",
    "calls.reused": "whether another run paid for it",
    "calls.fault": "why the reply was not taken, REASON: DETAIL; '' where it was",
    "calls.salvaged": "fields of the answer that were mended without asking again",
    "calls.turn": "'' for the first request of a prompt, else correction or candidates",
    "triplets.intent_role": "role of the intent",
    "triplets.positive_id": "id of the relevant passage",
    "triplets.positive_role": "its role",
    "triplets.positive_title": "its title",
    "triplets.positive": "its text",
    "triplets.negative_id": "id of the passage that is not relevant",
    "triplets.negative_role": "its role",
    "triplets.negative_title": "its title",
    "triplets.negative": "its text",
    "runs.fingerprint": "digest of all that decides what the run makes",
    "runs.schema_version": "version of the stored columns",
    "runs.planned_seeds": "seeds of the whole job, or null until the seed stream has ended",
    "runs.planned_partitions": "partitions of the whole job, or null until then",
    "runs.partitions": "partitions that are committed",
    "runs.bytes": "bytes of the committed files",
    "runs.calls": "requests made",
    "runs.job": "the job, as JSON",
    "audits.audit": "the sheet's name",
    "audits.reader": "who marked it",
    "audits.item": "number of the item on the sheet",
    "audits.contrast": "kind of contrast of the intent",
    "audits.family": "constraint family of the instruction",
    "audits.edited": "whether the passage is an edit",
    "audits.label": "+1 or -1, as the topic has it",
    "audits.mark": "+1 or -1, as the reader has it",
    "audits.answers": "whether the passage answers the query, the instruction aside",
    "audits.usable": "whether the text can be used",
    "audits.is_natural": "whether somebody would write the instruction",
    "audits.gives_away": "whether the instruction tells what the query asks for",
    "audits.remark": "the reader's words",
    "evaluations.value": "points",
    "evaluations.difference": "points above `base`",
    "evaluations.p_t_test": "p of no difference, by the paired t-test",
    "evaluations.p_wilcoxon": "p of no difference, by the signed-rank test",
    "evaluations.p_holm": "p of the t-test, corrected over systems and measures of a group",
    "prompt_evaluations.no_prompt": "points without a prompt",
    "prompt_evaluations.selected": "points with the prompt that was chosen on a few queries, on the others",
    "prompt_evaluations.hindsight": "points with the prompt that is best on these queries themselves",
    "prompt_evaluations.mean": "mean over the prompts",
    "prompt_evaluations.spread": "standard deviation over the prompts",
    "prompt_evaluations.difference": "selected less no_prompt",
    "prompt_evaluations.selected_prompts": "the chosen prompts, one a collection, as JSON",
    "prompt_evaluations.by_prompt": "prompt -> points, as JSON",
    "notes.author": "who wrote it",
    "notes.flag": "`bad`, `good`, `look again`, or empty",
    "notes.note": "its text",
    "notes.noted_at": "when, in UTC",
    "evaluations.with_instruction": "points of the benchmark's score under its instructions",
    "evaluations.without_instruction": "the same for the bare queries",
    "evaluations.gain": "points that instructions bring: with less without",
    "evaluations.gain_low": "lower end of the interval of the gain",
    "evaluations.gain_high": "upper end of it",
    "evaluations.p_mrr": "p-MRR over the variants of each query, or null where there are none",
    "evaluations.instructed": "queries that have an instruction",
    "evaluations.unreachable": "judgments of documents that no system can rank",
    "evaluations.unreachable_relevant": "the relevant ones among them",
    "evaluations.chosen_on": "whether the system's weights were chosen on this benchmark",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view: its name, its type in DuckDB, and what it holds."""

    name: str
    type: str
    words: str


def describe_views(out: Path | Mapping[str, Path], snapshot: str | None = None) -> dict[str, list[Column]]:
    """The columns of every view, in order, as a query of the run or runs sees them."""
    sql = (
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' "
        "AND NOT internal ORDER BY table_name, column_index"
    )
    columns: dict[str, list[Column]] = {view: [] for view in VIEWS}
    for view, name, kind in _rows(out, sql, snapshot):
        columns[view].append(Column(name, kind, words_of(view, name)))
    return columns


def words_of(view: str, column: str) -> str:
    """What a column holds."""
    own = _OWN.get(f"{view}.{column}") or _COMMON.get(column)
    if own:
        return own
    table, _, state = column.partition("_")
    return f"rows of {table}" if state == "rows" else f"{table} that are {state}" if state else ""


def _rows(out: Path | Mapping[str, Path], sql: str, snapshot: str | None) -> Iterator[tuple[str, str, str]]:
    table = run_sql(out, sql, snapshot=snapshot)
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
