"""What is measured and logged while a run goes on: on dev topics alone, each step once, and the best weights kept."""

import csv
import json
import signal
import subprocess
import sys

import pytest
import torch
from tensorboardX.proto.event_pb2 import Event

from foil.datasets_out.training.training_view import TrainingView
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of
from foil.trainer.evaluate.comparison.scores import score
from foil.trainer.evaluate.systems.embedder import embedder
from foil.trainer.evaluate.systems.system import SystemSettings
from foil.trainer.model.checkpoint import blend_weights, put_weights, weights
from foil.trainer.model.published_model import fingerprint_of
from foil.trainer.model_settings import LoraSettings, ModelSettings
from foil.trainer.settings import RetentionSettings, ValidationSettings
from foil.trainer.train.run.fit import open_validation, train
from foil.trainer.train.run.logs import LogRow, Logs, read_rows
from foil.trainer.train.run.monitor import Callbacks
from foil.trainer.train.run.validation import Measurement, measure
from tests.support.paths import REPO
from tests.support.trainer_world import open_view
from tests.support.training import FULL, TEMPLATE, fitted, load, settings_for, settings_with_dropout
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def events(folder):
    """(tag, step) of every scalar in TensorBoard's files: records of length, checksum, body, checksum."""
    found = []
    for path in folder.glob("events.out.*"):
        raw = path.read_bytes()
        while raw:
            size = int.from_bytes(raw[:8], "little")
            event = Event.FromString(raw[12 : 12 + size])
            found += [(value.tag, event.step) for value in event.summary.value]
            raw = raw[16 + size :]
    return found


def test_numbers_are_those_of_the_weights_and_held_out_topics_are_never_read(bert, view, tmp_path, monkeypatch):
    read = TrainingView.read

    def guarded(self, split, indices):
        assert split != "heldout"
        return read(self, split, indices)

    monkeypatch.setattr(TrainingView, "read", guarded)
    measurements = []
    settings = settings_for(bert, validation=ValidationSettings(steps=4))
    trained = train(settings, view, tmp_path, callbacks=Callbacks(on_measured=measurements.append))
    found = {one["step"]: one["means"] for one in trained.facts["validations"]}
    dev = view.read_all("dev")
    assert list(found) == [measurement.step for measurement in measurements] == [0, 4, 6]
    for step, model in ((0, bert), (6, trained.model)):
        expected = measure(load(model), dev)
        assert found[step] == pytest.approx(expected, abs=1e-4)
    assert len(dev) == 8


@pytest.mark.slow
def test_measuring_changes_nothing_of_the_training(bert, view, tmp_path):
    runs = [
        train(settings_with_dropout(bert).model_copy(update={"validation": plan}), view, tmp_path / name)
        for name, plan in (("alone", ValidationSettings(topics=0)), ("watched", ValidationSettings(steps=1)))
    ]
    assert runs[0].facts["losses"] == runs[1].facts["losses"]
    assert [len(run.facts["validations"]) for run in runs] == [0, 7]
    ours, theirs = (weights(load(run.model)) for run in runs)
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


@pytest.mark.slow
def test_the_best_step_is_published_and_kept_beside_the_newest(bert, view, tmp_path):
    keep = RetentionSettings(frozen_embeddings=False, plain_loss_allowed=100)
    plan = ValidationSettings(steps=2, keep="best", measure="should_fall")
    settings = settings_for(bert, steps=12, validation=plan, retention=keep)
    at = {}

    def follow(step, encoder):
        at[step] = {name: value.clone() for name, value in weights(encoder).items()}

    fitted(settings, view, tmp_path / "alone", on_weights=follow)
    kept = []

    def look(one):
        kept.append([path.name for path in (tmp_path / "checkpoints").glob("dev-*/step-*/")])

    trained = train(settings, view, tmp_path, callbacks=Callbacks(on_measured=look))
    scores = {one["step"]: one["means"]["should_fall"] for one in trained.facts["validations"]}
    best = max(scores, key=scores.get)
    assert trained.facts["step"] == best
    assert all(torch.equal(value, at[best][name]) for name, value in weights(load(trained.model)).items())
    assert {len(names) for names in kept} == {1}
    assert kept[-1] == [f"step-{best:08d}"]


def test_weights_that_lose_too_much_of_plain_retrieval_are_not_the_best(bert, view, tmp_path):
    validation = open_validation(
        settings_for(bert, validation=ValidationSettings(steps=1, keep="best")), view, tmp_path
    )
    rows = [(0, 10.0, 50.0), (1, 30.0, 49.5), (2, 40.0, 45.0), (3, 30.0, 60.0)]
    found = [Measurement(step, {"both_views": both, "plain_ndcg": plain}, seconds=0.0) for step, both, plain in rows]
    assert validation.best_step(found) == 1
    assert validation.best_step(found[1:]) is None


def test_the_last_step_is_measured_where_epochs_stand_for_steps(bert, view, tmp_path):
    settings = settings_for(bert)
    plan = settings.schedule.model_copy(update={"epochs": 1})
    validation = open_validation(settings.model_copy(update={"schedule": plan}), view, tmp_path)
    last = len(view.partitions("train")) // plan.topics_per_batch
    assert [step for step in range(20) if validation.is_due(step)] == [0, last]


def test_no_more_dev_topics_are_measured_than_asked_and_they_are_spread(bert, view, tmp_path):
    def groups(topics):
        return open_validation(settings_for(bert, validation=ValidationSettings(topics=topics)), view, tmp_path).groups

    whole = [group.topic_id for group in view.read_all("dev")]
    assert [group.topic_id for group in groups(100)] == whole
    assert [group.topic_id for group in groups(3)] == [whole[int(place * len(whole) / 3)] for place in range(3)]
    assert not groups(0)


def test_a_choice_without_dev_topics_is_refused_at_once(bert, world, tmp_path):
    bare = open_view(world, heldout_share=0.2, dev_share=0.0)
    for plan in (ValidationSettings(steps=2), ValidationSettings(keep="best")):
        with pytest.raises(UsageError, match="no dev topics to measure on"):
            train(settings_for(bert, validation=plan), bare, tmp_path)
    trained = train(settings_for(bert, steps=2), bare, tmp_path / "plain")
    assert (trained.facts["validations"], trained.facts["curve"]) == ([], [])
    assert "Nothing was measured" in (trained.model / "README.md").read_text()
    with pytest.raises(ValueError, match="keep: best chooses on dev topics"):
        ValidationSettings(keep="best", topics=0)


def test_every_run_draws_its_curve_and_a_single_share_is_not_chosen(bert, view, tmp_path):
    trained = train(settings_for(bert), view, tmp_path / "drawn")
    shares = {point["share"]: point["means"] for point in trained.facts["curve"]}
    assert list(shares) == [0, 0.25, 0.5, 0.75, 1]
    assert trained.facts["blend"] == 1
    assert shares[0] == trained.facts["validations"][0]["means"]
    assert shares[1] == trained.facts["validations"][-1]["means"]
    half = load(trained.model)
    start = weights(load(bert))
    with torch.no_grad():
        for name, value in half.named_parameters():
            value.copy_((value + start[name]) / 2)
    assert measure(half, view.read_all("dev")) == pytest.approx(shares[0.5], abs=1e-4)
    assert min((trained.model / name).stat().st_size for name in ("curve.png", "training.png")) > 5000
    card = (trained.model / "README.md").read_text()
    assert "(curve.png)" in card
    assert "unknown, may not be passed on: 60 topics" in card
    bare = RetentionSettings(frozen_embeddings=False, drawn_shares=())
    undrawn = train(settings_for(bert, steps=2, retention=bare), view, tmp_path / "undrawn")
    assert not (undrawn.model / "curve.png").exists()
    assert "(curve.png)" not in (undrawn.model / "README.md").read_text()


@pytest.mark.slow
def test_a_run_killed_between_two_checkpoints_ends_the_same_with_each_step_logged_once(bert, world, view, tmp_path):
    script = f"""
import os, signal, sys; sys.path[:0] = {[str(REPO)]!r}
from pathlib import Path
from tests.support.trainer_world import open_view
from tests.support.training import SHARES, settings_with_dropout
from foil.trainer.train.run.fit import train
from foil.trainer.train.run.monitor import Callbacks
def die(row):
    if row.step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
view = open_view(Path({str(world)!r}), **SHARES)
settings, out = settings_with_dropout(Path({str(bert)!r})), Path({str(tmp_path / "killed")!r})
train(settings, view, out, callbacks=Callbacks(on_step=die))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    logs = tmp_path / "killed" / "logs"
    assert [row["step"] for row in table(logs / "train.csv")] == ["1", "2", "3", "4", "5"]
    with (logs / "train.csv").open("a") as file:
        file.write("6,0,1.2")
    resumed, straight = (train(settings_with_dropout(bert), view, tmp_path / name) for name in ("killed", "straight"))
    assert resumed.facts["losses"] == straight.facts["losses"]
    ours, theirs = (weights(load(run.model)) for run in (resumed, straight))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    for name in ("killed", "straight"):
        rows, measured = (table(tmp_path / name / "logs" / f"{part}.csv") for part in ("train", "validation"))
        assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5, 6]
        assert [float(row["loss"]) for row in rows] == straight.facts["losses"]
        assert [int(row["step"]) for row in measured] == [0, 3, 6]
        scalars = events(tmp_path / name / "logs")
        assert [step for tag, step in scalars if tag == "train/loss"] == [1, 2, 3, 4, 5, 6]
        assert sorted(step for tag, step in scalars if tag == "dev/both_views") == [0, 3, 6]
    ours, theirs = ([(one["step"], one["means"]) for one in run.facts["validations"]] for run in (resumed, straight))
    assert ours == theirs


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = [LogRow(step, 0, 1 / 3 + step, 1e-4, 0.1, 0.25, 48.0, 1e5, 0.7) for step in (1, 2, 3)]
    for first in (0, 2):
        logs = Logs(tmp_path, first)
        for row in rows[first:]:
            logs.add_step(row)
        logs.close()
        assert read_rows(tmp_path / "train.csv") == rows
    Logs(tmp_path, 0).close()
    assert read_rows(tmp_path / "train.csv") == []
    assert not events(tmp_path)


def test_a_finished_run_is_found_without_reading_its_data(bert, world, tmp_path, capsys):
    import shutil

    from foil.cluster.commands.trainers.train import train as train_job

    out = tmp_path / "run"
    shutil.copytree(world, out)
    job = REPO / "examples" / "jobs" / "quickstart.yaml"
    asked = [f"train.base={bert}", "train.schedule.steps=2", "train.schedule.topics_per_batch=6"]
    train_job(job, asked, out, as_json=True)
    first, messages = capsys.readouterr()
    assert "dev topics after step 2" in messages
    assert str(out / "model" / "training.png") in messages
    for path in out.rglob("*.parquet"):
        path.unlink()
    train_job(job, asked, out, as_json=True)
    second, messages = capsys.readouterr()
    assert json.loads(second) == json.loads(first)
    assert "trained already" in messages
    with pytest.raises(UsageError, match=r"trained with train\.schedule\.seed: 0, now 1"):
        train_job(job, [*asked, "train.schedule.seed=1"], out, as_json=True)


def test_an_adapters_run_is_blended_along_its_update(bert, view, tmp_path):
    model = ModelSettings(lora=LoraSettings(rank=4))
    trained = train(settings_for(bert, model=model), view, tmp_path)
    curve = {point["share"]: point["means"] for point in trained.facts["curve"]}
    start, end = weights(load(bert)), weights(load(trained.model))
    assert any(not torch.equal(value, end[name]) for name, value in start.items())
    for share in (0.0, 0.5, 1.0):
        put_weights(mixed := load(bert), blend_weights(start, end, share))
        assert measure(mixed, view.read_all("dev")) == pytest.approx(curve[share], abs=1e-3)


class TestBenchmarksOfOthers:
    """`validation.benchmarks`: measured beside the dev topics, choices kept to what they allow, named in foil.json."""

    @pytest.fixture
    def ferries(self, tmp_path):
        return write_benchmark("beir", tmp_path / "ferries")

    def trained(self, bert, view, out, ferries, **plan):
        settings = settings_for(bert, validation=ValidationSettings(benchmarks=(ferries,), **plan))
        return train(settings, view, out)

    def test_their_numbers_are_those_of_foil_evaluate(self, bert, view, tmp_path, ferries):
        trained = self.trained(bert, view, tmp_path / "out", ferries, topics=0)
        (benchmark,) = benchmarks_of(ferries)
        settings = SystemSettings(encode=FULL)
        for step, model in ((0, str(bert)), (6, str(trained.model))):
            system = embedder(model, settings.model_copy(update={"template": TEMPLATE.name}), tmp_path / "vectors")
            (scores,) = score([benchmark], [system], (), 10)
            (values,) = scores.values[model].values()
            means = next(one["means"] for one in trained.facts["validations"] if one["step"] == step)
            expected = 100 * sum(values.values()) / len(values)
            assert means == pytest.approx({"beir/ferries nDCG@10": expected, "outside": expected})
        assert trained.facts["benchmarks"] == {"beir/ferries/test": benchmark.digest}

    def test_a_benchmark_that_changes_between_stop_and_resume_is_refused(self, bert, view, tmp_path, ferries):
        settings = settings_for(bert, validation=ValidationSettings(benchmarks=(ferries,)))
        open_validation(settings, view, tmp_path).measure(0, load(bert))
        corpus = ferries.path / "corpus.jsonl"
        corpus.write_text(corpus.read_text().replace("noon", "dawn"))
        with pytest.raises(UsageError, match=r"beir/ferries/test of .* has other contents"):
            train(settings, view, tmp_path)

    def test_one_that_shows_no_value_is_refused(self, bert, view, tmp_path, ferries):
        empty = ferries.model_copy(update={"measures": ("p-MRR",)})
        settings = settings_for(bert, validation=ValidationSettings(benchmarks=(empty,)))
        with pytest.raises(UsageError, match=r"beir/ferries of .* shows no value of its measures"):
            train(settings, view, tmp_path)

    def test_two_of_one_name_are_refused(self, bert, view, tmp_path, ferries):
        settings = settings_for(bert, validation=ValidationSettings(benchmarks=(ferries, ferries)))
        with pytest.raises(UsageError, match=r"two of .* are called beir/ferries/test"):
            train(settings, view, tmp_path)

    def test_where_they_lie_does_not_make_another_run(self, bert, ferries):
        moved = ferries.model_copy(update={"path": ferries.path.parent / "elsewhere"})
        one, two, none = (
            fingerprint_of(settings_for(bert, validation=ValidationSettings(benchmarks=benchmarks)), "digest")
            for benchmarks in ((ferries,), (moved,), ())
        )
        assert one == two != none == fingerprint_of(settings_for(bert), "digest")

    def test_a_choice_by_them_needs_one(self):
        with pytest.raises(ValueError, match="measure: outside is of `benchmarks`"):
            ValidationSettings(measure="outside")
