"""Every recipe and judge against an endpoint in character that is sometimes wrong: the funnel names each fault."""

import json
from collections import Counter

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from tests.support.models.character import BROKEN, HARMLESS, JUDGES, PASSAGES, SPOILT, TASKS, TEXTS, Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import topics
from tests.support.topics.trades import corpus

pytestmark = pytest.mark.slow

JOB = """\
seeds:
  kind: table
  corpus: trades
  path: {path}
  columns: {{id: id, query: query, positives: positives, negatives: negatives}}
recipe: {recipe}
models:
  writer: &model {{kind: hosted, model: in-character, url: "{url}", structured: json_schema}}
  judge: *model
validators:
  - kind: shape
  - kind: newline_truncation
  - kind: leak
  - kind: refusal
  - {{kind: language, expected: [en, zh], reject: true}}
  - {{kind: pii, reject: true}}
  - kind: injection
  - kind: constraint_check
  - kind: dimension_check
  - {judge}
replies: {{corrections: 1}}
out: {out}
runtime: {{window: 40}}
"""
JOBS = {
    "infir": ("{kind: infir}", "{kind: judge_scenarios}"),
    "promptriever": ("{kind: promptriever}", "{kind: judge_relevance}"),
    "dual_view": ("{kind: dual_view, base: {kind: promptriever}}", "{kind: judge_polarity}"),
    "infosearch": ("{kind: infosearch, query_negative: written}", "{kind: judge_relevance}"),
    "contrast": ("{kind: contrast}", "{kind: judge_demands}"),
}
"""Recipe -> itself and its judge."""


def made(folder, name, model):
    """The summary and the topics of a job over the corpus, against a server that answers as this model."""
    recipe, judge = JOBS[name]
    out, job = folder / name, folder / f"{name}.yaml"
    with serving(answer=model) as server:
        path = corpus(folder / "seeds.jsonl")
        job.write_text(JOB.format(path=path, recipe=recipe, url=server.url, judge=judge, out=out))
        return run_job(load_job(job)), topics(out)


@pytest.mark.parametrize("name", JOBS)
def test_without_a_fault_the_character_does_what_every_template_asks(name, tmp_path):
    model = Character()
    summary, rows = made(tmp_path, name, model)
    assert [(topic.seed_id, topic.reason, topic.detail) for topic in rows if topic.status != "accepted"] == []
    assert summary.counts.seeds == {"accepted": 40}
    assert set().union(*map(codes, rows)) <= CANARIES | {"surplus_negative"}
    known = {call.request_id: call.task for topic in rows for call in topic.calls}
    assert known == model.tasks


JUDGED = {
    "other_passage_named", "no_passage_named", "order_decides", "negative_is_relevant", "negative_off_topic",
    "positive_off_topic", "positive_not_relevant", "positive_lost", "label_disputed", "no_negative_left",
}  # fmt: skip
"""What becomes of labels that a judge contradicts."""
CANARIES = {"canary_right", "canary_wrong"}
TOLD = {
    "refuses": {"refusal"},
    "ignores": {"ignores_demand", "same_instruction", "query_changed"},
    "echoes": {"echo", "property_not_named"},
    "repeats": {"same_passage", "same_query"},
    "retypes": {"near_copy"},
    "speaks_of_task": {"speaks_of_task"},
    "asks_nothing": {"no_questions"},
    "agrees": {"not_reversed"},
    "cut": {"cut_reply", "unreadable_reply"},
    "withheld": {"withheld_reply", "unreadable_reply"},
    "refuses_in_prose": {"unreadable_reply"},
    "no_json": {"unreadable_reply"},
    "wrong_types": {"unreadable_reply"},
    "more_fields": {"unreadable_reply"},
    "no_fields": {"unreadable_reply", "no_questions"},  # lists of questions may be left out, so these are empty ones
    "empty": {"unreadable_reply", "empty_text"},
}  # fmt: skip
"""Fault -> what its call says was wrong, and what the funnel says where no turn mended it."""
SALVAGED = {"goes_on", "doubles", "fenced", "labelled", "quoted"}
"""Faults that are mended without a further turn: their calls say so, unless a check found something besides."""
BORNE = {"other_length": "other_length", "ignores": "ignores_demand"}
"""Fault -> the mark of the topic that bears it, where nothing was said to its writer."""
FOUND = {
    "adds_a_note": {"newline_cut"},
    "other_length": {"same_instruction"},
    "in_german": {"other_language", "condition_not_met"},
    "speaks_to_judge": {"injection_suspect", "condition_not_met"},
    "names_a_person": {"email", "condition_not_met"},
}
"""Fault that no check of a reply looks for -> what a validator makes of it."""
LOST = {"no_condition", "no_negative", "no_instruction_negative"}
"""How the funnel names a topic that lost the passages it needs; `dropped` and the calls name why."""


def called(topic, model):
    """The calls of a topic that met a fault, each with the fault."""
    return [(call, model.ledger[call.request_id]) for call in topic.calls if call.request_id in model.ledger]


def due(fault):
    """The codes by which a funnel may name a fault."""
    if fault.task in JUDGES:
        return JUDGED | CANARIES | {"unreadable_judge"}
    more = {"condition_not_met"} | JUDGED if fault.task in PASSAGES or fault.kind == "ignores" else set()
    return TOLD.get(fault.kind, set()) | FOUND.get(fault.kind, set()) | more | LOST | {"wrong_length"}


def codes(topic):
    dropped = (why.split(": ")[1] for why in json.loads(topic.attributes.get("dropped", "[]")))
    marks = topic.attributes.get("marks", "").split(", ")
    return {topic.reason, *(verdict.reason for verdict in topic.verdicts), *dropped, *marks} - {""}


def asked_of(topic):
    return [text for intent in topic.intents for text in (intent.instruction, intent.query)]


def texts(topic):
    return [*asked_of(topic), *(text for passage in topic.passages for text in (passage.title, passage.text))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every job once against a character that is sometimes wrong: its summary, its topics, its model."""
    folder, results = tmp_path_factory.mktemp("wrong"), {}
    for name in JOBS:
        model = Character(said=0.03, broken=0.013)
        results[name] = (*made(folder, name, model), model)
    return results


@pytest.mark.parametrize("name", JOBS)
def test_every_seed_is_accepted_rejected_or_failed(name, runs):
    summary, rows, _ = runs[name]
    assert summary.complete
    assert summary.planned == len(rows) == summary.counts.seeds.total() == 40
    assert summary.counts.seeds == Counter(topic.status for topic in rows)
    assert summary.counts.reasons == Counter(topic.reason for topic in rows if topic.status != "accepted")
    assert summary.counts.seeds["accepted"] >= 10
    assert summary.counts.seeds["rejected"] > 0


@pytest.mark.parametrize("name", JOBS)
def test_each_call_says_what_was_wrong_with_its_reply_or_what_was_mended(name, runs):
    _, rows, model = runs[name]
    for topic in rows:
        for call, fault in called(topic, model):
            code = call.fault.partition(":")[0]
            said = (topic.seed_id, fault, call.fault, call.salvaged, call.reply_text)
            if fault.kind in BORNE and not code:
                assert BORNE[fault.kind] in codes(topic) or topic.status != "accepted", said
            elif fault.kind in TOLD and not fault.task.startswith("judges."):
                assert code in TOLD[fault.kind], said
            elif fault.kind in SALVAGED and fault.task in TEXTS:
                assert call.salvaged == "text" or code in {"condition_not_met", "near_copy", "wrong_length"}, said
            elif fault.kind == "adds_a_note":
                assert not code, said
                assert FOUND[fault.kind] <= codes(topic) or topic.status != "accepted", said


@pytest.mark.parametrize("name", JOBS)
def test_a_seed_that_ends_ends_for_a_fault_that_it_met(name, runs):
    _, rows, model = runs[name]
    for topic in rows:
        faults = [fault for _, fault in called(topic, model)]
        if topic.status != "accepted":
            assert topic.reason in set().union(*map(due, faults)), (topic.seed_id, topic.reason, topic.detail, faults)


@pytest.mark.parametrize("name", JOBS)
def test_most_faults_are_mended_and_their_topics_stand(name, runs):
    _, rows, model = runs[name]
    told = [topic for topic in rows for call, fault in called(topic, model) if call.fault and fault.turn == 0]
    kept = [topic for topic in told if topic.status == "accepted"]
    assert len(kept) >= 5
    salvaged = any(call.salvaged for topic in rows for call in topic.calls if topic.status == "accepted")
    assert salvaged or name == "infosearch"


@pytest.mark.parametrize("name", JOBS)
def test_no_accepted_topic_holds_what_went_wrong(name, runs):
    """Words to the judge are marked, not taken out: the judge is shown them as data, and this one does not obey."""
    _, rows, model = runs[name]
    wrong = [fault.text for fault in model.ledger.values() if fault.text and fault.kind != "speaks_to_judge"]
    accepted_texts = [text for topic in rows if topic.status == "accepted" for text in texts(topic)]
    assert [text for text in wrong if any(text in accepted_text for accepted_text in accepted_texts)] == []
    assert not any(text.count("\n") for topic in rows if topic.status == "accepted" for text in asked_of(topic))


def test_every_kind_of_fault_befell_some_seed_and_every_template_was_answered(runs):
    kinds, tasks, table = set(), set(), Counter()
    for _, rows, model in runs.values():
        tasks |= set(model.tasks.values())
        for topic in rows:
            for call, fault in called(topic, model):
                kinds.add(fault.kind)
                table[fault.kind, call.fault.partition(":")[0] or (call.salvaged and "salvaged"), topic.status] += 1
    print(*(f"{' '.join(key)} {count}" for key, count in sorted(table.items())), sep="\n")
    assert sum(summary.counts.seeds["failed"] for summary, _, _ in runs.values()) > 0
    assert tasks == {*TASKS} - {"custom.kite", "writing.query"}  # these have tests of their own
    assert kinds == {*SPOILT, *BROKEN, *HARMLESS}
