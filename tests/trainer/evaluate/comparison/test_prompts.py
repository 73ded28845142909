"""The prompt search by hand-worked values."""

import pytest

from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.comparison.prompts import PromptedPart, dev_queries, prompt_result, read_prompts, with_prompt
from tests.support.paths import REPO

NAME = ("b", "", "nDCG@10", "s")
VALUES = {
    "": {"d1": 0.5, "d2": 0.5, "r1": 0.2, "r2": 0.4},
    "one": {"d1": 0.9, "d2": 0.7, "r1": 0.3, "r2": 0.5},
    "two": {"d1": 0.1, "d2": 0.8, "r1": 0.6, "r2": 0.8},
}
DEV = frozenset({"d1", "d2"})


def benchmark(cores=12, variants=1):
    queries = tuple(
        EvaluationQuery(f"q{core}-{variant}", "text", "Only prices." if variant else "", core=f"q{core}")
        for core in range(cores)
        for variant in range(variants)
    )
    return Benchmark("b", "", {"d": ("", "text")}, queries, {query.id: {"d": 1} for query in queries})


def test_a_prompt_is_chosen_on_dev_and_reported_on_the_others_beside_the_best_in_hindsight():
    """On dev: one 80, two 45. On the others: none 30, one 40, two 70; mean of the prompts 55, spread 30 / sqrt 2."""
    result = prompt_result(NAME, [PromptedPart(VALUES, DEV)], "queries", 200)
    assert (result.count, result.selected_prompts) == (2, ("one",))
    assert (result.none, result.selected, result.hindsight) == pytest.approx((30, 40, 70))
    assert (result.mean, result.spread) == pytest.approx((55, 30 / 2**0.5))
    assert (result.difference, result.low, result.high) == pytest.approx((10, 10, 10))
    assert result.by_prompt == pytest.approx({"one": 40, "two": 70})


def test_each_collection_chooses_its_own_prompt_and_counts_alike():
    other = {prompt: {"d": value, "r": value} for prompt, value in (("", 0.5), ("one", 0.0), ("two", 1.0))}
    parts = [PromptedPart(VALUES, DEV), PromptedPart(other, frozenset({"d"}))]
    result = prompt_result(NAME, parts, "parts", 200)
    assert result.selected_prompts == ("one", "two")
    assert (result.none, result.selected, result.hindsight) == pytest.approx((40, 70, 85))
    assert result.by_prompt == pytest.approx({"one": 20, "two": 85})


def test_a_measure_that_compares_nothing_has_no_result():
    assert prompt_result(NAME, [PromptedPart({"": {}, "one": {}}, DEV)], "queries", 200) is None


def test_dev_queries_are_whole_cores_and_the_same_each_time():
    drawn = dev_queries(benchmark(variants=2), 10)
    cores = {key for key in drawn if "-" not in key}
    assert len(cores) == 10
    assert drawn == cores | {f"{core}-{variant}" for core in cores for variant in (0, 1)}
    assert dev_queries(benchmark(variants=2), 10) == drawn
    with pytest.raises(UsageError, match="b has 10 judged queries, so 10 to choose a prompt on leave none"):
        dev_queries(benchmark(cores=10), 10)


def test_a_prompt_stands_behind_the_instruction():
    prompted = with_prompt(benchmark(variants=2), "Be exact.")
    assert [query.instruction for query in prompted.queries[:2]] == ["Be exact.", "Only prices. Be exact."]
    assert prompted.qrels == benchmark(variants=2).qrels


def test_a_file_has_a_prompt_a_line(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("# ours\n\n one \ntwo\none\n")
    assert read_prompts(path) == ("one", "two")
    path.write_text("one\n")
    with pytest.raises(UsageError, match="has 1 prompts; give at least two"):
        read_prompts(path)
    with pytest.raises(UsageError, match="does not read"):
        read_prompts(tmp_path / "none.txt")


def test_ten_prompts_are_shipped():
    assert len(read_prompts(REPO / "examples" / "prompts" / "ten.txt")) == 10
