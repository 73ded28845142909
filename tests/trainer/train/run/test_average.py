"""The mean of models: its weights, what it says of itself, and what it refuses."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from foil.engine.errors import CorruptDataError, UsageError
from foil.trainer.model.checkpoint import weights
from foil.trainer.model.checksums import check_model
from foil.trainer.train.run.average import average_models
from foil.trainer.train.run.fit import train
from tests.support.training import load, settings_for


@pytest.fixture(scope="module")
def trained(bert, view, tmp_path_factory):
    """Three seeds of one training."""
    folder, models = tmp_path_factory.mktemp("trained"), []
    for seed in range(3):
        settings = settings_for(bert)
        settings = settings.model_copy(update={"schedule": settings.schedule.model_copy(update={"seed": seed})})
        models.append(train(settings, view, folder / str(seed), command=f"foil train seed-{seed}").model)
    return models


def values(model) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in weights(load(model)).items()}


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_weights_are_a_share_of_the_mean_and_the_rest_of_the_base(trained, bert, tmp_path, share):
    made = average_models(trained, tmp_path / "mean", share, "foil average")
    found, base, each = values(made.model), values(bert), [values(model) for model in trained]
    for name, value in found.items():
        mean = np.mean([one[name] for one in each], axis=0)
        assert np.allclose(value, base[name] + share * (mean - base[name]), atol=1e-6), name
    assert any(not np.array_equal(each[0][name], each[1][name]) for name in found)


def test_it_says_what_it_was_made_of_and_loads_in_the_real_library(trained, view, tmp_path):
    made = average_models(trained, tmp_path / "mean", 0.5, "foil average a b c --share 0.5")
    facts = check_model(made.model)
    assert [each["command"] for each in facts["averaged"]] == [f"foil train seed-{seed}" for seed in range(3)]
    assert facts["blend"] == 0.5
    assert facts["sources"] == check_model(trained[0])["sources"]
    card = (made.model / "README.md").read_text()
    for words in ("foil average a b c --share 0.5", "foil train seed-2", view.digest, "{query} {instruction}"):
        assert words in card
    library = SentenceTransformer(str(made.model), device="cpu")
    with torch.no_grad():
        assert np.allclose(library.encode(["one"]), load(made.model).encode(["one"], []).numpy(), atol=1e-6)


def test_an_average_can_be_averaged(trained, bert, tmp_path):
    mean = average_models(trained[:2], tmp_path / "two", 1.0, "foil average").model
    made = average_models([mean, trained[2]], tmp_path / "all", 1.0, "")
    found, each = values(made.model), [values(model) for model in trained]
    for name, value in found.items():
        assert np.allclose(value, (each[0][name] + each[1][name]) / 4 + each[2][name] / 2, atol=1e-6)
    assert "| a mean |" in (made.model / "README.md").read_text()


def test_what_cannot_be_averaged_is_refused(trained, bert, view, tmp_path):
    with pytest.raises(UsageError, match="two models"):
        average_models(trained[:1], tmp_path / "one", 1.0, "")
    other = train(settings_for(bert, template="instruction_query"), view, tmp_path / "other").model
    with pytest.raises(UsageError, match="began alike"):
        average_models([trained[0], other], tmp_path / "unlike", 1.0, "")
    average_models(trained, tmp_path / "there", 1.0, "")
    with pytest.raises(UsageError, match="is there already"):
        average_models(trained, tmp_path / "there", 1.0, "")
    weights_file = next(other.glob("*.safetensors"))
    weights_file.write_bytes(weights_file.read_bytes()[:-1] + b"\0")
    with pytest.raises(CorruptDataError, match="is damaged"):
        average_models([trained[0], other], tmp_path / "damaged", 1.0, "")
    assert not (tmp_path / "unlike").exists()
    assert not (tmp_path / "damaged").exists()
