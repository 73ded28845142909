"""Results in the card of a published model, read by the hub's own library."""

import doctest
import json

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.trainer.evaluate.interop import model_index
from foil.trainer.model import card as card_of_model
from foil.trainer.model.checksums import check_model
from foil.trainer.settings import ValidationSettings
from foil.trainer.train.run.fit import train
from tests.support.training import load, settings_for
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark


@pytest.fixture(scope="module")
def evaluated(bert, view, tmp_path_factory):
    """A trained model, evaluated on one collection and on two, and the card that it had before."""
    folder = tmp_path_factory.mktemp("carded")
    model = train(settings_for(bert, steps=2), view, folder / "demo").model
    write_benchmark("infosearch", folder / "info")
    write_benchmark("trec", folder / "trec")
    before = (model / "README.md").read_text()
    arguments = ["evaluate", str(model), "--on", f"infosearch:{folder / 'info'}", "--on", f"trec:{folder / 'trec'}"]
    arguments += ["--out", str(folder / "out"), "--card"]
    assert run_command(app, arguments) == 0
    return model, arguments, before, folder / "out" / "results.jsonl"


def rows_of(model, results):
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return [row for row in rows if row["system"] == str(model)]


def test_the_examples_hold():
    assert [doctest.testmod(module).failed for module in (model_index, card_of_model)] == [0, 0]


def test_the_hub_library_reads_what_was_measured(evaluated):
    model, _, _, results = evaluated
    data = ModelCard.load(model / "README.md").data.to_dict()
    name, found = model_index_to_eval_results(data["model-index"])
    read = {(each.dataset_type, each.dataset_config, each.metric_name): each for each in found}
    rows = [row for row in rows_of(model, results) if not row["group"] or row["group"].startswith("part")]
    assert (name, len(found)) == ("demo/model", len(rows))
    assert len(read) == len(rows) > 8
    for row in rows:
        part = row["group"].removeprefix("part: ") or None
        each = read[row["benchmark"], part, row["measure"]]
        assert each.metric_value == pytest.approx(row["value"] / 100, abs=1e-6)
        assert each.metric_args["queries"] == row["count"]
        if part or row["benchmark"] == "trec/trec":
            where = f"{row['benchmark']}/{part}" if part else row["benchmark"]
            assert each.dataset_revision == row["collections"][where]["digest"]
    assert read["trec/trec", None, "nDCG@10"].metric_type == "ndcg_at_10"


def test_text_and_own_keys_stay_and_the_model_still_checks(evaluated):
    model, _, before, _ = evaluated
    card = ModelCard.load(model / "README.md")
    assert card.text == ModelCard(before).text
    assert card.data.library_name == "sentence-transformers"
    check_model(model)
    load(model)


def test_the_same_again_changes_no_byte_and_encodes_nothing(evaluated):
    model, arguments, _, results = evaluated
    kept, card = results.read_text(), (model / "README.md").read_bytes()
    blocks = set(results.parent.rglob("*.npy"))
    assert run_command(app, arguments) == 0
    assert (results.read_text(), (model / "README.md").read_bytes()) == (kept, card)
    assert set(results.parent.rglob("*.npy")) == blocks


def test_results_of_others_and_their_keys_stay(evaluated):
    model, arguments, _, _ = evaluated
    card = ModelCard.load(model / "README.md")
    card.data.eval_results[0].metric_value = 0.5
    card.data.eval_results[0].dataset_type = "theirs"
    card.data.license = "mit"
    card.save(model / "README.md")
    assert run_command(app, arguments) == 0
    again = ModelCard.load(model / "README.md").data
    assert [each.metric_value for each in again.eval_results if each.dataset_type == "theirs"] == [0.5]
    assert len(again.eval_results) == len(card.data.eval_results) + 1
    assert again.license == "mit"


def test_the_front_matter_names_base_and_licence_where_they_are_known(bert):
    packaged, local, hub = ({"settings": {"base": base}} for base in (None, str(bert), "intfloat/e5-base-v2"))
    assert card_of_model.front_matter(packaged)["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert card_of_model.front_matter(packaged)["license"] == "apache-2.0"
    assert {"base_model", "license"} & card_of_model.front_matter(local).keys() == set()
    assert card_of_model.front_matter(hub)["base_model"] == "intfloat/e5-base-v2"
    assert "license" not in card_of_model.front_matter(hub)


def test_a_card_that_does_not_read_and_a_model_without_one_end_in_words(evaluated, tmp_path, capsys):
    model, arguments, _, _ = evaluated
    (model / "README.md").write_text("---\nmodel-index: 3\n---\n")
    assert run_command(app, arguments) == 2
    assert "README.md does not read" in capsys.readouterr().err
    assert run_command(app, ["evaluate", "base", *arguments[2:]]) == 2
    assert "no system is one; give its directory" in capsys.readouterr().err


def test_what_weights_were_chosen_on_is_marked_and_stays_out_of_the_card(bert, view, tmp_path, capsys):
    benchmark = write_benchmark("trec", tmp_path / "trec")
    settings = settings_for(bert, steps=2, validation=ValidationSettings(benchmarks=(benchmark,)))
    model = train(settings, view, tmp_path / "demo").model
    out = tmp_path / "out"
    arguments = ["evaluate", str(model), "--on", f"trec:{benchmark.path}", "--out", str(out), "--card"]
    assert run_command(app, arguments) == 0
    assert f"{model} was chosen on trec/trec: its numbers there are no test" in capsys.readouterr().err
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {row["system"] for row in rows if row["chosen_on"]} == {str(model)}
    assert not ModelCard.load(model / "README.md").data.eval_results
