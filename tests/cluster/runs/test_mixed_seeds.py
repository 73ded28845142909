"""A job over several corpora: one stream, one run."""

from pathlib import Path

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.engine.errors import UsageError
from tests.support.commands import TABLE, write_job, write_seeds
from tests.support.small_parts import topics


def job_over(folder: Path, seeds: str) -> Path:
    """A job with these seeds, of which `{kites}` and `{boats}` are tables of 5 and of 2 rows with the same ids."""
    for name, rows in (("kites", 5), ("boats", 2)):
        write_seeds(folder / f"{name}.jsonl", rows)
        seeds = seeds.replace(f"{{{name}}}", TABLE.format(name=name, path=folder / f"{name}.jsonl"))
    path = write_job(folder, 1)
    _, *others = path.read_text().splitlines()
    path.write_text("\n".join([f"seeds: {seeds}", *others]))
    return path


def test_seeds_of_several_corpora_are_taken_in_turn(tmp_path):
    job = load_job(job_over(tmp_path, "[{kites}, {boats}]"))
    assert run_job(job).complete
    told = [topic.seed_id for topic in topics(job.out)]
    assert told == ["kites/s0", "boats/s0", "kites/s1", "boats/s1", "kites/s2", "kites/s3", "kites/s4"]
    assert {topic.corpus for topic in topics(job.out)} == {"kites", "boats"}


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("[{kites}, {kind: nowhere}]", r"seeds\.1: kind 'nowhere' is not known"),
        ("[]", "seeds: is an empty list"),
        ("[{kites}, 7]", r"seeds\.1: kind None is not known"),
    ],
)
def test_a_list_of_seeds_is_checked_part_by_part(tmp_path, seeds, message):
    with pytest.raises(UsageError, match=message):
        run_job(load_job(job_over(tmp_path, seeds)))


def test_a_file_that_a_part_of_the_list_lacks_is_told_before_the_run(tmp_path):
    job = load_job(job_over(tmp_path, "[{kites}, {boats}]"))
    (tmp_path / "boats.jsonl").unlink()
    with pytest.raises(UsageError, match=r"boats\.jsonl is not there"):
        run_job(job)
    assert not job.out.exists()
