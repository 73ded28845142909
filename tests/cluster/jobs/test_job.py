"""The job file: what is accepted, and what every mistake says."""

from pathlib import Path

import pytest

from foil.cluster.build import build_parts
from foil.cluster.job import Job, load_job, load_training_job
from foil.engine.errors import UsageError
from foil.engine.protocols import for_role
from tests.support.paths import REPO

GOOD = """\
seeds: {kind: python_docs}
recipe: {kind: verifiable}
out: OUT
limits: {seeds: 10, partition_seeds: 5}
"""


@pytest.fixture
def job_file(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "job.yaml"
        path.write_text(text.replace("OUT", str(tmp_path / "out")))
        return path

    return write


def test_a_good_job_is_read_with_every_default(job_file, tmp_path):
    job = load_job(job_file(GOOD))
    assert job.limits.seeds == 10
    assert job.runtime.kind == "local"
    assert job.out == tmp_path / "out"
    assert [getattr(v, "kind", "") for v in job.validators], "the default chain applies"


@pytest.mark.parametrize("path", sorted((REPO / "examples" / "jobs").glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_job_is_valid(path):
    job = load_training_job(path)
    assert isinstance(job, Job) or job.train


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "sedes: 1\n", r"job\.yaml:5: sedes: unknown key 'sedes'; a job has seeds, recipe"),
        (GOOD.replace("seeds: 10", "seeds: ten"), r"job\.yaml:4: limits\.seeds: .*integer.*found 'ten'"),
        (GOOD.replace("seeds: 10", "seeds: 0"), r"job\.yaml:4: limits\.seeds: .*greater than or equal to 1; found 0"),
        (
            GOOD.replace("seeds: 10", "sedes: 10"),
            r"job\.yaml:4: limits\.sedes: unknown key; did you mean seeds\? Limits has seeds, ",
        ),
        (GOOD.replace("python_docs", "msmarko"), r"job\.yaml:1: seeds: kind 'msmarko' is not known; use one of "),
        (
            GOOD + "models: {writer: {kind: gpt}}\n",
            r"job\.yaml:5: models\.writer: this kind is not known; use one of hosted, ",
        ),
        (
            GOOD + "models: {writer: {kind: rule_writer}}\n",
            r"job\.yaml:5: models\.writer: there is no rule writer any more. verifiable asks no model: leave",
        ),
        (
            GOOD.replace("verifiable", "infir"),
            r"job\.yaml:2: recipe: asks a model of the role 'writer'; name one under `models`",
        ),
        (GOOD.replace("recipe:", "recipe2:"), r"the key 'recipe' is missing; add it"),
        (GOOD + "out: again\n", r"job\.yaml:5: the key 'out' stands twice; keep one"),
        ("- a list\n", r"a job is a mapping with the keys"),
        ("seeds: {kind: [}\n", r"job\.yaml:1: not valid YAML"),
        (GOOD.replace("out: OUT", "out: 7"), r"job\.yaml:3: out: expected a folder's path, found 7"),
        (GOOD + "runtime: {kind: ray}\n", r"kind: ray needs `workers` of at least 1"),
    ],
)
def test_a_mistake_is_refused_with_its_line_its_value_and_the_remedy(job_file, text, message):
    with pytest.raises(UsageError, match=message):
        load_job(job_file(text))


def test_all_mistakes_are_told_at_once(job_file):
    text = GOOD.replace("python_docs", "x").replace("seeds: 10", "seeds: no")
    with pytest.raises(UsageError) as refused:
        load_job(job_file(text))
    assert "kind 'x'" in str(refused.value)
    assert "limits.seeds" in str(refused.value)


def test_an_alias_bomb_ends_as_a_message(job_file):
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    for upper, lower in zip("bcdefg", "abcdef", strict=True):
        bomb += f"{upper}: &{upper} [{','.join(['*' + lower] * 9)}]\n"
    with pytest.raises(UsageError, match="write them out without aliases"):
        load_job(job_file(bomb))


def test_a_missing_job_file_is_named():
    with pytest.raises(UsageError, match=r"job file nowhere\.yaml cannot be read"):
        load_job(Path("nowhere.yaml"))


def test_out_that_is_a_file_is_refused(job_file, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        load_job(job_file(GOOD))


def test_set_overrides_one_key_and_keeps_its_type(job_file, tmp_path):
    job = load_job(job_file(GOOD), ["limits.seeds=3", "runtime.window=2"], tmp_path / "other")
    assert (job.limits.seeds, job.runtime.window, job.out) == (3, 2, tmp_path / "other")


@pytest.mark.parametrize("override", ["limits.seeds", "=3", "limits..seeds=3", "out.x=3", "limits.seeds=[1"])
def test_a_malformed_override_is_refused(job_file, override):
    with pytest.raises(UsageError, match="--set"):
        load_job(job_file(GOOD), [override])


def test_the_identity_leaves_out_where_and_how_fast(job_file, tmp_path):
    identity = load_job(job_file(GOOD)).identity()
    moved = load_job(job_file(GOOD), ["runtime.window=3", "limits.budget.calls=5"], tmp_path / "elsewhere").identity()
    assert identity == moved
    assert load_job(job_file(GOOD), ["limits.seeds=11"]).identity() != identity


MODEL = "{kind: hosted, model: m, url: 'https://a.example/v1', MORE}"
HOSTED = GOOD.replace("verifiable}", f"infir}}\nmodels: {{writer: {MODEL}}}")


def test_a_key_in_a_job_file_is_refused_and_not_repeated(job_file):
    with pytest.raises(UsageError) as refused:
        load_job(job_file(HOSTED.replace("MORE", "api_key: sk-canary-55d1, tpm: 0")))
    assert "models.writer.api_key: a key does not belong in a job file; write ${NAME}" in str(refused.value)
    assert "models.writer.tpm" in str(refused.value)
    assert "canary" not in str(refused.value)


def test_where_a_model_is_and_what_it_costs_is_no_part_of_the_jobs_identity(job_file):
    plain = load_job(job_file(HOSTED.replace(", MORE", ""))).identity()
    moved = HOSTED.replace("a.example", "b.example").replace("MORE", "rpm: 5, price: {prompt: 1}, api_key: '${K}'")
    assert load_job(job_file(moved)).identity() == plain
    warmer = load_job(job_file(HOSTED.replace("MORE", "params: {temperature: 1}"))).identity()
    assert warmer != plain


def test_a_batch_is_gathered_by_one_process(job_file):
    with pytest.raises(UsageError, match=r"runtime\.workers: models\.writer has mode: batch"):
        load_job(job_file(HOSTED.replace("MORE", "mode: batch") + "runtime: {workers: 2}\n"))


def test_a_budget_in_dollars_needs_a_price(job_file):
    costly = HOSTED.replace(", MORE", "").replace("partition_seeds: 5", "budget: {usd: 1.0}")
    with pytest.raises(UsageError, match=r"models\.writer: limits\.budget\.usd needs the `price` of this model"):
        load_job(job_file(costly))
    load_job(job_file(costly.replace("/v1'", "/v1', price: {prompt: 1}")))


def test_a_stage_of_a_role_without_a_model_is_refused(job_file):
    text = (REPO / "examples/jobs/custom.yaml").read_text().replace("- name: ask\n", "- name: ask\n      role: poet\n")
    with pytest.raises(UsageError, match="recipe: asks a model of the role 'poet'"):
        load_job(job_file(text))


def test_a_stage_that_names_no_model_has_the_writers(job_file, tmp_path):
    named = "{kind: hosted, model: n, url: 'http://127.0.0.1:9/v1'}, instruction_writer: "
    job = load_job(job_file(HOSTED.replace("writer: ", f"writer: {named}").replace(", MORE", "")), out=tmp_path / "out")
    models = build_parts(job).models
    assert for_role(models, "passage_writer") is for_role(models, "judge") is models["writer"]
    assert for_role(models, "instruction_writer").name == "m"
    assert for_role(models, "poet") is None
    assert set(job.identity()["models"]) == {"writer", "instruction_writer"}


def test_a_judge_without_a_model_is_refused(job_file):
    model = MODEL.replace(", MORE", "")
    job = HOSTED.replace(MODEL, model) + "validators:\n  - {kind: judge_relevance, judges: [judge, second]}\n"
    with pytest.raises(UsageError, match=r"job.yaml:7: validators.0: asks a model of the role 'second'") as refused:
        load_job(job_file(job))
    assert "role 'judge'" not in str(refused.value)  # a stage has the writer's model
    both = f"{model}, judge: {model}, second: {model}"
    assert set(load_job(job_file(job.replace(model, both))).models) == {"writer", "judge", "second"}


def test_a_judge_of_what_no_model_wrote_needs_one(job_file):
    with pytest.raises(UsageError, match=r"validators.0: asks a model of the role 'judge'"):
        load_job(job_file(GOOD + "validators: [{kind: judge_relevance}]\n"))
