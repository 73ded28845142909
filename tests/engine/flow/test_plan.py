"""`foil plan` and `--reuse`: what is foretold is what is then asked, and what is paid once is not paid again."""

import asyncio
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cluster.commands.app import app
from engine.errors import UnreadableReplyError
from engine.flow.budget import Budget
from engine.flow.journal_reading import ReplyArchive
from engine.flow.limits import BudgetSettings, Limits, RuntimeSettings
from engine.flow.plan import sample_seeds, stages, trace_calls
from engine.model_traits import ModelTraits
from engine.protocols import SAMPLING
from engine.storage.opening import open_store
from prompts.parse import parse_reply
from tests.support.small_parts import Echo, Numbers, billed, build, opened, run_parts, seed, topics
from tests.support.topics.judged_topics import N1, N2, YES, Script, promptriever
from validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings

LIMITS = Limits(partition_seeds=10)


class Priced(Echo):
    traits = ModelTraits(price=lambda prompt, completion: (prompt + 10 * completion) / 1000, samples=True)


def planned(parts, seeds=50, count=20, sample=0):
    total, chosen = sample_seeds(Numbers(seeds), LIMITS, count)
    budget = Budget(BudgetSettings())
    seen = asyncio.run(trace_calls(parts, chosen, LIMITS, sample=sample, budget=budget))
    return seen, stages(seen, total, parts.models)


def test_the_sample_is_drawn_by_hash_and_the_stream_is_counted():
    total, chosen = sample_seeds(Numbers(100), Limits(seeds=60), 10)
    assert total == 60
    assert [position for position, _ in chosen] == sorted(position for position, _ in chosen)
    assert chosen == sample_seeds(Numbers(100), Limits(seeds=60), 10)[1]
    assert all(one == seed(position) for position, one in chosen)


def test_sampled_seeds_are_paid_once_and_narrow_the_plan(tmp_path):
    bill, out = tmp_path / "bill", opened(tmp_path / "out")
    parts = build(out, model=Priced(bill), asks=2)
    _, [stage] = planned(parts, count=10, sample=10)
    assert len(billed(bill)) == 20
    assert stage.answered == 1.0
    summary = run_parts(Numbers(50), lambda: build(out, model=Priced(bill), asks=2), LIMITS, RuntimeSettings())
    assert summary.complete
    assert len(billed(bill)) == len(set(billed(bill))) == 100
    assert stage.prompt_tokens.expected == pytest.approx(summary.counts.prompt_tokens, rel=0.1)
    assert stage.completion_tokens.expected == summary.counts.completion_tokens
    _, [again] = planned(build(out, model=Priced(bill), asks=2))
    assert (again.answered, again.repaid[0]) == (1.0, pytest.approx(100))


def test_a_plan_ends_where_nothing_has_answered_yet_and_says_where(tmp_path):
    """The first question is planned for each seed, at the most that its answer may use; what follows is not."""
    bill, out = tmp_path / "bill", opened(tmp_path / "out")
    seen, [stage] = planned(build(out, model=Priced(bill), asks=3))
    assert seen.unseen == {stage.task}
    assert not billed(bill)
    assert not any((out / "journal").iterdir())
    assert (stage.calls.plain(), stage.answered) == ([50, 50, 50], 0.0)
    assert stage.completion_tokens.plain() == [50 * SAMPLING["max_tokens"]] * 3
    seen, [stage] = planned(build(out, model=Priced(bill), asks=3), count=10, sample=10)
    assert (seen.unseen, stage.calls.plain()) == (set(), [150, 150, 150])


def test_a_plan_follows_corrections_that_are_paid(tmp_path):
    """A reply that could not be read is asked for again by its own prompt, in the plan as in the run."""
    out = opened(tmp_path / "out")

    def parts():
        return replace(build(out, model=Priced()), parse=picky, corrections=1)

    turns = []

    def picky(text, answer):
        turns.append(text)
        if len(turns) % 2:
            raise UnreadableReplyError("not now")
        return answer.model_validate_json(text)

    planned(parts(), seeds=3, count=3, sample=3)
    assert len(turns) == 6
    seen, [stage] = planned(parts(), seeds=3, count=3)
    assert (seen.unseen, stage.calls.plain(), stage.answered) == (set(), [6, 6, 6], 1.0)


def test_all_that_a_judge_asks_is_planned_with_its_canaries(tmp_path):
    async def recipe(seed, ask):
        return [promptriever(N1, N2)]

    def look_with(share):
        judge = JudgeRelevance(JudgeRelevanceSettings(canaries={"share": share, "threshold": 0.001}))
        parts = replace(build(opened(tmp_path / str(share)), model=Echo()), recipe=recipe, validators=(judge,))
        parts = replace(parts, models={"judge": Script(YES)}, parse=parse_reply)
        _, chosen = sample_seeds(Numbers(20), LIMITS, 20)
        return asyncio.run(trace_calls(parts, chosen, LIMITS, sample=20, budget=Budget(BudgetSettings())))

    seen = look_with(0)
    assert {call.task for call in seen.calls} == {"judges.relevance"}
    assert (seen.unanswered, seen.unseen) == (set(), set())
    assert len(look_with(0.5).calls) > len(seen.calls)


def test_the_replies_of_another_run_are_taken_over_and_not_paid(tmp_path):
    bill, first, second = tmp_path / "bill", opened(tmp_path / "first"), opened(tmp_path / "second")
    run_parts(Numbers(30), lambda: build(first, model=Echo(bill)), LIMITS, RuntimeSettings())
    paid = ReplyArchive([open_store(first)])

    def parts():
        return replace(build(second, model=Echo(bill)), paid=paid)

    summary = run_parts(Numbers(40), parts, Limits(partition_seeds=7), RuntimeSettings())
    assert (summary.complete, summary.counts.calls) == (True, 10)
    assert len(billed(bill)) == len(set(billed(bill))) == 40
    assert sum(call.reused for topic in topics(second) for call in topic.calls) == 30
    plain = [replace(topic, calls=()) for topic in topics(second)][:30]
    assert plain == [replace(topic, calls=()) for topic in topics(first)]


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
    plan = json.loads(result.stdout.strip().splitlines()[-1])
    [stage] = plan["stages"]
    assert (plan["seeds"], stage["task"], plan["unseen"]) == (200, "writing.questions", ["writing.questions"])
    assert stage["usd"][1] > 0
    assert stage["hours"] == pytest.approx(stage["calls"][1] / 600 / 60, rel=0.01)
    assert not (tmp_path / "out").exists()


def test_a_run_without_its_key_is_refused_before_anything_is_started(tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text(
        f"""
seeds: {{kind: python_docs}}
recipe: {{kind: infir}}
models:
  writer: {{kind: hosted, model: m, url: 'https://a.example/v1', api_key: '${{FOIL_NO_SUCH_KEY}}'}}
out: {tmp_path / "out"}
"""
    )
    result = CliRunner().invoke(app, ["run", str(job)])
    assert "FOIL_NO_SUCH_KEY is empty" in str(result.exception)
    assert not (tmp_path / "out").exists()
