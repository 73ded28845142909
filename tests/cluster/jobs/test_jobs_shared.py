"""The same job over private real corpora, from a job file to counted rows: what `foil run` does with every seed."""

from pathlib import Path

import pytest

from cluster.job import load_job
from cluster.run_job import run_job
from datasets_out.commits.log import CommitLog
from datasets_out.commits.snapshot import load_snapshot, read_accepted
from engine.flow.progress import status
from tests.support.topics.matrices import TABLES, matrix
from tests.support.topics.sample_seeds import CORPORA

LEAST_VERIFIABLE = {"leetcode": 0.9, "cacm": 0.015, "cranfield": 0.005, "msmarco": 0.05, "gsm8k": 0.07}
"""Shares of seeds; what readers found wrong, unusable or unnatural is refused (docs/audit.md has what that leaves)."""
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


def status_of_run(
    folder: Path, data: Path, seeds: str, validators: str = "", *, limit: int | None = None, recipe: str = "verifiable"
) -> dict:
    """What `foil status` says after a run over these seeds, by rule alone; kept beside the data it speaks of."""
    job, out = folder / "job.yaml", folder / "out"
    rule = "{kind: rule_writer}"
    job.write_text(
        f"seeds: {seeds.replace('DATA', str(data))}\nrecipe: {{kind: {recipe}}}\n"
        f"models: {{writer: {rule}, judge: {rule}}}\nout: {out}\n{validators.replace('DATA', str(data))}"
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


PUBLISHED = {
    "infir": ("infir", "judge_scenarios"),
    "promptriever": ("promptriever", "judge_relevance"),
    "dual_view": ("dual_view, base: {kind: promptriever}", "judge_polarity"),
}
LEAST = {"leetcode": 0.35, "gsm8k": 0.045, "cranfield": 0.008, "msmarco": 0.03, "cacm": 0.015}
"""Solutions have few partners in their own language, few samples are beyond doubt and fewer differ by more than the
multiplication sign, few abstracts show that they answer, and who asks for a number names little else.
"""
LEAST_INFIR = {"leetcode": 0.14, "gsm8k": 0.04, "msmarco": 0.0, "cacm": 0.0, "cranfield": 0.0}
"""Few passages that meet an instruction come with a query that they are known to answer."""


def check_published(recipe: str, name: str, folder: Path, data: Path, limit: int | None) -> None:
    """Writer and judge by rule: every seed is accounted for, and every accepted topic has its method's matrix."""
    settings, judge = PUBLISHED[recipe]
    chain = f"validators: [{{kind: shape}}, {{kind: leak}}, {{kind: constraint_check}}, {{kind: {judge}}}]\n"
    facts = status_of_run(folder, data, CORPORA[name], chain, limit=limit, recipe=settings)
    print(recipe, name, facts["planned"], facts["accepted"], facts["reasons"])
    assert facts["planned"] == facts["accepted"] + facts["rejected"]
    assert facts["failed"] == 0
    least = LEAST | LEAST_INFIR if recipe == "infir" else LEAST
    assert facts["accepted"] >= least[name] * facts["planned"]
    topics = list(read_accepted(load_snapshot(folder / "out", None)))
    assert len(topics) == facts["accepted"]
    for topic in topics:
        roles = {passage.role for passage in topic.passages}
        due = {i: {p: signs for p, signs in row.items() if p in roles} for i, row in TABLES[recipe].items()}
        assert matrix(topic) == due
        assert any(verdict.validator == judge and verdict.outcome == "pass" for verdict in topic.verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("recipe", PUBLISHED)
def test_a_published_method_over_a_real_corpus(recipe, name, tmp_path, shared_data):
    check_published(recipe, name, tmp_path, shared_data, limit=60)


@pytest.mark.long
@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("recipe", PUBLISHED)
def test_a_published_method_over_a_whole_real_corpus(recipe, name, tmp_path, shared_data):
    check_published(recipe, name, tmp_path, shared_data, limit=None)


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
