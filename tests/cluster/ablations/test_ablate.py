"""`foil ablate` as its users type it: tiny trainings, a kill and a resume, and what is refused before any training."""

import json
from pathlib import Path

import pytest
import yaml

from foil.cluster.ablations.plan import cell_runs
from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.cluster.job import read_settings
from foil.cluster.training import pin_topics
from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.training.training_view import SplitSettings
from foil.engine.atomic_files import held
from foil.engine.ids import sha256_hex
from foil.trainer.evaluate.ablation.settings import AblationSettings
from foil.trainer.model.checksums import folder_digest
from tests.support.commands import foil
from tests.support.trainer_world import commit, tiny_bert, topic
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import write_benchmark

pytestmark = pytest.mark.slow

COMMON = {
    "schedule": {"topics_per_batch": 6, "warmup_steps": 1, "learning_rate": 0.003, "epochs": 1},
    "split": {"heldout_share": 0.2, "dev_share": 0.2},
    "encode": {"max_tokens": 64, "precision": "float32"},
    "validation": {"topics": 0},
}
FACTORS = {
    "loss": {"both": {}, "passages": {"train.loss.blocks": ["P"]}},
    "pull": {"none": {}, "strong": {"train.retention.pull_queries": 5.0}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A committed run, two benchmarks, a job that only trains, and an ablation of two seeds."""
    folder = tmp_path_factory.mktemp("ablation")
    commit(folder / "data", [topic(number) for number in range(60)])
    write_benchmark("infosearch", folder / "info")
    write_benchmark("trec", folder / "trec")
    train = {"base": str(tiny_bert(folder)), **COMMON}
    job = {"out": str(folder / "data"), "train": train, "evaluate": {"resamples": 100}}
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    write_ablation(folder / "ablation.yaml", folder)
    return folder


def write_ablation(path: Path, folder: Path, **changes) -> Path:
    ablation = {
        "job": str(folder / "job.yaml"), "out": str(folder / "out"), "factors": FACTORS, "seeds": 2, "steps": 3,
        "one_at_a_time": True, "measure": "net", "dev": ["topics", f"infosearch:{folder / 'info'}#Clarity-v1"],
        "report": ["topics", f"trec:{folder / 'trec'}"],
        "resamples": 100, "encode": {"max_tokens": 64, "precision": "float32"},
    }  # fmt: skip
    path.write_text(yaml.safe_dump({**ablation, **changes}, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def kept(folder) -> dict[Path, int]:
    """What a kill in the middle of the ablation left; the ablation is then ended."""
    first = foil("ablate", folder / "ablation.yaml", env={"FOIL_CRASH_POINT": "put.replaced:9"})
    assert first.returncode == -9, first.stderr
    kept = made_in(folder)
    assert run_command(app, ["ablate", str(folder / "ablation.yaml")]) == 0
    return kept


def made_in(folder: Path) -> dict[Path, int]:
    """When each model was published, and each score kept."""
    paths = [*(folder / "out").rglob("foil.json"), *(folder / "out").rglob("scores/*.json")]
    return {path: path.stat().st_mtime_ns for path in paths}


def test_runs_side_by_side_make_the_models_and_tables_of_one_after_the_other(folder, kept, capsys):
    file = write_ablation(folder / "apart.yaml", folder, out=str(folder / "apart"), at_once=2)
    assert run_command(app, ["ablate", str(file)]) == 0
    assert rows_in(folder / "apart" / "ablation.jsonl") == rows_in(folder / "out" / "ablation.jsonl")
    for model in (folder / "out" / "cells").rglob("model"):
        assert folder_weights(folder / "apart" / model.relative_to(folder / "out")) == folder_weights(model)


def test_an_error_of_a_run_beside_others_ends_the_ablation_in_its_words(folder, capsys):
    out = folder / "broken"
    file = write_ablation(folder / "broken.yaml", folder, out=str(out), at_once=2)
    (out / "cells" / "baseline" / "seed-1").mkdir(parents=True)
    with held(out / "cells" / "baseline" / "seed-1", "train"):
        assert run_command(app, ["ablate", str(file)]) == 12
    assert "another `foil train` works in" in capsys.readouterr().err


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_measure_that_the_benchmark_has_no_value_of_is_refused_after_the_first_run(folder, capsys, at_once):
    out, dev = folder / f"unmeasured-{at_once}", [f"trec:{folder / 'trec'}"]
    changes = {"out": str(out), "dev": dev, "report": ["topics"], "measure": "both_views", "at_once": at_once}
    assert run_command(app, ["ablate", str(write_ablation(folder / "unmeasured.yaml", folder, **changes))]) == 2
    assert "trec shows no both_views, only " in capsys.readouterr().err
    assert 1 <= len([*out.rglob("foil.json")]) <= at_once + 1


def folder_weights(model: Path) -> str:
    return sha256_hex((model / "model.safetensors").read_bytes())


def rows_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_killed_ablation_goes_on_and_makes_nothing_twice(folder, kept, capsys):
    assert 0 < len(kept) < len(made_in(folder))
    assert kept.items() <= made_in(folder).items()
    before, rows = made_in(folder), rows_in(folder / "out" / "ablation.jsonl")
    assert run_command(app, ["ablate", str(folder / "ablation.yaml"), "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == rows
    assert "net *" in told.err
    assert made_in(folder) == before


def test_the_tables_have_every_cell_on_dev_and_the_chosen_one_in_the_report(folder, kept):
    rows = rows_in(folder / "out" / "ablation.jsonl")
    on_dev = {row["cell"] for row in rows if row["stage"] == "dev"}
    assert on_dev == {"baseline", "loss=passages", "pull=strong"}
    chosen_by = [row for row in rows if row["chosen_by"]]
    assert {(row["on"], row["measure"]) for row in chosen_by} == {("topics (dev)", "net")}
    best = max(chosen_by, key=lambda row: row["mean"])["cell"]
    reported = {row["cell"] for row in rows if row["stage"] == "report"}
    assert reported == {"baseline", best}
    assert {row["on"] for row in rows if row["stage"] == "report"} == {"topics (heldout)", "trec/trec"}
    page = (folder / "out" / "ablation.md").read_text()
    assert f"* net on topics (dev) chose the cell {best}." in page
    assert "| net * |" in page


def test_each_number_is_the_mean_over_the_seeds_of_what_evaluate_says_of_the_model(folder, kept):
    rows = rows_in(folder / "out" / "ablation.jsonl")
    [row] = [row for row in rows if (row["on"], row["measure"], row["cell"]) == ("infosearch", "nDCG@10", "baseline")]
    models = [folder / "out" / "cells" / "baseline" / f"seed-{seed}" / "model" for seed in (0, 1)]
    assert folder_digest(models[0]) != folder_digest(models[1])
    arguments = ["--on", f"infosearch:{folder / 'info'}#Clarity-v1", "--out", folder / "evaluated"]
    assert run_command(app, ["evaluate", *map(str, (*models, *arguments)), "--set", "encode.max_tokens=64"]) == 0
    found = {each["system"]: each["value"] for each in rows_in(folder / "evaluated" / "results.jsonl")
             if (each["measure"], each["group"]) == ("nDCG@10", "")}  # fmt: skip
    assert row["seed_means"] == pytest.approx([found[str(model)] for model in models])


def test_a_cell_is_the_run_that_its_card_says(folder, kept):
    facts = json.loads((folder / "out" / "cells" / "loss=passages" / "seed-1" / "model" / "foil.json").read_text())
    settings = facts["settings"]
    assert (settings["loss"]["blocks"], settings["schedule"]["seed"], settings["schedule"]["steps"]) == (["P"], 1, 3)
    assert facts["command"].startswith(f"foil train {folder / 'job.yaml'} --set")
    assert not list((folder / "out" / "cells").rglob("checkpoints")), "no cell is trained further"


def test_the_rows_of_all_runs_are_kept_as_evaluate_keeps_them(folder, kept):
    commit(folder / "run", [topic(1)])
    (folder / "run" / "results.jsonl").write_bytes((folder / "out" / "results.jsonl").read_bytes())
    found = run_sql(folder / "run", "SELECT system, difference, k FROM evaluations WHERE query_group = ''").to_pylist()
    marked = run_sql(folder / "run", "SELECT DISTINCT benchmark, chosen_on FROM evaluations").to_pylist()
    assert {row["benchmark"] for row in marked if not row["chosen_on"]} == {"topics (heldout)", "trec/trec"}
    assert {row["benchmark"] for row in marked if row["chosen_on"]} >= {"topics (dev)"}
    assert {row["system"].split("/cells/")[1] for row in found} == {
        f"{cell}/seed-{seed}/model" for cell in ("baseline", "loss=passages", "pull=strong") for seed in (0, 1)
    }
    assert all(row["difference"] == 0 for row in found if "/baseline/" in row["system"])


def test_a_shared_benchmark_is_found_under_another_name(folder, tmp_path, capsys):
    page = tmp_path / "other.yaml"
    page.write_text(f"kind: infosearch\npath: {folder / 'info'}\nname: mine\n")
    report = [str(page)]
    assert run_command(app, ["ablate", str(write_ablation(tmp_path / "a.yaml", folder, report=report))]) == 2
    assert "mine/Clarity-v1 of `report` is infosearch/Clarity-v1 of `dev`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"factors": {}}, "factors: Dictionary should have at least 1 item"),
        ({"factors": {"loss": {}}}, "the factor 'loss' has 0 levels"),
        ({"factor": {}}, "factor: unknown key; did you mean factors? AblationSettings has job, out, factors"),
        ({"factors": {"x": {"a": {}, "b": {"train.reranker": {}}}}}, "the cell x=b trains a reranker"),
        ({"factors": {"x": {"a": {}, "b": {"train.los.blocks": ["P"]}}}}, "the cell x=b: the job was refused"),
        ({"factors": {"x": {"a": {}, "b": {"train.loss.blocks": ["Z"]}}}}, "train.loss.blocks.0: Input should be 'P'"),
        ({"factors": {"a/b": {"a": {}, "b": {}}}}, "String should match pattern"),
        ({"steps": None}, "the cell baseline trains for epochs"),
        ({"measure": "nDCP@10"}, "there is no measure 'nDCP@10'"),
        ({"dev": ["nosuch:x"]}, "there is no benchmark 'nosuch'"),
        ({"dev": ["beir:none"], "measure": ""}, "no qrels/test"),
        ({"dev": ["topics", "topics"]}, "`dev` names topics twice"),
        ({"job": "none.yaml"}, "job file none.yaml cannot be read"),
        ({"seeds": 0}, "seeds: Input should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_ablated_is_told_before_anything_is_trained(folder, tmp_path, capsys, changes, told):
    file = write_ablation(tmp_path / "a.yaml", folder, **{"out": str(tmp_path / "out"), **changes})
    assert run_command(app, ["ablate", str(file)]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_cell_on_other_data_never_trains_on_the_texts_that_cells_are_measured_on(folder, kept):
    """A dev topic and a training topic share a text; the cell that drops the former would train on it."""
    split = SplitSettings.model_validate(COMMON["split"])
    dev, train = (
        next(n for n in numbers if split.split_of(f"seed-{n}") == name)
        for name, numbers in (("dev", range(30, 60)), ("train", range(30)))
    )
    topics = [topic(n, text="one text of two topics" if n in (dev, train) else "") for n in range(60)]
    run = {"run": str(commit(folder / "shared", topics))}
    half = {"train.data": [{**run, "where": "topic_id < 'topic-030'"}]}
    factors = {"data": {"all": {"train.data": [run]}, "half": half}, "loss": FACTORS["loss"]}
    file = write_ablation(folder / "data.yaml", folder, factors=factors)
    runs = {run.cell: run for run in cell_runs(read_settings(file, AblationSettings, "an ablation")) if not run.seed}
    assert [source.where for source in runs["data=half"].settings.protect] == [""]
    assert runs["loss=passages"].settings.protect == runs["baseline"].settings.protect == ()
    whole, part = (pin_topics(runs[cell].job, runs[cell].settings) for cell in ("baseline", "data=half"))
    assert f"topic-{dev:03d}" in {group.topic_id for group in whole.read_all("dev")}
    trained_on = {group.topic_id for group in part.read_all("train")}
    assert f"topic-{train:03d}" not in trained_on
    assert len(trained_on) > 5


def test_a_second_ablation_in_one_folder_is_refused(folder, tmp_path, capsys):
    with held(tmp_path / "out", "ablate"):
        path = write_ablation(tmp_path / "ablation.yaml", folder, out=str(tmp_path / "out"))
        assert run_command(app, ["ablate", str(path)]) == 12
    assert "another `foil ablate` works in" in capsys.readouterr().err


def test_a_changed_level_in_the_folder_of_an_ablation_is_refused(folder, kept, tmp_path, capsys):
    factors = {**FACTORS, "loss": {"both": {}, "passages": {"train.loss.blocks": ["P", "IQ"]}}}
    assert run_command(app, ["ablate", str(write_ablation(tmp_path / "a.yaml", folder, factors=factors))]) == 2
    assert 'was trained with train.loss.blocks: ["P"], now ["P","IQ"]' in capsys.readouterr().err
