"""`scripts/gpu_checks`: every check runs on a CPU with tiny shapes, and one that breaks does not stop the others."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest

from benchmarks.gpu.check import Check, SkippedError, require_close
from benchmarks.gpu.checks.ready_jobs import GPU_GIB
from benchmarks.gpu.runner import run_checks
from benchmarks.gpu.sizes import FULL, SMALL
from tests.support.paths import REPO

pytestmark = pytest.mark.slow

NAMES = [
    "equal_losses", "train_minilm", "train_base", "train_decoder", "gradient_cache", "packing", "attention", "encode",
    "ready_jobs", "distributed", "vllm",
]  # fmt: skip


def command(*words, **environment):
    return subprocess.run(
        [str(REPO / "scripts" / "gpu_checks"), *words],
        env={**os.environ, "PYTHON": sys.executable, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def rehearsal():
    """The JSON of `--small`."""
    done = command("--small")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stderr for name in NAMES)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(rehearsal):
    return {result["name"]: result for result in rehearsal["checks"]}


def test_every_check_runs_on_a_cpu(results):
    assert list(results) == NAMES
    assert [name for name, result in results.items() if not result["ok"] and not result["skipped"]] == []
    assert {name for name, result in results.items() if result["skipped"]} <= {"vllm"}
    assert all(result["reason"] for result in results.values() if result["skipped"])


def test_it_says_on_what_it_was_measured(rehearsal):
    assert rehearsal["device"].startswith("CPU")
    assert (rehearsal["gpus"], rehearsal["driver"], rehearsal["small"]) == (0, "", True)
    assert all(rehearsal[library] == version(library) for library in ("torch", "transformers"))
    assert datetime.now(UTC) - datetime.fromisoformat(rehearsal["date"]) < timedelta(hours=1)


def test_losses_are_equal_and_fall_where_the_model_learns(results):
    figures = results["equal_losses"]["figures"]
    for model, precision in (("encoder", "float32"), ("encoder", "bfloat16"), ("decoder", "float32")):
        assert figures[f"{model}_{precision}_difference"] <= 1e-5
        assert len(figures[f"{model}_{precision}_losses"]) == 4
    assert results["distributed"]["figures"]["losses_difference"] <= 1e-5
    assert 0 < results["gradient_cache"]["figures"]["gradient_difference"] <= 1e-5


def test_figures_are_of_what_was_asked(results):
    for name in ("train_minilm", "train_base", "train_decoder"):
        figures = results[name]["figures"]
        operations = 6 * figures["product_weights"] * figures["tokens_per_s"]
        rate = 1e12 * figures["matrix_tflops"]
        assert figures["share_of_matrix_rate"] == pytest.approx(operations / rate, rel=0.01)
        assert figures["kernels"]
    assert results["packing"]["figures"]["ratio_tokens"] > 1.5
    assert {f"{job}_tokens_per_s" for job in GPU_GIB} <= set(results["ready_jobs"]["figures"])
    assert results["gradient_cache"]["figures"]["many_topics"] == SMALL.cache_topics


def test_the_rehearsal_takes_less_than_a_minute_of_cpu(results):
    assert 0 < sum(result["cpu_s"] for result in results.values()) < 60


def test_without_a_gpu_nothing_is_measured():
    done = command(CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--small" in done.stderr


NEEDED = "torch transformers sentence_transformers peft pyarrow scipy matplotlib bm25s pydantic tensorboardX"
"""What docs/benchmarks.md says that the checks need; a CUDA machine has no more of Foil's own needs."""
IMPORTS = """
import importlib, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
absent = set(sys.argv[1].split())
sys.meta_path.insert(0, Absent())
for check in sys.argv[2].split():
    importlib.import_module(f"benchmarks.gpu.checks.{check}")
"""


def test_the_checks_need_no_other_packages_than_the_docs_name():
    said = (REPO / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    others = "ray openai tenacity ftfy py3langid tree_sitter typer obstore prometheus_client starlette"
    modules = sorted(path.stem for path in (REPO / "benchmarks" / "gpu" / "checks").glob("[a-z]*.py"))
    words = [sys.executable, "-c", IMPORTS, others, " ".join(modules)]
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name.replace("_", "-") in said for name in NEEDED.split())


def works(sizes, folder):
    (folder / "file").write_text("it has a folder of its own")
    yield {"layers": sizes.shapes["decoder"].layers}
    print("what a check prints is no part of the JSON")


def raises(sizes, folder):
    yield {"before": 1}
    raise ValueError("the third\nlayer")


def dies(sizes, folder):
    yield {"before": 1}
    os._exit(7)


def sleeps(sizes, folder):
    yield {"before": 1}
    time.sleep(600)


def differs(sizes, folder):
    yield {"before": 1}
    require_close("losses", float("nan"), 1e-5)


def lacks(sizes, folder):
    raise SkippedError("needs two GPUs")
    yield


def run(*functions, all_s=200.0, start="forkserver"):
    checks = [Check(each, f"{__name__}:{each}", 2.0 if each == "sleeps" else 100.0) for each in functions]
    return {result.name: result for result in run_checks(checks, FULL, all_s, start)}


@pytest.mark.long
def test_a_broken_check_is_reported_and_the_others_are_done(capfd):
    results = run("raises", "dies", "differs", "sleeps", "lacks", "nowhere", "works")
    assert results["works"].ok
    assert results["works"].figures == {"layers": 28}
    assert "no part of" not in capfd.readouterr().out
    assert {name for name, result in results.items() if result.failed} == {*results} - {"works", "lacks"}
    assert results["raises"].reason == "ValueError: the third layer"
    assert "exit code 7" in results["dies"].reason
    assert "nan" in results["differs"].reason
    assert "ended after 2 s" in results["sleeps"].reason
    assert results["sleeps"].seconds < 60
    assert (results["lacks"].skipped, results["lacks"].reason) == (True, "needs two GPUs")
    assert "nowhere" in results["nowhere"].reason
    assert all(results[name].figures == {"before": 1} for name in ("raises", "dies", "differs", "sleeps"))


@pytest.mark.long
def test_a_process_that_inherits_nothing_does_the_same():
    results = run("raises", "works", start="spawn")
    assert (results["raises"].figures, results["raises"].failed) == ({"before": 1}, True)
    assert results["works"].ok


def test_checks_that_come_too_late_are_not_started():
    results = run("works", all_s=0.0)
    assert results["works"].failed
    assert "not started" in results["works"].reason
