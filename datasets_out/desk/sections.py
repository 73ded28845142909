"""The tables of a report that are one query each: what is counted, its SQL, and how it is drawn.

    SECTIONS -> ask(sql) -> ReportTable: title, words, columns, rows, chart, and the SQL that anyone may run again

Promise: each number of such a table is what `foil sql OUT "SQL"` answers; nothing is computed afterwards.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Ask = Callable[[str], list[dict[str, Any]]]
"""SQL to its rows."""


@dataclass(frozen=True, slots=True)
class Charts:
    """What draws: passed in, so that a page without charts loads no library for them."""

    bars: Callable[..., str]
    intervals: Callable[..., str]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A question to a run. `empty`: what is said where there is no row; `draw`: rows to SVG text, or ""."""

    id: str
    title: str
    words: str
    sql: str
    draw: Callable[[Charts, Sequence[Row]], str] | None = None
    empty: str = "Nothing of this kind is in the run."


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a page. `sql` is "" where no query answers it; `other_rows` are the same columns of the other run."""

    id: str
    title: str
    words: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    sql: str = ""
    chart: str = ""
    empty: str = ""
    other_rows: Sequence[Row] | None = None


def read_section(section: ReportSection, ask: Ask, ask_other: Ask | None, charts: Charts) -> ReportTable:
    """The answer for a run, and for another run that it is compared with."""
    rows = ask(section.sql)
    chart = section.draw(charts, rows) if section.draw and rows else ""
    other_rows = ask_other(section.sql) if ask_other else None
    columns = tuple(rows[0]) if rows else tuple(other_rows[0]) if other_rows else ()
    return ReportTable(
        section.id, section.title, section.words, columns, rows, section.sql.strip(), chart, section.empty, other_rows
    )


_CALLS = "SELECT DISTINCT ON (partition, request_id) * FROM calls ORDER BY partition, request_id, topic_id"
_WORDS = r"len(string_split_regex(trim(i.instruction), '\s+'))"
_INSTRUCTED = (
    "FROM intents i JOIN topics t USING (partition, topic_id) WHERE t.status = 'accepted' AND i.instruction <> ''"
)

RUN = """
SELECT planned_seeds, partitions, planned_partitions, seeds_accepted, seeds_rejected, seeds_failed, topics_accepted,
       topics_rejected, topics_failed, intents_rows, passages_rows, judgments_rows, calls, prompt_tokens,
       completion_tokens, cost_usd
FROM runs
"""
FUNNEL = """
SELECT corpus, recipe, count(DISTINCT seed_id) AS seeds, count(*) AS topics,
       count(*) FILTER (status = 'accepted') AS accepted, count(*) FILTER (status = 'rejected') AS rejected,
       count(*) FILTER (status = 'failed') AS failed, count(*) FILTER (status = 'accepted') / count(*) AS accepted_share
FROM topics GROUP BY corpus, recipe ORDER BY topics DESC, corpus, recipe
"""
REASONS = """
SELECT t.corpus, t.recipe, t.status, t.reason, coalesce(nullif(r.validator, ''), 'recipe or engine') AS stopped_by,
       count(*) AS topics, count(*) / sum(count(*)) OVER (PARTITION BY t.corpus, t.recipe) AS share_of_lost,
       arg_min(t.topic_id, md5(t.topic_id)) AS example
FROM topics t LEFT JOIN (SELECT DISTINCT partition, topic_id, validator FROM rejects) r USING (partition, topic_id)
WHERE t.status <> 'accepted'
GROUP BY t.corpus, t.recipe, t.status, t.reason, stopped_by
ORDER BY topics DESC, t.corpus, t.recipe, t.status, t.reason, stopped_by LIMIT 60
"""
COST = f"""
SELECT task, model, count(*) AS calls, sum(prompt_tokens)::BIGINT AS prompt_tokens,
       sum(completion_tokens)::BIGINT AS completion_tokens, sum(cost_usd) AS cost_usd,
       sum(prompt_tokens + completion_tokens) / nullif((SELECT count(*) FROM topics WHERE status = 'accepted'), 0)
           AS tokens_per_accepted,
       sum(cost_usd) / nullif((SELECT count(*) FROM topics WHERE status = 'accepted'), 0) AS usd_per_accepted
FROM ({_CALLS}) WHERE NOT reused GROUP BY task, model ORDER BY cost_usd DESC, prompt_tokens DESC, task
"""
LENGTHS = f"""
FROM (SELECT coalesce(i.attributes['length_format'], '') AS length_format, coalesce(i.attributes['style'], '') AS style,
       count(*) AS instructions, min({_WORDS}) AS min_words, avg({_WORDS}) AS mean_words, max({_WORDS}) AS max_words
{_INSTRUCTED}
GROUP BY ALL)
ORDER BY list_position(['short', 'medium', 'long', 'very_long'], length_format) NULLS LAST, length_format, style
"""
PUBLISHED = f"""
WITH published(place, category, name, published_min, published_mean, published_max) AS (VALUES
    (1, 'style', 'none', 16, 101, 369), (2, 'style', 'negation', 18, 98, 363), (3, 'style', 'background', 19, 108, 340),
    (4, 'style', 'persona', 26, 106, 374), (5, 'length', 'short', 16, 40, 84), (6, 'length', 'medium', 43, 84, 154),
    (7, 'length', 'long', 43, 107, 185), (8, 'length', 'very_long', 96, 181, 374), (9, 'length', 'all', 16, 103, 374)),
instructed AS (SELECT coalesce(nullif(i.attributes['style'], 'plain'), 'none') AS style,
                      coalesce(i.attributes['length_format'], '') AS length, {_WORDS} AS words {_INSTRUCTED}),
measured AS (SELECT 'style' AS category, style AS name, words FROM instructed
             UNION ALL SELECT 'length', length, words FROM instructed
             UNION ALL SELECT 'length', 'all', words FROM instructed)
SELECT * EXCLUDE (place) FROM (
    SELECT place, category, name, count(words) AS instructions, min(words) AS min_words, avg(words) AS mean_words,
           max(words) AS max_words, published_min, published_mean, published_max
    FROM published LEFT JOIN measured USING (category, name) GROUP BY ALL) ORDER BY place
"""
CONSTRAINTS = f"""
SELECT c->>'$.family' AS family, count(*) AS instructions, count(*) FILTER (c->>'$.negated' = 'true') AS negated,
       count(DISTINCT c->>'$.value') AS values, count(*) / sum(count(*)) OVER () AS share
FROM (SELECT unnest(from_json(i.attributes['constraints'], '["JSON"]')) AS c {_INSTRUCTED})
GROUP BY ALL ORDER BY instructions DESC, family
"""
DIMENSIONS = f"""
SELECT i.attributes['dimension'] AS dimension, coalesce(i.attributes['condition'], '') AS condition, i.role,
       count(*) AS instructions {_INSTRUCTED} AND i.attributes['dimension'] IS NOT NULL
GROUP BY ALL ORDER BY ALL
"""
LABELS = """
SELECT i.role AS intent, j.judge, count(*) FILTER (j.relevance > 0) AS relevant,
       count(*) FILTER (j.relevance < 0) AS not_relevant, count(*) FILTER (j.relevance > 0) / count(*) AS relevant_share
FROM judgments j JOIN intents i USING (partition, topic_id, intent_id) JOIN topics t USING (partition, topic_id)
WHERE t.status = 'accepted' GROUP BY ALL ORDER BY intent, judge
"""
EDITS = """
SELECT t.recipe, p.role, count(*) AS passages, count(*) FILTER (p.edited_from <> '') AS edited,
       count(*) FILTER (p.edited_from <> '') / count(*) AS edited_share,
       avg(len(p.text)) AS mean_characters
FROM passages p JOIN topics t USING (partition, topic_id) WHERE t.status = 'accepted' GROUP BY ALL ORDER BY ALL
"""
VALIDATORS = """
SELECT validator, outcome, reason, count(DISTINCT topic_id) AS topics, count(*) AS verdicts, sum(cost_usd) AS cost_usd
FROM verdicts GROUP BY ALL ORDER BY validator, outcome, topics DESC, reason LIMIT 80
"""
CONTAMINATION = """
SELECT v.evidence->>'$.set' AS set, v.evidence->>'$.item' AS item, v.evidence->>'$.field' AS field,
       v.score AS share_of_item, v.evidence->>'$.span' AS span, t.topic_id, t.query
FROM verdicts v JOIN topics t USING (partition, topic_id) WHERE v.reason = 'contaminated'
ORDER BY v.score DESC, t.topic_id LIMIT 50
"""
LICENCES = """
SELECT corpus, coalesce(nullif(licence, ''), 'unknown') AS licence, redistributable, count(*) AS topics,
       count(*) FILTER (status = 'accepted') AS accepted
FROM topics GROUP BY ALL ORDER BY accepted DESC, corpus
"""


def _draw_funnel(charts: Charts, rows: Sequence[Row]) -> str:
    data = [
        {"source": f"{row['corpus']} {row['recipe']}", "topics": row[status], "status": status}
        for row in rows
        for status in ("accepted", "rejected", "failed")
    ]
    return charts.bars(data, "source", "topics", series="status")


def _draw_reasons(charts: Charts, rows: Sequence[Row]) -> str:
    data = [{**row, "source": f"{row['corpus']} {row['recipe']}"} for row in rows]
    several = len({row["source"] for row in data}) > 1
    return charts.bars(data, "reason", "topics", series="source" if several else "")


def _draw_cost(charts: Charts, rows: Sequence[Row]) -> str:
    if any(row["cost_usd"] for row in rows):
        return charts.bars(rows, "task", "cost_usd", series="model", title="US dollars")
    data = [
        {"task": row["task"], "tokens": row[f"{kind}_tokens"], "kind": kind}
        for row in rows
        for kind in ("prompt", "completion")
    ]
    return charts.bars(data, "task", "tokens", series="kind")


def _draw_published(charts: Charts, rows: Sequence[Row]) -> str:
    data = [
        {"cell": f"{row['category']}: {row['name']}", "words": row[column], "who": origin}
        for row in rows
        for origin, column in (("this run", "mean_words"), ("Promptriever", "published_mean"))
    ]
    return charts.bars(data, "cell", "words", series="who", stacked=False, title="mean words")


def _draw_labels(charts: Charts, rows: Sequence[Row]) -> str:
    sums: dict[tuple[str, str], int] = {}
    for row in rows:
        for label in ("relevant", "not_relevant"):
            sums[row["intent"], label] = sums.get((row["intent"], label), 0) + row[label]
    data = [{"intent": intent, "label": label.replace("_", " "), "judgments": n} for (intent, label), n in sums.items()]
    return charts.bars(data, "intent", "judgments", series="label")


SECTIONS = (
    ReportSection(
        "funnel", "Funnel by source and recipe", "Topics made of seeds, and what became of them.", FUNNEL,
        _draw_funnel,
    ),
    ReportSection(
        "reasons", "Why topics were dropped", "The reason of each topic that was not accepted, and who stopped it.",
        REASONS, _draw_reasons, "No topic was dropped.",
    ),
    ReportSection(
        "cost", "Tokens and cost by stage",
        "Equal requests of one partition are one call; replies reused from another run were paid there.", COST,
        _draw_cost,
    ),
    ReportSection(
        "validators", "What the validators said", "The verdicts of checks and judges over all topics.", VALIDATORS,
        empty="The job names no validator.",
    ),
    ReportSection(
        "lengths", "Words of an instruction, by format and style",
        "Accepted topics. A word is what stands between spaces.", LENGTHS,
    ),
    ReportSection(
        "published", "Words of an instruction, and Promptriever's",
        "Promptriever: Weller et al. 2025, table 6, over instructions for MS MARCO.", PUBLISHED, _draw_published,
    ),
    ReportSection(
        "constraints", "Balance of constraint families",
        "Constraints of the instructions of accepted topics. An instruction may hold several.", CONSTRAINTS,
        lambda charts, rows: charts.bars(rows, "family", "instructions"),
        "No instruction of this run names a constraint that a program checks.",
    ),
    ReportSection(
        "dimensions", "Balance of dimensions", "InfoSearch's dimensions and their conditions.", DIMENSIONS,
        lambda charts, rows: charts.bars(rows, "dimension", "instructions", series="role"),
        "This run has no dimensions; the recipe infosearch makes them.",
    ),
    ReportSection(
        "labels", "Balance of labels", "Judgments of accepted topics, by the intent's role and by who judged.", LABELS,
        _draw_labels,
    ),
    ReportSection("edits", "Edited passages", "An edit is made of another passage. Accepted topics.", EDITS),
    ReportSection(
        "contamination", "Contamination",
        "Topics that share text with an evaluation set; each was rejected. The first 50.", CONTAMINATION,
        empty="No hit. Where the job names no validator of contamination, nothing was searched.",
    ),
    ReportSection("licences", "Licences", "The rights of the seed corpora, topic by topic.", LICENCES),
)  # fmt: skip
"""The questions of a report, in the order of its page."""
