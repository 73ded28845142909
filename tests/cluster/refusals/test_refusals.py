"""What a provider refuses, through `foil run`: a prompt fails its row, a sample is drawn anew, an account or a spent
quota stops the run, which goes on where it stopped."""

import socket
import time

import pytest

from tests.support.commands import foil
from tests.support.drills.refused_job import rarely, refuses, rows, run, slowly, write_job
from tests.support.models.scripted_server import answered, scripted

FILTERED = [
    answered(403, {"error": {"code": "content_policy", "message": "moderation"}}),
    answered(400, {"error": {"code": "content_filter", "message": "filtered"}}),
]
BLOCKED = [
    answered(403, "<html>blocked</html>"),
    answered(401, {"error": {"message": "this prompt needs a verified organisation"}}),
    answered(402, {"error": {"message": "prompt too long for your plan"}}),
    answered(404, "not found by the firewall"),
    answered(400, {"error": {"message": "your prompt speaks of an API key"}}),
    answered(422, {"detail": "the prompt is too long"}),
    answered(451, "unavailable for legal reasons"),
    *FILTERED,
]


@pytest.mark.parametrize("window", [2, *rarely(1, 8)])
@pytest.mark.parametrize(
    "refusal", [BLOCKED[0], *slowly(*BLOCKED[1:])], ids=lambda each: f"{each.status}-{str(each.body)[:20]}"
)
def test_a_refusal_of_one_prompt_fails_its_row_with_the_providers_words(tmp_path, refusal, window):
    with scripted(refuses(refusal)) as server:
        ended = run(write_job(tmp_path, server.url, 8, window, poison=(0, 3, 4)))
        assert ended.returncode == 3, ended.stderr
        counts, details = rows(tmp_path)
        reason = "filtered_request" if refusal in FILTERED else "refused_request"
        assert counts == {("accepted", ""): 5, ("failed", reason): 3}
        assert f"answered {refusal.status}" in details
        assert server.sent("question") <= 5 + 2 * 3
        assert server.sent("one word: yes") <= 3
        before = len(server.sends)
        assert run(tmp_path / "job.yaml").returncode == 3
        assert len(server.sends) == before


NO_TEXT = {
    "choices": [{"message": {"content": "", "reasoning_content": "hm"}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 40, "completion_tokens": 9},
}


def test_a_harmless_prompt_that_passes_makes_no_other_reply_useful(tmp_path):
    def script(text, asked):
        if "one word: yes" in text:
            return answered(body="yes")
        return answered(403, "blocked") if "DROP" in text else answered(body=NO_TEXT)

    with scripted(script) as server:
        ended = run(write_job(tmp_path, server.url, 30, window=1, poison=(0,)))
        assert ended.returncode == 9, ended.stderr
        assert "none of its replies can be used" in ended.stderr
        assert server.sent("one word: yes") == 1
        assert server.sent("question") <= 40 + 2


CLOSED = [
    answered(401, {"error": {"message": "invalid key"}}),
    answered(402, {"error": {"message": "Insufficient credits"}}),
    answered(403, {"error": {"message": "country not supported"}}),
    answered(404, {"error": {"message": "no such model"}}),
    answered(
        400, {"error": {"message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}
    ),
    answered(400, {"error": {"message": "Your credit balance is too low to access the API."}}),
    answered(400, {"error": {"message": "unknown field `seed`"}}),
    answered(429, {"error": {"code": "insufficient_quota", "message": "no credit"}}),
]


@pytest.mark.parametrize("worked_before", [3, *rarely(0)])
@pytest.mark.parametrize(
    "refusal", [CLOSED[0], *slowly(*CLOSED[1:])], ids=lambda each: f"{each.status}-{str(each.body)[:40]}"
)
def test_a_closed_account_makes_no_row_and_the_run_goes_on_once_it_is_open(tmp_path, refusal, worked_before):
    if worked_before and "unknown field" in str(refusal.body):
        pytest.skip("what was taken before is not unknown")
    open_to, served = [worked_before], [0]

    def script(_text, _times):
        served[0] += 1
        return answered() if served[0] <= open_to[0] else refusal

    with scripted(script) as server:
        job = write_job(tmp_path, server.url)
        ended = run(job)
        assert ended.returncode == 9, ended.stderr
        assert f"answered {refusal.status}" in ended.stderr
        counts, _ = rows(tmp_path)
        assert set(counts) <= {("accepted", "")}
        open_to[0] = 10**9
        resumed = run(job)
        assert resumed.returncode == 0, resumed.stderr
        assert rows(tmp_path)[0] == {("accepted", ""): 6}


def test_a_refusal_that_later_requests_overtook_makes_no_row_when_the_account_is_closed(tmp_path):
    """The first request is refused late; those sent after it have passed by then, and nothing passes any more."""
    served, is_open = [0], [False]

    def script(_text, _times):
        served[0] += 1
        if is_open[0] or 1 < served[0] <= 4:
            return answered()
        return CLOSED[0]._replace(seconds=1.0) if served[0] == 1 else CLOSED[0]

    with scripted(script) as server:
        job = write_job(tmp_path, server.url)
        assert run(job).returncode == 9
        assert set(rows(tmp_path)[0]) <= {("accepted", "")}
        is_open[0] = True
        assert run(job).returncode == 0
        assert rows(tmp_path)[0] == {("accepted", ""): 6}


UNLUCKY = [
    {
        "message": "The generated JSON misses the expected shape",
        "code": "json_validate_failed",
        "failed_generation": "{",
    },
    {"message": "Generated output misses the json_schema given in response_format", "code": "json_validate_failed"},
    {"message": "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."},
    {"message": "tool call validation failed", "code": "tool_use_failed", "failed_generation": "x"},
    {"message": "Parsing failed", "code": "output_parse_failed"},
    {"message": "The model did not generate valid JSON for the response_format"},
]


@pytest.mark.parametrize(
    "error", [UNLUCKY[1], *slowly(UNLUCKY[0], *UNLUCKY[2:])], ids=lambda each: each["message"][:30]
)
def test_an_unlucky_sample_is_drawn_anew_and_teaches_nothing(tmp_path, error):
    with scripted(refuses(answered(400, {"error": error}), times=2)) as server:
        job = write_job(tmp_path, server.url, poison=(0, 3))
        job.write_text(job.read_text().replace("kind: hosted", "kind: hosted, structured: json_schema"))
        ended = run(job)
        assert ended.returncode == 0, ended.stderr
        assert rows(tmp_path)[0] == {("accepted", ""): 6}
        assert server.sent("question") == 6 + 2 * 2
        assert all("response_format" in body for _, body in server.sends)


def test_a_sample_that_is_never_lucky_is_an_unreadable_reply_after_three(tmp_path):
    with scripted(refuses(answered(400, {"error": UNLUCKY[0]}))) as server:
        assert run(write_job(tmp_path, server.url, poison=(1,))).returncode == 3
        assert rows(tmp_path)[0] == {("accepted", ""): 5, ("failed", "unreadable_reply"): 1}
        assert server.sent("DROP") == 3


QUOTAS = [
    answered(429, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota per day"}}]),
    answered(429, {"error": {"message": "Rate limit reached for requests per day"}}, retry_after="1"),
    answered(503, {"error": {"message": "overloaded"}}, retry_after="1"),
    answered(429, "slow down", retry_after="0"),
    answered(500, "internal"),
]


@pytest.mark.parametrize("window", [4, *rarely(1)])
@pytest.mark.parametrize(
    "refusal", [*slowly(*QUOTAS[:2]), *rarely(*QUOTAS[2:])], ids=lambda each: f"{each.status}-{each.headers}"
)
def test_a_spent_quota_makes_no_row_and_the_run_goes_on_when_there_is_more(tmp_path, refusal, window):
    served, most = [0], [3]

    def script(_text, _times):
        served[0] += 1
        return answered() if served[0] <= most[0] else refusal

    with scripted(script) as server:
        job = write_job(tmp_path, server.url, 12, window)
        for _ in range(2):
            ended = run(job, deadline_s=60, outage_s=3, attempts=3)
            assert ended.returncode == 9, ended.stderr
            assert str(refusal.status) in ended.stderr
            assert set(rows(tmp_path)[0]) <= {("accepted", "")}
        most[0] = 10**9
        assert run(job).returncode == 0
        assert rows(tmp_path)[0] == {("accepted", ""): 12}


def test_the_pause_that_a_503_asks_for_is_waited_for(tmp_path):
    with scripted(refuses(answered(503, "busy", retry_after="3"), times=1)) as server:
        assert run(write_job(tmp_path, server.url, 3, poison=(1,))).returncode == 0
        first, again = [at for at, body in server.sends if "DROP" in str(body)]
    assert again - first >= 3


def test_a_dead_url_is_told_within_seconds_and_asked_on(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    began = time.monotonic()
    ended = run(write_job(tmp_path, f"http://127.0.0.1:{port}/v1"), outage_s=4)
    assert ended.returncode == 9, ended.stderr
    assert f"http://127.0.0.1:{port}/v1 lets nothing pass" in ended.stderr
    assert time.monotonic() - began > 4
    assert not rows(tmp_path)[0]


def test_what_it_took_to_learn_whom_to_blame_counts_in_the_budget_of_a_later_run(tmp_path):

    with scripted(refuses(answered(403, "blocked"))) as server:
        job = write_job(tmp_path, server.url, 12, window=1, poison=(0, 3, 4))
        ended = foil("run", job, "--set", "limits.budget.calls=5")
        assert ended.returncode == 4, ended.stderr
        first = server.sent("one word: yes"), paid(server)
        assert first[0] >= 1
        assert first[1] == 5
        again = foil("run", job, "--set", "limits.budget.calls=9")
        assert again.returncode == 4, again.stderr
        assert paid(server) == 9
        assert run(job).returncode == 3
        assert foil("verify", tmp_path / "out").returncode == 0


def paid(server):
    return sum(times for text, times in server.asked.items() if "DROP" not in text)
