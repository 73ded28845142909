"""Lineage: what a record's tree holds, by which names it is found, and what is said where it is not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.lineage.lineage import LineageNode, render, trace_lineage
from foil.engine.errors import CorruptDataError, UsageError
from tests.support.sample_run import SHORT, SORT, accepted, make, rejected


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("run"))


def test_the_tree_of_a_topic_tells_its_whole_way(out):
    topic = accepted("list")
    original, dated = topic.intents
    entry = CommitLog(out).entry(0)
    files = [f"   ├─ {fact.path} sha256 {fact.sha256} ({fact.rows} rows)" for fact in entry.files.values()]
    expected = f"""\
topic {topic.id} (accepted)
├─ seed docs/list: "how does list sort?" (PSF-2.0, redistributable)
├─ recipe verifiable
│  └─ call call-list: verifiable.topic by rule_writer with topic@abc123, 120 + 40 tokens, $0.002000, stop
│     └─ reply "a reply"
├─ intents
│  ├─ original {original.id}: "how does list sort?"
│  │  ├─ +1 passage {SORT.id} (seed_positive) says seed
│  │  ├─ +1 passage {SHORT.id} (instruction_negative) says construction
│  │  └─ -1 passage {topic.passages[2].id} (query_negative) says mined
│  └─ instructed {dated.id}: "Give a year." + "how does list sort?"
│     ├─ +1 passage {SORT.id} (seed_positive) says rule, votes +1 +1 -1
│     └─ -1 passage {SHORT.id} (instruction_negative) says rule
├─ passages
│  ├─ seed_positive {SORT.id} from b/sorted: "sorted" "{SORT.text}"
│  ├─ instruction_negative {SHORT.id}: "{SHORT.text}"
│  │  └─ edited from {SORT.id} (seed_positive: "{SORT.text}")
│  └─ query_negative {topic.passages[2].id}: "A figure holds axes."
├─ verdicts
│  ├─ shape: pass of topic
│  └─ leak: pass of {dated.id}, score 0.25
└─ partition 0, committed by commits/00000000.json"""
    run = f"   └─ run {'f' * 64}"
    assert render(trace_lineage(out, topic.id)).splitlines() == [*expected.splitlines(), *files, run]


def test_a_rejected_topic_says_why_and_that_it_has_no_parts(out):
    lines = render(trace_lineage(out, rejected("tuple", "leak").id)).splitlines()
    assert lines[0].endswith('(rejected: leak - "tuple does not do")')
    assert '│  └─ leak: reject of topic, leak: "the instruction says 2001"' in lines
    assert "├─ passages (none)" in lines


@pytest.mark.parametrize("kind", ["seed", "intent", "call"])
def test_a_part_leads_to_its_topic(out, kind):
    topic = accepted("list")
    name = {"seed": "list", "intent": topic.intents[1].id, "call": "call-list"}[kind]
    tree = trace_lineage(out, name)
    assert (tree.kind, tree.id) == (kind, name)
    assert [child.id for child in tree.children] == [topic.id]


def test_a_passage_leads_to_every_topic_that_has_it(out):
    tree = trace_lineage(out, SORT.id)
    assert {child.id for child in tree.children} == {accepted("list").id, accepted("dict").id}
    assert tree.line == f"passage {SORT.id}, in 2 topics"


def test_a_passage_of_very_many_topics_shows_the_first_few(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, [accepted(f"name-{number}") for number in range(8)], {"index": "a1"})
    tree = trace_lineage(tmp_path, SORT.id)
    assert (tree.facts["topics"], len(tree.children)) == (8, 5)
    assert tree.line.endswith("in 8 topics (the first 5 are shown)")
    assert 'commits/00000000.json {"index":"a1"}' in render(tree)


def test_a_prefix_is_enough_if_it_is_the_only_one(out):
    topic = accepted("list")
    assert trace_lineage(out, topic.id[:10]).id == topic.id
    assert trace_lineage(out, "call-l").id == "call-list"


def test_an_exact_id_wins_over_longer_ids_that_begin_with_it(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, [accepted("list"), accepted("listing")], {})
    assert [child.id for child in trace_lineage(tmp_path, "list").children] == [accepted("list").id]


def test_an_ambiguous_prefix_lists_what_it_may_mean(out):
    with pytest.raises(UsageError, match=r"'call-' begins 2 ids \(call call-dict, call call-list\); give more"):
        trace_lineage(out, "call-")


@pytest.mark.parametrize("name", ["", "cal", "nothing-like-this", "' OR 1=1"])
def test_an_unknown_id_is_answered_with_the_way_to_find_ids(out, name):
    with pytest.raises(UsageError, match=r"has no topic, seed, .*`foil sql .* 'FROM topics LIMIT 5'` shows"):
        trace_lineage(out, name)


def test_the_json_tree_holds_what_the_text_shortens(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, [rejected("long", "shape" * 100), accepted("list")], {})
    tree = json.loads(json.dumps(trace_lineage(tmp_path, "list").to_json()))
    parts = {part["kind"]: part for part in tree["children"][0]["children"]}
    assert parts["seed"] == {
        "kind": "seed", "id": "list", "corpus": "docs", "query": "how does list sort?", "licence": "PSF-2.0",
        "redistributable": True,
    }  # fmt: skip
    assert parts["recipe"]["children"][0]["reply_text"] == "a reply"
    assert [j["votes"] for j in parts["intents"]["children"][1]["children"]] == [[1, 1, -1], []]
    assert parts["passages"]["children"][1]["children"] == [{"kind": "parent", "id": SORT.id}]
    assert parts["entry"]["children"][-1] == {"kind": "run", "fingerprint": "f"}


def test_long_text_is_cut_and_no_text_can_draw_branches_or_steer_the_terminal(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f", {})
    log.commit(0, [replace(rejected("x", "first\n└─ forged"), detail="\x1b[2J\u202e" + "long " * 100)], {})
    lines = render(trace_lineage(tmp_path, rejected("x", "").id)).splitlines()
    assert lines[0].count("└─") == 1
    assert lines[1].startswith("├─ seed")
    assert lines[0].isprintable()
    assert len(lines[0]) < 260
    assert lines[0].endswith('long ...")')


def test_branches_are_drawn_with_their_ancestors_lines():
    leaf = LineageNode("x", "", "leaf")
    tree = LineageNode(
        "x", "", "root", {}, (LineageNode("x", "", "a", {}, (leaf, leaf)), LineageNode("x", "", "b", {}, (leaf,)))
    )
    assert render(tree) == "root\n├─ a\n│  ├─ leaf\n│  └─ leaf\n└─ b\n   └─ leaf"


def test_a_damaged_file_is_named_as_such(tmp_path):
    make(tmp_path)
    (tmp_path / "data/passages/part-00000001.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(CorruptDataError, match="`foil verify` names the damaged files"):
        trace_lineage(tmp_path, accepted("list").id)
