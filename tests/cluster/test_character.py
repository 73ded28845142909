"""Every recipe and judge against an endpoint in character that is sometimes wrong: the funnel names each fault."""

import json
from collections import Counter

import pytest

from cluster.job import load_job
from cluster.run_job import run_job
from tests.support.models.character import BROKEN, HARMLESS, PASSAGES, SPOILT, TASKS, Character
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
  writer: &model {{kind: hosted, model: in-character, url: "{url}"}}
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
GRID = "lengths: [short, medium, long]"
JOBS = {
    "infir": ("{kind: infir}", "{kind: judge_scenarios}"),
    "promptriever": (f"{{kind: promptriever, {GRID}}}", "{kind: judge_relevance}"),
    "dual_view": (f"{{kind: dual_view, base: {{kind: promptriever, {GRID}}}}}", "{kind: judge_polarity}"),
    "infosearch": ("{kind: infosearch, query_negative: written}", "{kind: judge_relevance}"),
}
"""Recipe -> itself and its judge. A very long instruction has two paragraphs, and here one line is due."""


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
    known = {call.request_id: SAME.get(call.task, call.task) for topic in rows for call in topic.calls}
    assert known == model.tasks


SAME = {"infir.instruction": "instruction", "promptriever.instruction": "instruction"}
"""Tasks that ask for the same in the same words."""


JUDGED = {
    "other_passage_named", "no_passage_named", "order_decides", "negative_is_relevant", "negative_off_topic",
    "positive_off_topic", "positive_not_relevant", "positive_lost", "label_disputed", "no_negative_left",
}  # fmt: skip
"""What becomes of labels that a judge contradicts."""
CANARIES = {"canary_right", "canary_wrong"}
REASONS = {
    "refuses_by_code": {"too_poor"},
    "refuses_at_length": {"writer_refused"},
    "quotes": {"quotes_passage"},
    "names_title": {"names_source"},
    "retypes": {"same_passage", "near_copy", "no_negative"},
    "speaks_to_judge": {"injection_suspect"},
    "names_a_person": {"email"},
    "cut": {"cut_reply"},
    "withheld": {"withheld_reply"},
}
"""Fault -> the codes by which a funnel names it, where that does not depend on the task."""
REPEATED = {
    "infir.poisoned_instruction": {"same_instruction"},
    "infir.poisoned_query": {"same_query"},
    "infir.passage": {"same_passage", "near_copy"},
    "promptriever.passages": {"no_negative"},
    "dual_view.instruction": {"same_instruction"},
}


def reasons(fault, job):
    """The codes of which at least one must stand in the topic that met the fault."""
    if fault.task.startswith("judges."):
        judge_codes = {"unreadable_judge", "positive_lost", "no_negative_left"} if fault.kind in BROKEN else JUDGED
        return judge_codes | CANARIES
    fault_codes = REASONS.get(fault.kind, {"unreadable_reply"})
    if fault.kind == "goes_on":
        fault_codes = {"unreadable_reply"} if fault.task.startswith("infosearch.") else {"newline_cut"}
    elif fault.kind == "repeats":
        fault_codes = REPEATED[fault.task]
    elif fault.kind == "refuses_inside":
        fault_codes = {"refusal"} | (JUDGED | {"wrong_length"} if fault.task in PASSAGES else set())
    elif fault.kind == "in_german":
        fault_codes = {"other_language"}
    if fault.task == "infosearch.rewrite" and fault.kind in SPOILT:
        fault_codes = fault_codes | {"condition_not_met"}
    follows = job == "dual_view" and fault.task == "promptriever.passages" and fault.kind in SPOILT
    return fault_codes | ({"too_poor"} if follows else set())


def met(topic, model):
    """The faults that a topic met, but for those that a reader bears and those that a correction turn mended."""
    faults = [model.ledger[call.request_id] for call in topic.calls if call.request_id in model.ledger]
    return [fault for fault in faults if not mended(fault)]


def mended(fault):
    unreadable = fault.kind in BROKEN or (fault.kind == "goes_on" and fault.task.startswith("infosearch."))
    return fault.kind in HARMLESS or (unreadable and fault.turn == 0)


def codes(topic):
    dropped = (why.partition(":")[0] for why in json.loads(topic.attributes.get("dropped", "[]")))
    return {topic.reason, *(verdict.reason for verdict in topic.verdicts), *dropped} - {""}


def asked_of(topic):
    return [text for intent in topic.intents for text in (intent.instruction, intent.query)]


def texts(topic):
    return [*asked_of(topic), *(text for passage in topic.passages for text in (passage.title, passage.text))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every job once against a character that is sometimes wrong: its summary, its topics, its model."""
    folder, results = tmp_path_factory.mktemp("wrong"), {}
    for name in JOBS:
        model = Character(said=0.025, broken=0.014)
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
    assert summary.counts.seeds["failed"] > 0


@pytest.mark.parametrize("name", JOBS)
def test_the_funnel_names_each_fault_and_nothing_else(name, runs):
    """A seed ends for the fault that it met; without one it is accepted; what does not end it is marked."""
    _, rows, model = runs[name]
    for topic in rows:
        faults = met(topic, model)
        if topic.status == "accepted":
            assert all(codes(topic) & reasons(fault, name) for fault in faults), (topic.seed_id, faults, codes(topic))
        else:
            due = set().union(*(reasons(fault, name) for fault in faults))
            assert topic.reason in due, (topic.seed_id, topic.reason, topic.detail, faults)


@pytest.mark.parametrize("name", JOBS)
def test_no_accepted_topic_holds_what_went_wrong(name, runs):
    """Words to the judge are marked, not taken out: the judge is shown them as data, and this one does not obey."""
    _, rows, model = runs[name]
    wrong = [fault.text for fault in model.ledger.values() if fault.text and fault.kind != "speaks_to_judge"]
    accepted_texts = [text for topic in rows if topic.status == "accepted" for text in texts(topic)]
    assert [text for text in wrong if any(text in accepted_text for accepted_text in accepted_texts)] == []
    assert not any(text.count("\n") for topic in rows if topic.status == "accepted" for text in asked_of(topic))


def test_every_kind_of_fault_befell_some_seed_and_every_template_was_answered(runs):
    named_kinds, borne, tasks, table = set(), set(), set(), Counter()
    for name, (_, rows, model) in runs.items():
        tasks |= set(model.tasks.values())
        for topic in rows:
            faults = met(topic, model)
            kind_codes = [
                (fault.kind, code) for fault in faults for code in sorted(codes(topic) & reasons(fault, name))
            ]
            named_kinds |= {kind for kind, _ in kind_codes}
            table.update(kind_codes if len(faults) == 1 else ())
            if topic.status == "accepted":
                call_faults = (model.ledger.get(call.request_id) for call in topic.calls)
                borne |= {fault.kind for fault in call_faults if fault and mended(fault)}
    print(*(f"{kind:18} {code:22} {count}" for (kind, code), count in sorted(table.items())), sep="\n")
    assert tasks == {*TASKS} - {"custom.kite"}
    assert named_kinds == {*SPOILT, *BROKEN}
    assert borne >= {*HARMLESS, *BROKEN}, "what is wrapped is read, and what is broken once is mended"
