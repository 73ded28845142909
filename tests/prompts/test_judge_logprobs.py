"""P(true), read from logprobs, and what a threshold makes of it."""

import math

import pytest

from foil.engine.errors import RefusedRequestError
from foil.engine.models.reading import read_logprobs
from foil.prompts.judge_logprobs import probability_of_true
from tests.support.topics.judged_topics import ONE, YES, Script, judged, reasons, relevance


def told(**chances: float):
    """Logprobs as OpenAI's chat format has them, over the answer {"relevant": true}."""
    listed = [{"token": token.replace("_", " "), "logprob": math.log(p), "bytes": None} for token, p in chances.items()]
    return {"content": [
        {"token": '{"', "logprob": -0.1, "top_logprobs": []}, {"token": "relevant", "logprob": 0.0, "top_logprobs": []},
        {"token": '":', "logprob": 0.0, "top_logprobs": []}, {**listed[0], "top_logprobs": listed},
        {"token": "}", "logprob": 0.0, "top_logprobs": []},
    ], "refusal": None}  # fmt: skip


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        (told(true=0.6, false=0.2), 0.75), (told(_true=0.6, _false=0.2, TRUE=0.1), 0.7778),
        (told(false=0.5, true=0.3), 0.375), (told(true=0.9), 0.9), (told(false=0.9, maybe=0.1), 0.0),
        (told(yes=0.9), None), (None, None), ({"content": None}, None), ({"content": [{"token": 1}]}, None),
        ("true", None), ({"content": []}, None), ({"content": [{"token": "true", "logprob": math.nan}]}, None),
    ],
)  # fmt: skip
def test_the_probability_of_true_is_read_where_it_is_told(logprobs, expected):
    assert probability_of_true(logprobs) == expected


def shown(*spellings, **more):
    """Logprobs of 0.3 for true and 0.7 for false in these spellings, as an endpoint sends them."""
    true, false = ({"token": word, "logprob": math.log(p)} for word, p in zip(spellings, (0.3, 0.7), strict=True))
    return {"content": [{**true, "top_logprobs": [true, false, *more.get("others", ())]}]}


@pytest.mark.parametrize(
    "logprobs",
    [
        shown(" true", " false"),
        shown("\u0120true", "\u0120false"),
        shown("\u2581true", "\u2581false"),
        shown("\u0120True", "\u0120False"),
        shown("\u010atrue", "\u0109false"),
        shown("**true**", "`false`"),
        shown("'true'", "false,"),
        shown(" true", " false", others=[{"token": "maybe", "logprob": None}]),
        shown(" true", " false", others=[{"token": "maybe", "logprob": math.nan}]),
        shown(" true", " false", others=[{"token": "maybe"}, None, {"token": "no", "logprob": "-1"}]),
    ],
)
def test_one_judgment_has_one_probability_however_its_tokens_are_spelt(logprobs):
    assert probability_of_true(read_logprobs(logprobs)) == 0.3


def test_a_threshold_decides_over_the_probability(tmp_path):
    sure = Script(YES, logprobs=told(true=0.6, false=0.4))
    _, verdicts, _ = judged(relevance(), ONE, tmp_path, judge=sure)
    assert (reasons(verdicts), verdicts[0].score) == ([], 0.6)
    assert sure.sent[0].params["logprobs"] is True
    _, verdicts, _ = judged(relevance(threshold=0.7), ONE, tmp_path, judge=sure)
    assert "positive_lost" in reasons(verdicts)
    plain = Script(YES)
    judged(relevance(logprobs=False), ONE, tmp_path, judge=plain)
    assert "logprobs" not in plain.sent[0].params


def test_a_model_that_refuses_to_give_logprobs_is_asked_without_them(tmp_path):
    class Tight(Script):
        async def complete(self, request):
            if "logprobs" in request.params:
                self.sent.append(request)
                raise RefusedRequestError("logprobs are not supported")
            return await super().complete(request)

    model = Tight(YES)
    _, verdicts, _ = judged(relevance(), ONE, tmp_path, judge=model)
    assert (reasons(verdicts), verdicts[0].score) == ([], 1.0)
    assert ["logprobs" in request.params for request in model.sent[:2]] == [True, False]
