"""What is written reads back the same, and topics become the queries that their intents ask."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted
from foil.datasets_out.training.training_view import SplitSettings
from foil.engine.errors import UsageError
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, only_documents, only_queries
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of, read_benchmark
from foil.trainer.evaluate.benchmarks.making.made import write_benchmark
from foil.trainer.evaluate.benchmarks.making.topics import benchmark_of, held_out
from foil.trainer.evaluate.comparison.topics import score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.systems.catalog import open_system
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.model.encoder import load_encoder
from tests.support.trainer_world import NO_YEAR, YEAR, topic
from tests.support.training import FULL, TEMPLATE

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
MODES = st.sampled_from(["original", "instructed", "reversed", "changed", "variant"])


def read(folder, kind="made"):
    return read_benchmark(BenchmarkSource(kind=kind, path=folder), "" if kind != "beir" else "test")


@st.composite
def made(draw):
    documents = {f"d{n}": (draw(st.text(st.characters(exclude_categories=["Cs"]))), draw(TEXTS)) for n in range(3)}
    queries = tuple(
        EvaluationQuery(f"q_{n}", draw(TEXTS), draw(st.just("") | TEXTS), "q", draw(MODES), "length", "web")
        for n in range(draw(st.integers(1, 3)))
    )
    qrels = {query.id: draw(st.dictionaries(st.sampled_from(["d0", "d1"]), st.integers(0, 3))) for query in queries}
    qrels["q_0"] = {"d2": 1}
    lists = draw(st.none() | st.just({query.id: ("d0", "d2") for query in queries}))
    return Benchmark("ours", "", documents, queries, qrels, lists, ("nDCG@10",))


@given(made())
def test_a_benchmark_reads_back_with_the_digest_that_its_page_names(tmp_path_factory, benchmark):
    folder = tmp_path_factory.mktemp("made") / "ours"
    write_benchmark(folder, benchmark, {"made_from": "here"})
    found = read(folder)
    assert found.digest == found.revision == json.loads((folder / "benchmark.json").read_text())["digest"]
    assert [query.id for query in found.queries] == [query.id for query in benchmark.queries]
    assert [(q.mode, q.core, q.dimension, q.domain, q.instruction) for q in found.queries] == [
        (q.mode, q.core, q.dimension, q.domain, q.instruction.strip()) for q in benchmark.queries
    ]
    assert found.qrels == {query: grades for query, grades in benchmark.qrels.items() if grades}
    assert found.candidates == benchmark.candidates


def test_a_changed_file_is_told(tmp_path):
    write_benchmark(tmp_path / "ours", benchmark_of("ours", [topic(1)]), {})
    qrels = tmp_path / "ours" / "qrels" / "test.tsv"
    qrels.write_text(qrels.read_text().replace("\t0\n", "\t1\n", 1))
    with pytest.raises(
        UsageError, match=r"ours is not what benchmark.json vouches for: .* make it again, or read it as"
    ):
        read(tmp_path / "ours")


@pytest.mark.parametrize(
    "facts", ["[]", "{}", '{"digest": "x", "measures": [1]}', '{"digest": 1, "measures": []}', "{"]
)
def test_a_page_without_digest_and_measures_is_told(tmp_path, facts):
    write_benchmark(tmp_path / "ours", benchmark_of("ours", [topic(1)]), {})
    (tmp_path / "ours" / "benchmark.json").write_text(facts)
    with pytest.raises(UsageError, match=r"benchmark\.json"):
        read(tmp_path / "ours")


def test_a_mode_that_is_none_is_told(tmp_path):
    write_benchmark(tmp_path / "ours", benchmark_of("ours", [topic(1)]), {})
    queries = tmp_path / "ours" / "queries.jsonl"
    queries.write_text(queries.read_text().replace('"reversed"', '"backwards"'))
    with pytest.raises(UsageError, match=r"queries.jsonl:3: expected a mode: original, .*found 'backwards'"):
        read(tmp_path / "ours")


def test_an_id_with_a_blank_is_told(tmp_path):
    benchmark = replace(benchmark_of("ours", [topic(1)]), documents={"a b": ("", "text")})
    with pytest.raises(UsageError, match=r"'a b' cannot stand in qrels/test\.tsv"):
        write_benchmark(tmp_path / "ours", benchmark, {})


def test_a_topic_becomes_a_core_with_a_query_an_intent():
    benchmark = benchmark_of("ours", [topic(7)])
    text = "who built the library of oslo number 7"
    assert [(q.id, q.query, q.instruction, q.core, q.mode, q.domain) for q in benchmark.queries] == [
        ("topic-007-0_0", text, "", "topic-007-0", "original", "world"),
        ("topic-007-0_1", text, YEAR, "topic-007-0", "instructed", "world"),
        ("topic-007-0_2", text, NO_YEAR, "topic-007-0", "reversed", "world"),
    ]
    dated, undated, other = benchmark.documents
    assert benchmark.qrels["topic-007-0_1"] == {dated: 1, undated: 0, other: 0}
    assert benchmark.measures == ("both views", "p-MRR", "WISE(K=20)", "SICR", "nDCG@10")
    perfect = {"topic-007-0_0": {dated: 2.0, undated: 1.0}, "topic-007-0_1": {dated: 1.0, undated: 0.0, other: -1.0},
               "topic-007-0_2": {undated: 2.0, other: 1.5, dated: 1.0}}  # fmt: skip
    values = measure_named("both views").values(benchmark.queries, benchmark.qrels, perfect)
    assert values == {"topic-007-0": 1.0}


def test_another_query_is_a_core_of_its_own_and_an_intent_without_a_relevant_passage_is_left_out():
    plain = topic(7)
    first, second, third = plain.intents
    turned = replace(plain, intents=(first, replace(second, query="who paid for it", role="poisoned_query"), third),
                     judgments=tuple(j for j in plain.judgments if j.intent_id != third.id))  # fmt: skip
    benchmark = benchmark_of("ours", [turned])
    assert [(q.id, q.core, q.mode) for q in benchmark.queries] == [
        ("topic-007-0_0", "topic-007-0", "original"),
        ("topic-007-1_1", "topic-007-1", "instructed"),
    ]


def test_held_out_topics_are_those_of_the_training_view(view):
    topics = [topic(number) for number in range(60)]
    chosen = list(held_out(topics, view.split))
    assert [each.id for each in chosen] == [group.topic_id for group in view.read_all("heldout")]
    assert 5 < len(chosen) < 25
    told = replace(topics[0], attributes={"split": "heldout"})
    assert list(held_out([told], SplitSettings(heldout_share=0.0))) == [told]


def test_other_readers_take_the_folder_too(tmp_path):
    benchmark = benchmark_of("ours", [topic(7), topic(8)])
    write_benchmark(tmp_path / "ours", benchmark, {})
    [plain] = benchmarks_of(BenchmarkSource(kind="beir", path=tmp_path / "ours"))
    assert (plain.documents, plain.qrels) == (benchmark.documents, benchmark.qrels)
    assert [query.query for query in plain.queries] == [query.query for query in benchmark.queries]
    variants = read(tmp_path / "ours", "instructir")
    assert [(q.id, q.core, q.instruction) for q in variants.queries] == [
        (q.id, q.core, q.instruction) for q in benchmark.queries
    ]


def test_a_part_keeps_what_belongs_to_it():
    benchmark = replace(benchmark_of("ours", [topic(7)]), candidates={"topic-007-0_1": ("x",), "other": ()})
    part = only_queries(benchmark, {"topic-007-0_1"})
    assert [query.id for query in part.queries] == [*part.qrels] == [*part.candidates] == ["topic-007-0_1"]
    first = next(iter(part.documents))
    small = only_documents(replace(part, candidates={"topic-007-0_1": tuple(part.documents)}), {first})
    assert (list(small.documents), small.candidates) == ([first], {"topic-007-0_1": (first,)})
    assert small.qrels == part.qrels


def test_a_run_scores_on_its_benchmark_as_in_the_evaluation_of_its_job(world, view, bert, tmp_path):
    topics = read_accepted(load_snapshot(world, None))
    benchmark = benchmark_of("ours", held_out(topics, view.split))
    settings = SystemSettings(template=TEMPLATE.name, encode=FULL)
    run = open_system(str(bert), settings, tmp_path).rank(benchmark, 1000)
    found = measure_named("nDCG@10").values(benchmark.queries, benchmark.qrels, run)
    system = EncoderSystem("", load_encoder(bert, TEMPLATE, FULL))
    scores = score_topics(system, view.read_all("heldout")).values[""]
    by_intent = {f"{query.core[:9]}/{query.id.rpartition('_')[2]}": found[query.id] for query in benchmark.queries}
    assert by_intent == pytest.approx(scores["plain_ndcg"] | scores["instructed_ndcg"], abs=1e-6)
    both = measure_named("both views").values(benchmark.queries, benchmark.qrels, run)
    assert np.mean(list(both.values())) == pytest.approx(np.mean(list(scores["both_views"].values())), abs=1e-6)
    assert len(set(by_intent.values())) > 3
