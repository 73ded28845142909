"""Texts that may not be passed on stay behind, and come back from their corpus to the bit."""

import json
import re
from pathlib import Path

import pytest
import yaml

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.release.row_files import read_rows_of
from foil.datasets_out.release.withheld_texts import CorpusIndex, fill, found_texts, look_up, pieces_of, withhold
from foil.datasets_out.sql.query import run_sql
from foil.engine.ids import sha256_hex
from foil.engine.topic import Intent, Judgment, Passage, Seed, Topic
from tests.support.commands import write_job

DATA = re.compile(r".*\.(parquet|jsonl|tsv)")
SHARES = ["--set", "split.heldout_share=0.2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, Path]:
    """A run over a corpus that may not be passed on, and its job."""
    folder = tmp_path_factory.mktemp("private")
    job = write_job(folder, 40)
    job.write_text(
        job.read_text().replace("corpus: kites,", "corpus: kites, licence: private, redistributable: false,")
    )
    assert run_command(app, ["run", str(job)]) == 0
    return folder / "out", job


def export(run, into: Path, form: str, *more: str) -> Path:
    assert run_command(app, ["export", str(run[0]), "--format", form, "--into", str(into), *SHARES, *more]) == 0
    return into


def data_files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and DATA.fullmatch(path.name)
    }


def rows_of(folder: Path) -> dict[str, list]:
    """The rows of every file without what may quote the corpus beside its texts, and does not come back."""
    return {name: [plain(row) for row in read_rows_of(folder / name)] for name in data_files(folder)}


def plain(value):
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name not in ("attributes", "evidence")}
    return [plain(part) for part in value] if isinstance(value, list) else value


def corpus_texts(job: Path) -> set[str]:
    seeds = yaml.safe_load(job.read_text())["seeds"]
    rows = map(json.loads, Path(seeds["path"]).read_text().splitlines())
    return {text for row in rows for text in (row["query"], row["good"], *row["bad"])}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["hf", "sentence-transformers", "tevatron", "beir", "jsonl", "mteb"])
def test_a_restored_release_has_the_bytes_of_one_that_withheld_nothing(run, tmp_path, form):
    whole = export(run, tmp_path / "whole", form, "--allow-nonredistributable")
    held = export(run, tmp_path / "held", form, "--seeds", str(run[1]))
    told = b"".join((*data_files(held).values(), (held / "README.md").read_bytes())).decode(errors="ignore")
    assert not [text for text in corpus_texts(run[1]) if text in told]
    assert data_files(whole).keys() - data_files(held).keys() == set()
    assert run_command(app, ["restore", str(held), "--seeds", str(run[1])]) == 0
    if form in ("hf", "jsonl"):
        assert rows_of(held) == rows_of(whole)
    else:
        assert data_files(held) == data_files(whole)
    assert {path.name for path in held.glob("*.py")} == {path.name for path in whole.glob("*.py")}
    assert run_command(app, ["verify", str(held)]) == 0
    assert run_command(app, ["restore", str(held), "--seeds", str(run[1])]) == 2  # nothing is withheld any more


def test_what_went_out_tells_where_each_text_stands(run, tmp_path):
    held = export(run, tmp_path / "held", "jsonl", "--seeds", str(run[1]))
    entries = [json.loads(line) for line in (held / "withheld" / "texts.jsonl").read_text().splitlines()]
    assert {entry["place"] for entry in entries} == {"corpus", "edit"}
    assert {entry["kind"] for entry in entries} == {"query", "passage"}
    edits = [entry for entry in entries if entry["place"] == "edit"]
    shared = sum(end - begin for e in edits for begin, end in (p for p in e["pieces"] if not isinstance(p, str)))
    assert shared > 0.5 * sum(entry["characters"] for entry in edits)
    manifest = json.loads((held / "release.json").read_text())
    assert sum(manifest["withheld_texts"].values()) >= len(entries)
    assert "may not be passed on" in (held / "README.md").read_text()


def test_without_the_corpus_all_that_may_be_of_it_stays(run, tmp_path, capsys):
    held = export(run, tmp_path / "held", "jsonl")
    assert "not looked up" in capsys.readouterr().err
    told = b"".join(data_files(held).values()).decode()
    assert not [text for text in corpus_texts(run[1]) if text in told]
    whole = export(run, tmp_path / "whole", "jsonl", "--allow-nonredistributable")
    assert "may not be passed on" in capsys.readouterr().err
    entries = [json.loads(line) for line in (held / "withheld" / "texts.jsonl").read_text().splitlines()]
    lost = sum(entry["place"] == "nowhere" for entry in entries)  # edits of texts that their topic did not keep
    told = ["restore", str(held), "--seeds", str(run[1]), "--into", str(tmp_path / "new"), "--json"]
    assert run_command(app, told) == (11 if lost else 0)
    assert json.loads(capsys.readouterr().out)["missing"] == lost
    texts = {row["topic_id"]: row for row in rows_of(whole)["train.jsonl"]}
    assert rows_of(tmp_path / "new")["train.jsonl"]
    assert all(row == texts[row["topic_id"]] for row in rows_of(tmp_path / "new")["train.jsonl"])
    assert json.loads((held / "release.json").read_text())["withheld_texts"]


def test_texts_that_a_corpus_lacks_stay_withheld_and_are_counted(run, tmp_path, capsys):
    seeds = yaml.safe_load(run[1].read_text())["seeds"]
    rows = Path(seeds["path"]).read_text().splitlines(keepends=True)
    (tmp_path / "half.jsonl").write_text("".join(rows[:20]))
    (tmp_path / "seeds.yaml").write_text(yaml.safe_dump({**seeds, "path": str(tmp_path / "half.jsonl")}))
    held = export(run, tmp_path / "held", "jsonl", "--seeds", str(run[1]))
    texts = len((held / "withheld" / "texts.jsonl").read_text().splitlines())
    topics = len((held / "withheld" / "train.jsonl.jsonl").read_text().splitlines())
    capsys.readouterr()
    assert run_command(app, ["restore", str(held), "--seeds", str(tmp_path / "seeds.yaml"), "--json"]) == 11
    told = json.loads(capsys.readouterr().out)
    assert told["found"] + told["missing"] == texts
    assert 0 < told["missing"] < texts
    rows = len((held / "train.jsonl").read_text().splitlines())
    assert rows + len((held / "withheld" / "train.jsonl.jsonl").read_text().splitlines()) == topics
    assert run_command(app, ["restore", str(held), "--seeds", str(run[1])]) == 0  # the rest comes later
    assert rows_of(held) == rows_of(export(run, tmp_path / "whole", "jsonl", "--allow-nonredistributable"))


def test_a_text_that_is_nowhere_is_said_to_be(run, tmp_path, capsys):
    seeds = yaml.safe_load(run[1].read_text())["seeds"]
    (tmp_path / "other.jsonl").write_text('{"id": "x", "query": "another", "good": "text", "bad": []}\n')
    (tmp_path / "seeds.yaml").write_text(yaml.safe_dump({**seeds, "path": str(tmp_path / "other.jsonl")}))
    held = export(run, tmp_path / "held", "jsonl", "--seeds", str(tmp_path / "seeds.yaml"))
    assert "were not found in the corpus" in capsys.readouterr().err
    assert json.loads((held / "release.json").read_text())["withheld_texts"]["nowhere"]


def test_the_run_is_really_edited_and_withheld(run):
    (row,) = run_sql(run[0], "SELECT count(*) AS n FROM passages WHERE edited_from <> ''").to_pylist()
    assert row["n"] > 10


SEED = Seed(
    "s", "c", "what is it?", (Passage("It is a long text of the corpus, with many words in it.", "seed_positive"),)
)


def topic(*passages: Passage) -> Topic:
    intent = Intent("i", "original", "", SEED.query)
    marks = tuple(Judgment("i", passage.id, 1, "rule") for passage in passages)
    return Topic("t", "s", "c", "r", SEED.query, (intent,), passages, marks)


def test_words_of_a_model_go_out_once_the_corpus_says_that_they_are_none_of_it():
    written = Passage("A text that a model wrote.", "instruction_negative")
    held, entries = withhold(topic(SEED.positives[0], written), look_up([topic(SEED.positives[0], written)], [SEED]))
    assert held.passages[1].text == written.text
    assert [entry.place for entry in entries] == ["corpus"] * 3
    unknown, entries = withhold(topic(written), None)
    assert unknown.passages[0].text != written.text
    assert {entry.place for entry in entries} == {"not looked up"}


def test_an_edit_of_a_passage_that_its_topic_lost_needs_the_corpus():
    edit = Passage("It is a long text of the corpus.", "instruction_negative", edited_from=SEED.positives[0].id)
    assert withhold(topic(edit), None)[1][-1].place == "nowhere"
    held, entries = withhold(topic(edit), look_up([topic(edit)], [SEED]))
    assert entries[-1].place == "edit"
    texts = found_texts([json.loads(json.dumps(entry.plain())) for entry in entries], [SEED])
    assert fill(held.passages[0].text, texts) == edit.text
    assert withhold(topic(edit), CorpusIndex(frozenset(), {}))[1][-1].place == "nowhere"


@pytest.mark.parametrize(
    "text", ["", "short", "It is a long text of the corpus, with many words in it.", "é\u2028\u0000x " * 9]
)
def test_pieces_put_a_text_together_again(text):
    parent = SEED.positives[0].text
    pieces = pieces_of(text, parent)
    assert "".join(piece if isinstance(piece, str) else parent[slice(*piece)] for piece in pieces) == text


def test_another_text_under_the_same_key_is_refused(monkeypatch):
    from foil.engine.errors import CorruptDataError

    entries = [entry.plain() for entry in withhold(topic(SEED.positives[0]), None)[1]]
    entries[0] |= {"sha256": sha256_hex("another")}
    with pytest.raises(CorruptDataError, match="another text than was released"):
        found_texts(entries, [SEED])
