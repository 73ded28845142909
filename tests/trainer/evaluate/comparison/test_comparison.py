"""What systems score, on tiny benchmarks by hand and on real ones against known numbers."""

import doctest
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foil.engine.errors import CorruptDataError
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery, unreachable
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of, read_benchmark
from foil.trainer.evaluate.comparison import results as results_module
from foil.trainer.evaluate.comparison import scores as scores_module
from foil.trainer.evaluate.comparison.results import instruction_lines, keep, results, weighted
from foil.trainer.evaluate.comparison.scores import CollectionScores, score
from foil.trainer.evaluate.comparison.topics import gains
from foil.trainer.evaluate.measures.catalog import measure_all, measure_named
from foil.trainer.evaluate.systems.model_free import Bm25, TrecRun
from foil.trainer.evaluate.systems.system import Bm25Settings
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark


class Fixed:
    """A system that gives every query the same scores."""

    def __init__(self, name, scores):
        self.name, self._scores = name, scores

    def facts(self):
        return {"system": self.name}

    def rank(self, benchmark, k):
        return {query.id: self._scores for query in benchmark.queries}


def test_the_examples_hold():
    assert [doctest.testmod(module).failed for module in (results_module, scores_module)] == [0, 0]


def test_parts_and_groups_are_told_apart_and_the_base_is_what_others_are_compared_with(tmp_path):
    source = write_benchmark("infosearch", tmp_path)
    systems = [Fixed("good", {"d1": 2.0, "d2": 1.0}), Fixed("base", {"d3": 2.0, "d1": 1.0})]
    scores = list(score(benchmarks_of(source), systems, ("nDCG@10", "p-MRR"), 10))
    found = {(r.group, r.measure, r.system): r for r in results("infosearch", scores, "base", "parts", 100)}
    assert {group for group, *_ in found} == {
        "", "part: Audience-v1", "part: Clarity-v1", "dimension: audience", "dimension: keyword", "mode: original",
        "mode: instructed", "mode: reversed",
    }  # fmt: skip
    good, base = (found["mode: instructed", "nDCG@10", name] for name in ("good", "base"))
    assert (good.value, good.count) == (100.0, 2)
    assert base.value == pytest.approx(100 / np.log2(3))
    assert good.difference == pytest.approx(good.value - base.value)
    assert (good.low, good.high) == pytest.approx((good.difference, good.difference))
    assert (base.difference, base.low, base.high, base.p_t_test, base.p_holm) == (0.0, 0.0, 0.0, None, None)
    assert (found["dimension: keyword", "p-MRR", "good"].p_t_test, good.p_wilcoxon) == (None, 0.5)
    assert ("mode: instructed", "p-MRR", "good") not in found
    assert found["dimension: keyword", "p-MRR", "good"].count == 1


def test_followirs_score_is_of_the_original_instructions_and_a_mean_over_collections(tmp_path):
    source = write_benchmark("followir", tmp_path)
    scores = list(score(benchmarks_of(source), [Fixed("base", {"d1": 1.0, "d2": 2.0, "d3": 3.0})], (), 10))
    found = {(r.group, r.measure): r for r in results("followir", scores, "base", "parts", 100)}
    own = {part.name: part.values["base"] for part in scores}
    ap = {query: value for query, value in own["followir/Core17"]["AP@1000"].items() if query.endswith("-og")}
    ndcg = {query: value for query, value in own["followir/News21"]["nDCG@5"].items() if query.endswith("-og")}
    assert own["followir/Core17"]["score"] == ap
    assert own["followir/News21"]["score"] == ndcg
    assert found["", "score"].value == pytest.approx(
        100 * (np.mean(list(ap.values())) + np.mean(list(ndcg.values()))) / 2
    )


def test_each_result_has_its_p_values_and_one_corrected_over_its_group():
    rng = np.random.default_rng(0)
    own = {name: dict(enumerate(rng.random(30) + gain)) for name, gain in (("base", 0), ("a", 0.2), ("b", 0.0))}
    other = {name: dict(enumerate(rng.random(30))) for name in own}
    values = {name: {"m1": own[name], "m2": other[name]} for name in own}
    found = list(results("b", [CollectionScores("b", "", "", values, {})], "base", "queries", 100))
    tested = [each for each in found if each.system != "base"]
    gains = {(each.system, each.measure): np.subtract(list(values[each.system][each.measure].values()),
             list(values["base"][each.measure].values())) for each in tested}  # fmt: skip
    raw = {key: stats.ttest_1samp(gain, 0).pvalue for key, gain in gains.items()}
    assert [each.p_t_test for each in tested] == pytest.approx(list(raw.values()))
    assert [each.p_wilcoxon for each in tested] == pytest.approx([stats.wilcoxon(g).pvalue for g in gains.values()])
    least = min(tested, key=lambda each: each.p_t_test)
    assert least.p_holm == pytest.approx(min(1, 4 * least.p_t_test))
    assert all(each.p_holm >= each.p_t_test for each in tested)


@given(st.lists(st.lists(st.floats(0, 1), max_size=5), min_size=1, max_size=4).filter(any))
def test_an_average_over_parts_is_the_mean_of_their_means(values):
    parts = [{str(place): value for place, value in enumerate(part)} for part in values]
    over_parts, over_queries = (np.mean(list(weighted(parts, how).values())) for how in ("parts", "queries"))
    assert over_parts == pytest.approx(np.mean([np.mean(part) for part in values if part]))
    assert over_queries == pytest.approx(np.mean([value for part in values for value in part]))


def test_results_are_kept_and_a_repeated_one_replaces_itself(tmp_path):
    path, row = tmp_path / "results.jsonl", {"benchmark": "b", "group": "", "measure": "m", "system": "s", "k": 10}
    keep(path, [{**row, "value": 1.0}])
    keep(path, [{**row, "value": 2.0}, {**row, "k": 100, "value": 3.0}])
    assert [json.loads(line)["value"] for line in path.read_text().splitlines()] == [2.0, 3.0]
    path.write_text("{")
    with pytest.raises(CorruptDataError, match="does not read as JSON lines"):
        keep(path, [row])


def all_ranked_by_position(run, benchmark):
    """The run with every document, the unretrieved last, and ties in the order of the documents."""
    ranked = {}
    for query, found in run.items():
        order = sorted(benchmark.documents, key=lambda document: -found.get(document, 0.0))
        ranked[query] = {document: -float(rank) for rank, document in enumerate(order)}
    return ranked


def means(measures, benchmark, run):
    found = measure_all(map(measure_named, measures), benchmark.queries, benchmark.qrels, run)
    return {name: round(100 * float(np.mean(list(values.values()))), 1) for name, values in found.items()}


def test_bm25_follows_pir_as_it_was_worked_out_elsewhere(shared_data):
    """The known numbers rank all documents, ties by position; ours retrieves what shares a word, ties as trec_eval."""
    known, ours = {}, {}
    for benchmark in benchmarks_of(BenchmarkSource(kind="pir", path=shared_data / "pir")):
        run = Bm25(Bm25Settings()).rank(benchmark, 1000)
        measures = ("p-MRR", "WISE(K=20)", "SICR")
        known[benchmark.name] = means(measures[:2], benchmark, all_ranked_by_position(run, benchmark))
        ours[benchmark.name] = means(measures, benchmark, run)
    assert known == {
        "pir/perspectrum": {"p-MRR": 8.6, "WISE(K=20)": -27.4},
        "pir/ambigqa": {"p-MRR": -2.3, "WISE(K=20)": -23.5},
    }
    assert ours == {
        "pir/perspectrum": {"p-MRR": 10.9, "WISE(K=20)": -29.3, "SICR": 0.0},
        "pir/ambigqa": {"p-MRR": -2.2, "WISE(K=20)": -22.7, "SICR": 0.0},
    }


def test_the_lists_of_dl19_have_their_published_ndcg(shared_data):
    folder = shared_data / "msmarco"
    hits, qrels = folder / "bm25_top100" / "retrieve_results_dl19.json", folder / "qrels" / "qrels.dl19-passage.txt"
    benchmark = read_benchmark(BenchmarkSource(kind="rank_llm", path=hits, qrels=qrels), "")
    lists = json.loads(hits.read_text())
    run = {str(one["hits"][0]["qid"]): {hit["docid"]: hit["score"] for hit in one["hits"]} for one in lists}
    assert len(benchmark.queries) == 43
    assert means(["nDCG@10"], benchmark, run) == {"nDCG@10": 50.6}
    [scores] = score([benchmark], [Bm25(Bm25Settings())], (), 1000)
    assert len(scores.values["bm25"]["nDCG@10"]) == 43


def test_what_one_model_gained_over_another_is_paired_and_in_points():
    base = {"net": {"a": 0.1, "b": 0.9}, "both_views": {}}
    other = {"net": {"b": 1.0, "a": 0.2}, "both_views": {}}
    [(measure, row)] = gains(base, other, resamples=200).items()
    assert (measure, row.count) == ("net", 2)
    assert (row.value, row.difference, row.low, row.high) == pytest.approx((60, 10, 10, 10))


def test_a_run_from_a_file_has_no_bare_queries_and_no_gain(tmp_path):
    queries = (
        EvaluationQuery("a", "x", core="a", mode="original"),
        EvaluationQuery("a1", "x", "with a date", core="a", mode="instructed"),
        EvaluationQuery("b1", "y", "with a date", core="b", mode="instructed"),
    )
    documents = {f"d{number}": ("", f"text {number}") for number in range(5)}
    qrels = {"a": {"d0": 1}, "a1": {"d0": 1}, "b1": {"d1": 1, "d2": 1, "gone": 1}}
    benchmark = Benchmark("n", "", documents, queries, qrels, excluded={"b1": frozenset({"d2"})})
    (tmp_path / "run.txt").write_text("a Q0 d0 1 5.0 s\na1 Q0 d0 1 5.0 s\nb1 Q0 d1 1 5.0 s\n")
    [scores] = score([benchmark], [TrecRun(str(tmp_path / "run.txt"))], ["nDCG@10"], 100, bare=True)
    [line] = dict(instruction_lines([scores], "queries", 200)).values()
    assert (line.instructed, line.without_instruction, line.gain) == (2, None, None)
    assert unreachable(benchmark) == (2, 2)
