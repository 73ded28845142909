"""`foil job OUT`: the page of a run's job, which makes the same run."""

import json

import pytest
import yaml

from foil.datasets_out.commits.log import CommitLog
from tests.support.commands import calls_sent, foil, hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import digest

MORE = ("validators=[{kind: shape}, {kind: leak}]", "limits.budget.calls=10000", "replies.candidates=2")


@pytest.fixture
def made(tmp_path):
    """A run with settings that `--set` gave, its page, and its server."""
    settings = [word for each in MORE for word in ("--set", each)]
    with serving(answer=Character()) as server:
        job = hosted_job(tmp_path, server.url, 5)
        text = job.read_text().replace("kind: hosted", 'kind: hosted, api_key: "${THE_KEY}"')
        job.write_text(text)
        env = {"THE_KEY": "sk-secret-of-mine"}
        assert foil("run", job, *settings, env=env).returncode in (0, 3)
        page = foil("job", tmp_path / "out")
        assert page.returncode == 0, page.stderr
        (tmp_path / "page.yaml").write_text(page.stdout)
        yield tmp_path, server, page.stdout, env


@pytest.mark.slow
def test_the_page_is_the_same_run(made):
    folder, server, text, env = made
    sent, before = calls_sent(server), digest(folder / "out")
    assert "sk-secret" not in text
    assert "${THE_KEY}" in text
    assert foil("run", folder / "page.yaml", env=env).returncode in (0, 3)
    assert (calls_sent(server), digest(folder / "out")) == (sent, before)
    reuse = ["--reuse", folder / "out", "--set", "replies.candidates=2"]
    assert foil("run", folder / "page.yaml", "--out", folder / "again", *reuse, env=env).returncode in (0, 3)
    assert calls_sent(server) == sent
    assert CommitLog(folder / "again").fingerprint() == CommitLog(folder / "out").fingerprint()
    assert foil("verify", folder / "out").returncode == 0


def test_an_older_run_gives_what_it_knows_and_says_what_is_missing(made):
    folder, _server, text, _env = made
    (folder / "out" / "job.json").unlink()
    page = foil("job", folder / "out")
    assert "its `url` or `endpoints`" in page.stderr
    old, new = yaml.safe_load(page.stdout), yaml.safe_load(text)
    assert old["out"] == new["out"]
    assert [part["kind"] for part in old["validators"]] == [part["kind"] for part in new["validators"]]


def test_a_run_made_of_others_has_no_job(made):
    folder, _server, _text, _env = made
    foil("filter", folder / "out", folder / "few", "--where", "length(query) > 0")
    ended = foil("job", folder / "few")
    assert ended.returncode == 2
    assert "by `foil filter`" in ended.stderr
    assert json.loads((folder / "few" / "sources.json").read_text())["sources"]
