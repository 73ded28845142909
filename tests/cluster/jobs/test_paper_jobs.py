"""The jobs of `examples/papers` are read as they stand, name what their paper has, and make topics."""

import json
import re

import pytest

from foil.cluster.commands.app import COMMANDS
from foil.cluster.job import load_job
from foil.trainer.presets import PRESETS
from tests.support.commands import foil
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.paths import REPO
from tests.support.topics.trades import corpus

PAPERS = {path.stem: path for path in sorted((REPO / "examples" / "papers").glob("*.yaml"))}


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.mark.parametrize("name", PAPERS)
def test_the_job_of_a_paper_is_read_and_names_all_that_it_takes(name):
    text, job = PAPERS[name].read_text(), load_job(PAPERS[name])
    kinds = {str(validator.model_dump()["kind"]) for validator in job.validators}
    head = text.partition("\nseeds:")[0]
    for word in ("data", "writer", "judge", "leaks", "training"):
        assert re.search(rf"^#   {word}s?  ", head, re.MULTILINE), word
    assert {"shape", "newline_truncation", "leak"} <= kinds
    if name == "infosearch":
        assert job.recipe.purpose == "benchmark"
        assert job.train is None
    else:
        assert "contamination" in kinds
        assert job.train.preset in PRESETS
    assert ("judge" in job.models) == any(kind.startswith("judge_") for kind in kinds) == (name != "dual_view")
    used = set(re.findall(r"(?:^#   |`|; )foil ([a-z]+)", head, re.MULTILINE))
    assert {"try", "run"} <= used <= {*COMMANDS, "seeds", "benchmarks"}


def test_there_is_one_for_each_paper_that_makes_data():
    assert set(PAPERS) == {"infir", "promptriever", "dual_view", "infosearch"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["infir", "promptriever", "infosearch"])
def test_its_recipe_and_judge_make_topics_of_a_small_corpus(name, tmp_path):
    """With other seeds, all models at a loopback server, and one small evaluation set."""
    columns = "{id: id, query: query, positives: positives, negatives: negatives}"
    (tmp_path / "set.txt").write_text("an evaluation item that no text of the small corpus shares a word run with\n")
    job, path = load_job(PAPERS[name]), corpus(tmp_path / "seeds.jsonl")
    place = next((i for i, v in enumerate(job.validators) if v.model_dump()["kind"] == "contamination"), None)
    kept = [
        json.dumps(v.model_dump(mode="json", exclude_unset=True)) for i, v in enumerate(job.validators) if i != place
    ]
    if place is not None:
        kept.append(f"{{kind: contamination, sets: [{{name: small, path: {tmp_path}/set.txt, format: text}}]}}")
    with serving(answer=Character()) as server:
        told = foil(
            "try", PAPERS[name], "--seeds", 5, "--json", "--out", tmp_path / "out",
            "--set", f"seeds={{kind: table, corpus: trades, path: {path}, columns: {columns}}}",
            "--set", f"validators=[{', '.join(kept)}]",
            *(part for role in job.models for part in ("--set", f"models.{role}.url='{server.url}'")),
        )  # fmt: skip
    assert told.returncode == 0, told.stderr
    funnel = json.loads(told.stdout)
    assert funnel["seeds"] == 5
    assert funnel["whole"] >= 3, funnel["reasons"]
