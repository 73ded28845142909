"""Endpoints as they are in the wild: each spelling of an answer, its end, its tokens and its cost, by the command."""

import json
import math
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tests.support.commands import foil, write_job
from tests.support.drills.wild_endpoint import FINE, USAGE, Wild, rows, said, wild_job
from tests.support.models.raw_server import answering, http
from tests.support.small_parts import read_replies, topics

HALF = '{"text": "half"}'
THOUGHTS = "if (a) { x(); } " * 40
BLANKS = '{"text": ' + " " * 6_000


def text(value, **more):
    return {"type": "text", "text": value, **more}


def thought(value):
    return {"type": "thinking", "thinking": [text(value)]}


READ_AT_ONCE = {
    # content as parts
    "one part": (said([text(FINE)]), "fine"),
    "a part with quotes": (said([text('{"text": "it\'s \\"fine\\""}')]), 'it\'s "fine"'),
    "a part with escapes": (said([text('{"text": "line one\\nline two caf\\u00e9"}')]), "line one\nline two café"),
    "two parts": (said([text('{"text": '), text('"fine"}')]), "fine"),
    "a thought and a part": (said([thought('{"text": "DRAFT"}'), text(FINE)]), "fine"),
    "parts of another name": (said([{"type": "output_text", "text": FINE, "annotations": []}]), "fine"),
    "an object that a proxy has read": (said({"text": "fine"}), "fine"),
    # thoughts before the answer
    "many braces in thoughts": (said(f"<think>{THOUGHTS}</think>\n{FINE}"), "fine"),
    "many braces without a mark": (said(f"{THOUGHTS}\n{FINE}"), "fine"),
    "a fenced draft in thoughts": (said(f"<think>```json\n{HALF}\n```</think>{FINE}"), "fine"),
    "thoughts begun in the prompt": (said(f"{HALF} no.</think>{FINE}"), "fine"),
    "other marks of thoughts": (said(f"[THINK]{HALF}[/THINK]{FINE}"), "fine"),
    # slips in JSON
    "a trailing comma": (said('{"text": "fine",}'), "fine"),
    "a raw line break": (said('{"text": "line\nbreak"}'), "line\nbreak"),
    "curly quotes": (said("{“text”: “curly”}"), "curly"),
    "one level too deep": (said('{"ask": {"text": "fine"}}'), "fine"),
    "single quotes": (said("{'text': 'fine'}"), "fine"),
    "JSON in a JSON string": (said('"{\\"text\\": \\"fine\\"}"'), "fine"),
    "curly quotes and a comma behind thoughts": (said(f"{THOUGHTS} so {{“text”: “fine”,}}"), "fine"),
    # whole by other words
    **{f"ended {word}": (said(FINE, word), "fine") for word in ("end_turn", "STOP", "eos", "stop_sequence", None, "")},
}
"""Name -> the only answer, and the text that it holds."""

ENDED = [
    "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "length", "SAFETY", "RECITATION", "refusal",
    "PROHIBITED_CONTENT", "content_filter", "abort", "error", "network_error", "tool_calls", "OTHER", "vibes",
]  # fmt: skip
ASKED_AGAIN = {
    **{f"ended {place}: {word}": said(HALF, word) for place, word in enumerate(ENDED)},
    "ended 7": said(HALF, 7),
    "a refusal as a part": said([{"type": "refusal", "refusal": "no"}]),
    "a choice with an error": {**said(HALF), "choices": [{**said(HALF)["choices"][0], "error": {"code": 502}}]},
    "a draft in a thought": said([thought(HALF), text("no object here")]),
    "a thought alone": said([thought(HALF)]),
    "empty": said(""),
    "null": said(None),
    "blank": said(" \n"),
    "under reasoning": said("", reasoning=HALF),
    "under reasoning_content": said(None, reasoning_content=HALF),
    "blanks to the limit": said(BLANKS, "length"),
    "thoughts to the limit": said("", "length", reasoning_content="hm " * 900),
    "nothing to the limit": said(None, "MAX_TOKENS"),
    "cut without a word": said('{"text": "half'),
    "quotes that are not escaped": said('{"text": "he said "half" and left"}'),
}
"""Name -> an answer that holds none; the next one is fine."""


@pytest.mark.slow
def test_each_spelling_of_an_answer_is_read_at_once_and_to_the_letter(tmp_path):
    wild = Wild({name: [answer] for name, (answer, _) in READ_AT_ONCE.items()})
    with answering(wild, by_body=True) as server:
        ended = foil("run", wild_job(tmp_path, READ_AT_ONCE, f"model: wild, url: '{server.url}'"))
    assert ended.returncode == 0, ended.stderr
    assert rows(tmp_path / "out") == {name: ("accepted", "", right) for name, (_, right) in READ_AT_ONCE.items()}
    assert {name: len(sent) for name, sent in wild.asked.items()} == dict.fromkeys(READ_AT_ONCE, 1)


@pytest.mark.slow
def test_what_is_not_a_whole_answer_is_asked_again_without_it_and_never_accepted(tmp_path):
    wild = Wild({name: [answer, said(FINE)] for name, answer in ASKED_AGAIN.items()})
    with answering(wild, by_body=True) as server:
        ended = foil("run", wild_job(tmp_path, ASKED_AGAIN, f"model: wild, url: '{server.url}'"))
    assert ended.returncode == 0, ended.stderr
    assert rows(tmp_path / "out") == dict.fromkeys(ASKED_AGAIN, ("accepted", "", "fine"))
    assert {name: len(sent) for name, sent in wild.asked.items()} == dict.fromkeys(ASKED_AGAIN, 2)
    shown_again = {"a draft in a thought", "cut without a word", "quotes that are not escaped"}  # whole, and wrong
    for name, (first, second) in wild.asked.items():
        turns = [turn["content"] for turn in second["messages"] if turn["role"] == "assistant"]
        assert bool(turns) is (name in shown_again), name
        assert len(json.dumps(second)) < len(json.dumps(first)) + 1_000, name
        roles = [turn["role"] for turn in second["messages"]]
        assert all(a != b for a, b in pairwise(roles)), name
        starved = name in {"thoughts to the limit", "nothing to the limit"}
        assert (second["max_tokens"] > first["max_tokens"]) is starved, name
    assert len(re.findall("'vibes'", ended.stderr)) == 1


@pytest.mark.slow
def test_rows_that_fail_say_what_was_wrong(tmp_path):
    azure = {"error": {"code": "content_filter", "message": "The response was filtered due to the prompt triggering "
             "the policy", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}  # fmt: skip
    inspected = {"error": {"code": "data_inspection_failed", "message": "Input data may contain inappropriate content"}}
    wrong = {
        "fine": ([said(FINE)], ""),
        "azure": ([("400 Bad Request", azure)], "filtered_request"),
        "inspected": ([("400 Bad Request", inspected)], "filtered_request"),
        "too long": ([("400 Bad Request", {"error": {"message": "the prompt is too long"}})], "refused_request"),
        "cut": ([said(HALF, "MAX_TOKENS")], "cut_reply"),
        "held back": ([said(HALF, "SAFETY")], "withheld_reply"),
        "given up": ([said(HALF, "abort")], "unreadable_reply"),
        "unknown": ([said(HALF, "vibes")], "unreadable_reply"),
        "elsewhere": ([said("", reasoning=FINE)], "unreadable_reply"),
    }
    wild = Wild({name: answers for name, (answers, _) in wrong.items()})
    with answering(wild, by_body=True) as server:
        ended = foil("run", wild_job(tmp_path, wrong, f"model: wild, url: '{server.url}'"))
    assert ended.returncode == 3, ended.stderr
    assert {name: reason for name, (_, reason, _) in rows(tmp_path / "out").items()} == {
        name: reason for name, (_, reason) in wrong.items()
    }
    details = {topic.query: topic.detail for topic in topics(tmp_path / "out")}
    assert "`reasoning`" in details["elsewhere"]
    assert "finish_reason 'vibes'" in details["unknown"]
    assert "finish_reason 'abort'" in details["given up"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (said("", reasoning=FINE), "under `reasoning`"),
        (said([thought(FINE)]), "parts that are no text"),
        (said(""), "an empty `content`"),
        (said(HALF, "vibes"), "finish_reason 'vibes'"),
        (said(HALF, "abort"), "finish_reason 'abort'"),
        (said("", "length"), "`params.max_tokens`"),
    ],
)
def test_an_endpoint_whose_first_replies_are_all_of_no_use_is_left_with_the_cause_and_no_row_fails(
    tmp_path, answer, named
):
    names = [f"row {number}" for number in range(120)]
    wild = Wild(defaultdict(lambda: [answer]))
    with answering(wild, by_body=True) as server:
        job = wild_job(tmp_path, names, f"model: wild, url: '{server.url}'", limits="{partition_seeds: 40}")
        ended = foil("run", job)
        sent = sum(map(len, wild.asked.values()))
        assert ended.returncode == 9, ended.stderr
        assert named in re.sub(r"\s+", " ", ended.stderr)
        assert 40 <= sent <= 60
        wild.answers = defaultdict(lambda: [said(FINE)])
        assert foil("run", job).returncode in {0, 3}
    ends = Counter(status for status, _, _ in rows(tmp_path / "out").values())
    assert ends["accepted"] >= 110


@pytest.mark.slow
def test_thoughts_end_a_budget_and_a_text_is_not_free(tmp_path):
    outside = {**USAGE, "total_tokens": 849, "completion_tokens_details": {"reasoning_tokens": 800}}
    names = [f"row {number}" for number in range(20)]
    wild = Wild(defaultdict(lambda: [said(FINE, usage=outside)]))
    with answering(wild, by_body=True) as server:
        price = f"model: wild, url: '{server.url}', price: {{prompt: 1, completion: 1000}}"
        limits = "{partition_seeds: 16, budget: {usd: 6}}"
        ended = foil("run", wild_job(tmp_path, names, price, limits=limits), "--set", "runtime.window=1")
    assert ended.returncode == 4, ended.stderr
    replies = read_replies(tmp_path / "out" / "journal")
    assert {reply["completion_tokens"] for reply in replies} == {809}
    assert sum(reply["cost_usd"] for reply in replies) <= 6
    assert len(replies) < 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("usage", "completion", "guessed"),
    [
        ({**USAGE, "completion_tokens": 0, "total_tokens": 40}, 4, True),
        ({**USAGE, "completion_tokens": 2**31 - 1}, 4, True),
        ({**USAGE, "total_tokens": 849}, 809, True),
        ({"input_tokens": 40, "output_tokens": 9}, 9, False),
    ],
)
def test_what_a_reply_took_is_what_it_can_have_taken(tmp_path, usage, completion, guessed):
    wild = Wild(defaultdict(lambda: [said(FINE, usage=usage)]))
    with answering(wild, by_body=True) as server:
        ended = foil(
            "run", wild_job(tmp_path, ["a row"], f"model: wild, url: '{server.url}', price: {{completion: 1}}")
        )
    assert ended.returncode == 0, ended.stderr
    [reply] = read_replies(tmp_path / "out" / "journal")
    assert (reply["completion_tokens"], reply["guessed"]) == (completion, guessed)
    assert reply["cost_usd"] == pytest.approx(completion / 1e6)


JUDGE = "{kind: judge_relevance, canaries: {share: 0}}"


def judged(true, false, *others):
    """An answer `true` whose tokens say 0.3, in these spellings."""
    listed = [{"token": true, "logprob": math.log(0.3)}, {"token": false, "logprob": math.log(0.7)}]
    around = [{"token": each, "logprob": 0.0, "top_logprobs": []} for each in ('{"relevant":', "}")]
    told = [around[0], {**listed[0], "top_logprobs": [*listed, *others]}, around[1]]
    answer = said('{"relevant": true}')
    return {**answer, "choices": [{**answer["choices"][0], "logprobs": {"content": told}}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        judged(" true", " false"),
        judged("\u0120true", "\u0120false"),
        judged("\u2581true", "\u2581false"),
        judged(" true", " false", {"token": "maybe", "logprob": None}),
        judged(" true", " false", {"token": "maybe", "logprob": math.nan}),
    ],
    ids=["plain", "G", "SP", "null", "NaN"],
)
def test_a_judgment_has_one_probability_however_its_tokens_are_sent(tmp_path, answer):
    sent = http(json.dumps(answer).encode())
    with answering(lambda _: sent) as server:
        job = write_job(tmp_path, 1)
        job.write_text(job.read_text().replace("{kind: shape}, {kind: leak}, {kind: constraint_check}", JUDGE))
        with job.open("a") as file:
            file.write(f"models: {{writer: {{kind: hosted, model: j, url: '{server.url}'}}}}\n")
        ended = foil("run", job)
    assert ended.returncode == 0, ended.stderr
    verdicts = [verdict for topic in topics(tmp_path / "out") for verdict in topic.verdicts]
    assert {verdict.score for verdict in verdicts if verdict.validator == "judge_relevance"} == {0.3}
