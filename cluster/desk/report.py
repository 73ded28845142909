"""The report of a run as one HTML page: the tables of SQL, the measures beyond it, a map, and sampled topics.

out (, against) -> tables by group, points, topics -> datasets_out/desk/templates/report.html.j2 -> text
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foil.cluster.desk.embedding import embedder, map_method
from foil.cluster.desk.measures import audit_table, diversity_table, judge_tables, repeats_tables, run_verdict
from foil.cluster.extras import PACKAGE, need, version_of
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.datasets_out.commits.snapshot import Snapshot
    from foil.datasets_out.desk.sections import Ask, Charts, ReportTable
    from foil.datasets_out.desk.verdict import RunVerdict

MOST_BYTES = 5_000_000
TOPICS = 50
_ACCEPTED_TOPICS = 20
_MAP_POINTS = 2000
_EXCERPTS = (700, 300, 120)
_QUERIES_AT_A_TIME = 2
_GROUPS = {
    "What was made": ("funnel", "reasons", "cost", "validators"),
    "Instructions": ("lengths", "published", "constraints", "dimensions", "diversity"),
    "Labels": ("labels", "shortcuts", "edits", "agreement", "canaries", "position", "audits"),
    "Repeats and rights": ("repeats", "groups", "contamination", "licences"),
}


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables under one heading."""

    title: str
    tables: tuple[ReportTable, ...]


def report_page(
    out: Path, against: Path | None = None, *, snapshot: str | None = None, by_meaning: bool = False
) -> tuple[str, RunVerdict]:
    """The page, under 5 MB, and its verdict. Raises UsageError where nothing is committed, or an extra is missing."""
    need("vl_convert", extra="desk")
    from foil.datasets_out.commits.log import CommitLog
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.desk.pages import lone_page
    from foil.datasets_out.desk.sections import RUN
    from foil.datasets_out.desk.topic_view import view_topic
    from foil.datasets_out.desk.topics import asker, sample_topics

    source, ask = load_snapshot(out, snapshot), asker(out, snapshot)
    if not source.rows("topics"):
        raise UsageError(f"{out} has no committed topic yet, so there is nothing to report; run the job first")
    other_ask = asker(against) if against else None
    other_name = run_name(against) if against else ""
    tables = {each.id: each for each in report_tables(ask, other_ask, run_name(out), other_name, by_meaning=by_meaning)}
    verdict = run_verdict(ask, tables["position"].rows)
    the_map = _map_parts(out, source, ask, by_meaning=by_meaning)
    sampled = sample_topics(source, ask, _ACCEPTED_TOPICS, TOPICS)
    for excerpt in _EXCERPTS:
        page = lone_page(
            "report.html.j2", name=run_name(out), other_name=other_name, digest=source.digest,
            fingerprint=CommitLog(out).fingerprint(), run=ask(RUN)[0],
            version=version_of(PACKAGE) or "", verdict=verdict,
            titles={each.id: each.title for each in tables.values()}, notes=_notes(source.rows("topics"), len(sampled)),
            groups=[TableGroup(title, tuple(tables[name] for name in names)) for title, names in _GROUPS.items()],
            **the_map,
            topics=[view_topic(topic, excerpt) for topic in sampled],
            topics_words=f"{len(sampled)} of {source.rows('topics'):,} topics, drawn by hash: an accepted one and one "
            "of each reason, the commonest first, then a second of each, and so on; long texts are shortened "
            f"to about {excerpt} characters. Removed words are struck out and red, added ones green.",
        )  # fmt: skip
        if len(page.encode()) < MOST_BYTES:
            break
    return page, verdict


def _map_parts(out: Path, source: Snapshot, ask: Ask, *, by_meaning: bool) -> dict[str, Any]:
    """What the page's template asks of the map."""
    from foil.datasets_out.desk.map_groups import group_numbers, map_areas, map_groups
    from foil.datasets_out.desk.text_map import load_map

    method, groups = map_method(by_meaning=by_meaning), map_groups(ask)
    points = load_map(out, source.digest, ask, method, _MAP_POINTS)
    words = (
        f"{points.num_rows:,} of {source.rows('topics'):,} topics, drawn by hash, {method.words}. "
        "Areas are named by the words that are commoner there than elsewhere. The key counts all topics."
    )
    numbers, areas = group_numbers(points, groups), map_areas(points)
    return {"points": points, "map_groups": groups, "group_numbers": numbers, "areas": areas, "map_words": words}


def report_tables(
    ask: Ask, other_ask: Ask | None, name: str, other_name: str, *, by_meaning: bool, charts: Charts | None = None
) -> list[ReportTable]:
    """All tables of a report, in no order that matters."""
    from foil.datasets_out.desk.charts import bar_chart, interval_chart
    from foil.datasets_out.desk.sections import SECTIONS, Charts, read_section

    charts = charts or Charts(bar_chart, interval_chart)
    asks = [(name, ask), *([(other_name, other_ask)] if other_ask else [])]
    with ThreadPoolExecutor(_QUERIES_AT_A_TIME) as pool:
        answers = list(pool.map(lambda section: read_section(section, ask, other_ask, charts), SECTIONS))
    return [
        *answers,
        *judge_tables(ask, charts),
        audit_table(ask),
        diversity_table(asks, embedder() if by_meaning else None),
        *repeats_tables(ask),
    ]


def run_name(out: Path) -> str:
    """How a page names a run."""
    return out.resolve().name


def _notes(topics: int, sampled: int) -> list[str]:
    if topics <= sampled:
        return []
    words = (
        "Tables count all topics. The map, the near-duplicates and the topics at the end are samples, drawn by hash so "
        "that the same data gives the same page."
    )
    return [words]
