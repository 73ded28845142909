"""`foil plan` and `--reuse`: what is foretold is what is then asked, and what is paid once is not paid again."""

import asyncio
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from foil.cluster.commands.app import app
from foil.datasets_out.curation.reply_archive import ReplyArchive
from foil.engine.flow.budget import Budget
from foil.engine.flow.limits import BudgetSettings, Limits, RuntimeSettings
from foil.engine.model_traits import ModelTraits
from foil.engine.planning.funnel import funnel_of
from foil.engine.planning.plan import not_seen, sample_seeds, stages, trace_calls
from tests.support.commands import calls_sent, foil, hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import Echo, Numbers, billed, build, opened, run_parts, seed, topics

LIMITS = Limits(partition_seeds=10)


class Priced(Echo):
    traits = ModelTraits(price=lambda prompt, completion: (prompt + 10 * completion) / 1000)


def planned(parts, seeds=50, count=20, sample=0):
    """What the sample showed, the stages, and what is not known."""
    total, chosen = sample_seeds(Numbers(seeds), LIMITS, count)
    budget = Budget(BudgetSettings())
    seen = asyncio.run(trace_calls(parts, chosen, LIMITS, sample=sample, budget=budget))
    rates = funnel_of(seen.rows)
    return seen, stages(rates, seen, total, parts), not_seen(rates, seen, parts)


def test_the_sample_is_drawn_by_hash_and_the_stream_is_counted():
    total, chosen = sample_seeds(Numbers(100), Limits(seeds=60), 10)
    assert total == 60
    assert [position for position, _ in chosen] == sorted(position for position, _ in chosen)
    assert chosen == sample_seeds(Numbers(100), Limits(seeds=60), 10)[1]
    assert all(one == seed(position) for position, one in chosen)


def test_without_rates_only_the_first_request_is_known_and_nothing_is_sent_or_written(tmp_path):
    bill, out = tmp_path / "bill", opened(tmp_path / "out")
    _, [stage], unknown = planned(build(out, model=Priced(bill), asks=3))
    assert not billed(bill)
    assert not any((out / "journal").iterdir())
    assert (stage.task, stage.calls.expected, stage.completion_tokens, stage.usd) == ("one.line", 50, None, None)
    assert unknown == [
        "the stage one.line: no reply to it was ever seen",
        "whatever comes after the first request of a seed",
    ]


def test_sampled_seeds_are_paid_once_and_foretell_the_run(tmp_path):
    bill, out = tmp_path / "bill", opened(tmp_path / "out")
    parts = build(out, model=Priced(bill), asks=2)
    _, [stage], unknown = planned(parts, count=10, sample=10)
    assert len(billed(bill)) == 20
    assert (stage.answered, unknown) == (1.0, [])
    summary = run_parts(Numbers(50), lambda: build(out, model=Priced(bill), asks=2), LIMITS, RuntimeSettings())
    assert summary.complete
    assert len(billed(bill)) == len(set(billed(bill))) == 100
    assert stage.calls.expected == summary.counts.calls
    assert stage.prompt_tokens.expected == pytest.approx(summary.counts.prompt_tokens, rel=0.1)
    assert stage.completion_tokens.expected == summary.counts.completion_tokens
    assert stage.usd.low < stage.usd.expected < stage.usd.high
    _, [again], _ = planned(build(out, model=Priced(bill), asks=2))
    assert (again.answered, again.repaid[0]) == (1.0, pytest.approx(100))


def test_the_upper_bound_has_every_turn(tmp_path):
    """Of a prompt with two corrections and four candidates, that an endpoint may give one by one: 3 + 4 calls."""
    parts = replace(build(opened(tmp_path / "out"), model=Priced(tmp_path / "bill")), corrections=2, candidates=4)
    _, [stage], _ = planned(parts, count=10, sample=10)
    assert stage.calls.plain()[1:] == [50, 50 * 7]
    assert stage.completion_tokens.high == 50 * 8 * (3 + 4)
    prompt = max(len(f"s{n:06d} query {n} 0") for n in range(50))
    turns = 7 * prompt + (8 + 1000) + 2 * (8 + 1000)
    assert stage.prompt_tokens.high == 50 * turns


def test_the_replies_of_another_run_are_taken_over_and_not_paid(tmp_path):
    bill, first, second = tmp_path / "bill", opened(tmp_path / "first"), opened(tmp_path / "second")
    run_parts(Numbers(30), lambda: build(first, model=Echo(bill)), LIMITS, RuntimeSettings())
    paid = ReplyArchive([first])

    def parts():
        return replace(build(second, model=Echo(bill)), paid=paid)

    summary = run_parts(Numbers(40), parts, Limits(partition_seeds=7), RuntimeSettings())
    assert (summary.complete, summary.counts.calls) == (True, 10)
    assert len(billed(bill)) == len(set(billed(bill))) == 40
    assert sum(call.reused for topic in topics(second) for call in topic.calls) == 30
    plain = [replace(topic, calls=()) for topic in topics(second)][:30]
    assert plain == [replace(topic, calls=()) for topic in topics(first)]


@pytest.fixture(scope="module")
def foretold(tmp_path_factory):
    """A job whose model errs: planned before and after a try, then run, and planned once more."""
    folder = tmp_path_factory.mktemp("plan")
    with serving(answer=Character(said=0.03, broken=0.03)) as server:
        job = hosted_job(folder, server.url, 40)
        turns = ["--set", "replies={corrections: 1, candidates: 2}"]
        before = plan(job, *turns)
        assert calls_sent(server) == 0
        tried = foil("try", job, "--seeds", 15, "--json", *turns)
        sent = calls_sent(server)
        after, other = plan(job, *turns), plan(job)
        assert calls_sent(server) == sent
        ran = json.loads(foil("run", job, "--json", *turns).stdout.splitlines()[-1])
        again = plan(job, *turns)
    return folder, before, json.loads(tried.stdout), after, other, ran, again


def plan(job, *more):
    """The plan as JSON, alone on stdout."""
    ended = foil("plan", job, "--json", *more)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_before_anything_is_asked_the_plan_is_not_whole(foretold):
    _, before, *_ = foretold
    assert (before["whole"], before["totals"], before["rates"]["seeds"]) == (False, None, 0)
    [stage] = before["stages"]
    assert (stage["task"], stage["calls"], stage["usd"]) == ("writing.questions", [40, 40, 160], None)
    assert before["not_seen"][-1] == "whatever comes after the first request of a seed"


def test_the_rates_of_a_try_foretell_the_run_within_their_bounds(foretold):
    folder, _, tried, after, _, ran, _ = foretold
    assert (after["rates"]["of"], after["rates"]["seeds"]) == (tried["out"], 15)
    assert [stage["task"] for stage in after["stages"]] == [stage["task"] for stage in tried["stages"]]
    assert after["whole"]
    calls = [call for topic in topics(folder / "out") for call in topic.calls]
    assert any(call.turn == "candidates" for call in calls)
    for stage in after["stages"]:
        paid = [call for call in calls if call.task == stage["task"]]
        assert stage["calls"][0] <= stage["calls"][1] <= stage["calls"][2] >= len(paid)
        assert stage["prompt_tokens"][2] >= sum(call.prompt_tokens for call in paid)
        assert stage["completion_tokens"][2] >= sum(call.completion_tokens for call in paid)
    assert after["totals"]["calls"][1] == pytest.approx(ran["calls"], rel=0.3)
    assert after["totals"]["calls"][0] <= ran["calls"] <= after["totals"]["calls"][2]
    assert after["totals"]["usd"][0] <= ran["cost_usd"] <= after["totals"]["usd"][2]
    assert after["accepted_share"] == tried["topics"]["accepted"] / 15
    assert all(stage["answered"] == 0 for stage in after["stages"]), "the run does not know of the try"


def test_a_plan_says_whose_rates_it_goes_by_and_in_what_that_job_differs(foretold):
    folder, _, tried, after, other, _, again = foretold
    assert after["rates"]["differs_in"] == []
    assert (other["rates"]["of"], other["rates"]["differs_in"]) == (tried["out"], ["replies"])
    assert (again["rates"]["of"], again["rates"]["seeds"]) == (str(folder / "out"), 40)
    assert {stage["answered"] for stage in again["stages"]} == {1.0}


def test_a_judge_that_no_rate_has_seen_is_named(foretold):
    folder, *_ = foretold
    text = (
        (folder / "job.yaml")
        .read_text()
        .replace(
            "models: {writer: ", "models: {judge: {kind: hosted, model: j, url: 'http://127.0.0.1:9/v1'}, writer: "
        )
    )
    job = folder / "judged.yaml"
    job.write_text(text)
    told = plan(job, "--set", "validators=[{kind: shape}, {kind: judge_scenarios}]", "--rates", folder / "out")
    assert (told["whole"], told["totals"]) == (False, None)
    assert told["not_seen"] == [
        "the stage judges.scenario: no reply to it was ever seen",
        "what judge_scenarios asks: it saw no topic",
    ]
    shown = foil(
        "plan", job, "--set", "validators=[{kind: judge_scenarios}]", "--rates", folder / "out", env={"COLUMNS": "80"}
    )
    assert "NOT IN THIS PLAN: what judge_scenarios asks" in shown.stdout
    assert "in all" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines()[1:])) <= 120


def test_the_command_plans_a_hosted_job_without_a_network(tmp_path, shared_data):
    job = tmp_path / "job.yaml"
    job.write_text(
        f"""
seeds: {{kind: metamath, path: {shared_data}/gsm8k/test.jsonl}}
recipe: {{kind: infir}}
models:
  writer:
    kind: hosted
    model: some-model
    url: http://127.0.0.1:9/v1
    price: {{prompt: 2.0, completion: 8.0}}
    rpm: 600
out: {tmp_path / "out"}
limits: {{seeds: 200}}
"""
    )
    result = CliRunner().invoke(app, ["plan", str(job), "--seeds", "20", "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    [stage] = told["stages"]
    assert (told["seeds"], stage["task"], told["whole"]) == (200, "writing.questions", False)
    assert stage["hours"] == pytest.approx(stage["calls"][1] / 600 / 60, rel=0.01)
    assert not (tmp_path / "out").exists()


def test_a_run_without_its_key_is_refused_before_anything_is_started(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(
        f"""
seeds: {{kind: python_docs}}
recipe: {{kind: verifiable}}
models:
  writer: {{kind: hosted, model: m, url: 'https://a.example/v1', api_key: '${{FOIL_NO_SUCH_KEY}}'}}
out: {tmp_path / "out"}
"""
    )
    result = CliRunner().invoke(app, ["run", str(job)])
    assert "FOIL_NO_SUCH_KEY is empty" in str(result.exception)
    assert not (tmp_path / "out").exists()
