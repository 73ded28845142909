"""What a report measures beyond SQL, as its tables: judges, audits, diversity, repeats. Here rooms meet that may not
import each other: SQL of `datasets_out`, the measures of `validators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.datasets_out.desk.sections import Ask, Charts, ReportTable, Row
    from foil.datasets_out.desk.verdict import RunVerdict
    from foil.validators.audits.diversity import Embed
    from foil.validators.audits.judge_reliability import JudgeShare
    from foil.validators.judges.agreement import Agreement, Labels
    from foil.validators.overlap.duplicates import TextGroup

MOST_INSTRUCTIONS = 100_000
MOST_COMPARED = 20_000
"""Texts of each kind in which near-duplicates are searched."""
_GROUPS_SHOWN = 15

_VOTES = """
SELECT topic_id, validator, reason, evidence FROM verdicts WHERE validator LIKE 'judge\\_%' ESCAPE '\\'
"""
_PLACED_VOTES = (
    f"{_VOTES} AND validator IN ('judge_scenarios', 'judge_polarity') AND NOT starts_with(reason, 'canary_') "
    f"ORDER BY md5(topic_id), scope LIMIT {MOST_COMPARED}"
)
_LABELS = "SELECT topic_id, intent_id, passage_id, relevance, judge FROM judgments"
_OWN_LABELS = "labels of the topics"
_LABELLERS = ("judge_relevance by ", "judge_demands by ")
"""Judges that set labels themselves."""
_INSTRUCTIONS = f"""
SELECT instruction FROM intents JOIN topics t USING (partition, topic_id)
WHERE t.status = 'accepted' AND instruction <> '' ORDER BY md5(intent_id) LIMIT {MOST_INSTRUCTIONS}
"""
_TEXTS = {
    "query": "SELECT query AS text, topic_id FROM topics WHERE status = 'accepted' ORDER BY md5(topic_id)",
    "instruction": "SELECT instruction AS text, topic_id FROM intents JOIN topics t USING (partition, topic_id) "
    "WHERE t.status = 'accepted' AND instruction <> '' ORDER BY md5(intent_id)",
    "passage": "SELECT text, topic_id FROM (SELECT DISTINCT ON (passage_id) passage_id, p.text, topic_id FROM "
    "passages p JOIN topics t USING (partition, topic_id) WHERE t.status = 'accepted' "
    "ORDER BY passage_id, topic_id) ORDER BY passage_id",
}


def agreements(out: Path, labels: Path | None) -> list[Agreement]:
    """Of every two raters: the judges by role, the topics' own labels, and the people of the label file."""
    from foil.datasets_out.desk.topics import asker
    from foil.validators.judges.agreement import read_labels

    people = read_labels(labels) if labels else {}
    own, circular = _raters(asker(out))
    if people and set().union(*people.values()).isdisjoint(set().union(*own.values())):
        raise UsageError(
            f"{labels} labels no pair of topic, intent and passage of {out}; is it the file of another run?"
        )
    return _compare(own | people, circular)


def _raters(ask: Ask, votes: Sequence[Row] | None = None) -> tuple[dict[str, Labels], set[str]]:
    """The labels of each rater; and the judges whose own word some of the topics' labels are."""
    from foil.validators.judges.agreement import read_votes

    rows = ask(_VOTES) if votes is None else votes
    verdicts = [(r["topic_id"], r["validator"], r["evidence"]) for r in rows if not r["reason"].startswith("canary")]
    raters: dict[str, Labels] = dict(read_votes(verdicts))
    labels = {(r["topic_id"], r["intent_id"], r["passage_id"]): r for r in ask(_LABELS)}
    judged = {key for key, row in labels.items() if row["judge"].startswith("judge:")}
    circular = {name for name, own in raters.items() if name.startswith(_LABELLERS) and own.keys() & judged}
    raters[_OWN_LABELS] = {key: row["relevance"] for key, row in labels.items()}
    return raters, circular


def _compare(raters: dict[str, Labels], circular: set[str]) -> list[Agreement]:
    """Of every two raters, but for a judge and the labels that are its own word: these agree by themselves."""
    from foil.validators.judges.agreement import compare_raters

    return [
        each for each in compare_raters(raters)
        if _OWN_LABELS not in (each.first, each.second) or not circular & {each.first, each.second}
    ]  # fmt: skip


def people_agree(ask: Ask) -> list[Agreement]:
    """Each judge, and the topics' own labels, against each reader of a blind sheet; none without a reader."""
    readers = _readers(ask)
    if not readers:
        return []
    raters, circular = _raters(ask)
    return [each for each in _compare(raters | readers, circular) if {each.first, each.second} & readers.keys()]


def _readers(ask: Ask) -> dict[str, Labels]:
    """The marks of each reader of a blind sheet."""
    readers: dict[str, Labels] = {}
    for row in ask("SELECT reader, topic_id, intent_id, passage_id, mark FROM audits"):
        key = row["topic_id"], row["intent_id"], row["passage_id"]
        readers.setdefault(f"reader {row['reader']}", {})[key] = row["mark"]
    return readers


def canaries_of(ask: Ask) -> list[JudgeShare]:
    """The canaries that each judge answered rightly."""
    from foil.validators.audits.judge_reliability import canary_shares

    rows = ask(f"{_VOTES} AND reason LIKE 'canary\\_%' ESCAPE '\\'")
    return canary_shares((row["topic_id"], row["validator"], row["reason"], row["evidence"]) for row in rows)


def judge_tables(ask: Ask, charts: Charts) -> list[ReportTable]:
    """Agreement of judges with each other, with labels and with readers; canaries; bias of position."""
    from foil.validators.audits.judge_reliability import canary_shares

    votes, readers = ask(_VOTES), _readers(ask)
    raters, circular = _raters(ask, votes) if votes or readers else ({}, set[str]())
    agreed = [asdict(each) for each in _compare(raters | readers, circular)]
    canaries = _share_rows(canary_shares((r["topic_id"], r["validator"], r["reason"], r["evidence"]) for r in votes))
    places = place_rows(ask)
    intervals = [{**row, "raters": f"{row['first']} / {row['second']}"} for row in agreed]
    return [
        _table(
            "agreement",
            "Agreement of judges, labels and readers",
            "Cohen's kappa with its 95 % interval (bootstrap), as `foil agreement` has it. A judge that set labels "
            "itself is not compared with them.",
            agreed,
            "No two raters judged the same pairs. `foil label` collects marks of people.",
            charts.intervals(intervals, "raters", "kappa", "low", "high") if intervals else "",
        ),
        _table(
            "canaries", "Canaries", "Questions of known answer, asked among the others. Wilson's 95 % interval.",
            canaries, "No judge of this run was asked a canary.",
        ),
        _table(
            "position", "Bias of position",
            "Whether the place of a passage decides. `expected` is what chance alone would give. Up to "
            f"{MOST_COMPARED:,} verdicts, by hash.",
            places, "No judge of this run chose among several passages.",
        ),
    ]  # fmt: skip


def run_verdict(ask: Ask, places: Sequence[Row] | None = None) -> RunVerdict:
    """What stands out in a run, wherever it is said. `places`: `place_rows`, of whoever has them."""
    from foil.datasets_out.desk.verdict import verdict_of

    return verdict_of(ask, place_rows(ask) if places is None else places)


def place_rows(ask: Ask) -> list[Row]:
    """Whether the place of a passage decides for a judge, of up to 20,000 verdicts by hash."""
    from foil.validators.audits.judge_reliability import position_shares

    votes = ask(_PLACED_VOTES)
    return _share_rows(position_shares((r["topic_id"], r["validator"], r["reason"], r["evidence"]) for r in votes))


def _share_rows(shares: Sequence[JudgeShare]) -> list[Row]:
    return [
        {"judge": each.judge, "what": each.measure, "count": each.share.count, "of": each.share.of,
         "share": each.share.count / each.share.of if each.share.of else None, "low_share": each.share.low,
         "high_share": each.share.high, "expected_share": each.expected}
        for each in shares
    ]  # fmt: skip


def audit_table(ask: Ask) -> ReportTable:
    """What readers of blind sheets found, over all and by recipe, corpus, contrast and family."""
    from foil.validators.audits.score import AuditRow, score

    rows = [AuditRow(**row) for row in ask('SELECT * RENAME (is_natural AS "natural") FROM audits')]
    measures = ("label_error", "unusable", "unnatural", "given_away", "answers_lost")
    groups: list[Row] = [
        {"group": each.group, "value": each.value, "items": each.items, "kappa": each.kappa,
         **{name: _share_text(getattr(each, name)) for name in measures}}
        for each in (score(rows) if rows else ())
    ]  # fmt: skip
    return _table(
        "audits",
        "Audits by readers",
        "Shares with Wilson's 95 % interval, as `foil audit --score` and `foil label` have them.",
        groups,
        "Nobody has marked a blind sheet of this run; `foil label` shows one in the browser.",
    )


def _share_text(share: Any) -> str:
    return f"{share.count}/{share.of} [{share.low:.0%}, {share.high:.0%}]" if share.of else "–"


def diversity_table(asks: Sequence[tuple[str, Ask]], embed: Embed | None) -> ReportTable:
    """APS and the n-gram measure of each run, over equally many instructions."""
    from foil.validators.audits.diversity import instruction_diversity

    texts = [(name, [row["instruction"] for row in ask(_INSTRUCTIONS)]) for name, ask in asks]
    most = min((len(own) for _, own in texts if own), default=0)
    rows: list[Row] = []
    for name, own in texts:
        measured = instruction_diversity(own[:most], embed)
        if measured:
            rows.append({"run": name, "instructions": measured.instructions, "mean_words": measured.mean_words,
                         "distinct": measured.distinct, "APS_by_words": measured.word_similarity,
                         "APS_by_meaning": measured.similarity,
                         "distinct_trigrams": measured.distinct_trigrams})  # fmt: skip
    return _table(
        "diversity",
        "Diversity of instructions",
        "APS: average pairwise similarity (InF-IR, section 4.2), lower is more varied; by meaning with --by-meaning. "
        "Distinct trigrams are Foil's own measure, not InF-IR's INGF, of which the paper prints no formula; higher is "
        "more varied. Runs are compared over equally many instructions.",
        rows,
        "No accepted topic has an instruction.",
    )


def repeats_tables(ask: Ask) -> list[ReportTable]:
    """Groups of nearly equal queries, instructions and passages: how many, and the largest."""
    from foil.validators.overlap.duplicates import LEAST_SIMILARITY, group_texts

    sums: list[Row] = []
    largest: list[Row] = []
    for kind, sql in _TEXTS.items():
        rows = ask(f"{sql} LIMIT {MOST_COMPARED}")
        groups = group_texts(row["text"] for row in rows)
        sums.append(_sum_of(kind, len(rows), groups))
        largest += [_group_row(kind, group, rows[group.first]) for group in groups[:_GROUPS_SHOWN]]
    words = (
        f"MinHash, Jaccard similarity of {LEAST_SIMILARITY} and more over runs of three words; up to "
        f"{MOST_COMPARED:,} texts of a kind, by hash."
    )
    return [
        _table("repeats", "Near-duplicates", words, sums),
        _table(
            "groups", "The largest groups of near-duplicates", "The first text of each group.", largest,
            "No two texts of a kind are nearly the same.",
        ),
    ]  # fmt: skip


def _sum_of(kind: str, texts: int, groups: Sequence[TextGroup]) -> Row:
    repeats = sum(group.size - 1 for group in groups)
    return {"kind": kind, "texts": texts, "groups": len(groups),
            "texts_in_groups": repeats + len(groups), "repeated_share": repeats / texts if texts else 0.0,
            "largest": groups[0].size if groups else 0}  # fmt: skip


def _group_row(kind: str, group: TextGroup, first: Row) -> Row:
    return {"kind": kind, "size": group.size, "equal_words": group.exact,
            "text": " ".join(first["text"].split())[:300], "topic_id": first["topic_id"]}  # fmt: skip


def _table(name: str, title: str, words: str, rows: Sequence[Row], empty: str = "", chart: str = "") -> ReportTable:
    from foil.datasets_out.desk.sections import ReportTable

    return ReportTable(name, title, words, tuple(rows[0]) if rows else (), rows, chart=chart, empty=empty)
