"""A judge that refuses its requests judges nothing: no topic is rejected by that, through `foil run`."""

from foil.datasets_out.sql.query import run_sql
from tests.support.commands import foil, write_job
from tests.support.drills.refused_job import rows, run
from tests.support.models.scripted_server import answered, scripted

REFUSES = answered(400, {"error": {"message": "the engine is not ready"}})
YES = answered(body='{"relevant": true}')


def judged_job(folder, url, seeds=12):
    job = write_job(folder, seeds)
    judge = f"{{kind: hosted, model: m, url: '{url}', structured: prompt}}"
    text = job.read_text().replace("{kind: verifiable}", f"{{kind: verifiable}}\nmodels: {{writer: {judge}}}")
    validators = "[{kind: shape}, {kind: judge_relevance}]"
    job.write_text(text.replace("[{kind: shape}, {kind: leak}, {kind: constraint_check}]", validators))
    return job


def test_one_that_refuses_everything_stops_the_run_which_goes_on_when_it_answers(tmp_path):
    with scripted(lambda _text, _times: REFUSES) as server:
        job = judged_job(tmp_path, server.url)
        ended = run(job)
        assert ended.returncode == 9, ended.stderr
        assert "the engine is not ready" in ended.stderr
        assert not rows(tmp_path)[0]
        server.script = lambda _text, _times: YES
        resumed = run(job)
        assert resumed.returncode == 0, resumed.stderr
    counts, _ = rows(tmp_path)
    assert counts.total() == 12
    assert {reason for _, reason in counts} <= {"", "label_disputed"}


def test_topics_that_it_refuses_later_fail_and_are_judged_by_a_retry(tmp_path):
    answered_so_far = [0]

    def script(_text, _times):
        answered_so_far[0] += 1
        return YES if answered_so_far[0] <= 4 else REFUSES

    with scripted(script) as server:
        job = judged_job(tmp_path, server.url)
        assert run(job).returncode == 3
        counts, details = rows(tmp_path)
        assert counts["failed", "refused_request"] >= 6
        assert ("rejected", "unreadable_judge") not in counts
        assert "the engine is not ready" in details
        server.script = lambda _text, _times: YES
        assert foil("run", job, "--retry-failed").returncode == 0
    assert {reason for _, reason in rows(tmp_path)[0]} <= {"", "label_disputed"}


def test_canaries_that_the_provider_refuses_are_neither_right_nor_wrong(tmp_path):
    known = set()

    def script(text, _times):
        return YES if text in known else answered(400, {"error": {"code": "content_filter", "message": "moderated"}})

    with scripted(lambda _text, _times: YES) as server:
        job = judged_job(tmp_path, server.url, seeds=24)
        none = judged_text(job, 0.0)
        job.write_text(none.replace(f"{tmp_path / 'out'}", f"{tmp_path / 'first'}"))
        assert run(job).returncode == 0
        known.update(server.asked)
        server.script = script
        job.write_text(none.replace("share: 0.0", "share: 0.5"))
        ended = run(job)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("refused a canary") == 1
    told = run_sql(tmp_path / "out", "SELECT reason FROM verdicts WHERE starts_with(reason, 'canary_')").to_pylist()
    assert {row["reason"] for row in told} == {"canary_refused"}
    assert len(told) >= 20


def judged_text(job, share):
    return job.read_text().replace(
        "{kind: judge_relevance}", f"{{kind: judge_relevance, canaries: {{share: {share}}}}}"
    )
