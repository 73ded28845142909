"""What a reader of a run looks for, as SQL over its views: facets, words, and the topics in the order of interest.

    form values -> TopicSearch -> SQL -> rows: topics that a judge or a person flagged first

A word is found anywhere in a topic: in its query, an instruction, a passage or its title, in any case. All words must
be found. Values stand in the SQL as quoted text; it is asked behind the same protections as `foil sql`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PAGE_ROWS = 25
MOST_WORDS = 8
FACETS = ("status", "reason", "corpus", "recipe", "licence")
MARKS = {"judge": "a judge objected", "note": "has a note", "flag": "is flagged"}

FACET_COUNTS = " UNION ALL ".join(
    f"SELECT '{name}' AS facet, {name} AS value, count(*) AS topics FROM topics WHERE {name} <> '' GROUP BY ALL"
    for name in FACETS
)
FACET_SQL = f"SELECT * FROM ({FACET_COUNTS}) ORDER BY facet, topics DESC, value"


def _list_sql(condition: str, first: int) -> str:
    return f"""
WITH judged AS (
    SELECT partition, topic_id, bool_or(starts_with(validator, 'judge') AND (outcome <> 'pass' OR reason IN
           ('canary_wrong', 'order_decides', 'no_majority', 'unreadable_judge'))) AS objected
    FROM verdicts GROUP BY ALL),
noted AS (SELECT topic_id, string_agg(note, ' | ') FILTER (note <> '') AS note, max(flag) AS flag
          FROM notes GROUP BY ALL)
SELECT t.topic_id, t.query, t.status, t.reason, t.corpus, t.recipe, coalesce(r.validator, '') AS stopped_by,
       coalesce(nullif(r.evidence, ''), t.detail) AS why, coalesce(j.objected, false) AS objected,
       coalesce(n.flag, '') AS flag, coalesce(n.note, '') AS note, count(*) OVER () AS found
FROM topics t LEFT JOIN judged j USING (partition, topic_id) LEFT JOIN noted n USING (topic_id)
LEFT JOIN (SELECT partition, topic_id, min(validator) AS validator, min(evidence) AS evidence
           FROM rejects GROUP BY ALL) r
    USING (partition, topic_id)
WHERE {condition}
ORDER BY flag <> '' DESC, objected DESC, t.partition, md5(t.topic_id) LIMIT {PAGE_ROWS} OFFSET {first}
"""


def _has_word(word: str) -> str:
    return f"""t.topic_id IN (
    SELECT topic_id FROM topics WHERE contains(lower(query), {word})
    UNION ALL SELECT topic_id FROM intents WHERE contains(lower(instruction), {word})
    UNION ALL SELECT topic_id FROM passages WHERE contains(lower(text), {word}) OR contains(lower(title), {word}))"""


@dataclass(frozen=True, slots=True)
class TopicSearch:
    """What is asked for. `chosen`: facet to value; `mark`: one of MARKS or ""; `page` counts from 1."""

    chosen: Mapping[str, str]
    words: str
    mark: str
    page: int

    @property
    def each_word(self) -> list[str]:
        """The words that are looked for."""
        return self.words.split()[:MOST_WORDS]

    def sql(self, having_words: Iterable[str] | None = None) -> str:
        """The query that answers it: PAGE_ROWS rows at most, each with `found`, how many there are.

        `having_words`: the ids of the topics that have all words, if they are known; else the query reads all texts.
        """
        conditions = [f"t.{name} = {quoted(value)}" for name, value in self.chosen.items() if value]
        if having_words is None:
            conditions += [_has_word(quoted(word.lower())) for word in self.each_word]
        else:
            conditions.append(f"t.topic_id IN (SELECT unnest(string_split({quoted(' '.join(having_words))}, ' ')))")
        marks = {"judge": "j.objected", "note": "n.note IS NOT NULL", "flag": "n.flag <> ''"}
        conditions += [marks[self.mark]] if self.mark in marks else []
        condition = " AND ".join(conditions) or "true"
        return _list_sql(condition, (self.page - 1) * PAGE_ROWS)


def read_search(values: Mapping[str, str]) -> TopicSearch:
    """The search that the values of a URL mean; what is unknown or not readable in them is left out."""
    page = values.get("page", "")
    return TopicSearch(
        {name: values[name].replace("\0", "") for name in FACETS if values.get(name)},
        values.get("q", "").replace("\0", "")[:400],
        values.get("mark", ""),
        max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1,
    )


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def facets(rows: list[dict[str, Any]]) -> dict[str, list[tuple[str, int]]]:
    """Facet to its values with their numbers of topics, the commonest first."""
    values_of: dict[str, list[tuple[str, int]]] = {name: [] for name in FACETS}
    for row in rows:
        values_of[row["facet"]].append((row["value"], row["topics"]))
    return values_of
