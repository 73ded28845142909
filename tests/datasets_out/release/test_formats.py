"""Releases come back through the loaders that they are made for, with the texts and labels of a training run."""

import importlib.util
import json
from pathlib import Path

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.datasets_out.release.formats.catalog import FORMATS
from foil.datasets_out.training.training_view import text_key
from foil.trainer.text_templates import template_named
from tests.support.commands import hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.topics.releases import SPLIT, keys_of, view_of

FORM = template_named("query_instruction")
SPLITS = ("train", "dev", "heldout")


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No loader looks for a hub, or keeps what it read."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)


def load(folder: Path, config: str, split: str = "train"):
    from datasets import load_dataset

    return load_dataset(str(folder), config, split=split)


def rows_of(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().splitlines()]


def judged(out, split="train"):
    """(instruction, query), (title, text), relevance: what a trainer reads of a split."""
    return {
        (intent, passage, int(group.relevance[i, p]))
        for group in view_of(out).read_all(split)
        for i, intent in enumerate(group.intents)
        for p, passage in enumerate(group.passages)
        if group.relevance[i, p]
    }


def as_read(out, split="train"):
    return {
        (FORM.format_pair(*intent), FORM.format_passage(*passage), sign) for intent, passage, sign in judged(out, split)
    }


def test_the_run_has_what_a_naive_export_would_leak(out):
    facts = view_of(out).facts["train"]
    assert facts["passages_removed"] > 5
    assert facts["intents_dropped"] > 5
    assert SPLIT.heldout_share == 0.2


def test_hugging_face_tables_hold_the_judgments_of_each_split(out, release):
    folder = release("hf", "all")
    for split in SPLITS:
        intents = {row["intent_id"]: (row["instruction"], row["query"]) for row in load(folder, "intents", split)}
        passages = {
            (row["topic_id"], row["passage_id"]): (row["title"], row["text"]) for row in load(folder, "passages", split)
        }
        rows = load(folder, "judgments", split)
        marks = {
            (intents[row["intent_id"]], passages[row["topic_id"], row["passage_id"]], row["relevance"]) for row in rows
        }
        assert marks == judged(out, split)
    triplets = load(folder, "triplets")
    assert set(triplets["negative"]) <= {text for _, (_, text), sign in judged(out) if sign < 0}
    assert len(load(folder, "topics")) == len(view_of(out).read_all("train"))


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_configuration_of_the_card_loads(form, release):
    import yaml

    folder = release(form)
    head = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
    counts = {file["name"]: file["rows"] for file in json.loads((folder / "release.json").read_text())["files"]}
    loaded = 0
    for config in head["configs"]:
        for entry in config["data_files"]:
            loaded += len(load(folder, config["config_name"], entry["split"]))
    assert loaded == sum(rows for name, rows in counts.items() if not name.endswith(".tsv"))


@pytest.mark.parametrize("form", ["beir", "mteb"])
def test_corpora_of_several_splits_lie_apart(form, out, release):
    folder = release(form, "all")
    held = (keys_of(out, "heldout") | keys_of(out, "dev")) - keys_of(out, "train")
    assert not {text_key(text, kind="passage") for text in all_texts(folder / "train")} & held
    assert {text_key(text, kind="passage") for text in all_texts(folder / "heldout")} & held


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_no_text_of_another_split_is_in_a_training_release(form, out, release):
    held = (keys_of(out, "heldout") | keys_of(out, "dev")) - keys_of(out, "train")
    assert len(held) > 50
    texts = set(all_texts(release(form)))
    found = {text_key(text, kind=kind) for text in texts for kind in ("query", "passage")}
    assert found & keys_of(out, "train")
    assert not found & held


def all_texts(folder: Path):
    """Every text of every row, joined ones as they are."""
    import pyarrow.parquet as pq

    rows = [row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    rows += [row for path in folder.rglob("*.jsonl") for row in rows_of(path)]
    todo = list(rows)
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            todo += value.values() if isinstance(value, dict) else value


def test_sentence_transformers_rows_are_the_pairs_as_the_model_reads_them(out, release):
    folder = release("sentence-transformers")
    pairs = load(folder, "pairs")
    assert pairs.column_names == ["query", "passage", "label"]
    signs = {(row["query"], row["passage"], 1 if row["label"] else -1) for row in pairs}
    assert signs == as_read(out)
    triplets = load(folder, "triplets")
    assert triplets.column_names == ["anchor", "positive", "negative"]
    configs = [path.name for path in folder.glob("n-tuples-*")]
    tuples = {config: load(folder, config) for config in configs}
    for config, rows in tuples.items():
        assert len(rows.column_names) == 2 + int(config.rpartition("-")[2])
    named = [name for rows in tuples.values() for row in rows for name in row if name.startswith("negative")]
    assert len(named) == len(triplets)


def test_one_training_step_of_sentence_transformers_sees_no_protected_text(out, release, tmp_path):
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from tests.support.trainer_world import tiny_bert

    model = SentenceTransformer(str(tiny_bert(tmp_path)), device="cpu")
    seen: set[str] = set()
    preprocess = model.preprocess

    def watch(inputs, *args, **kwargs):
        seen.update(inputs)
        return preprocess(inputs, *args, **kwargs)

    model.preprocess = watch
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path / "trained"), max_steps=1, per_device_train_batch_size=16, report_to="none", use_cpu=True,
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model, arguments, train_dataset=load(release("sentence-transformers"), "triplets"),
        loss=MultipleNegativesRankingLoss(model),
    )  # fmt: skip
    trainer.train()
    assert len(seen) >= 32
    own = {text for query, passage, _ in as_read(out) for text in (query, passage)}
    assert seen <= own
    protected = keys_of(out, "heldout") | keys_of(out, "dev")
    assert not {text_key(text, kind="passage") for text in seen} & protected


def test_tevatron_rows_have_the_documented_fields(out, release):
    folder = release("tevatron")
    rows = rows_of(folder / "train.jsonl")
    passage = {"docid", "title", "text"}
    for row in rows:
        assert row["positive_passages"]
        assert row["negative_passages"]
        assert all(set(each) == passage for each in row["positive_passages"] + row["negative_passages"])
        assert row["query"] == FORM.format_pair(row["only_instruction"], row["only_query"])
        assert row["has_instruction"] == bool(row["only_instruction"])
    assert any(row["new_negatives"] for row in rows)
    assert {set(row) == {"query_id", "query", "positive_passages", "negative_passages", "only_query",
                         "only_instruction", "has_instruction", "new_negatives"} for row in rows} == {True}  # fmt: skip
    corpus = {row["docid"]: row["text"] for row in load_json(folder / "v2" / "corpus" / "train.jsonl")}
    pairs = set()
    for row in load_json(folder / "v2" / "queries" / "train.jsonl"):
        pairs |= {(row["query_text"], corpus[name], 1) for name in row["positive_document_ids"]}
        pairs |= {(row["query_text"], corpus[name], -1) for name in row["negative_document_ids"]}
    assert pairs <= as_read(out)
    assert {(row["query"], FORM.format_passage(p["title"], p["text"]), 1) for row in rows
            for p in row["positive_passages"]} == {pair for pair in pairs if pair[2] > 0}  # fmt: skip


def load_json(path: Path):
    from datasets import load_dataset

    return load_dataset("json", data_files=str(path), split="train")


def test_flagembedding_and_gritlm_keep_the_instruction_apart(out, release):
    expected = {(intent, FORM.format_passage(*passage), sign) for intent, passage, sign in judged(out)}
    flag, grit = (load_json(release(form) / "train.jsonl") for form in ("flagembedding", "gritlm"))
    for rows, pair, text in (
        (flag, lambda row: (row["prompt"], row["query"]), lambda each: each),
        (grit, lambda row: tuple(row["query"]), lambda each: each[1]),
    ):
        found = {(pair(row), text(each), sign) for row in rows for name, sign in (("pos", 1), ("neg", -1))
                 for each in row[name]}  # fmt: skip
        assert found <= expected
        assert {each for each in found if each[2] < 0}
    assert all(each[0] == "" for row in grit for each in row["pos"] + row["neg"])


def test_beir_comes_back_through_our_reader_and_beirs_own(out, release):
    from foil.trainer.benchmark_source import BenchmarkSource
    from foil.trainer.evaluate.benchmarks.catalog import read_benchmark

    folder = release("beir", "heldout")
    benchmark = read_benchmark(BenchmarkSource(kind="beir", path=folder), "test")
    texts = {query.id: query.query for query in benchmark.queries}
    pairs = {
        (texts[query], FORM.format_passage(*benchmark.documents[document]), 1 if grade else -1)
        for query, grades in benchmark.qrels.items()
        for document, grade in grades.items()
    }
    relevant = {query for query, _, sign in as_read(out, "heldout") if sign > 0}
    assert pairs == {pair for pair in as_read(out, "heldout") if pair[0] in relevant}
    if importlib.util.find_spec("beir"):
        from beir.datasets.data_loader import GenericDataLoader

        corpus, queries, qrels = GenericDataLoader(str(folder)).load(split="test")
        assert queries == texts
        assert qrels == benchmark.qrels
        assert {name: (each["title"], each["text"]) for name, each in corpus.items()} == dict(benchmark.documents)


@pytest.mark.slow
def test_mteb_loads_the_folder_and_measures_how_ranks_change(out, release, monkeypatch):
    mteb = pytest.importorskip("mteb")
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalDatasetLoader

    folder = release("mteb", "heldout")
    data = RetrievalDatasetLoader(str(folder), None, split="test").load()
    documents = {row["id"]: (row["title"], row["text"]) for row in data["corpus"]}
    queries = {row["id"]: (row["instruction"], row["text"]) for row in data["queries"]}
    marks = {
        (queries[query], documents[name], 1 if grade else -1)
        for query, grades in data["relevant_docs"].items()
        for name, grade in grades.items()
    }
    assert marks <= judged(out, "heldout")
    changed = load(folder, "qrel_diff", "qrel_diff")
    for row in changed:
        before, after = (data["relevant_docs"][f"{row['query-id']}-{suffix}"] for suffix in ("og", "changed"))
        assert all(before[name] == 1 and after[name] == 0 for name in row["corpus-ids"])
    assert len(changed) * 2 == len(queries)
    monkeypatch.syspath_prepend(folder)
    task = __import__("mteb_task").InstructedRetrieval()
    task.load_data()
    rank = {"og": 1.0, "changed": 0.5}
    runs = {
        query: {name: float(name != fallen) for name in documents} | {fallen: rank[query.rpartition("-")[2]] * 2 - 0.5}
        for row in changed
        for fallen in row["corpus-ids"][:1]
        for query in (f"{row['query-id']}-og", f"{row['query-id']}-changed")
    }
    scores = task.task_specific_scores({}, data["relevant_docs"], runs, "test", "default")
    assert scores["p-MRR"] > 0
    assert task.metadata.main_score == "p-MRR"
    assert mteb.__version__.startswith("2.")


def test_topics_as_json_lines_are_whole(out, release):
    rows = rows_of(release("jsonl") / "train.jsonl")
    found = {
        ((intent["instruction"], intent["query"]), (passage["title"], passage["text"]), mark["relevance"])
        for row in rows
        for mark in row["judgments"]
        for intent in row["intents"]
        for passage in row["passages"]
        if (mark["intent_id"], mark["passage_id"]) == (intent["id"], passage["id"])
    }
    assert found == judged(out)
    assert {row["split"] for row in rows} == {"train"}


def test_a_map_of_topics_has_the_coordinates_that_the_run_has(out, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from foil.cluster.commands.app import app
    from foil.cluster.endings import run_command
    from foil.datasets_out.commits.snapshot import load_snapshot

    snapshot = load_snapshot(out, None)
    ids = [group.topic_id for group in view_of(out).read_all("train")]
    (out / "desk").mkdir()
    table = {"kind": ["query"] * len(ids), "topic_id": ids, "x": [0.5] * len(ids), "y": [0.25] * len(ids)}
    pq.write_table(pa.table(table), out / "desk" / f"map-{snapshot.digest[:16]}-words-9.parquet")
    shares = ["--set", "split.heldout_share=0.2", "--set", "split.dev_share=0.1"]
    into = tmp_path / "atlas"
    assert run_command(app, ["export", str(out), "--format", "atlas", "--into", str(into), *shares]) == 0
    rows = load(into, "topics")
    assert set(rows["id"]) == set(ids)
    assert all(row["text"] and (row["x"], row["y"]) == (0.5, 0.25) for row in rows)


@pytest.mark.slow
def test_the_notebook_compiles_and_its_questions_are_answered(tmp_path):
    import ast

    from foil.cluster.commands.app import app
    from foil.cluster.endings import run_command
    from foil.datasets_out.sql.query import run_sql

    with serving(answer=Character()) as server:
        assert run_job(load_job(hosted_job(tmp_path, server.url, 4))).complete
    out, into = tmp_path / "out", tmp_path / "notebook"
    assert run_command(app, ["export", str(out), "--format", "notebook", "--into", str(into)]) == 0
    text = (into / "notebook.py").read_text()
    tree = ast.parse(text)
    compile(tree, "notebook.py", "exec")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    asked = [call.args[0].value for call in calls if call.func.id == "ask" and isinstance(call.args[0], ast.Constant)]
    assert len(asked) == 6
    assert [len(run_sql(out, sql)) > 0 for sql in asked] == [True] * 5 + [False]  # nobody has audited this run
    assert run_command(app, ["export", str(out), "--format", "notebook", "--into", str(into)]) == 2
