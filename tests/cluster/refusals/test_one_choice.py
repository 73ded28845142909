"""Endpoints that give one choice to a request, whatever `n` says: candidates are drawn one by one, by `foil run`."""

import json

import pytest

from tests.support.commands import foil
from tests.support.drills.wild_endpoint import FINE, Wild, rows, said, wild_job
from tests.support.models.raw_server import answering, http
from tests.support.small_parts import read_replies

REFUSALS = {
    "groq": ("400 Bad Request", {"error": {"message": "'n' : number must be at most 1", "code": "invalid_request"}}),
    "llama": ("400 Bad Request", {"error": {"message": "Only one completion choice is allowed"}}),
    "gemini": ("400 Bad Request", [{"error": {"message": "Multiple candidates is not enabled for this model"}}]),
    "strict": ("422 Unprocessable", {"detail": [{"loc": ["body", "n"], "msg": "Extra inputs are not permitted"}]}),
    "schema named": ("400 Bad Request", {"error": "only n=1 is supported with response_format json_schema"}),
    "wordless": ("400 Bad Request", "bad request"),
    "silent": None,
}
NAMES = [f"row {number}" for number in range(6)]
MODEL = "model: wild, url: '{}', patience: {{attempts: 2}}"


def bad(name, place):
    return said(f"no object, {name}, {place}")


class OneChoice(Wild):
    """Answers every send with one choice; refuses those that ask for several, or does not look."""

    def __init__(self, refusal):
        draws = [(name, [*(bad(name, place) for place in range(4)), said(FINE)]) for name in NAMES[:4]]
        super().__init__({**dict(draws), NAMES[4]: [said(FINE)], NAMES[5]: [bad(NAMES[5], 0)]})
        self.refusal, self.refused = refusal, 0

    def __call__(self, body):
        if self.refusal and json.loads(body or b"{}").get("n", 1) > 1:
            self.refused += 1
            status, told = self.refusal
            return http(json.dumps(told).encode(), status)
        return super().__call__(body)


def ended(folder, wild, *more):
    """Runs the job until nothing is left to do; what it wrote to stderr."""
    with answering(wild, by_body=True) as server:
        job = folder / "job.yaml"
        if not job.exists():
            wild_job(folder, NAMES, MODEL.format(server.url), limits="{partition_seeds: 3}")
        return foil("run", job, "--set", "replies.corrections=1", "--set", "replies.candidates=3", *more)


@pytest.mark.parametrize("refusal", [*REFUSALS])
def test_candidates_that_an_endpoint_does_not_give_at_once_are_asked_for_one_by_one(tmp_path, refusal):
    wild = OneChoice(REFUSALS[refusal])
    told = ended(tmp_path, wild, "--set", "runtime.window=1")
    assert told.returncode == 3, told.stderr
    made = rows(tmp_path / "out")
    assert made == {
        **dict.fromkeys(NAMES[:5], ("accepted", "", "fine")),
        NAMES[5]: ("failed", "unreadable_reply", None),
    }
    assert {name: len(wild.asked[name]) for name in NAMES} == {**dict.fromkeys(NAMES, 5), NAMES[4]: 1}
    assert wild.refused == (refusal != "silent")
    assert told.stderr.count("one by one") == 1
    sent = sum(map(len, wild.asked.values()))
    replies = read_replies(tmp_path / "out" / "journal")
    assert len({reply["request_id"] for reply in replies}) == len(replies) == sent


@pytest.mark.slow
@pytest.mark.parametrize("refusal", ["groq", "silent"])
def test_a_run_that_stopped_within_the_candidates_goes_on_without_paying_again(tmp_path, refusal):
    whole, parts = OneChoice(REFUSALS[refusal]), OneChoice(REFUSALS[refusal])
    (tmp_path / "whole").mkdir(), (tmp_path / "parts").mkdir()
    window = ("--set", "runtime.window=1")
    ended(tmp_path / "whole", whole, *window)
    with answering(parts, by_body=True) as server:
        job = wild_job(tmp_path / "parts", NAMES, MODEL.format(server.url), limits="{partition_seeds: 3}")
        for calls in (3, 4, 5, 12, 100):
            foil(
                "run", job, *window, "--set", f"limits.budget.calls={calls}",
                "--set", "replies.corrections=1", "--set", "replies.candidates=3",
            )  # fmt: skip
    assert rows(tmp_path / "parts" / "out") == rows(tmp_path / "whole" / "out")
    assert {name: len(sent) for name, sent in parts.asked.items()} == {
        name: len(sent) for name, sent in whole.asked.items()
    }
