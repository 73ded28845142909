"""How `foil train`, `foil evaluate` and `foil mine` end over damage, divergence and odd input: a code and one line."""

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from safetensors.torch import load_file, save_file

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.engine.atomic_files import held
from foil.trainer.train.run.logs import LogRow
from foil.trainer.train.run.publish import find_warnings
from tests.support.damage import flip_bit, truncate
from tests.support.paths import REPO
from tests.support.trainer_world import commit, tiny_bert, topic

JOB = REPO / "examples" / "jobs" / "quickstart.yaml"


class Ending(NamedTuple):
    """The exit code of a command, and its words on stderr with those that it logged."""

    code: int
    words: str


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    return commit(tmp_path_factory.mktemp("world"), [topic(number) for number in range(60)])


@pytest.fixture(scope="module")
def trained(base, world, tmp_path_factory) -> Path:
    """A run with its model."""
    out = shutil.copytree(world, tmp_path_factory.mktemp("trained") / "out")
    assert run_command(app, arguments("train", out, base)) == 0
    return out


@pytest.fixture
def out(trained, tmp_path) -> Path:
    return shutil.copytree(trained, tmp_path / "out")


@pytest.fixture
def fresh(world, tmp_path) -> Path:
    return shutil.copytree(world, tmp_path / "fresh")


@pytest.fixture
def ending(base, capsys, caplog) -> Callable[..., Ending]:
    def end(command: str, out: Path, *settings: str) -> Ending:
        capsys.readouterr()
        caplog.clear()
        code = run_command(app, arguments(command, out, base, *settings))
        return Ending(code, capsys.readouterr().err + caplog.text)

    return end


def arguments(command: str, out: Path, base: Path, *settings: str) -> list[str]:
    if command == "mine":
        first = ["mine", str(out), str(out.with_name("mined")), "--set", "miner=model"]
        return [*first, *(part for setting in settings for part in ("--set", setting))]
    chosen = [
        f"train.base={base}", "train.schedule.steps=2", "train.schedule.topics_per_batch=6",
        "train.encode.max_tokens=64", "train.validation.topics=0", "evaluate.resamples=100", *settings,
    ]  # fmt: skip
    return [command, str(JOB), "--out", str(out), *(part for setting in chosen for part in ("--set", setting))]


@pytest.mark.parametrize("damage", [flip_bit, truncate, Path.unlink])
def test_a_damaged_model_is_never_taken_for_trained_nor_used(out, ending, damage):
    damage(out / "model" / "model.safetensors")
    mine = f"model={out / 'model'}"
    for command, settings in (("train", ()), ("evaluate", ()), ("mine", (mine,))):
        code, words = ending(command, out, *settings)
        assert (code, f"remove {out / 'model'} and train again" in words) == (6, True), words


DIVERGING = ("train.schedule.learning_rate=100", "train.schedule.weight_decay=1000", "train.schedule.steps=60")


def test_a_second_training_into_one_folder_is_refused(fresh, ending):
    with held(fresh, "train"):
        code, words = ending("train", fresh)
    assert (code, "another `foil train` works in" in words) == (12, True)
    assert not (fresh / "checkpoints").exists()


@pytest.mark.parametrize("more", [(), ("train.gradient_cache=true",), ("train.checkpoint_steps=1",)])
def test_training_that_diverges_stops_and_keeps_nothing_of_it(fresh, ending, more):
    code, words = ending("train", fresh, *DIVERGING, *more)
    assert (code, "Lower `schedule.learning_rate`" in words) == (10, True), words
    assert not (fresh / "model").exists()
    stored = [load_file(path) for path in fresh.glob("checkpoints/step-*/weights.safetensors")]
    assert len(stored) == (2 if "checkpoint_steps" in str(more) else 0)
    assert all(value.isfinite().all() for tensors in stored for value in tensors.values())


def test_a_model_that_learned_nothing_says_so(fresh, ending):
    code, words = ending("train", fresh, "train.loss.temperature=1000")
    facts, card = (json.loads((fresh / "model" / "foil.json").read_text()), (fresh / "model" / "README.md").read_text())
    assert (code, "the model learned nothing" in words) == (0, True), words
    assert facts["warnings"][0] in card


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ([0.7, 0.3, 0.1, 0.0004, 0.0], "fell to 0.0000, and below 0.0005 at step 4 of 5"),
        ([0.0] * 30, "below 0.0005 at step 1 of 30"),
        ([0.7, 0.3, 0.0, 0.0, 0.1], ""),
        ([0.7, 0.0006], ""),
        ([], ""),
    ],
)
def test_a_loss_of_nothing_is_told(losses, said):
    warnings = find_warnings([LogRow(n, 1, loss, 1e-4, 1.0, 1.0, 1.0, 1.0, 1.6) for n, loss in enumerate(losses, 1)])
    assert [said in warning for warning in warnings] == ([True] if said else [])


def test_a_model_that_learned_something_has_no_warning(trained):
    assert json.loads((trained / "model" / "foil.json").read_text())["warnings"] == []


@pytest.mark.slow
def test_a_model_of_two_runs_names_both_and_is_known_again(world, tmp_path, ending):
    more = commit(tmp_path / "more", [topic(number) for number in range(60, 90)])
    data = f"[{{run: {world}, weight: 3}}, {{run: {more}, weight: 1, where: \"topic_id < 'topic-080'\"}}]"
    settings = (f"train.data={data}",)
    first, again = (ending("train", tmp_path / "out", *settings) for _ in range(2))
    assert (first.code, again.code, "trained already" in again.words) == (0, 0, True), first.words + again.words
    facts = json.loads((tmp_path / "out" / "model" / "foil.json").read_text())
    assert [source["run"] for source in facts["sources"]] == [str(world), str(more)]
    assert 10 < facts["sources"][1]["topics"] <= 20
    assert f"`{facts['sources'][1]['digest']}`" in (tmp_path / "out" / "model" / "README.md").read_text()
    assert ending("evaluate", tmp_path / "out", *settings).code == 0
    other = ending("train", tmp_path / "out", f"train.data={data.replace('weight: 3', 'weight: 2')}")
    assert (other.code, "train.weights: [3.0,1.0], now [2.0,1.0]" in other.words) == (2, True), other.words
    half = ending("train", tmp_path / "half", f"train.data={data.replace(', weight: 3', '')}")
    assert (half.code != 0, "a `weight`, or none" in half.words) == (True, True), half.words


@pytest.mark.parametrize("command", ["train", "evaluate", "mine"])
def test_a_flipped_bit_in_the_data_stops_every_command_before_its_first_step(out, ending, command):
    shutil.rmtree(out / "logs")
    if command == "train":
        shutil.rmtree(out / "model")
    settings = [f"model={out / 'model'}"] if command == "mine" else []
    shard = min(out.glob("data/**/*.parquet"))
    flip_bit(shard)
    code, words = ending(command, out, *settings)
    assert (code, f"{shard.relative_to(out)} is changed" in words) == (6, True), words
    made = [out / "logs", out / "evaluation.json", out.with_name("mined")]
    assert not any(path.exists() for path in made)


def no_files(base: Path) -> None:
    for path in base.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def nan_weights(base: Path) -> None:
    tensors = load_file(base / "model.safetensors")
    next(iter(tensors.values())).fill_(float("nan"))
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})


def written(name: str, text: str) -> Callable[[Path], None]:
    def write(base: Path) -> None:
        (base / name).write_text(text)

    write.__name__ = f"{name} {text[:20]}"
    return write


DAMAGES = [
    no_files, nan_weights, written("model.safetensors", "garbage"), written("model.safetensors", ""),
    *(
        written(name, text)
        for name in ("config.json", "tokenizer.json", "modules.json", "tokenizer_config.json", "1_Pooling/config.json")
        for text in ("", "{", "[]", "{}", "null", "[" * 100_000)
    ),
    written("config.json", '{"model_type": "bert", "hidden_size": -1}'),
    written("config.json", '{"model_type": "bert", "hidden_size": 1000000000000, "num_attention_heads": 1}'),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_broken_base_model_ends_in_words(base, fresh, tmp_path, ending, damage):
    broken = shutil.copytree(base, tmp_path / "broken")
    damage(broken)
    code, words = ending("train", fresh, f"train.base={broken}")
    assert code in {0, 2}, words
    assert code == 0 or str(broken) in words


@pytest.mark.parametrize("path", ["absent", "/dev/null", "README.md"])
def test_a_model_that_is_no_folder_is_wrong_usage(fresh, ending, path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # else it is looked for on the hub, long
    assert ending("train", fresh, f"train.base={path}").code == 2
    assert ending("mine", fresh, f"model={path}").code == 2


def test_a_file_or_nothing_in_place_of_the_model(fresh, ending):
    assert ending("evaluate", fresh).code == 2
    (fresh / "model").write_text("no folder")
    assert ending("evaluate", fresh).code == 2
    assert ending("train", fresh).code == 2


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", "null", '{"fingerprint": 1}', "[" * 100_000])
def test_a_damaged_foil_json_is_damage(out, ending, text):
    facts = out / "model" / "foil.json"
    facts.unlink() if text is None else facts.write_text(text)
    for command in ("train", "evaluate"):
        code, words = ending(command, out)
        assert (code, str(facts) in words) == (6, True), words


@pytest.mark.parametrize(
    "setting",
    [
        "train.schedule.learning_rate=.nan", "train.schedule.learning_rate=.inf", "train.schedule.learning_rate=1e30",
        "train.schedule.learning_rate=-1", "train.schedule.topics_per_batch=0", "train.schedule.epochs=1000000000",
        "train.schedule.steps=1000000000000", "train.loss.temperature=0", "train.encode.max_tokens=0",
        "train.encode.max_tokens=1000000000", "train.retention.blends=[.nan]",
    ],
)  # fmt: skip
def test_absurd_settings_are_refused(fresh, ending, setting):
    told = ending("train", fresh, setting)
    assert (told.code, setting.partition("=")[0].rpartition(".")[2] in told.words) == (2, True)


def test_texts_longer_than_the_model_has_positions_are_cut(tmp_path, ending):
    texts = (f"number {n} " + "was built by its people " * 40 for n in range(60))
    long = commit(tmp_path / "long", [topic(n, text=text) for n, text in enumerate(texts)])
    assert ending("train", long, "train.schedule.steps=1", "train.encode.max_tokens=8192").code == 0


def test_a_full_disk_stops_training_with_code_8_and_it_goes_on_from_there(fresh, ending):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        told = ending("train", fresh)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert told.code == 8, told.words
    assert not (fresh / "model").exists()
    assert not list(fresh.glob("checkpoints/.*"))
    assert ending("train", fresh).code == 0


@pytest.mark.parametrize(
    ("setting", "instead"), [("rerank.hits=hits.json", "kind: rank_llm"), ("cutoff=20", "plain_ndcg@20")]
)
def test_a_setting_that_is_gone_is_told_with_what_stands_in_its_place(out, ending, setting, instead):
    told = ending("evaluate", out, f"evaluate.{setting}")
    assert (told.code, instead in told.words) == (2, True), told.words


def test_a_damaged_log_is_damage(fresh, ending):
    (fresh / "logs").mkdir()
    (fresh / "logs" / "train.csv").write_text("step,epoch\n1,2,x\n")
    told = ending("train", fresh)
    assert (told.code, "train.csv" in told.words) == (6, True)
