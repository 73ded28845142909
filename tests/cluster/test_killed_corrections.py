"""Killed with SIGKILL between two turns of a correction: nothing durable is paid again, and the bytes stay equal."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.engine import crash_points
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.storage.opening import open_store
from tests.support.models.character import Character, request_of, turn_of
from tests.support.models.fault_server import serving
from tests.support.paths import REPO
from tests.support.small_parts import digest, topics
from tests.support.topics.trades import trade_rows

JOB = """\
seeds:
  kind: table
  corpus: trades
  path: {folder}/seeds.jsonl
  columns: {{id: id, query: query, positives: positives, negatives: negatives}}
recipe: {{kind: {recipe}}}
models: {{writer: {{kind: hosted, model: in-character, url: "{url}", structured: json_schema}}}}
validators: [{{kind: shape}}]
replies: {{corrections: 2, candidates: 0}}
out: {folder}/out
runtime: {{window: 1}}
"""


class Watched(Character):
    """Keeps the order of what it answered, as (request id, turn). `on_turn` is called for each correction turn."""

    def __init__(self) -> None:
        super().__init__(said=0.05, broken=0.03)
        self.answered: list[tuple[str, int]] = []
        self.on_turn = lambda _number: None

    def __call__(self, request, choice):
        asked = request_of(request)
        turn = turn_of(asked)
        self.answered.append((asked.id, turn))
        if turn:
            self.on_turn(sum(earlier > 0 for _, earlier in self.answered))
        return super().__call__(request, choice)

    def sends(self) -> Counter[str]:
        return Counter(request for request, _ in self.answered)


def write_job(folder: Path, url: str, recipe: str, seeds: int) -> Path:
    folder.mkdir(parents=True)
    rows = trade_rows()[:seeds]
    (folder / "seeds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "job.yaml").write_text(JOB.format(folder=folder, url=url, recipe=recipe))
    return folder / "job.yaml"


def dies_at(point: str, job: Path) -> bool:
    """Runs the job in a fork that is killed at the point; True if it came that far."""
    pid = os.fork()
    if pid == 0:
        try:
            crash_points.arm(point)
            run_job(load_job(job))
            os._exit(0)
        finally:
            os._exit(1)
    _, code = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(code) or code == 0
    return os.WIFSIGNALED(code)


def undisturbed(folder: Path, recipe: str, seeds: int) -> tuple[str, Watched]:
    """The digest of the job, run without any trouble, and what its model answered."""
    model = Watched()
    with serving(answer=model) as server:
        assert run_job(load_job(write_job(folder, server.url, recipe, seeds))).complete
    assert max(model.sends().values()) == 1
    return digest(folder / "out"), model


def turns_of(model: Watched) -> list[int]:
    """The places, from 1, of the replies that were followed by a correction turn, and of those turns."""
    places = [place for place, (_, turn) in enumerate(model.answered, 1) if turn]
    return sorted({*places, *(place - 1 for place in places)})


def drill(folder: Path, recipe: str, seeds: int, place: int, plain: tuple[str, Watched]) -> None:
    """Killed after the reply at this place, before and after it is durable; resumed; compared."""
    for point, again in (("ask.answered", 1), ("journal.synced", 0)):
        model, here = Watched(), folder / f"{recipe}-{point}-{place}"
        with serving(answer=model) as server:
            job = write_job(here, server.url, recipe, seeds)
            assert dies_at(f"{point}:{place}", job)
            before = model.sends()
            assert run_job(load_job(job)).complete
        assert digest(here / "out") == plain[0]
        assert model.sends().keys() == plain[1].sends().keys()
        repeated = [request for request, count in model.sends().items() if count > 1]
        assert len(repeated) <= again
        assert set(repeated) <= {request for request, _ in model.answered[: before.total()][-1:]}
        assert len(repeated) <= possibly_paid_twice(open_store(here / "out"))


def test_a_kill_before_and_after_a_correction_turn_is_durable_pays_nothing_twice(tmp_path):
    plain = undisturbed(tmp_path / "plain", "infir", 4)
    calls = [call for topic in topics(tmp_path / "plain" / "out") for call in topic.calls]
    assert sum(bool(call.fault) for call in calls) >= 2
    drill(tmp_path, "infir", 4, turns_of(plain[1])[0], plain)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["infir", pytest.param("infosearch", marks=pytest.mark.long)])
def test_a_kill_between_any_two_turns_of_a_correction_pays_nothing_twice(tmp_path, recipe):
    plain = undisturbed(tmp_path / "plain", recipe, 6)
    assert len(turns_of(plain[1])) >= 4
    for place in turns_of(plain[1]):
        drill(tmp_path, recipe, 6, place, plain)


@pytest.fixture(scope="module")
def two_cpus(ray_home):
    """The address of a Ray of two CPUs."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield cluster.address
    cluster.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_on_ray_killed_as_it_sends_a_correction_turn_pays_no_durable_reply_twice(tmp_path, two_cpus):
    expected, plain = undisturbed(tmp_path / "plain", "infir", 4)
    turns = sum(turn > 0 for _, turn in plain.answered)
    model, running = Watched(), []

    def kill(number: int) -> None:
        if running and number in {1, turns}:
            os.killpg(running.pop().pid, signal.SIGKILL)

    model.on_turn = kill
    with serving(answer=model) as server:
        job = write_job(tmp_path / "ray", server.url, "infir", 4)
        sets = ("runtime.kind=ray", f"runtime.ray_address={two_cpus}", "runtime.workers=1")
        command = [sys.executable, "-m", "foil", "run", str(job), *(w for s in sets for w in ("--set", s))]
        environment = {**os.environ, "PYTHONPATH": str(REPO)}
        for _ in range(3):
            process = subprocess.Popen(command, cwd=REPO, env=environment, start_new_session=True)
            running[:] = [process]
            if process.wait() == 0:
                break
        assert process.returncode == 0
    repeated = model.sends().total() - len(model.sends())
    assert repeated <= possibly_paid_twice(open_store(tmp_path / "ray" / "out")) <= 2
    assert model.sends().keys() == plain.sends().keys()
    assert digest(tmp_path / "ray" / "out") == expected
