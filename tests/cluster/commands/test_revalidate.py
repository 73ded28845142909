"""`foil revalidate`: stored rows through other validators and judges; what was paid is not paid again."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import pytest

from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.cluster.seeds.stored_topics import as_made
from foil.datasets_out.desk.topics import asker
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.ids import canonical_json
from foil.engine.storage.opening import open_store
from tests.support.commands import calls_sent, foil
from tests.support.models.character import Character, parse_prompt
from tests.support.models.fault_server import Behaviour, serving
from tests.support.paths import REPO
from tests.support.small_parts import digest, topics
from tests.support.topics.llm_runs import llm_run
from tests.support.topics.trades import SAYS, corpus

COLUMNS = "{id: id, query: query, positives: positives, negatives: negatives}"
JOB = """\
seeds: {seeds}
recipe: {recipe}
models:
  writer: &model
    {{kind: hosted, model: in-character, structured: json_schema, url: "{url}", price: {{prompt: 1.0, completion: 1}}}}
  judge: *model
validators: [{{kind: shape}}, {{kind: leak}}, {judge}]
out: {out}
replies: {{candidates: 0}}
limits: {{seeds: 20, partition_seeds: 8}}
"""
"""No candidates are drawn, since a row keeps one of them; the form is set, since tokens of an adapted one differ."""
SCENARIOS = "{kind: judge_scenarios, canaries: {share: 0}}"
RELEVANCE = "{kind: judge_relevance, logprobs: false, canaries: {share: 0}}"
VOTES = "validators=[{kind: shape}, {kind: judge_scenarios, votes: 3, canaries: {share: 0}}]"


class WrongJudge(Character):
    """Names the last choice where it judges, and writes as the character does."""

    def __call__(self, request, choice):
        text, reason = super().__call__(request, choice)
        named = text.startswith('{"most_relevant": "') and text.endswith('"}')  # no broken reply
        return (json.dumps({"most_relevant": "none"}), reason) if named and hash_half(request) else (text, reason)


def hash_half(request):
    return len(request["messages"][-1]["content"]) % 2


def write(folder, url, recipe="{kind: infir}", judge=SCENARIOS, name="out"):
    job = folder / f"{name}.yaml"
    path = corpus(folder / "seeds.jsonl")
    seeds = f"{{kind: table, corpus: trades, path: {path}, columns: {COLUMNS}}}"
    job.write_text(JOB.format(seeds=seeds, url=url, recipe=recipe, judge=judge, out=folder / name))
    return job


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A run of which a judge that errs has rejected many topics, and its writer spoilt some."""
    folder = tmp_path_factory.mktemp("source")
    with serving(answer=WrongJudge(broken=0.03)) as server:
        run_job(load_job(write(folder, server.url)))
    rows = topics(folder / "out")
    assert {row.status for row in rows} == {"accepted", "rejected", "failed"}
    assert Counter(bool(row.intents) for row in rows)[False] > 0
    assert sum(row.reason == "no_passage_named" for row in rows) > 2
    return folder


def job_at(folder, url):
    """The job of the source, its model at this server."""
    text = (folder / "out.yaml").read_text()
    job = folder / "changed.yaml"
    job.write_text(
        "\n".join(
            line if "url:" not in line else line.split("url:")[0] + f'url: "{url}"}}' for line in text.splitlines()
        )
    )
    return job


def written(row):
    return [call for call in row.calls if not call.task.startswith("judges.")]


def judged(row):
    return [call for call in row.calls if call.task.startswith("judges.")]


def test_an_unchanged_job_comes_to_the_same_and_pays_nothing(source, tmp_path):
    with serving(answer=Character()) as server:
        ended = foil("revalidate", source / "out", tmp_path / "into", "--job", job_at(source, server.url))
        assert calls_sent(server) == 0
    assert ended.returncode == 3, ended.stderr
    before, after = topics(source / "out"), topics(tmp_path / "into")
    assert [replace(row, calls=(), verdicts=()) for row in after] == [
        replace(row, calls=(), verdicts=()) for row in before
    ]
    assert all(call.reused for row in after for call in row.calls)
    for old, new in zip(before, after, strict=True):
        assert [replace(call, reused=True) for call in old.calls] == list(new.calls)
        assert [replace(verdict, cost_usd=0.0) for verdict in old.verdicts] == list(new.verdicts)
    assert foil("verify", tmp_path / "into").returncode == 0


def test_the_first_rows_by_set_then_all_come_to_the_same_and_pay_once(source, tmp_path):
    with serving(answer=Character()) as server:
        job = job_at(source, server.url)
        told = ["revalidate", source / "out", tmp_path / "into", "--job", job, "--set", VOTES]
        assert foil(*told, "--set", "limits.seeds=7").returncode in (0, 3)
        assert len(topics(tmp_path / "into")) == 7
        first = calls_sent(server)
        assert foil(*told).returncode == 3
        in_two = calls_sent(server)
        assert foil("revalidate", source / "out", tmp_path / "whole", "--job", job, "--set", VOTES).returncode == 3
        assert 0 < first < in_two == calls_sent(server) - in_two
    assert topics(tmp_path / "into") == topics(tmp_path / "whole")
    assert foil("verify", tmp_path / "into").returncode == 0


def test_a_changed_judge_alone_is_paid_and_lineage_holds(source, tmp_path):
    into = tmp_path / "into"
    with serving(answer=(model := Character())) as server:
        ended = foil("revalidate", source / "out", into, "--job", job_at(source, server.url), "--set", VOTES, "--json")
        assert ended.returncode == 3, ended.stderr
        asked = set(model.tasks.values())
        sent = calls_sent(server)
    before, after = topics(source / "out"), topics(into)
    assert asked == {"judges.scenario"}
    assert sent == sum(not call.reused for row in after for call in row.calls) > 0
    assert json.loads(ended.stdout.splitlines()[-1])["calls"] == sent
    assert [row.id for row in after] == [row.id for row in before]
    for old, new in zip(before, after, strict=True):
        assert [replace(call, reused=True) for call in written(old)] == written(new)
        if not old.intents:
            assert (new.status, new.reason, new.detail) == (old.status, old.reason, old.detail)
            assert not judged(new)
    saved = [
        new for old, new in zip(before, after, strict=True) if (old.status, new.status) == ("rejected", "accepted")
    ]
    assert saved
    assert any(call.reused for row in after for call in judged(row)), "a vote that stands is not asked again"
    why = foil("why", into, saved[0].id)
    assert str(source / "out") in why.stdout, why.stdout


def test_replies_that_the_journal_has_no_more_are_found_in_the_rows(source, tmp_path):
    shutil.copytree(source / "out", tmp_path / "old")
    shutil.rmtree(tmp_path / "old" / "journal")
    with serving(answer=Character()) as server:
        foil("revalidate", tmp_path / "old", tmp_path / "into", "--job", job_at(source, server.url))
        assert calls_sent(server) == 0
    assert Counter(row.reason for row in topics(tmp_path / "into")) == Counter(
        row.reason for row in topics(source / "out")
    )


def test_what_a_curator_dropped_stays_dropped(source, tmp_path):
    accepted = next(row for row in topics(source / "out") if row.status == "accepted")
    foil("drop", source / "out", tmp_path / "dropped", accepted.id, "--reason", "ugly")
    with serving(answer=Character()) as server:
        job = job_at(source, server.url)
        foil("revalidate", tmp_path / "dropped", tmp_path / "into", "--job", job)
        assert calls_sent(server) == 0, "the replies are in the run behind the derived one"
    [row] = [row for row in topics(tmp_path / "into") if row.id == accepted.id]
    assert (row.status, row.reason) == ("rejected", "ugly")


def test_what_a_curator_accepted_stays_accepted_and_is_not_judged_again(source, tmp_path):
    rejected = next(row for row in topics(source / "out") if row.reason == "no_passage_named")
    foil("accept", source / "out", tmp_path / "accepted", rejected.id, "--reason", "the judge erred")
    with serving(answer=Character()) as server:
        job = job_at(source, server.url)
        foil("revalidate", tmp_path / "accepted", tmp_path / "into", "--job", job)
        assert calls_sent(server) == 0
    [row] = [row for row in topics(tmp_path / "into") if row.id == rejected.id]
    assert (row.status, row.verdicts[-1].validator) == ("accepted", "curator")


@pytest.mark.parametrize(
    "point",
    [
        "ask.answered:7",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("journal.synced:5", "flow.committed:1", "put.linked:2")),
    ],
)
def test_kill_9_pays_nothing_twice_and_resumes_to_equal_bytes(source, tmp_path, point):
    with serving(answer=Character()) as server:
        arguments = [
            "revalidate",
            source / "out",
            tmp_path / "into",
            "--job",
            job_at(source, server.url),
            "--set",
            VOTES,
        ]
        assert foil(*arguments, env={"FOIL_CRASH_POINT": point}).returncode == -9
        resumed_as_whole(arguments, server, source, tmp_path)


@pytest.mark.slow
def test_kill_9_of_workers_pays_twice_no_more_than_was_in_flight(source, tmp_path):
    with serving(Behaviour(latency=0.2), answer=Character()) as server:
        job = job_at(source, server.url)
        more = ["--set", VOTES, "--set", "runtime.workers=2"]
        arguments = ["revalidate", source / "out", tmp_path / "into", "--job", job, *more]
        command = [sys.executable, "-m", "foil", *map(str, arguments)]
        with subprocess.Popen(
            command, cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)}, start_new_session=True
        ) as run:
            while calls_sent(server) < 9:
                time.sleep(0.05)
            os.killpg(run.pid, signal.SIGKILL)
        resumed_as_whole(arguments, server, source, tmp_path)


def resumed_as_whole(arguments, server, source, tmp_path):
    """Goes on with what was killed; all of it is what a run that nobody killed comes to."""
    ended = foil(*arguments)
    assert ended.returncode == 3, ended.stderr
    sent, into = calls_sent(server), tmp_path / "into"
    foil("revalidate", source / "out", tmp_path / "whole", "--job", arguments[4], "--set", VOTES)
    assert digest(into) == digest(tmp_path / "whole")
    assert sent - (calls_sent(server) - sent) <= possibly_paid_twice(open_store(into))
    assert foil("verify", into).returncode == 0


def test_labels_that_a_judge_took_over_or_reversed_are_as_the_recipe_made_them(tmp_path):
    """By the rows of the same job without a judge: one that finds no passage of the corpus relevant reverses labels."""

    class Contrary(Character):
        def __call__(self, request, choice):
            text, reason = super().__call__(request, choice)
            of_corpus = any(said in request["messages"][-1]["content"] for said in SAYS.values())
            return (
                (json.dumps({"relevant": False}), reason)
                if of_corpus and text == '{"relevant": true}'
                else (text, reason)
            )

    recipe = "{kind: promptriever, lengths: [short]}"
    with serving(answer=Contrary()) as server:
        run_job(load_job(write(tmp_path, server.url, recipe, RELEVANCE, "judged")))
        run_job(load_job(write(tmp_path, server.url, recipe, "{kind: refusal}", "plain")))
    reversed_labels = taken_over = 0
    for seen, plain in zip(topics(tmp_path / "judged"), topics(tmp_path / "plain"), strict=True):
        labels = {(j.intent_id, j.passage_id): (j.relevance, j.judge) for j in plain.judgments}
        made = as_made(seen)
        assert made.verdicts == ()
        assert not any(j.judge.startswith("judge:") or j.votes for j in made.judgments)
        assert all(labels[j.intent_id, j.passage_id][0] == j.relevance for j in made.judgments)
        reversed_labels += sum(labels[j.intent_id, j.passage_id][0] != j.relevance for j in seen.judgments)
        taken_over += sum(j.judge.startswith("judge:") for j in seen.judgments)
    assert taken_over > reversed_labels > 0


def test_a_topic_that_a_judge_rejects_keeps_what_the_judge_cut(tmp_path):
    """So that another judge can accept it: no passage and no label is missing."""

    class Never(Character):
        def __call__(self, request, choice):
            text, reason = super().__call__(request, choice)
            return (text.replace("true", "false"), reason) if text.startswith('{"relevant"') else (text, reason)

    recipe = "{kind: promptriever, lengths: [short]}"
    with serving(answer=Never()) as server:
        run_job(load_job(write(tmp_path, server.url, recipe, RELEVANCE, "judged")))
        run_job(load_job(write(tmp_path, server.url, recipe, "{kind: refusal}", "plain")))
    judged_rows, plain = topics(tmp_path / "judged"), topics(tmp_path / "plain")
    rejected = [
        (a, b) for a, b in zip(judged_rows, plain, strict=True) if a.status == "rejected" and b.status == "accepted"
    ]
    assert rejected
    for seen, made in rejected:
        assert (seen.intents, seen.passages, seen.judgments) == (made.intents, made.passages, made.judgments)
    with serving(answer=Character()) as server:
        job = write(tmp_path, server.url, recipe, RELEVANCE, "again")
        more = ["--set", "models.judge.model=another"]
        ended = foil("revalidate", tmp_path / "judged", tmp_path / "into", "--job", job, *more)
    assert ended.returncode == 0, ended.stderr
    assert sum(row.status == "accepted" for row in topics(tmp_path / "into")) >= len(rejected)


def test_a_run_is_never_revalidated_into_itself(source):
    ended = foil("revalidate", source / "out", source / "out", "--job", source / "out.yaml")
    assert ended.returncode == 2
    assert "is the run itself" in ended.stderr


class WordJudge(Character):
    """Says of a passage what its words say: it has half of the query's words, or 4 of 10 of the instruction's."""

    def __call__(self, request, choice):
        asked = parse_prompt(request["messages"])
        self.tasks[canonical_json(request["messages"])] = asked.task
        texts = dict(re.findall(r"<(\w+)-\w+>\n(.*?)\n</\1-", asked.user, re.DOTALL))
        wanted, least = (texts["instruction"], 0.4) if "instruction" in texts else (texts["query"], 0.5)
        has = stems(wanted) & stems(texts["passage"])
        return str(len(has) >= least * len(stems(wanted))).lower(), "stop"


def stems(text):
    return {word[:5] for word in re.findall(r"\w{4,}", text.lower())}


@pytest.mark.slow
def test_another_judge_rescues_topics_of_a_real_model_and_is_paid_alone(shared_data, tmp_path):
    """The first judge named the right passage hardly more often than by chance."""
    with serving() as writer, serving(answer=(model := WordJudge())) as server:
        out, into = llm_run(shared_data, "infir_rules_off", tmp_path / "out", writer.url), tmp_path / "into"
        judge = f"models.judge={{kind: hosted, model: words, url: '{server.url}', price: {{prompt: 1, completion: 1}}}}"
        checks = "validators=[{kind: shape}, {kind: judge_demands, logprobs: false, canaries: {share: 0}}]"
        job = out.with_suffix(".yaml")
        ended = foil("revalidate", out, into, "--job", job, "--set", judge, "--set", checks, "--json")
        assert ended.returncode == 3, ended.stderr
        assert (calls_sent(writer), set(model.tasks.values())) == (0, {"judges.demand"})
        sent = calls_sent(server)
        again = foil("revalidate", out, into, "--job", job, "--set", judge, "--set", checks, "--json")
        assert (again.returncode, calls_sent(server)) == (3, sent), "a finished one asks nothing"
    ask = asker(into)
    [bill] = ask("SELECT calls, cost_usd, prompt_tokens + completion_tokens AS tokens FROM runs")
    assert (bill["calls"], bill["cost_usd"]) == (sent, pytest.approx(bill["tokens"] / 1e6))
    [of_writer] = ask("SELECT count(*) FILTER (NOT reused) AS paid FROM calls WHERE task NOT LIKE 'judges.%'")
    assert of_writer["paid"] == 0
    before = {row.id: row for row in topics(out)}
    saved = [row for row in topics(into) if (before[row.id].reason, row.status) == ("other_passage_named", "accepted")]
    assert len(saved) > 100
    assert all(written(row) == [replace(call, reused=True) for call in written(before[row.id])] for row in saved)
    assert foil("verify", into).returncode == 0
