"""What a judge is worth by people's labels: figures over known answers, and judges asked over real parts."""

import asyncio
import json
import math
import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import JudgeUnreliableError, UsageError
from foil.engine.model_traits import ModelTraits
from foil.engine.protocols import Model
from foil.engine.requests import Reply
from foil.prompts.demands import Demands, demands_of
from foil.validators.catalog import VALIDATORS
from foil.validators.judges.calibration import Rated, area, calibrate, rate_topic, refuse_coin
from foil.validators.judges.labelled import LabelledPair, read_pairs, topics_of
from tests.support.models.corrupt_judge import asker

SURE = [LabelledPair(f"what is {n}", f"{n} is {word}", word == "gold", core=str(n)) for n, word in
        product(range(8), ("gold", "dust"))]  # fmt: skip


class Reader(Model):
    """Says that a passage with the word `gold` is relevant, in the form that its prompt asks for; `place` is the
    passage that it names wherever it stands."""

    name = "reader"
    traits = ModelTraits(samples=True)

    def __init__(self, place: int | None = None, right: bool = True) -> None:
        self.place, self.right = place, right

    async def complete(self, request):
        text = request.messages[-1].content
        passages = re.findall(r"<passage-\w+[^>]*>\n(.*?)\n</passage-", text, re.DOTALL)
        golden = [("gold" in passage) is self.right for passage in passages]
        labels = "ABCDEFG"[: len(passages)]
        if "most_relevant" in text:
            named = labels[self.place] if self.place is not None else labels[golden.index(True)]
            answer = json.dumps({"most_relevant": named})
        elif len(passages) == 2:
            answer = json.dumps(
                {"relevant": labels[self.place] if self.place is not None else labels[golden.index(True)]}
            )
        elif "Answer true or false." in text:
            answer = "true" if golden[0] else "false"
        else:
            answer = json.dumps({"relevant": golden[0]})
        return Reply(request.id, answer, prompt_tokens=30, completion_tokens=2, cost_usd=0.01)


def measured(kind, model, tmp_path, pairs=SURE, **options):
    settings = VALIDATORS[kind][0].model_validate({"kind": kind, **options})

    async def rate():
        ask = asker(tmp_path / kind, judge=model)
        rated = [each for topic, core in topics_of(pairs) for each in await rate_topic(settings, topic, core, ask)]
        return calibrate(kind, model.name, rated, 0.1, ask.calls)

    return asyncio.run(rate())


@pytest.mark.parametrize("kind", ["judge_demands", "judge_relevance", "judge_polarity", "judge_scenarios"])
def test_a_judge_that_reads_is_right_and_one_that_reads_backwards_is_refused(tmp_path, kind):
    found = measured(kind, Reader(), tmp_path / "right")
    assert (found.auc, found.accuracy, found.low, found.is_coin) == (1.0, 1.0, 1.0, False)
    refuse_coin(found)
    assert found.tokens >= 32
    assert found.usd == pytest.approx(0.01 * found.tokens / 32)
    wrong = measured(kind, Reader(right=False), tmp_path / "wrong")
    assert (wrong.auc, wrong.accuracy) == (0.0, 0.0)
    with pytest.raises(JudgeUnreliableError, match=r"AUC 0\.000"):
        refuse_coin(wrong)


@pytest.mark.parametrize("kind", ["judge_polarity", "judge_scenarios"])
def test_a_judge_that_names_the_first_place_shows_in_its_bias(tmp_path, kind):
    found = measured(kind, Reader(place=0), tmp_path)
    assert (found.first, found.expected_first) == (1.0, 0.5)
    assert found.is_coin
    assert measured(kind, Reader(), tmp_path / "fair").first == pytest.approx(0.5, abs=0.4)


def test_single_passages_have_kappa_and_thresholds(tmp_path):
    found = measured("judge_demands", Reader(), tmp_path)
    assert (found.kappa, found.keep, found.drop, found.decided, found.relevant) == (1.0, 1.0, 0.0, 1.0, 8)


def of_chances(relevant, others):
    return [Rated(str(n), p, True, p >= 0.5) for n, p in enumerate(relevant)] + [
        Rated(str(n), p, False, p >= 0.5) for n, p in enumerate(others)
    ]


def test_thresholds_hold_the_wanted_error_on_the_labels():
    rated = of_chances([0.9, 0.8, 0.7, 0.3], [0.75, 0.2, 0.1, 0.05])
    found = calibrate("judge_demands", "m", rated, 0.25, [])
    assert (found.keep, found.drop) == (0.3, 0.3), "four of five from 0.3 on are relevant, one of four down from it"
    assert found.decided == 1.0
    strict = calibrate("judge_demands", "m", rated, 0.01, [])
    assert (strict.keep, strict.drop, strict.decided) == (0.8, 0.2, 0.625)
    assert calibrate("judge_demands", "m", of_chances([0.1], [0.9]), 0.01, []).decided == 0.0


def test_within_a_search_only_its_own_passages_are_compared():
    rated = [
        Rated(core, p, relevant, search=core)
        for core, said in {"easy": (0.9, 0.8), "hard": (0.3, 0.2)}.items()
        for p, relevant in zip(said, (True, False), strict=True)
    ]
    found = calibrate("judge_demands", "m", rated, 0.1, [])
    assert (found.auc, found.within) == (0.75, 1.0)


def test_labels_of_one_kind_or_answers_that_nobody_can_read_are_refused():
    with pytest.raises(UsageError, match="passages of both kinds"):
        calibrate("judge_demands", "m", of_chances([0.9], []), 0.1, [])
    with pytest.raises(UsageError, match="0 of 2 answers"):
        calibrate("judge_demands", "m", [replace(each, score=None) for each in of_chances([0.9], [0.1])], 0.1, [])


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.5, 0.9]), st.booleans()), min_size=2, max_size=30),
)
def test_the_area_is_how_often_a_relevant_passage_ranks_higher(pairs):
    good, bad = [p for p, relevant in pairs if relevant], [p for p, relevant in pairs if not relevant]
    found = area([p for p, _ in pairs], [relevant for _, relevant in pairs])
    if not good or not bad:
        assert math.isnan(found)
        return
    wins = sum((a > b) + (a == b) / 2 for a in good for b in bad)
    assert found == pytest.approx(wins / len(good) / len(bad))


def test_an_answer_that_guesses_is_a_coin_and_a_clear_one_is_none():
    guesses = [Rated(str(n), (n * 7 % 10) / 10, n % 2 == 0) for n in range(40)]
    assert calibrate("judge_demands", "m", guesses, 0.1, []).is_coin
    clear = of_chances([0.6 + n / 100 for n in range(20)], [0.5 - n / 100 for n in range(20)])
    assert not calibrate("judge_demands", "m", clear, 0.1, []).is_coin


def test_labels_are_read_from_lines_of_json_and_tables(tmp_path):
    lines = tmp_path / "labels.jsonl"
    lines.write_text(
        '{"query": "boots", "passage": "They cost $4.", "relevant": true, "instruction": "Say the price.", '
        '"demands": ["What do they cost?"], "bans": []}\n\n{"query": "boots", "passage": "Red ones.", "relevant": 0}\n'
    )
    table = tmp_path / "labels.tsv"
    table.write_text(
        "query\tpassage\trelevant\tinstruction\tdemands\nboots\tThey cost $4.\t1\tSay the price.\tA? | B?\n"
    )
    first, second = read_pairs(lines)
    assert first == LabelledPair(
        "boots", "They cost $4.", True, "Say the price.", "", Demands(("What do they cost?",)), "boots"
    )
    assert (second.relevant, second.instruction, second.demands) == (False, "", Demands())
    assert read_pairs(table)[0].demands == Demands(("A?", "B?"))
    (priced, core), (bare, _) = topics_of([first, second])
    assert demands_of(priced.intents[0]) == first.demands
    assert (core, priced.intents[0].role, bare.intents[0].role) == ("boots", "instructed", "original")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"query": "q", "passage": "p"}', "no 'relevant'"), ("a.jsonl", "[1]", "expected a JSON object"),
        ("a.jsonl", '{"query": "q", "passage": "p", "relevant": "maybe"}', "relevant is 'maybe'"),
        ("a.jsonl", '{"query": "q", "passage": "p", "relevant": 1, "demands": 3}', "no list of questions"),
        ("a.tsv", "query\tpassage\trelevant\n\tp\t1\n", "no 'query'"), ("a.jsonl", "", "holds no labelled pair"),
    ],
)  # fmt: skip
def test_a_label_that_is_none_is_refused_with_its_line(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        read_pairs(tmp_path / name)
