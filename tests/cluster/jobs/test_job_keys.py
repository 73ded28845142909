"""A key in the wrong place of a job file: refused, and never repeated."""

import json

import pytest

from foil.cluster.job import load_job
from foil.engine.errors import UsageError
from tests.support.commands import foil, write_job

KEY = "sk-canary-7aa0c1d2e3f4"
MODELS = [
    f"{{kind: hosted, model: m, url: 'http://u:{KEY}@a.example/v1'}}",
    f"{{kind: hosted, model: m, url: 'http://:{KEY}@a.example/v1'}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/v1?api_key={KEY}'}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/{KEY}/v1'}}",
    f"{{kind: hosted, model: m, endpoints: [{{url: 'https://a.example/v1', key: {KEY}}}]}}",
    f"{{kind: hosted, model: m, endpoints: [{{url: 'https://a.example/v1', api_key: {KEY}}}]}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/v1', api_key: [{KEY}]}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/v1', key: {KEY}}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/v1', params: {{extra: {{api_key: {KEY}}}}}}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/v1', params: {{extra: {{h: [{{X-Auth-Token: {KEY}}}]}}}}}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/v1', params: {KEY}}}",
    f"{{kind: hosted, model: m, url: 'https://a.example/v1', rpm: {KEY}}}",
    f"{{kind: {KEY}}}",
    f"{{kind: local_vllm, model: m, engine_args: {{api_key: {KEY}}}}}",
    f"[{KEY}]",
    KEY,
]


@pytest.mark.parametrize("model", MODELS)
def test_no_value_below_models_is_repeated(tmp_path, model):
    job = write_job(tmp_path, 1)
    text = job.read_text()
    job.write_text(f"{text}models: {{writer: {model}}}\n")
    with pytest.raises(UsageError, match=rf"job\.yaml:{len(text.splitlines()) + 1}: models\.writer") as refused:
        load_job(job)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "setting", ["writer.url=http://:KEY@a", "writer.api_key:KEY", "writer.kind.x=KEY", "writer=[KEY"]
)
def test_no_setting_of_the_command_line_is_repeated(tmp_path, setting):
    with pytest.raises(UsageError) as refused:
        load_job(write_job(tmp_path, 1), ["models." + setting.replace("KEY", KEY)])
    assert KEY not in str(refused.value)


def test_the_command_keeps_it_to_itself_too(tmp_path):
    job = write_job(tmp_path, 1)
    job.write_text(f"{job.read_text()}models: {{writer: {MODELS[1]}}}\n")
    done = foil("run", job)
    assert done.returncode == 2
    assert "models.writer: expected a URL without a user name" in done.stderr
    assert KEY not in done.stdout + done.stderr
    assert not (tmp_path / "out").exists()


def test_a_job_without_keys_says_as_much_as_before(tmp_path):
    job = write_job(tmp_path, 1)
    job.write_text(job.read_text().replace("window: 8", "window: ten"))
    with pytest.raises(UsageError, match=r"runtime\.window: .*found 'ten'"):
        load_job(job)
    assert json.loads(json.dumps(load_job(write_job(tmp_path, 1)).identity()))["recipe"]["kind"] == "verifiable"
