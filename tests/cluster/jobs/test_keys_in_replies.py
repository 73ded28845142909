"""A provider that repeats the key in every spelling: none of them is in what the run keeps or says."""

import json
import re

import pytest

from foil.engine.flow.journal_reading import JournalIndex
from foil.engine.storage.local_store import LocalStore
from foil.engine.texts.key_spellings import cut_keys
from tests.engine.texts.spelled_keys import KEY, SPELLINGS
from tests.support.commands import foil, hosted_job
from tests.support.models.fault_server import Behaviour, serving
from tests.support.small_parts import topics

ROWS = """{kind: custom, templates: TEMPLATES, stages: [{name: told, answer: {text: string, texts: list}}],
  rows: {text: told.text, texts: told.texts}}"""


def _job(folder, url):
    job = hosted_job(folder, url, len(SPELLINGS))
    (folder / "told.j2").write_text("=== user ===\n{{ query }}\n")
    text = job.read_text().replace("{kind: infir}", ROWS.replace("TEMPLATES", str(folder)))
    job.write_text(text.replace("model: m,", "model: m, api_key: '${FOIL_TEST_KEY}',"))
    return job


def _number(request):
    return int(request["messages"][-1]["content"].partition("number ")[2].partition(" ")[0])


def _decoded(request, _choice):
    """The spelling as a value of the JSON, and so escaped once more."""
    spelled = [*SPELLINGS.values()][_number(request)]
    return json.dumps({"text": f"it is {spelled} indeed", "texts": [spelled, "none"]})


def _raw(request, _choice):
    """The spelling as it stands, where that is JSON."""
    spelled = [*SPELLINGS.values()][_number(request)]
    try:
        json.loads(f'"{spelled}"')
    except ValueError:
        return _decoded(request, 0)
    return f'{{"text": "it is {spelled} indeed", "texts": ["{spelled}", "none"]}}'


@pytest.mark.parametrize("answer", [_decoded, _raw])
def test_no_spelling_of_a_key_is_kept(tmp_path, answer):
    env = {"FOIL_TEST_KEY": KEY}
    with serving(Behaviour(api_keys=(KEY,)), answer) as server:
        ended = foil("run", _job(tmp_path, server.url), env=env)
    assert ended.returncode == 0, ended.stderr
    made = topics(tmp_path / "out")
    assert len(made) == len(SPELLINGS)
    journal = JournalIndex(LocalStore(tmp_path / "out")).replies(0)
    assert len(journal) == len(SPELLINGS)
    for told in [repr(made), ended.stdout, ended.stderr, *(reply.text for reply in journal.values())]:
        assert cut_keys(told, frozenset({KEY})) == told
    rows = [json.loads(topic.attributes["row"]) for topic in made]
    assert all(re.fullmatch(r"it is [\w+/*\\]*\*{3}[\w=\\?+/]* indeed", row["text"]) for row in rows)
    assert all(row["texts"][1] == "none" for row in rows)
