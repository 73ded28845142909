"""`foil seeds fetch` of data sets that the hub lists: pinned at the first fetch, and read as seeds."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foil.engine.seeds.msmarco import MsmarcoSettings, msmarco_reader
from tests.support.storage.hub_of_data_sets import NEW, OLD, foil, serving

pytestmark = pytest.mark.slow

HARBOUR = {"docid": "7", "title": "Harbour", "text": "The ferry to the harbour costs four dollars."}
BREAD = {"docid": "8", "title": "Bread", "text": "Rye bread rises for a night."}
AUGMENTED = {"query_id": "1", "query": "ferry price", "positive_passages": [HARBOUR], "negative_passages": [BREAD]}
INSTRUCTED = AUGMENTED | {
    "query": "ferry price Only prices in dollars.", "only_query": "ferry price",
    "only_instruction": "Only prices in dollars.",
    "new_negatives": [HARBOUR | {"docid": "9", "text": "The ferry costs three euros.", "explanation": "euros"}],
}  # fmt: skip


@pytest.fixture
def hub(tmp_path):
    augmented, instructed = (
        tmp_path / "hub" / name for name in ("Tevatron/msmarco-passage-aug", "samaya-ai/msmarco-w-instructions")
    )
    (instructed / "data").mkdir(parents=True)
    augmented.mkdir(parents=True)
    (augmented / "train.jsonl.gz").write_bytes(gzip.compress(f"{json.dumps(AUGMENTED)}\n".encode()))
    for other in (augmented / "dev.jsonl.gz", augmented / "loader.py", instructed / "README.md"):
        other.write_text("not wanted")
    pq.write_table(pa.Table.from_pylist([INSTRUCTED]), instructed / "data" / "train-00000-of-00001.parquet")
    yield from serving(tmp_path / "hub")


def seeds_in(path):
    return list(msmarco_reader(MsmarcoSettings(path=path, negatives=1)))


def test_tevatrons_rows_come_alone_and_at_the_same_revision_again(hub, tmp_path):
    folder = tmp_path / "augmented"
    assert foil(hub, "seeds", "fetch", "msmarco-augmented", "--to", folder)[0] == 0
    [(name, entry)] = json.loads((folder / "fetched.json").read_text()).items()
    assert (name, len(entry["sha256"])) == ("train.jsonl.gz", 64)
    assert f"/resolve/{OLD}/train.jsonl.gz" in entry["url"]
    [seed] = seeds_in(folder / name)
    assert (seed.query, [p.text for p in seed.positives], [p.text for p in seed.negatives]) == (
        "ferry price", [HARBOUR["text"]], [BREAD["text"]],
    )  # fmt: skip
    (folder / name).unlink()
    hub.newest, hub.asked = NEW, []
    assert foil(hub, "seeds", "fetch", "msmarco-augmented", "--to", folder)[0] == 0
    assert [path for path in hub.asked if "/resolve/" in path] == [
        f"/datasets/Tevatron/msmarco-passage-aug/resolve/{OLD}/train.jsonl.gz"
    ]


def test_promptrievers_rows_keep_their_instruction_and_its_negatives(hub, tmp_path):
    folder = tmp_path / "promptriever"
    assert foil(hub, "seeds", "fetch", "promptriever", "--to", folder, "--revision", NEW)[0] == 0
    assert all(f"/{NEW}/" in entry["url"] for entry in json.loads((folder / "fetched.json").read_text()).values())
    [seed] = seeds_in(folder / "data")
    assert (seed.query, seed.attributes["instruction"]) == ("ferry price", "Only prices in dollars.")
    assert (seed.negatives[0].role, seed.negatives[0].text) == ("instruction_negative", "The ferry costs three euros.")


def test_what_the_hub_does_not_have_and_a_revision_of_a_pinned_corpus_are_told(hub, tmp_path):
    for arguments, code, told in (
        (["infir"], 1, "the hub does not list InF-IR/InF-IR"),
        (["gsm8k", "--revision", NEW], 2, "gsm8k is pinned; leave it out"),
    ):
        found = foil(hub, "seeds", "fetch", *arguments, "--to", tmp_path / "none")
        assert (found[0], told in found[1]) == (code, True), found
    (tmp_path / "hub" / "Tevatron/msmarco-passage-aug" / "train.jsonl.gz").unlink()
    code, told = foil(hub, "seeds", "fetch", "msmarco-augmented", "--to", tmp_path / "none")
    assert (code, "has no file train.jsonl.gz at this revision" in told) == (2, True), told
