"""Every shipped ablation makes cells, and every cell is a job."""

import pytest

from foil.cluster.job import load_job, read_settings
from foil.trainer.evaluate.ablation.settings import AblationSettings, cells_of, check_equal_steps
from tests.support.paths import REPO

FILES = sorted((REPO / "examples" / "ablations").glob("*.yaml"))


def test_what_the_papers_ablate_is_there():
    ablated = {"backbone", "data_mix", "filter", "instructions", "interaction", "loss", "retention"}
    assert ablated <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_cell_of_a_shipped_ablation_is_a_job_of_equal_steps(path, monkeypatch):
    monkeypatch.chdir(REPO)
    settings = read_settings(path, AblationSettings, "an ablation")
    jobs = {cell.name: load_job(settings.job, cell.overrides) for cell in cells_of(settings)}
    check_equal_steps(
        [(name, None if job.train.schedule.epochs else job.train.schedule.steps) for name, job in jobs.items()]
    )
    assert len({repr(job.train) for job in jobs.values()}) == len(jobs)
