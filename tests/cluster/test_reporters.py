"""`train.report_to`: TensorBoard's events and Weights & Biases, each where it is named.

wandb is not among the pins. The tests that need it run where it is: `PYTHONPATH=FOLDER python -m pytest ...` after
`pip install --target FOLDER wandb`.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import foil
from tests.support.paths import REPO
from tests.support.trainer_world import commit, tiny_bert, topic

JOB = """out: {out}
train:
  base: {base}
  data: [{{run: {run}}}]
  schedule: {{steps: 3, topics_per_batch: 6}}
  encode: {{max_tokens: 64}}
  validation: {{topics: 4}}
  retention: {{drawn_shares: []}}
"""
WANDB = importlib.util.find_spec("wandb")
READ = """
import json, struct, sys
from wandb.proto.wandb_internal_pb2 import Record
data, rows = open(sys.argv[1], "rb").read(), []
assert data[:4] == b":W&B" and len(data) < 1 << 15  # a log of LevelDB's form, of one block
place = 7
while place < len(data):
    _, size, kind = struct.unpack_from("<IHB", data, place)
    assert kind == 1  # a whole record
    record = Record.FromString(data[place + 7 : place + 7 + size])
    place += 7 + size
    if record.WhichOneof("record_type") == "history":
        items = record.history.item
        rows.append({item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items})
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reporters")
    run, base = commit(folder / "run", [topic(number) for number in range(40)]), tiny_bert(folder / "bert")
    path = folder / "train.yaml"
    path.write_text(JOB.format(out=folder / "out", base=base, run=run))
    return path


@pytest.fixture
def train(job, tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def start(reporters: str, *settings: str, **env: str) -> subprocess.CompletedProcess[str]:
        with_wandb = f"{REPO}:{Path(WANDB.origin).parents[1]}" if WANDB and WANDB.origin else str(REPO)
        chosen = [f"train.report_to={reporters}", *settings]
        options = [part for setting in chosen for part in ("--set", setting)]
        return foil("train", job, "--out", tmp_path / "out", *options, env={"PYTHONPATH": with_wandb, **env})

    return start


@pytest.mark.skipif(WANDB is not None, reason="wandb is installed")
def test_wandb_that_is_not_installed_is_missed_before_anything_is_trained(train, tmp_path):
    ended = train("[tensorboard, wandb]")
    words = " ".join(ended.stderr.split())
    assert (ended.returncode, "names wandb, which is not installed; `pip install wandb`" in words) == (2, True), words
    assert not (tmp_path / "out" / "logs").exists()


@pytest.mark.slow
def test_without_a_reporter_there_are_no_events_and_one_may_be_added_later(train, tmp_path):
    logs = tmp_path / "out" / "logs"
    assert train("[]").returncode == 0
    assert (sorted(path.name for path in logs.iterdir())) == ["train.csv", "validation.csv"]
    again = train("[tensorboard]")
    assert (again.returncode, "trained already" in again.stderr) == (0, True), again.stderr


def test_an_unknown_reporter_is_refused_by_name(train):
    ended = train("[mlflow]")
    assert (ended.returncode, "mlflow" in ended.stderr, "wandb" in ended.stderr) == (2, True, True), ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(WANDB is None, reason="wandb is not installed")
def test_wandb_offline_has_each_step_and_measurement_and_sends_nothing(train, tmp_path):
    ended = train("[wandb]", WANDB_MODE="offline", WANDB_BASE_URL="http://127.0.0.1:9")
    assert ended.returncode == 0, ended.stderr
    [file] = (tmp_path / "out" / "wandb").glob("offline-run-*/run-*.wandb")
    rows = history(file)
    steps = {row["_step"]: row["train/loss"] for row in rows if "train/loss" in row}
    assert list(steps) == [1, 2, 3]
    logged = (tmp_path / "out" / "logs" / "train.csv").read_text().splitlines()[1:]
    assert [float(line.split(",")[2]) for line in logged] == pytest.approx(list(steps.values()))
    assert [row["dev/step"] for row in rows if "dev/step" in row] == [0, 3]
    assert all("dev/both_views" in row for row in rows if "dev/step" in row)
    assert not list((tmp_path / "out" / "logs").glob("events.out.*"))


@pytest.mark.slow
@pytest.mark.skipif(WANDB is None, reason="wandb is not installed")
def test_wandb_that_does_not_start_is_said_before_the_first_step(train, tmp_path):
    ended = train("[wandb]", WANDB_MODE="online", WANDB_API_KEY="short", HOME=str(tmp_path))
    assert (ended.returncode, "wandb did not start" in ended.stderr) == (2, True), ended.stderr
    assert "step 1/3" not in ended.stderr


def history(file: Path) -> list[dict[str, float]]:
    assert WANDB is not None
    env = {"PYTHONPATH": str(Path(str(WANDB.origin)).parents[1])}
    read = subprocess.run([sys.executable, "-c", READ, str(file)], env=env, capture_output=True, text=True, check=True)
    return json.loads(read.stdout)
