"""`foil report` of a run in which every table has rows: each number is counted again, from topics, calls and marks."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest

from foil.datasets_out.sql.query import run_sql
from foil.engine.topic import Topic
from tests.support.commands import foil, write_seeds
from tests.support.desk.page_tables import PageReader, is_value
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.paths import REPO
from tests.support.small_parts import topics
from tests.support.topics.trades import corpus

pytestmark = pytest.mark.slow

KITES = 16


def by_hash(text):
    return hashlib.md5(text.encode()).hexdigest()


EXAM = [f"It first flew in {1900 + n}. Its spars weigh {n + 3} grams each. The sail is" for n in (0, 4, 8)]
JOB = """\
seeds:
  - kind: table
    corpus: kites
    licence: CC0-1.0
    redistributable: true
    path: {folder}/kites.jsonl
    columns: {{id: id, query: query, positives: good, negatives: bad}}
  - kind: table
    corpus: trades
    licence: CC-BY-4.0
    path: {folder}/trades.jsonl
    columns: {{id: id, query: query, positives: positives, negatives: negatives}}
  - kind: table
    corpus: crafts
    path: {folder}/trades.jsonl
    columns: {{id: id, query: query, positives: positives, negatives: negatives}}
recipe:
  - kind: custom
    corpora: [kites]
    templates: {templates}
    stages: [{{name: kite, answer: {{instruction: string, text: string}}}}]
    topic:
      intents:
        - {{role: original}}
        - role: instructed
          instruction: kite.instruction
          constraints: [{{family: mentions, value: Harbour Town}}]
      passages:
        - {{role: seed_positive, text: positive}}
        - {{role: instruction_negative, text: kite.text}}
        - {{role: seed_negative, text: negatives}}
      judgments:
        - [original, seed_positive, 1]
        - [original, instruction_negative, 1]
        - [original, seed_negative, -1]
        - [instructed, seed_positive, 1]
        - [instructed, instruction_negative, -1]
  - {{kind: infir, corpora: [trades]}}
  - {{kind: infosearch, corpora: [trades], query_negative: written}}
  - {{kind: dual_view, base: {{kind: promptriever}}, corpora: [crafts]}}
models:
  writer:
    kind: hosted
    model: in-character
    url: "{writer}"
    structured: json_schema
    price: {{prompt: 100, completion: 300}}
  judge: {{kind: hosted, model: careful, url: "{careful}", structured: json_schema}}
  second: {{kind: hosted, model: careless, url: "{careless}", structured: json_schema}}
validators:
  - kind: shape
  - kind: constraint_check
  - kind: dimension_check
  - {{kind: contamination, sets: [{{name: exam, path: {folder}/exam.txt, format: text}}]}}
  - {{kind: judge_scenarios, missing: skip, judges: [judge, second], canaries: {{share: 0}}}}
  - {{kind: judge_polarity, missing: skip, judges: [judge, second], canaries: {{share: 0.3, at_least: 1000}}}}
out: {folder}/out
limits: {{partition_seeds: 24}}
runtime: {{window: 40}}
"""
MODELS = {"judge": "careful", "second": "careless"}
"""Role of a judge -> its model."""

Shown = dict[str, str]
Counted = dict[str, Any]


@dataclass(frozen=True)
class ReportedRun:
    """The tables of the page by their ids; what was made, asked and marked; what `foil audit` says of each reader."""

    tables: dict[str, list[Shown]]
    topics: list[Topic]
    calls: list[dict[str, Any]]
    marks: list[dict[str, Any]]
    scores: dict[str, list[dict[str, Any]]]

    @property
    def accepted(self) -> list[Topic]:
        return [topic for topic in self.topics if topic.status == "accepted"]

    @property
    def instructed(self) -> list[tuple[Any, int]]:
        """The instructed intents of accepted topics, and the words of each."""
        intents = [intent for topic in self.accepted for intent in topic.intents if intent.instruction]
        return [(intent, len(intent.instruction.split())) for intent in intents]

    @property
    def votes(self) -> list[tuple[Topic, str, str, dict[str, Any]]]:
        """Of each verdict of a judge: its topic, the validator, the reason and the evidence."""
        return [
            (topic, verdict.validator, verdict.reason, json.loads(verdict.evidence))
            for topic in self.topics
            for verdict in topic.verdicts
            if verdict.validator.startswith("judge_") and verdict.reason != "no_dual_view" and verdict.evidence
        ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    write_seeds(folder / "kites.jsonl", KITES)
    corpus(folder / "trades.jsonl")
    (folder / "exam.txt").write_text("\n".join(EXAM))
    faulty, careful, careless = Character(0.03, 0.013), Character(), Character(0.2)
    with serving(answer=faulty) as writer, serving(answer=careful) as first, serving(answer=careless) as second:
        urls = {"writer": writer.url, "careful": first.url, "careless": second.url}
        templates = REPO / "tests" / "support" / "simulator" / "templates"
        (folder / "job.yaml").write_text(JOB.format(folder=folder, templates=templates, **urls))
        made = foil("run", folder / "job.yaml")
    assert made.returncode == 3, made.stderr  # some seeds failed
    marks, scores = audited(folder)
    assert foil("report", folder / "out").returncode == 0
    sections = PageReader((folder / "out" / "report.html").read_text()).sections
    tables = {
        name: [dict(zip(section.head, cells, strict=True)) for cells in section.rows if cells]
        for name, section in sections.items()
    }
    calls = run_sql(folder / "out", "FROM calls").to_pylist()
    return ReportedRun(tables, topics(folder / "out"), calls, marks, scores)


def audited(folder):
    """The marks of two readers of one sheet, one row a passage, and the scores that `foil audit` gives each."""
    out, sheet = folder / "out", folder / "sheet"
    assert foil("audit", out, "--topics", 30, "--name", "blind", "--sheet", sheet).returncode == 0
    facts = json.loads((out / "audits" / "blind.key.json").read_text())["items"]
    key = {str(number): facts[str(number)] for number in range(1, len(facts) + 1)}
    ann, bob = folder / "ann.jsonl", folder / "bob.txt"
    written, marks = [marked(number, item) for number, item in key.items()], []
    rows = map(json.loads, (folder / "sheet.jsonl").read_text().splitlines())
    ann.write_text("".join(json.dumps(row | {"marks": own}) + "\n" for row, own in zip(rows, written, strict=True)))
    text = (folder / "sheet.txt").read_text()
    for number, item in key.items():  # the second agrees with every label
        letters = " ".join(f"{letter}{'+' if p['label'] > 0 else '-'}" for letter, p in item["passages"].items())
        line = f"marks {number}: {letters} natural=y gives=n #"
        text = re.sub(rf"^marks {number}: .*$", line, text, flags=re.MULTILINE)
    bob.write_text(text)
    scores = {}
    for path in (ann, bob):
        scored = foil("audit", out, "--name", "blind", "--score", path, "--reader", path.stem, "--json")
        assert scored.returncode == 0, scored.stderr
        scores[path.stem] = json.loads(scored.stdout)
    for (number, item), own in zip(key.items(), written, strict=True):
        for letter, passage in item["passages"].items():
            agreed = "+" if passage["label"] > 0 else "-"
            read = {"ann": (own[letter], own["natural"], own["gives"]), "bob": (agreed, "y", "n")}
            for reader, (mark, natural, gives) in read.items():
                said = {"reader": reader, "number": number, "mark": mark, "natural": natural, "gives": gives}
                marks.append({**item, **passage, **said})
    return marks, scores


def marked(number, item):
    """What the first reader writes: in items 1 to 4 every passage is +, in others it is what its label says, or 0."""
    eager, odd = int(number) <= 4, int(number) % 2
    marks = {letter: "+" if eager or p["label"] > 0 else "-" for letter, p in item["passages"].items()}
    if number == "5":
        marks = {letter: f"{mark}u" for letter, mark in marks.items()}
    lost = {letter: "0" for letter, p in item["passages"].items() if p["edited"] and p["label"] > 0 and odd}
    return marks | lost | {"natural": "yn"[odd], "gives": "y" if number == "7" else "n", "remark": ""}


# what the tables must say


def funnel(run):
    made = Counter((topic.corpus, topic.recipe, topic.status) for topic in run.topics)
    for corpus_name, recipe in {(topic.corpus, topic.recipe) for topic in run.topics}:
        ended = {status: made[corpus_name, recipe, status] for status in ("accepted", "rejected", "failed")}
        total = sum(ended.values())
        share = {"accepted share": ended["accepted"] / total}
        yield {"corpus": corpus_name, "recipe": recipe, "seeds": total, "topics": total, **ended, **share}


def reasons(run):
    lost = [topic for topic in run.topics if topic.status != "accepted"]
    totals, groups = Counter((topic.corpus, topic.recipe) for topic in lost), defaultdict(list)
    for topic in lost:
        by = [v.validator for v in topic.verdicts if v.outcome == "reject" and topic.status == "rejected"]
        groups[topic.corpus, topic.recipe, topic.status, topic.reason, by[-1] if by else "recipe or engine"].append(
            topic.id
        )
    for (corpus_name, recipe, status, reason, by), ids in groups.items():
        yield {
            "corpus": corpus_name, "recipe": recipe, "status": status, "reason": reason, "stopped by": by,
            "topics": len(ids), "share of lost": len(ids) / totals[corpus_name, recipe],
            "example": min(ids, key=by_hash),
        }  # fmt: skip


def cost(run):
    once = {(call["partition"], call["request_id"]): call for call in run.calls}
    groups = defaultdict(list)
    for call in once.values():
        groups[call["task"], call["model"]].append(call)
    for (task, model), calls in groups.items():
        prompt, completion, usd = (
            sum(call[name] for call in calls) for name in ("prompt_tokens", "completion_tokens", "cost_usd")
        )
        accepted = len(run.accepted)
        assert abs(usd - (0 if model in MODELS.values() else (prompt * 100 + completion * 300) / 1e6)) < 1e-6
        yield {
            "task": task, "model": model, "calls": len(calls), "prompt tokens": prompt,
            "completion tokens": completion, "cost US$": usd,
            "tokens per accepted": (prompt + completion) / accepted, "US$ per accepted": usd / accepted,
        }  # fmt: skip


def validators(run):
    said = [(topic.id, v.validator, v.outcome, v.reason) for topic in run.topics for v in topic.verdicts]
    verdicts, told = Counter(verdict[1:] for verdict in said), Counter(verdict[1:] for verdict in set(said))
    for (validator, outcome, reason), count in verdicts.items():
        yield {"validator": validator, "outcome": outcome, "reason": reason, "verdicts": count,
               "topics": told[validator, outcome, reason]}  # fmt: skip


def summed(words):
    if not words:
        return {"instructions": 0, "min words": None, "mean words": None, "max words": None}
    mean = sum(words) / len(words)
    return {"instructions": len(words), "min words": min(words), "mean words": mean, "max words": max(words)}


def lengths(run):
    groups = defaultdict(list)
    for intent, words in run.instructed:
        groups[intent.attributes.get("length_format", ""), intent.attributes.get("style", "")].append(words)
    return [{"length format": form, "style": style, **summed(words)} for (form, style), words in groups.items()]


def published(run):
    groups = {("style", name): [] for name in ("none", "negation", "background", "persona")}
    groups |= {("length", name): [] for name in ("short", "medium", "long", "very_long", "all")}
    for intent, words in run.instructed:
        style = intent.attributes.get("style", "plain").replace("plain", "none")
        for cell in (("style", style), ("length", intent.attributes.get("length_format")), ("length", "all")):
            groups.get(cell, []).append(words)
    return [{"category": category, "name": name, **summed(words)} for (category, name), words in groups.items()]


def constraints(run):
    named = [c for intent, _ in run.instructed for c in json.loads(intent.attributes.get("constraints", "[]"))]
    for family, count in Counter(constraint["family"] for constraint in named).items():
        yield {"family": family, "instructions": count, "negated": 0, "values": 1, "share": count / len(named)}


def dimensions(run):
    facts = [(i.attributes["dimension"], i.attributes.get("condition", ""), i.role)
             for i, _ in run.instructed if "dimension" in i.attributes]  # fmt: skip
    names = ("dimension", "condition", "role")
    return [dict(zip(names, each, strict=True)) | {"instructions": n} for each, n in Counter(facts).items()]


def diversity(run):
    texts = [intent.instruction for intent, _ in run.instructed]
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    trigrams = [trigram for own in words for trigram in zip(own, own[1:], own[2:], strict=False)]
    yield {
        "run": "out", "instructions": len(texts), "mean words": sum(map(len, words)) / len(words),
        "distinct": len(set(texts)) / len(texts), "distinct trigrams": len(set(trigrams)) / len(trigrams),
    }  # fmt: skip


def labels(run):
    told = Counter()
    for topic in run.accepted:
        roles = {intent.id: intent.role for intent in topic.intents}
        told.update((roles[label.intent_id], label.judge, label.relevance > 0) for label in topic.judgments)
    for role, judge in {key[:2] for key in told}:
        yes, no = told[role, judge, True], told[role, judge, False]
        yield {"intent": role, "judge": judge, "relevant": yes, "not relevant": no, "relevant share": yes / (yes + no)}


def shortcuts(run):
    """Of each side of an instruction the passage of the least hash; each topic counts once."""
    points = defaultdict(lambda: defaultdict(list))
    for topic in run.accepted:
        passages = {passage.id: passage for passage in topic.passages}
        for intent in topic.intents:
            sides = [[label.passage_id for label in topic.judgments if label.intent_id == intent.id and
                      label.relevance * sign > 0] for sign in (1, -1)]  # fmt: skip
            if intent.instruction and all(sides):
                drawn = [passages[min(side, key=lambda each: by_hash(f"{intent.id}{each}"))] for side in sides]
                yes, no = (clues(intent, passage) for passage in drawn)
                for clue in yes:
                    points[topic.recipe, clue][topic.id].append((yes[clue] > no[clue]) - (yes[clue] < no[clue]))
    for (recipe, clue), by_topic in points.items():
        told = [point for each in by_topic.values() for point in each]
        if not any(told):
            continue
        share = sum((sum(each) / len(each) + 1) / 2 for each in by_topic.values()) / len(by_topic)
        yield {"recipe": recipe, "clue": clue, "topics": len(by_topic), "pairs": len(told),
               "parted pairs": sum(point != 0 for point in told), "share": share}  # fmt: skip


def clues(intent, passage):
    of_text, of_query, of_instruction = (
        set(re.findall(r"[^\W_]{3,}", text.lower())) for text in (passage.text, intent.query, intent.instruction)
    )
    generated = passage.role in {"generated_positive", "instruction_negative", "query_negative"}
    return {
        "is longer": len(passage.text),
        "has a title": bool(passage.title),
        "holds code": "```" in passage.text or bool(re.search(r"^( {4}|\t)\S", passage.text, re.MULTILINE)),
        "is written or edited": bool(passage.edited_from) or (generated and not passage.source_id),
        "has more words of the query": len(of_text & of_query),
        "has more words of the instruction": len(of_text & of_instruction),
    }


def edits(run):
    groups = defaultdict(list)
    for topic in run.accepted:
        for passage in topic.passages:
            groups[topic.recipe, passage.role].append(passage)
    for (recipe, role), passages in groups.items():
        edited = sum(passage.edited_from != "" for passage in passages)
        yield {
            "recipe": recipe, "role": role, "passages": len(passages), "edited": edited,
            "edited share": edited / len(passages),
            "mean characters": sum(len(passage.text) for passage in passages) / len(passages),
        }  # fmt: skip


def agreement(run):
    sums, raters = defaultdict(Counter), {}
    for topic, validator, reason, facts in run.votes:
        for judge, choice in () if reason.startswith("canary") else facts["votes"]:
            for passage in facts["shown"] if choice not in {"tie", "unreadable_judge"} else ():
                sign = 1 if choice == passage else -1
                sums[f"{validator} by {judge}"][topic.id, facts["intent"], passage] += sign
    for judge, told in sums.items():
        raters[judge] = {key: 1 if total > 0 else -1 for key, total in told.items() if total}
    raters["labels of the topics"] = {
        (topic.id, label.intent_id, label.passage_id): label.relevance
        for topic in run.topics
        for label in topic.judgments
    }
    for mark in run.marks:
        key = mark["topic_id"], mark["intent_id"], mark["id"]
        raters.setdefault(f"reader {mark['reader']}", {})[key] = 1 if mark["mark"][0] == "+" else -1
    for first, second in combinations(sorted(raters), 2):
        pairs = [(raters[first][key], raters[second][key]) for key in raters[first].keys() & raters[second].keys()]
        if pairs:
            measured = {"pairs": len(pairs), "agreed": agreed(pairs), "kappa": kappa(pairs)}
            yield {"first": first, "second": second, **measured}


def agreed(pairs):
    return round(sum(a == b for a, b in pairs) / len(pairs), 4)


def kappa(pairs):
    yes, own = (sum(label > 0 for label in side) / len(pairs) for side in zip(*pairs, strict=True))
    chance = yes * own + (1 - yes) * (1 - own)
    return None if chance == 1 else (sum(a == b for a, b in pairs) / len(pairs) - chance) / (1 - chance)


def canaries(run):
    answered = Counter(
        (f"{validator} by {facts['votes'][0][0]}", reason)
        for _, validator, reason, facts in run.votes
        if reason.startswith("canary")
    )
    for judge in {judge for judge, _ in answered}:
        right, of = answered[judge, "canary_right"], answered[judge, "canary_right"] + answered[judge, "canary_wrong"]
        yield {"judge": judge, "what": "canaries right", "count": right, "of": of, "share": right / of}


def position(run):
    """Of scenarios, which no canary is among, what each model said: the passage shown first is A."""
    for judge, model in MODELS.items():
        calls = [call for call in run.calls if call["task"] == "judges.scenario" and call["model"] == model]
        said = Counter(json.loads(call["reply_text"])["most_relevant"] for call in calls)
        yield {"judge": f"judge_scenarios by {judge}", "what": "chose the passage shown first", "count": said["A"],
               "of": said.total() - said["none"]}  # fmt: skip
        choices = [
            choice
            for _, validator, reason, facts in run.votes
            if validator == "judge_polarity" and not reason.startswith("canary")
            for name, choice in facts["votes"]
            if name == judge
        ]
        yield {"judge": f"judge_polarity by {judge}", "what": "a swap decided, or both", "count": choices.count("tie"),
               "of": len(choices)}  # fmt: skip


def audits(run):
    return scored_marks(run.marks)


def scored_marks(marks_of_all):
    groups = defaultdict(list, {("all", ""): marks_of_all})
    for name in ("recipe", "corpus", "contrast", "family"):
        for mark in marks_of_all:
            groups[name, mark[name]].append(mark)
    for (group, value), marks in groups.items():
        items = list({(mark["reader"], mark["number"]): mark for mark in marks}.values())
        lost = [mark for mark in marks if mark["edited"] and mark["label"] > 0]
        read = [(mark["label"], 1 if mark["mark"][0] == "+" else -1) for mark in marks]
        shares = {
            "label error": (sum(label != mark for label, mark in read), len(read)),
            "unusable": (sum(mark["mark"].endswith("u") for mark in marks), len(marks)),
            "unnatural": (sum(mark["natural"] == "n" for mark in items), len(items)),
            "given away": (sum(mark["gives"] == "y" for mark in items), len(items)),
            "answers lost": (sum(mark["mark"][0] == "0" for mark in lost), len(lost)),
        }
        told = {name: f"{count}/{of}" if of else "–" for name, (count, of) in shares.items()}
        yield {"group": group, "value": value, "items": len(items), "kappa": kappa(read), **told}


def contamination(run):
    for topic in run.topics:
        for verdict in topic.verdicts:
            if verdict.reason == "contaminated":
                facts = json.loads(verdict.evidence)
                assert re.search(r"\d+", EXAM[int(facts["item"]) - 1])[0] in facts["span"]
                yield {"set": "exam", "item": facts["item"], "field": facts["field"], "share of item": 1.0,
                       "topic id": topic.id, "query": topic.query}  # fmt: skip


def licences(run):
    rights = {"kites": ("CC0-1.0", True), "trades": ("CC-BY-4.0", False), "crafts": ("unknown", False)}
    for name, (licence, redistributable) in rights.items():
        own = [topic for topic in run.topics if topic.corpus == name]
        accepted = sum(topic.status == "accepted" for topic in own)
        yield {"corpus": name, "licence": licence, "redistributable": redistributable, "topics": len(own),
               "accepted": accepted}  # fmt: skip


def repeats(run):
    queries = Counter(topic.query for topic in run.accepted)
    twice = {query: count for query, count in queries.items() if count > 1}
    again = sum(twice.values()) - len(twice)
    yield {
        "kind": "query", "texts": len(run.accepted), "groups": len(twice), "texts in groups": sum(twice.values()),
        "repeated share": again / len(run.accepted), "largest": max(twice.values()),
    }  # fmt: skip
    yield {"kind": "instruction", "texts": len(run.instructed)}
    yield {"kind": "passage", "texts": len({passage.id for topic in run.accepted for passage in topic.passages})}


COUNTED: dict[str, Callable[[ReportedRun], Any]] = {
    counted.__name__: counted
    for counted in (
        funnel, reasons, cost, validators, lengths, published, constraints, dimensions, diversity, labels, shortcuts,
        edits, agreement, canaries, position, audits, repeats, contamination, licences,
    )
}  # fmt: skip
"""Table -> the columns of each of its rows that follow from topics, calls and marks alone."""


def is_told(shown: Shown, counted: Counted) -> bool:
    """Whether a row of the page has these values, texts first; a share stands there with its interval."""
    texts = {name: value for name, value in counted.items() if isinstance(value, str)}
    if any(shown[name].partition(" [")[0] != (value or "–") for name, value in texts.items()):
        return False
    return all(is_value(shown[name], value) for name, value in counted.items() if name not in texts)


@pytest.mark.parametrize("name", COUNTED)
def test_the_rows_of_a_table_are_what_is_counted(name, run):
    shown, counted = run.tables[name], list(COUNTED[name](run))
    assert len(shown) == len(counted) > 0
    assert [row for row in counted if not any(is_told(each, row) for each in shown)] == [], shown


@pytest.mark.parametrize("reader", ["ann", "bob"])
def test_the_scores_in_json_are_those_of_one_reader(reader, run):
    counted = list(scored_marks([mark for mark in run.marks if mark["reader"] == reader]))
    told = {(score["group"], score["value"]): score for score in run.scores[reader]}
    assert len(told) == len(counted)
    for row in counted:
        score = told[row["group"], row["value"]]
        assert score["items"] == row["items"]
        for name in ("label error", "unusable", "unnatural", "given away", "answers lost"):
            share = score[name.replace(" ", "_")]
            assert (f"{share['count']}/{share['of']}" if share["of"] else "–") == row[name]


def test_the_groups_of_near_duplicates_are_of_like_texts(run):
    shown = run.tables["groups"]
    queries = Counter(topic.query for topic in run.accepted)
    told = {row["text"]: (int(row["size"]), int(row["equal words"])) for row in shown if row["kind"] == "query"}
    groups = {query: (count, count - 1) for query, count in queries.items() if count > 1}
    assert told == {query: groups[query] for query in told}
    assert {row["kind"] for row in shown} == {"query", "instruction", "passage"}
    assert any(int(row["equal words"]) < int(row["size"]) - 1 for row in shown)
    assert {row["topic id"] for row in shown} <= {topic.id for topic in run.accepted}
    for sums in run.tables["repeats"]:
        sizes = [int(row["size"]) for row in shown if row["kind"] == sums["kind"]]
        assert (len(sizes), sizes[0]) == (min(15, int(sums["groups"])), int(sums["largest"]))
        assert len(sizes) == 15 or sum(sizes) == int(sums["texts in groups"])


def test_every_table_of_the_page_is_tested_here_and_has_rows(run):
    assert run.tables.keys() == {*COUNTED, "groups"}
    assert [name for name, rows in run.tables.items() if not rows] == []
    assert {topic.status for topic in run.topics} == {"accepted", "rejected", "failed"}
