"""What stands out in a run, said first: each cause in one sentence with its numbers, and where its evidence stands.

    RULES -> ask(sql) -> a RunCause for each row -> the top of a report and of the desk's first page, `foil status`

A rule is a query that answers a row where something is amiss, and a sentence that is filled from that row: when it
speaks stands in the query. What SQL cannot count, how often a judge named the passage shown first, is passed in.

Promise: each number of a sentence is what its SQL answers, or stands in the table that it names. A run in which no rule
finds a thing is called healthy, and one of fewer than LEAST_TOPICS topics is called small.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from foil.datasets_out.desk.pages import cell
from foil.datasets_out.desk.sections import SHORTCUTS, Ask, Row

LEAST_TOPICS = 20
LEAST_VOTES = 50
"""Below these a share says little, and no rule speaks."""
MOST_VOTES = 100_000
"""Verdicts of judges, by hash, that are held against the labels; all of them need too much memory in large runs."""
_PULL = 0.1
"""How much oftener than by chance the first place may be named."""

_TOPICS = """
SELECT t.*, coalesce(r.validator, '') AS validator, c.topic_id IS NOT NULL AS asked
FROM topics t LEFT JOIN rejects r USING (partition, topic_id)
LEFT JOIN (SELECT DISTINCT partition, topic_id FROM calls) c USING (partition, topic_id)
"""
NOTHING = f"""
SELECT count(*) AS made, (SELECT calls FROM runs) AS calls,
       (SELECT prompt_tokens + completion_tokens FROM runs) AS tokens, (SELECT cost_usd FROM runs) AS cost_usd
FROM topics HAVING made >= {LEAST_TOPICS} AND count(*) FILTER (status = 'accepted') = 0 AND calls > 0
"""
JUDGES = f"""
WITH said AS NOT MATERIALIZED (
    SELECT * FROM verdicts WHERE validator LIKE 'judge\\_%' ESCAPE '\\' AND json_valid(evidence)),
canaries AS (
    SELECT validator, evidence->>'$.votes[0][0]' AS judge, count(*) FILTER (reason = 'canary_right') AS hits,
           count(*) AS canaries FROM said WHERE reason IN ('canary_right', 'canary_wrong') GROUP BY ALL),
votes AS (
    SELECT partition, topic_id, validator, evidence->>'$.intent' AS intent_id, evidence,
           unnest(from_json(evidence->'$.votes', '[["VARCHAR"]]')) AS vote
    FROM (FROM said WHERE reason NOT LIKE 'canary\\_%' ESCAPE '\\' ORDER BY md5(topic_id), scope LIMIT {MOST_VOTES})),
rated AS (
    SELECT partition, topic_id, validator, vote[1] AS judge, intent_id, passage_id,
           sum(CASE WHEN vote[2] = passage_id THEN 1 ELSE -1 END) AS sign
    FROM (SELECT *, unnest(from_json(evidence->'$.shown', '["VARCHAR"]')) AS passage_id FROM votes)
    WHERE vote[2] NOT IN ('tie', 'unreadable_judge') GROUP BY ALL),
agreed AS (
    SELECT validator, rated.judge, count(*) AS pairs, avg(((sign > 0) = (relevance > 0))::INT) AS agreed,
           avg((sign > 0)::INT) AS yes, avg((relevance > 0)::INT) AS truly
    FROM rated JOIN judgments USING (partition, topic_id, intent_id, passage_id) WHERE sign <> 0
    GROUP BY ALL HAVING count(*) FILTER (judgments.judge LIKE 'judge:%') = 0),
measured AS (
    SELECT validator, judge, hits, canaries, pairs, yes * truly + (1 - yes) * (1 - truly) AS chance,
           (agreed - chance) / nullif(1 - chance, 0) AS kappa
    FROM canaries FULL JOIN agreed USING (validator, judge))
SELECT validator, judge, hits, canaries, pairs, round(kappa, 4) AS kappa,
       coalesce((hits + 1.92) / (canaries + 3.84)
           + 1.96 * sqrt(hits * (canaries - hits) / canaries + 0.96) / (canaries + 3.84) < 0.75, false) AS is_wrong,
       coalesce(pairs >= {LEAST_VOTES} AND kappa < 0.2, false) AS is_chance
FROM measured ORDER BY validator, judge
"""
REJECTS_ALL = f"""
SELECT validator, rejected, judged, rejected / judged AS share, reason FROM (
    SELECT validator, count(DISTINCT topic_id) AS judged,
           count(DISTINCT topic_id) FILTER (outcome = 'reject' AND status = 'rejected') AS rejected,
           mode(reason ORDER BY reason) FILTER (outcome = 'reject' AND status = 'rejected') AS reason
    FROM verdicts JOIN (SELECT partition, topic_id, status FROM topics) USING (partition, topic_id)
    WHERE reason NOT LIKE 'canary\\_%' ESCAPE '\\' GROUP BY validator)
WHERE judged >= {LEAST_TOPICS} AND share >= 0.8 ORDER BY rejected DESC, validator
"""
CORPUS = f"""
SELECT corpus, count(*) AS made, mode(reason ORDER BY reason) AS reason FROM topics
WHERE EXISTS (FROM topics WHERE status = 'accepted')
GROUP BY corpus HAVING made >= {LEAST_TOPICS} AND count(*) FILTER (status = 'accepted') = 0 ORDER BY made DESC, corpus
"""
UNFIT = f"""
SELECT corpus, count(*) AS made, count(*) FILTER (is_unfit) AS unfit, unfit / made AS share,
       mode(reason ORDER BY reason) FILTER (is_unfit) AS reason
FROM (SELECT *, status = 'rejected' AND NOT asked AS is_unfit FROM ({_TOPICS}))
WHERE recipe IN (SELECT recipe FROM ({_TOPICS}) WHERE asked)
GROUP BY corpus HAVING made >= {LEAST_TOPICS} AND share >= 0.1 ORDER BY unfit DESC, corpus
"""
COPIES = ("near_copy", "repeats_passage", "quotes_passage", "same_instruction", "same_passage", "same_query")
COPIED = f"""
SELECT count(*) AS made, count(*) FILTER (reason IN {COPIES}) AS copied, copied / made AS share,
       mode(reason ORDER BY reason) FILTER (reason IN {COPIES}) AS reason
FROM ({_TOPICS}) WHERE asked HAVING made >= {LEAST_TOPICS} AND share >= 0.1
"""
WRITER = f"""
SELECT count(*) AS made, count(*) FILTER (is_lost) AS lost, lost / made AS share,
       mode(reason ORDER BY reason) FILTER (is_lost) AS reason
FROM (SELECT *, validator = '' AND (status = 'rejected' OR reason IN ('unreadable_reply', 'cut_reply')) AS is_lost
      FROM ({_TOPICS}) WHERE asked)
HAVING made >= {LEAST_TOPICS} AND share >= 0.25
"""
GUESSED = f"""
SELECT recipe, clue, topics, greatest(share, 1 - share) AS share, if(share > 0.5, 'relevant', 'other') AS side
FROM ({SHORTCUTS})
WHERE topics >= {LEAST_TOPICS} AND (low_share > allowed_share OR high_share < 1 - allowed_share)
"""
HEALTH = """
SELECT count(*) AS made, count(*) FILTER (status = 'accepted') AS accepted, accepted / nullif(made, 0) AS share
FROM topics
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """A query that answers where something is amiss; the sentence of a row; the sections of a report that show it."""

    id: str
    sql: str
    words: str
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunCause:
    """One cause: its sentence, the SQL behind its numbers, and the sections of a report that show more."""

    rule: str
    sentence: str
    sql: str
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """What is said first of a run. `kind`: empty, small, healthy or amiss."""

    kind: str
    headline: str
    findings: tuple[RunCause, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The headline and each cause, as a terminal prints them."""
        return self.headline, *(each.sentence for each in self.findings)


JUDGE = Rule(
    "judge", JUDGES, 'The judge "{judge}" of {validator} cannot be relied on: {signs}.',
    ("canaries", "agreement", "position"),
)  # fmt: skip
RULES = (
    Rule(
        "nothing", NOTHING,
        "Nothing was accepted: {calls} calls, {tokens} tokens and US$ {cost_usd} went into {made} topics.", ("cost",),
    ),
    JUDGE,
    Rule(
        "rejects_all", REJECTS_ALL,
        "{validator} rejects nearly all that reach it: {rejected} of {judged} topics ({share}), mostly for {reason}.",
        ("validators",),
    ),
    Rule(
        "writer", WRITER,
        "The writer fails its rules: {lost} of {made} topics with a call ({share}) were lost to its texts, "
        "mostly to {reason}.", ("reasons",),
    ),
    Rule(
        "copies", COPIED,
        "The writer copies: {copied} of {made} topics with a call ({share}) repeat what they should change, "
        "mostly by {reason}.", ("reasons",),
    ),
    Rule(
        "corpus", CORPUS,
        "The corpus {corpus} yields nothing: none of its {made} topics was accepted, mostly for {reason}.", ("funnel",),
    ),
    Rule(
        "unfit", UNFIT,
        "{unfit} of {made} seeds of {corpus} ({share}) are refused before a call, mostly as {reason}.", ("reasons",),
    ),
    Rule(
        "shortcut", GUESSED,
        "Labels of {recipe} can be guessed without its instructions: of a passage that is relevant and one that is "
        "not, the one that {clue} is the {side} one in {share} of pairs, over {topics} topics.", ("shortcuts",),
    ),
)  # fmt: skip
"""In the order in which they are said."""
_TOGETHER = 50_000
"""Up to so many topics one query asks all rules, since each query starts a process; more would need too much memory."""


def verdict_of(ask: Ask, places: Sequence[Row] = ()) -> RunVerdict:
    """What stands out in a run. `places`: rows of the report's table `position`."""
    [health] = ask(HEALTH)
    words = {name: cell(value, name) for name, value in health.items()}
    if health["made"] < LEAST_TOPICS:
        counted = "{accepted} of {made} topics accepted: too few to judge the run by.".format(**words)
        return RunVerdict("small", counted) if health["made"] else RunVerdict("empty", "No topic is committed yet.")
    answers = _answers(ask, [RULES] if health["made"] <= _TOGETHER else [(rule,) for rule in RULES])
    findings = tuple(cause for rule, row in answers if (cause := _finding(rule, row, places)))
    counted = "{accepted} of {made} topics accepted ({share})".format(**words)
    if findings:
        return RunVerdict("amiss", f"{counted}. What stands out:", findings)
    return RunVerdict("healthy", f"{counted}, and nothing stands out: the run looks healthy.")


def _answers(ask: Ask, groups: Sequence[Sequence[Rule]]) -> Iterator[tuple[Rule, Row]]:
    """Each rule with each row that it answers. The rules of a group are asked in one query."""
    for rules in groups:
        [rows] = ask("SELECT " + ", ".join(f'(SELECT list(r) FROM ({rule.sql}) AS r) AS "{rule.id}"' for rule in rules))
        yield from ((rule, row) for rule in rules for row in rows[rule.id] or ())


def _finding(rule: Rule, row: Row, places: Sequence[Row]) -> RunCause | None:
    words = {name: cell(value, name) for name, value in row.items()}
    if rule is JUDGE:
        words["signs"] = _signs(row, words, places)
        if not words["signs"]:
            return None
    return RunCause(rule.id, rule.words.format(**words), rule.sql.strip(), rule.sections)


def _signs(row: Row, words: Mapping[str, str], places: Sequence[Row]) -> str:
    """What is known of a judge, if any of it speaks against the judge; else ""."""
    signs = ["{hits} of {canaries} canaries right".format(**words)] if row["canaries"] else []
    if (row["pairs"] or 0) >= LEAST_VOTES and row["kappa"] is not None:
        signs.append("kappa {kappa} with the labels, where 0 is chance".format(**words))
    amiss = row["is_wrong"] or row["is_chance"]
    for place in places:
        is_own = place["judge"] == f"{row['validator']} by {row['judge']}" and place["expected_share"] is not None
        if is_own and place["of"] >= LEAST_VOTES:
            share, expected = (cell(place[name], name) for name in ("share", "expected_share"))
            signs.append(f"the passage shown first named in {share} of votes, where chance gives {expected}")
            amiss = amiss or place["low_share"] > place["expected_share"] + _PULL
    return "; ".join(signs) if amiss else ""
