"""Real corpora, where they are: how many seeds each gives, and that they can be told apart and come out the same."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from foil.cluster.catalog import open_seeds
from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.catalog import READERS
from foil.engine.seeds.files.download import CORPORA
from foil.engine.seeds.judged import Document
from foil.engine.seeds.trec import read_documents, read_topics
from foil.engine.settings import Settings
from foil.engine.topic import Seed

CASES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "graded rows": ({"kind": "msmarco", "path": "msmarco/rows_dl.jsonl"}, (93, 401, 721)),
    "rows without negatives": (
        {"kind": "msmarco", "path": "msmarco/rows_instructir_filtered.jsonl"},
        (1743, 1743, 8670),
    ),
    "beir": ({"kind": "beir", "path": "msmarco/instructir_filtered", "split": "test"}, (1743, 1743, 8670)),
    "leetcode": ({"kind": "leetcode", "path": "leetcode"}, (400, 2644, 2000)),
    "exercism": ({"kind": "leetcode", "corpus": "exercism", "path": "exercism/exercises.jsonl"}, (147, 368, 735)),
    "gsm8k test": ({"kind": "metamath", "corpus": "gsm8k", "path": "gsm8k/test.jsonl"}, (1319, 1319, 6595)),
    "gsm8k sampled": (
        {"kind": "metamath", "corpus": "gsm8k", "path": "gsm8k/example_model_solutions.jsonl"},
        (1319, 2472, 6595),
    ),
    "backward": ({"kind": "metamath", "path": "metamath/GSM8K_Backward.jsonl"}, (1270, 1263, 6350)),
    "metamathqa": ({"kind": "metamath", "path": "metamath/metamathqa_sample_rows.jsonl"}, (2, 2, 0)),
    "cacm": (
        {
            "kind": "robust04",
            "corpus": "cacm",
            "topics": "trec_sgml/cacm/topics.cacm.txt",
            "qrels": "trec_sgml/cacm/qrels.cacm.txt",
            "documents": "trec_sgml/cacm/cacm.tar.gz",
        },
        (52, 412, 260),
    ),
    "cranfield": (
        {
            "kind": "robust04",
            "corpus": "cranfield",
            "topic_ids": "position",
            "topics": "trec_sgml/cranfield/cran.qry.xml",
            "qrels": "trec_sgml/cranfield/cranqrel.trec.txt",
            "documents": "trec_sgml/cranfield/cran.all.1400.xml",
        },
        (225, 1361, 1125),
    ),
}
"""For each corpus its settings, and how many seeds, positives and negatives it gives."""


def settings_of(values: dict[str, Any], data: Path) -> Settings:
    paths = {key: str(data / values[key]) for key in ("path", "topics", "qrels", "documents") if key in values}
    return READERS[values["kind"]][0].model_validate({**values, **paths})


def read(name: str, data: Path) -> list[Seed]:
    return list(open_seeds(settings_of(CASES[name][0], data)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_real_corpus_gives_its_seeds(name: str, shared_data: Path) -> None:
    seeds, expected = read(name, shared_data), CASES[name][1]
    passage_counts = sum(len(seed.positives) for seed in seeds), sum(len(seed.negatives) for seed in seeds)
    assert (len(seeds), *passage_counts) == expected
    assert len({seed.id for seed in seeds}) == len(seeds)
    for seed in seeds:
        assert not {p.id for p in seed.positives} & {p.id for p in seed.negatives}
        assert all(p.text.strip() for p in (*seed.positives, *seed.negatives))


@pytest.mark.parametrize("name", ["graded rows", "leetcode", "cranfield"])
def test_a_real_corpus_reads_the_same_each_time(name: str, shared_data: Path) -> None:
    assert read(name, shared_data) == read(name, shared_data)


def test_the_two_files_of_problems_are_joined_by_id(shared_data: Path) -> None:
    two_sum = next(seed for seed in read("leetcode", shared_data) if seed.id == "1")
    assert {p.attributes["language"] for p in two_sum.positives} == {"python", "java", "cpp"}
    assert two_sum.attributes["pattern"] == "Arrays & Hashing"
    assert len(two_sum.positives) == 6


def test_cranfields_judgments_fit_its_topics_by_position_alone(shared_data: Path) -> None:
    by_number = settings_of(CASES["cranfield"][0] | {"topic_ids": "number"}, shared_data)
    with pytest.raises(UsageError, match=r"judge 73 topics .* set `topic_ids: position`"):
        list(open_seeds(by_number))
    third_seed = read("cranfield", shared_data)[2]
    assert third_seed.query.startswith("what problems of heat conduction in composite slabs")
    assert any("composite" in p.text for p in third_seed.positives)


@pytest.mark.parametrize(("name", "count"), [("robust04", 250), ("core17", 50), ("robust05", 50)])
def test_every_topic_of_trec_has_title_description_and_narrative(shared_data: Path, name: str, count: int) -> None:
    read_items = list(read_topics(shared_data / f"robust04/topics/topics.{name}.txt", 1 << 20))
    assert len(read_items) == count
    for topic in read_items:
        assert not isinstance(topic, SeedFormatError)
        assert set(topic.attributes) == {"title", "description", "narrative"}
        assert not any(value.startswith(("Description:", "Narrative:", "<")) for value in topic.attributes.values())


@pytest.mark.slow
def test_robust04_runs_over_its_judgments_once_documents_are_brought(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "robust04"
    judgments = (folder / "qrels/qrels.adhoc.401-450.txt").read_text().splitlines()
    names = sorted({line.split()[2] for line in judgments})
    (tmp_path / "docs").write_text(
        "".join(f"<DOC>\n<DOCNO> {name} </DOCNO>\n<TEXT>\nreport {name}\n</TEXT>\n</DOC>\n" for name in names)
    )
    values = {
        "kind": "robust04",
        "topics": "robust04/topics/topics.robust04.txt",
        "qrels": "robust04/qrels/qrels.adhoc.401-450.txt",
        "documents": tmp_path / "docs",
    }
    seeds = list(open_seeds(settings_of(values, shared_data)))
    assert [seed.id for seed in seeds] == [str(number) for number in range(401, 451)]
    relevant = Counter(line.split()[0] for line in judgments if not line.endswith(" 0"))
    assert [len(seed.positives) for seed in seeds] == [min(10, relevant[seed.id]) for seed in seeds]
    assert {len(seed.negatives) for seed in seeds} == {10}
    assert all(seed.attributes["narrative"] for seed in seeds)


def test_sample_documents_of_every_style_are_read(shared_data: Path) -> None:
    read_items = list(read_documents(shared_data / "trec_sgml/anserini_sample_docs", 1 << 20))
    names = [d.passage.source_id for d in read_items if isinstance(d, Document)]
    assert len(names) == 12
    assert {"AP-0001", "doc2", "WSJ_1", "WEB-0003", "TREC_DOC_1.00002"} <= set(names)
    (error,) = [d for d in read_items if isinstance(d, SeedFormatError)]
    assert (Path(error.path).parent.name, error.line) == ("collection1", 10)


def test_the_catalogs_checksums_are_those_of_the_files(shared_data: Path) -> None:
    import hashlib

    for remote in CORPORA["gsm8k"].files:
        assert hashlib.sha256((shared_data / "gsm8k" / remote.name).read_bytes()).hexdigest() == remote.sha256
