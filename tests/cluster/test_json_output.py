"""`--json` of every command: one document and nothing else on stdout."""

import inspect
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from foil.cluster.commands.app import BENCHMARKS_COMMANDS, COMMANDS, SEEDS_COMMANDS, app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted
from tests.support.commands import write_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.paths import REPO
from tests.support.sample_run import make
from tests.support.topics.matrices import made
from tests.support.topics.trades import trade_rows, trade_seeds
from tests.support.trainer_world import commit, tiny_bert, topic
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark

EVERY = {
    **COMMANDS,
    **{f"seeds {name}": command for name, command in SEEDS_COMMANDS.items()},
    **{f"benchmarks {name}": command for name, command in BENCHMARKS_COMMANDS.items()},
}
WITHOUT = {"view", "label", "logs"}
"""These open a page, ask a person, or pass on what another program printed."""
ELSEWHERE = {
    "submit": "cluster/commands/test_ray_jobs.py", "cancel": "cluster/commands/test_ray_jobs.py",
    "push": "datasets_out/release/test_pushing.py", "benchmarks fetch": "cluster/benchmarks/test_fetching.py",
    "benchmarks review": "cluster/benchmarks/test_review.py",
    "benchmarks annotate": "cluster/benchmarks/test_annotating.py",
    "benchmarks respond": "cluster/benchmarks/test_ifeval.py",
}  # fmt: skip
"""Those that need a cluster, a hub or a sheet that a person filled, and who asks them for JSON."""
WAYS = {  # what follows the command; several ways are divided by a bar
    "init": "{new}.yaml --data {questions} --paper verifiable --yes",
    "run": "{job} --out {new}",
    "try": "{job} --seeds 3 --out {new}",
    "plan": "{job}",
    "job": "{ran}",
    "watch": "{ran} --once",
    "status": "{ran}",
    "show": "{ran} --sample 1",
    "sql": "{ran} 'SELECT count(*) AS n FROM topics'",
    "why": "{ran} s1",
    "reasons": " | leak",
    "diff": "{sample} {ran}",
    "report": "{ran} --into {new}.html",
    "audit": "{ran} --sheet {new}",
    "agreement": "{ran}",
    "calibrate": "{judged} --on {labels} --replies {new}",
    "verify": "{ran}",
    "snapshot": "create {sample} one | list {ran} | diff {sample} one",
    "filter": "{ran} {new} --where 'true'",
    "drop": "{ran} {new} {topic} --reason doubtful",
    "accept": "{dual} {new} --where \"reason = 'leak'\" --reason fine",
    "revalidate": "{ran} {new} --job {job}",
    "relabel": "{set} {new} --job {judge}",
    "merge": "{ran} {sample} {new}",
    "mix": "{dual} {new}",
    "mine": "{world} {new} --set miner=bm25",
    "compact": "{ran}",
    "gc": "{ran} --dry-run",
    "export": "{ran} --format jsonl --into {new}",
    "restore": "{released} --seeds {job} --into {new}",
    "train": "{training}",
    "average": "{trained} {trained} --out {new}",
    "evaluate": "{training} | {bert} --on trec:{trec} --out {new}",
    "ablate": "{ablation}",
    "doctor": "--out {new}",
    "seeds preview": "{job}",
    "seeds fetch": "",
    "benchmarks list": "",
    "benchmarks show": "beir",
    "benchmarks make": "{world} --into {new}",
}  # fmt: skip
SLOW = {"train", "average", "evaluate", "ablate", "benchmarks make"}


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """Small runs, jobs and sets that the commands read."""
    folder = tmp_path_factory.mktemp("json")
    job = write_job(folder, 12)
    assert run_command(app, ["run", str(job), "--out", str(folder / "ran")]) == 0
    released = folder / "released"
    assert run_command(app, ["export", str(folder / "ran"), "--format", "jsonl", "--into", str(released)]) == 0
    dual = CommitLog(folder / "dual")
    dual.open("f" * 64, {})
    first, *topics = [made("dual_view", seed) for seed in trade_seeds()[:6]]
    dual.commit(0, [replace(first, status="rejected", reason="leak"), *topics], {})
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in trade_rows()[:3]))
    rows = [{"anchor": "why", "positive": f"because {n}", "negative": "who knows"} for n in range(3)]
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = [{"query": "why", "passage": f"because {n}", "relevant": n % 2 == 0, "core": str(n)} for n in range(6)]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labels))
    paths = {name: folder / name for name in ("ran", "dual", "set.jsonl", "labels.jsonl")}
    return {name.partition(".")[0]: path for name, path in paths.items()} | {
        "job": job, "sample": make(folder / "sample"), "questions": folder / "questions.jsonl", "folder": folder,
        "topic": next(read_accepted(load_snapshot(folder / "ran", None))).id, "released": released,
        "world": commit(folder / "world", [topic(number) for number in range(40)]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def models(places):
    """A writer and judge in character, and jobs that ask it."""
    folder = places["folder"]
    with serving(answer=Character()) as server:
        asked = {"writer": {"kind": "hosted", "model": "m", "url": server.url}}
        judge = {"models": asked, "validators": [{"kind": "judge_demands", "canaries": {"share": 0}}]}
        (folder / "judge.yaml").write_text(yaml.safe_dump(judge))
        whole = {**yaml.safe_load(places["job"].read_text()), **judge}
        (folder / "judged.yaml").write_text(yaml.safe_dump(whole))
        places |= {"judge": folder / "judge.yaml", "judged": folder / "judged.yaml"}
        yield


@pytest.fixture(scope="module")
def training(places) -> dict[str, Path]:
    """A base, a benchmark, a job that trains and an ablation of two cells."""
    folder = places["folder"]
    bert = tiny_bert(folder / "bert")
    write_benchmark("trec", folder / "trec")
    train = {"base": str(bert), "data": [{"run": str(places["world"])}], "encode": {"max_tokens": 64},
             "schedule": {"steps": 2, "topics_per_batch": 6}, "validation": {"topics": 0}}  # fmt: skip
    job = {"out": str(folder / "trained"), "train": train, "evaluate": {"resamples": 100}}
    (folder / "train.yaml").write_text(yaml.safe_dump(job))
    assert run_command(app, ["train", str(folder / "train.yaml")]) == 0
    whole = {**yaml.safe_load(places["job"].read_text()), **job, "out": str(places["world"])}
    (folder / "whole.yaml").write_text(yaml.safe_dump({**whole, "train": {**train, "data": []}}))
    cells = {
        "job": str(folder / "whole.yaml"),
        "out": str(folder / "cells"),
        "factors": {"loss": {"both": {}, "one": {"train.loss.blocks": ["P"]}}},
        "seeds": 1,
        "steps": 2,
        "measure": "net",
        "dev": ["topics"],
        "report": ["topics"],
        "resamples": 100,
    }
    (folder / "ablation.yaml").write_text(yaml.safe_dump(cells))
    return {"bert": bert, "trec": folder / "trec", "trained": folder / "trained" / "model",
            "training": folder / "train.yaml", "ablation": folder / "ablation.yaml"}  # fmt: skip


def test_every_command_that_prints_facts_has_json():
    without = {name for name, command in EVERY.items() if "as_json" not in inspect.signature(command).parameters}
    assert without == WITHOUT
    assert EVERY.keys() == WITHOUT | ELSEWHERE.keys() | WAYS.keys()
    for place in ELSEWHERE.values():
        assert "--json" in (REPO / "tests" / place).read_text()


def ways_of(name, places, tmp_path):
    """The command lines of a command, each with a new folder."""
    for number, way in enumerate(WAYS[name].split("|")):
        words = [word.format(new=tmp_path / f"new{number}", **places) for word in shlex.split(way)]
        yield [*name.split(), *words, "--json"]


def check(name, places, tmp_path, capfd):
    """Runs each way of a command, and reads all of its stdout as JSON."""
    for words in ways_of(name, places, tmp_path):
        capfd.readouterr()
        code = run_command(app, words)
        said = capfd.readouterr()
        assert code in {0, 5, 11}, said.err
        assert json.loads(said.out) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WAYS if name not in SLOW])
def test_stdout_holds_one_document_and_nothing_else(name, places, models, tmp_path, capfd):
    check(name, places, tmp_path, capfd)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_so_it_does_where_models_are_trained_and_measured(name, places, training, tmp_path, capfd):
    check(name, {**places, **training}, tmp_path, capfd)
