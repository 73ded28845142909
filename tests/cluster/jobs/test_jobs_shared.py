"""The same job over private real corpora, from a job file to counted rows: what `foil run` does with every seed."""

from pathlib import Path

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.datasets_out.commits.log import CommitLog
from foil.engine.flow.progress import status
from tests.support.topics.sample_seeds import CORPORA

LEAST_VERIFIABLE = {"leetcode": 0.9, "cacm": 0.015, "cranfield": 0.005, "msmarco": 0.05, "gsm8k": 0.07}
"""Shares of seeds; what readers found wrong, unusable or unnatural is refused (docs/audit.md says what that leaves)."""
KNOWN_REASONS = {
    "unreadable",
    "no_positive",
    "no_answer",
    "one_block",
    "no_contrast",
    "near_duplicate",
    "duplicate",
    "same_passage",
    "other_answers",
    "leak",
}


def status_of_run(folder: Path, data: Path, seeds: str, validators: str = "", *, limit: int | None = None) -> dict:
    """What `foil status` says after a run over these seeds, by rule alone; kept beside the data it speaks of."""
    job, out = folder / "job.yaml", folder / "out"
    job.write_text(
        f"seeds: {seeds.replace('DATA', str(data))}\nrecipe: {{kind: verifiable}}\n"
        f"out: {out}\n{validators.replace('DATA', str(data))}"
        f"limits: {{partition_seeds: 100{f', seeds: {limit}' if limit else ''}}}\n"
    )
    assert run_job(load_job(job)).exit_code == 0
    return status(CommitLog(out), out)


def check_corpus(name: str, folder: Path, data: Path, limit: int | None) -> None:
    facts = status_of_run(folder, data, CORPORA[name], limit=limit)
    print(name, facts["planned"], facts["accepted"], facts["reasons"])
    assert facts["planned"] == facts["accepted"] + facts["rejected"]
    assert facts["failed"] == 0
    assert facts["accepted"] >= LEAST_VERIFIABLE[name] * facts["planned"]
    assert set(facts["reasons"]) <= KNOWN_REASONS


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_most_seeds_of_a_real_corpus_make_topics_and_every_other_has_a_reason(name, tmp_path, shared_data):
    check_corpus(name, tmp_path, shared_data, limit=100)


@pytest.mark.long
@pytest.mark.parametrize("name", CORPORA)
def test_most_seeds_of_a_whole_real_corpus_make_topics_and_every_other_has_a_reason(name, tmp_path, shared_data):
    check_corpus(name, tmp_path, shared_data, limit=None)


def test_a_job_rejects_every_row_whose_query_is_of_an_evaluation_set(tmp_path, shared_data):
    validators = (
        "validators:\n  - kind: contamination\n    sets:\n      - {name: dev-small, format: tsv, "
        "path: DATA/msmarco/topics/topics.msmarco-passage.dev-subset.txt}\n"
    )
    seeds = "{kind: msmarco, path: DATA/msmarco/rows_instructir_filtered.jsonl}"
    facts = status_of_run(tmp_path, shared_data, seeds, validators)
    assert (facts["planned"], facts["accepted"], facts["rejected"]) == (1743, 0, 1743)
    assert set(facts["reasons"]) == {"contaminated"}
