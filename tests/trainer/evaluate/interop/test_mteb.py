"""A trained model in mteb's own evaluator, and mteb's tasks as benchmarks: both sides say the same."""

import doctest
import sys
from dataclasses import replace

import numpy as np
import pytest

from foil.engine.errors import UsageError
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, only_queries
from foil.trainer.evaluate.benchmarks.catalog import KINDS, benchmarks_of, parts_of, read_benchmark
from foil.trainer.evaluate.benchmarks.making.made import write_benchmark
from foil.trainer.evaluate.benchmarks.making.topics import benchmark_of
from foil.trainer.evaluate.benchmarks.readers import mteb_task
from foil.trainer.evaluate.comparison.results import results
from foil.trainer.evaluate.comparison.scores import score
from foil.trainer.evaluate.interop.mteb_folder import task_of
from foil.trainer.evaluate.interop.mteb_model import load_for_mteb
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.systems.catalog import open_system
from foil.trainer.evaluate.systems.system import SystemSettings, ranking_of
from foil.trainer.model.card import shown_name
from foil.trainer.train.run.fit import train
from tests.support.trainer_world import topic
from tests.support.training import settings_for

NEEDED = "mteb is not installed; pip install 'foil-ir[interop]'"
CHANGED = SystemSettings(template="query_instruction", encode={"max_tokens": 5, "precision": "float32"})


@pytest.fixture
def tasks(monkeypatch):
    """Our tasks, where mteb looks tasks up."""
    pytest.importorskip("mteb", reason=NEEDED)
    from tests.trainer.evaluate.interop import mteb_tasks

    for task in (mteb_tasks.TinyRetrieval, mteb_tasks.TinyInstructionReranking, mteb_tasks.TinyAggregate):
        monkeypatch.setitem(sys.modules["mteb.get_tasks"]._TASKS_REGISTRY, task.metadata.name, task)
    return mteb_tasks


@pytest.fixture(scope="module")
def model(bert, view, tmp_path_factory):
    """A trained model whose template puts the instruction first, unlike mteb."""
    out = tmp_path_factory.mktemp("trained")
    return train(settings_for(bert, steps=2, template="instruction_query"), view, out).model


def benchmark_named(name):
    [benchmark] = benchmarks_of(BenchmarkSource(kind="mteb", path=name))
    return benchmark


def ours(benchmark, model, folder, measure):
    run = ranking_of(open_system(str(model), SystemSettings(), folder), benchmark, 1000)
    return measure_named(measure).values(benchmark.queries, benchmark.qrels, run)


def evaluated(task, model, **how):
    import mteb

    [result] = mteb.evaluate(model, tasks=[task], cache=None, show_progress_bar=False, **how).task_results
    return result.scores["test"][0]


def test_the_examples_hold():
    assert doctest.testmod(mteb_task).failed == 0


def test_a_task_is_read_as_its_data_says(tasks):
    benchmark = benchmark_named("TinyInstructionReranking")
    queries = tuple(
        EvaluationQuery(name, text, tasks.INSTRUCTIONS[name], name.rpartition("-")[0],
                        "original" if name.endswith("og") else "changed")
        for name, text in tasks.VARIANTS.items()
    )  # fmt: skip
    candidates = {name: tuple(found) for name, found in tasks.CANDIDATES.items()}
    expected = Benchmark("", "", tasks.CORPUS, queries, tasks.VARIANT_QRELS, candidates)
    assert (benchmark.digest, benchmark.name) == (
        expected.digest,
        "TinyInstructionReranking/default/test",
    )
    assert benchmark.measures == ("p-MRR", "AP@1000")
    assert benchmark.revision == f"mteb {sys.modules['mteb'].__version__}, ours/tiny r1"
    assert benchmark_named("TinyRetrieval").measures == ("nDCG@10",)


@pytest.mark.parametrize("task", ["TinyRetrieval", "TinyInstructionReranking"])
def test_mteb_gives_the_scores_that_we_give(tasks, model, tmp_path, task):
    scores = evaluated(getattr(tasks, task)(), load_for_mteb(model))
    values = ours(benchmark_named(task), model, tmp_path, "nDCG@10")
    theirs = {query: found["ndcg_cut_10"] for query, found in tasks.SCORES[task].items()}
    assert values == pytest.approx(theirs, abs=1e-6)
    assert len(set(theirs.values())) > 3
    assert scores["ndcg_at_10"] == pytest.approx(np.mean(list(values.values())), abs=1e-5)


def test_mteb_gives_the_p_mrr_that_we_give_by_the_template_of_the_model(tasks, model, tmp_path):
    task = tasks.TinyInstructionReranking
    changes = list(ours(benchmark_named("TinyInstructionReranking"), model, tmp_path, "p-MRR").values())
    assert evaluated(task(), load_for_mteb(model))["p-MRR"] == pytest.approx(np.mean(changes), abs=1e-6)
    assert np.mean(changes) != 0
    other = SystemSettings(template="query_instruction")
    assert evaluated(task(), load_for_mteb(model, other))["p-MRR"] != pytest.approx(np.mean(changes), abs=1e-6)


def test_an_aggregate_is_the_mean_of_its_tasks(tasks, model, tmp_path):
    one, other = benchmarks_of(BenchmarkSource(kind="mteb", path="TinyAggregate"))
    assert (one.name, other.name) == (
        "TinyAggregate/TinyRetrieval/default/test",
        "TinyAggregate/TinyOther/default/test",
    )
    assert len(other.queries) == len(one.queries) - 2
    system = open_system(str(model), SystemSettings(), tmp_path)
    scores = list(score([one, other], [system], (), 1000))
    found = next(results("t", scores, system.name, KINDS["mteb"].average, 100))
    means = [evaluated(task(), load_for_mteb(model))["ndcg_at_10"] for task in (tasks.TinyRetrieval, tasks.TinyOther)]
    assert found.value == pytest.approx(100 * np.mean(means), abs=1e-3)


def test_the_meta_names_weights_and_changed_settings(tasks, model, tmp_path):
    plain, changed = load_for_mteb(model).mteb_model_meta, load_for_mteb(model, CHANGED).mteb_model_meta
    weights = open_system(str(model), SystemSettings(), tmp_path).facts()["weights"]
    assert (plain.name, plain.revision) == (shown_name(str(model)), weights)
    assert plain.experiment_kwargs is None
    assert changed.experiment_kwargs == {
        "template": "query_instruction",
        "encode": {"max_tokens": 5, "precision": "float32"},
    }
    (model / "README.md").write_text("# Mine\n")
    assert load_for_mteb(model).mteb_model_meta.revision == weights


def test_mteb_keeps_the_results_of_other_weights_and_settings_apart(tasks, model, tmp_path):
    import mteb

    cache = mteb.ResultCache(cache_path=tmp_path)
    for encoder in (load_for_mteb(model), load_for_mteb(model, CHANGED), load_for_mteb("base")):
        mteb.evaluate(encoder, tasks=[tasks.TinyRetrieval()], cache=cache, show_progress_bar=False)
    assert len(list(tmp_path.rglob("TinyRetrieval.json"))) == 3


def test_what_mteb_does_not_have_is_told(tasks):
    with pytest.raises(UsageError, match=r"mteb has no task 'TinyRetrievl'.*Did you mean: 'TinyRetrieval'"):
        benchmark_named("TinyRetrievl")
    with pytest.raises(
        UsageError, match="BornholmBitextMining is a BitextMining task of text; choose one of retrieval"
    ):
        parts_of(BenchmarkSource(kind="mteb", path="BornholmBitextMining"))
    with pytest.raises(UsageError, match="TinyRetrieval has no 'fra/test'; it has default/test"):
        read_benchmark(BenchmarkSource(kind="mteb", path="TinyRetrieval"), "fra/test")


def test_data_that_cannot_be_had_ends_in_words(tasks, monkeypatch):
    monkeypatch.setattr(tasks.TinyRetrieval, "load_data", lambda self, **_: (_ for _ in ()).throw(OSError("no route")))
    with pytest.raises(UsageError, match=r"the data of TinyRetrieval, ours/tiny, does not load \(no route\); go where"):
        benchmark_named("TinyRetrieval")


def test_a_made_benchmark_is_a_task_of_mteb_with_our_scores(tasks, model, tmp_path, monkeypatch):
    benchmark = benchmark_of("ours", map(topic, range(12)))
    lists = {query.id: tuple(benchmark.documents)[place:] for place, query in enumerate(benchmark.queries[:30])}
    judged = {query: {name: 1 - grade for name, grade in benchmark.qrels[query].items()} for query in lists}
    listed = replace(only_queries(benchmark, lists), candidates=lists, qrels=judged)
    kept_out = {
        query: frozenset(name for name in list(benchmark.documents)[:20] if not grades.get(name))
        for query, grades in benchmark.qrels.items()
    }
    excluding = replace(benchmark, excluded=kept_out)
    without = ours(benchmark, model, tmp_path / "vectors", "nDCG@10")
    assert ours(excluding, model, tmp_path / "vectors", "nDCG@10") != without
    for name, made in (("ours", benchmark), ("excluding", excluding), ("listed", listed)):
        write_benchmark(tmp_path / name, made, {})
        task = task_of(tmp_path / name)
        kept = {}
        monkeypatch.setattr(
            type(task), "task_specific_scores", lambda self, scores, *_, kept=kept, **__: kept.update(scores) or {}
        )
        scores = evaluated(task, load_for_mteb(model))
        values = ours(made, model, tmp_path / "vectors", "nDCG@10")
        theirs = {query: found["ndcg_cut_10"] for query, found in kept.items()}
        assert values == pytest.approx(theirs, abs=1e-6)
        assert len(set(theirs.values())) > 3
        assert scores["ndcg_at_10"] == pytest.approx(np.mean(list(values.values())), abs=1e-5)
    assert (task.metadata.name, task.metadata.type) == ("listed", "InstructionRetrieval")
    monkeypatch.setitem(sys.modules, "mteb.abstasks.retrieval", None)
    with pytest.raises(UsageError, match=r"a task of mteb needs mteb; pip install 'foil-ir\[interop\]'"):
        task_of(tmp_path / "ours")


def test_without_mteb_a_line_says_what_to_install(bert, monkeypatch):
    monkeypatch.setitem(sys.modules, "mteb", None)
    monkeypatch.setitem(sys.modules, "mteb.models.model_meta", None)
    with pytest.raises(UsageError, match=r"mteb:SciFact needs mteb; pip install 'foil-ir\[interop\]'"):
        benchmark_named("SciFact")
    with pytest.raises(UsageError, match=r"mteb is not installed; pip install 'foil-ir\[interop\]'"):
        load_for_mteb(bert)
