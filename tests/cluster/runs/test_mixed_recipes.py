"""A job with several recipes: each seed goes to one that takes its corpus, the same one in every run."""

from collections import Counter

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.engine.errors import UsageError
from tests.support.commands import TABLE, foil, write_job, write_seeds
from tests.support.small_parts import digest, topics


def job_with(folder, recipe, rows=60):
    for name in ("kites", "boats"):
        write_seeds(folder / f"{name}.jsonl", rows)
    seeds = ", ".join(TABLE.format(name=name, path=folder / f"{name}.jsonl") for name in ("kites", "boats"))
    path = write_job(folder, 1)
    others = [line for line in path.read_text().splitlines() if not line.startswith(("seeds:", "recipe:"))]
    path.write_text("\n".join([f"seeds: [{seeds}]", f"recipe: {recipe}", *others]))
    return path


def by_recipe(out, corpus):
    return Counter(topic.recipe for topic in topics(out) if topic.corpus == corpus)


def test_seeds_go_to_the_recipes_of_their_corpus_by_share(tmp_path):
    recipe = "[{kind: verifiable, share: 3}, {kind: plain, corpora: [kites]}]"
    job = load_job(job_with(tmp_path, recipe))
    assert run_job(job).complete
    kites, boats = by_recipe(job.out, "kites"), by_recipe(job.out, "boats")
    assert boats == {"verifiable": 60}
    assert kites.total() == 60
    assert 35 <= kites["verifiable"] <= 55
    assert foil("verify", job.out).returncode == 0


@pytest.mark.slow
def test_other_processes_and_another_run_choose_alike(tmp_path):
    recipe = "[{kind: verifiable}, {kind: plain}]"
    path = job_with(tmp_path, recipe)
    outs = [tmp_path / name for name in ("here", "two")]
    for out, workers in zip(outs, (0, 2), strict=True):
        done = foil("run", path, "--out", out, "--set", f"runtime.workers={workers}")
        assert done.returncode == 0, done.stderr
    assert digest(outs[0]) == digest(outs[1])


def test_the_funnel_is_told_by_corpus_and_recipe(tmp_path):
    path = job_with(tmp_path, "[{kind: verifiable}, {kind: plain, corpora: [boats]}]", rows=12)
    told = foil("run", path).stdout
    assert "by corpus and recipe" in told
    rows = [[cell.strip() for cell in line.split("│")] for line in told.splitlines()]
    sizes = {(row[1], row[2]): int(row[3]) for row in rows if row[1:2] in (["boats"], ["kites"])}
    assert sizes["kites", "verifiable"] == sizes["boats", "verifiable"] + sizes["boats", "plain"] == 12


def test_a_corpus_that_no_recipe_takes_is_rejected_with_the_reason(tmp_path):
    job = load_job(job_with(tmp_path, "[{kind: verifiable, corpora: [kites]}]", rows=4))
    run_job(job)
    lost = [topic for topic in topics(job.out) if topic.corpus == "boats"]
    assert {(topic.status, topic.reason, topic.recipe) for topic in lost} == {("rejected", "no_recipe", "mixed")}


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("[]", "recipe: is an empty list"),
        ("[{kind: verifiable}, {kind: nothing}]", r"recipe\.1: kind 'nothing' is not known"),
        ("[{kind: verifiable, share: 0}]", r"recipe\.0\.share: Input should be greater than 0"),
        ("[{kind: verifiable, parts: 2}]", r"recipe\.0\.parts: unknown key"),
        ("[7]", r"recipe\.0: kind None is not known"),
    ],
)
def test_a_list_of_recipes_is_checked_part_by_part(tmp_path, recipe, message):
    with pytest.raises(UsageError, match=message):
        load_job(job_with(tmp_path, recipe, rows=1))


def test_other_shares_are_another_job(tmp_path):
    first = load_job(job_with(tmp_path, "[{kind: verifiable}, {kind: plain}]", rows=2))
    run_job(first)
    with pytest.raises(UsageError, match="share"):
        run_job(load_job(job_with(tmp_path, "[{kind: verifiable, share: 2}, {kind: plain}]", rows=2)))
