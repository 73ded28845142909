"""`foil why --job`: what a call was asked, what came back and what became of it, from what is stored alone."""

import json

import pytest

from tests.support.commands import calls_sent, foil, hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import topics


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A run of a model that errs, and one of its calls that asked for a correction."""
    folder = tmp_path_factory.mktemp("why")
    with serving(answer=Character(said=0.3, broken=0.3)) as server:
        job = hosted_job(folder, server.url, 10)
        ended = foil("run", job)
        assert ended.returncode in (0, 3), ended.stderr
        sent = calls_sent(server)
        call = next(
            call for topic in topics(folder / "out") for call in topic.calls if call.turn == "correction" and call.fault
        )
        told = foil("why", folder / "out", call.request_id, "--job", job, env={"COLUMNS": "80"})
        plain = json.loads(foil("why", folder / "out", call.request_id, "--job", job, "--json").stdout)
        assert calls_sent(server) == sent
    return folder, call, told, plain


def test_a_call_shows_its_prompt_the_correction_its_price_and_its_fault(asked):
    _, call, told, plain = asked
    assert told.returncode == 0, told.stderr
    page, _, tree = told.stdout.partition("Where it comes from")
    roles = [role for role, _ in plain["prompts"][call.request_id]]
    assert roles[0] == "system"
    assert roles[-2:] == ["assistant", "user"]
    for part in ("system:", "assistant:", "the reply:", "asked for a correction", f"${call.cost_usd:.6f}"):
        assert part in page
    assert call.fault.split()[0] in page
    [line] = [line for line in tree.splitlines() if f"call {call.request_id[:8]}" in line and " by " in line]
    assert f"not taken: {call.fault.partition(':')[0]}" in line


def test_the_evidence_of_a_judge_names_passages_as_the_page_does(tmp_path):
    with serving(answer=Character(said=0.5)) as server:
        job = hosted_job(tmp_path, server.url, 6)
        assert foil("run", job, "--set", "validators=[{kind: judge_scenarios}]").returncode in (0, 3)
    topic = next(each for each in topics(tmp_path / "out") if any('"votes"' in one.evidence for one in each.verdicts))
    page = foil("show", tmp_path / "out", topic.id, env={"COLUMNS": "300"}).stdout
    evidence = next(line for line in page.splitlines() if "the judge named" in line)
    assert '"votes"' not in page
    assert not any(passage.id[:8] in evidence for passage in topic.passages)


def test_another_job_is_refused(asked):
    folder, call, _, _ = asked
    other = folder / "other.yaml"
    other.write_text((folder / "job.yaml").read_text().replace("model: m,", "model: other,"))
    ended = foil("why", folder / "out", call.request_id, "--job", other)
    assert ended.returncode == 2
    assert "as it was then" in ended.stderr
