"""Training as trainers know it: jobs of `out` and `train`, progress, near keys, watchers in Python, pushed models."""

import csv
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

import foil
from foil.cluster.mistakes import NAMES, unknown_key
from foil.trainer.model.checksums import check_model
from foil.trainer.settings import ScheduleSettings, TrainSettings
from foil.trainer.train.run.fit import learning_rate
from tests.support.commands import foil as run_foil
from tests.support.models.hub_server import hub
from tests.support.paths import REPO
from tests.support.trainer_world import commit, tiny_bert, topic

JOB = """out: {out}
train:
  base: {base}
  data: [{{run: {run}}}]
  schedule: {{steps: 3, topics_per_batch: 6}}
  loss: {{temperature: 0.04}}
  encode: {{max_tokens: 64}}
  validation: {{topics: 4}}
  retention: {{drawn_shares: []}}
evaluate: {{resamples: 100}}
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A job that only trains, on a run that exists."""
    folder = tmp_path_factory.mktemp("training")
    run, base = commit(folder / "run", [topic(number) for number in range(40)]), tiny_bert(folder / "bert")
    path = folder / "train.yaml"
    path.write_text(JOB.format(out=folder / "out", base=base, run=run))
    return path


@pytest.fixture(scope="module")
def trained(job):
    return run_foil("train", job, "--out", job.parent / "made")


@pytest.mark.slow
def test_a_job_of_out_and_train_alone_trains_and_is_measured(job, trained):
    made = job.parent / "made"
    assert trained.returncode == 0, trained.stderr
    measured = run_foil("evaluate", job, "--out", made, "--json")
    assert (measured.returncode, "both_views" in json.loads(measured.stdout)) == (0, True), measured.stderr
    refused = run_foil("run", job)
    assert (refused.returncode, "the key 'seeds' is missing" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.slow
def test_its_progress_shows_loss_rate_and_time_left(trained):
    first, last = (line for line in trained.stderr.splitlines() if line.startswith("step "))
    assert re.fullmatch(r"step 1/3  loss \d+\.\d{3}  rate \d\.\de-\d\d  \d+\.\d topics/s, \d+ s left", first)
    assert re.fullmatch(r"step 3/3  loss \d+\.\d{3}  rate \d\.\de-\d\d  \d+\.\d topics/s", last)


@pytest.mark.slow
def test_its_card_says_with_what_it_was_trained(job, trained):
    card = (job.parent / "made" / "model" / "README.md").read_text()
    assert "multivariate over P, I, temperature 0.04" in card
    assert "| Learning rate | 0.0001, 6 steps of warm-up, cosine decay |" in card
    assert "`foil train train.yaml --out made`" in card
    assert str(job.parent) not in card


@pytest.mark.slow
def test_other_settings_are_refused_by_their_names(job, trained):
    other = run_foil("train", job, "--out", job.parent / "made", "--set", "train.loss.temperature=0.1")
    words = " ".join(other.stderr.split())
    assert (other.returncode, "train.loss.temperature: 0.04, now 0.1; choose another" in words) == (2, True), words


@pytest.mark.long
@pytest.mark.slow
def test_more_steps_go_on_from_the_published_weights(job, trained):
    model, more = job.parent / "made" / "model", job.parent / "more"
    refused = run_foil("train", job, "--out", job.parent / "made", "--set", "train.schedule.steps=2")
    assert f"train.schedule.steps: 3, now 2; choose another `out` (to go on from it, with `train.base={model}`)" in (
        " ".join(refused.stderr.split())
    )
    own = run_foil("train", REPO / "examples" / "jobs" / "quickstart.yaml", "--out", more, "--set",
                   f"train.base={model}", "--set", f"train.data=[{{run: {job.parent / 'run'}}}]", "--set",
                   "train.schedule.steps=1", "--set", "train.schedule.topics_per_batch=6", "--set",
                   "train.validation.topics=0")  # fmt: skip
    assert own.returncode == 0, own.stderr
    shutil.rmtree(more)
    done = run_foil("train", job, "--out", more, "--set", f"train.base={model}", "--set", "train.schedule.steps=2")
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((out / "model" / "foil.json").read_text()) for out in (job.parent / "made", more))
    assert second["validations"][0]["means"] == pytest.approx(first["validations"][-1]["means"], abs=1e-6)


@pytest.mark.slow
def test_more_steps_go_on_in_the_same_folder_also_after_kill_9(job, tmp_path):
    """4 steps, then 8: AdamW's moments go on, the rate is that of 8 steps, a killed one ends with the same bytes."""
    settings = [
        "--set",
        "train.checkpoint_steps=2",
        "--set",
        "train.validation.keep=best",
        "--set",
        "train.schedule.warmup_steps=1",
    ]
    made = [
        run_foil("train", job, "--out", tmp_path / name, *settings, "--set", "train.schedule.steps=4") for name in "ab"
    ]
    assert [ended.returncode for ended in made] == [0, 0], made[0].stderr
    first = rows_of(tmp_path / "a")
    [checkpoint] = (tmp_path / "a" / "checkpoints").glob("step-*")
    assert checkpoint.name == "step-00000004"

    more = [*settings, "--set", "train.schedule.steps=8"]
    killed = subprocess.Popen([sys.executable, "-m", "foil", "train", job, "--out", tmp_path / "b", *more], cwd=REPO)
    wait_for((tmp_path / "b" / "checkpoints" / "step-00000006").exists, killed)
    killed.kill()
    killed.wait()
    assert check_model(tmp_path / "b" / "model")["losses"] == check_model(tmp_path / "a" / "model")["losses"]
    for name in "ab":
        ended = run_foil("train", job, "--out", tmp_path / name, *more)
        assert (ended.returncode, "goes on from the last checkpoint" in ended.stderr) == (0, True), ended.stderr
    one, other = (check_model(tmp_path / name / "model") for name in "ab")
    assert (one["files"]["model.safetensors"], one["losses"]) == (other["files"]["model.safetensors"], other["losses"])
    assert (len(one["losses"]), one["went_on_at"]) == (8, [4])
    assert [each["step"] for each in one["validations"]] == [0, 4, 8]
    assert "after a run that had ended at step 4" in (tmp_path / "a" / "model" / "README.md").read_text()

    rows = rows_of(tmp_path / "a")
    assert [int(row["step"]) for row in rows] == list(range(1, 9))
    assert [row["loss"] for row in rows[:4]] == [row["loss"] for row in first]
    curve = [learning_rate(step, ScheduleSettings(steps=8, warmup_steps=1)) for step in range(4, 8)]
    assert [float(row["learning_rate"]) for row in rows[4:]] == pytest.approx(curve)
    moments = load_file(tmp_path / "a" / "checkpoints" / "step-00000008" / "moments.safetensors")
    assert {int(value) for key, value in moments.items() if key.endswith("/step")} == {8}
    again = run_foil("train", job, "--out", tmp_path / "a", *more)
    assert (again.returncode, "trained already" in again.stderr) == (0, True), again.stderr
    other_rate = run_foil("train", job, "--out", tmp_path / "a", *more, "--set", "train.schedule.steps=9",
                          "--set", "train.loss.temperature=0.1")  # fmt: skip
    assert "train.loss.temperature: 0.04, now 0.1" in " ".join(other_rate.stderr.split())
    shutil.rmtree(tmp_path / "a" / "checkpoints")
    gone = run_foil("train", job, "--out", tmp_path / "a", *settings, "--set", "train.schedule.steps=9")
    assert (gone.returncode, "train.schedule.steps: 8, now 9" in " ".join(gone.stderr.split())) == (2, True), (
        gone.stderr
    )


def rows_of(out):
    with (out / "logs" / "train.csv").open() as file:
        return list(csv.DictReader(file))


def wait_for(happened, process):
    while not happened():
        assert process.poll() is None, "it ended before"
        time.sleep(0.005)


@pytest.mark.slow
def test_a_model_is_pushed_as_a_model(job, trained):
    model = job.parent / "made" / "model"
    (model / ".env").write_text("TOKEN=secret")
    with hub() as state:
        env = {"HF_ENDPOINT": state.url, "HF_TOKEN": "hf_test", "HF_HUB_DISABLE_XET": "1"}
        done = run_foil("push", model, "org/embedder", env=env)
        assert done.returncode == 0, done.stderr
        files = {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()} - {".env"}
        assert set(state.files["org/embedder"]) == files
        assert not any(str(job.parent).encode() in data for data in state.files["org/embedder"].values())
        assert "not sent: .env" in done.stderr
        there = job.parent / "fetched"
        for name, data in state.files["org/embedder"].items():
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_bytes(data)
        assert check_model(there)["fingerprint"] == check_model(model)["fingerprint"]
        assert set(state.commits[-1]) == {"README.md", "foil.json"}
        assert state.kinds == {"org/embedder": "model"}


@pytest.mark.slow
def test_python_watches_each_step_and_each_measurement(job, tmp_path):
    own = tmp_path / "train.yaml"
    own.write_text(re.sub("^out: .*", f"out: {tmp_path / 'out'}", job.read_text()))
    steps, measured = [], []
    foil.train(own, on_step=steps.append, on_measured=measured.append)
    assert [row.step for row in steps] == [1, 2, 3]
    assert all(row.loss > 0 and row.learning_rate >= 0 for row in steps)
    assert [measurement.step for measurement in measured] == [0, 3]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("schedule", "batch_size"), "did you mean schedule.topics_per_batch? ScheduleSettings has steps, epochs"),
        (("learning_rate",), "did you mean schedule.learning_rate? TrainSettings has preset, base"),
        (("schedule", "learning_rates"), "did you mean schedule.learning_rate?"),
        (("lr",), "did you mean schedule.learning_rate?"),
        (("model", "matryoshka_dims"), "did you mean model.matryoshka?"),
        (("zebra",), "unknown key; TrainSettings has"),
    ],
)
def test_an_unknown_key_of_a_training_names_the_nearest(place, words):
    assert words in unknown_key(TrainSettings, place)


def test_a_job_file_says_what_comes_nearest(job):
    refused = run_foil("train", job, "--set", "train.schedule.batch_size=8")
    assert (refused.returncode, "did you mean schedule.topics_per_batch?" in refused.stderr) == (2, True)


def test_the_page_of_arguments_has_every_name_and_each_key_is_there():
    page = (REPO / "docs" / "arguments.md").read_text()
    for name, key in NAMES.items():
        section = TrainSettings
        for step in key.split("."):
            assert step in section.model_fields, key
            section = section.model_fields[step].annotation
        assert re.search(rf"\| [^|\n]*`{name}`[^|\n]* \| `train\.{re.escape(key)}` \|", page), name


@pytest.mark.long
@pytest.mark.slow
def test_the_command_for_several_gpus_has_the_losses_of_one_process(job, ray_home):
    """Taken from the page: two workers over gloo on CPUs, on a Ray that the command starts."""
    page = (REPO / "docs" / "trainers.md").read_text()
    [command] = re.findall(r"^## Several GPUs\n\n```\n(foil train .*)\n```$", page, re.MULTILINE)
    losses = []
    for name, words in (("workers", command.split()[1:]), ("alone", ["train", "JOB.yaml"])):
        told = [job if word == "JOB.yaml" else word for word in words]
        ended = run_foil(*told, "--out", job.parent / name, env={"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"})
        assert ended.returncode == 0, ended.stderr
        rows = csv.DictReader((job.parent / name / "logs" / "train.csv").open())
        losses.append([float(row["loss"]) for row in rows])
    assert (job.parent / "workers" / "ray").exists()
    assert len(losses[0]) == 3
    assert losses[0] == pytest.approx(losses[1], rel=1e-6, abs=1e-6)
