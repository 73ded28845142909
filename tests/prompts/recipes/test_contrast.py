"""The recipe `contrast`: two real passages, and what parts them."""

import json
import math
import re
from dataclasses import replace

import pytest

from foil.engine.errors import Rejected
from foil.engine.flow.journal_reading import possibly_paid_twice
from foil.engine.protocols import JUDGE
from foil.engine.storage.opening import open_store
from foil.prompts.passages.readable import flaw_of
from foil.prompts.writing.examples import example_for
from foil.prompts.writing.material import writing_material
from tests.support.commands import calls_sent, foil
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import digest
from tests.support.topics.character_ask import CharacterAsk
from tests.support.topics.matrices import made
from tests.support.topics.trades import corpus, trade_seeds

SEED = trade_seeds()[0]


class Unsure(CharacterAsk):
    """A judge that says true of every question with these probabilities, by the passage."""

    def __init__(self, *sure):
        super().__init__()
        self.sure, self.roles = sure, []

    async def scored(self, prompt, answer, *, role="writer"):
        self.roles.append(role)
        answered, _ = await super().scored(prompt, answer, role=role)
        [at] = [i for i, passage in enumerate(SEED.positives) if passage.text in prompt.messages[-1].content]
        both = (("true", self.sure[at]), ("false", 1 - self.sure[at]))
        listed = [{"token": word, "logprob": math.log(probability)} for word, probability in both]
        return answered, {"content": [{**listed[0], "top_logprobs": listed}]}


def labels(topic):
    """Intent role -> passage text -> relevance."""
    texts, found = {p.id: p.text for p in topic.passages}, {}
    roles = {i.id: i.role for i in topic.intents}
    for judgment in topic.judgments:
        found.setdefault(roles[judgment.intent_id], {})[texts[judgment.passage_id]] = judgment.relevance
    return found


def test_each_of_two_real_passages_is_relevant_once_and_once_not():
    topic, texts = made("contrast", SEED), {p.text for p in SEED.positives}
    rows = labels(topic)
    assert {text: rows["instructed"][text] + rows["dual"][text] for text in texts} == dict.fromkeys(texts, 0)
    assert {*rows["instructed"].values()} == {1, -1}
    assert all(rows["original"][text] == 1 for text in texts)
    assert [p.role for p in topic.passages] == ["seed_positive"] * 2 + ["seed_negative"] * 2
    demands = [json.loads(i.attributes["demands"])["demands"] for i in topic.intents if i.instruction]
    assert all(demands)
    assert not {*demands[0]} & {*demands[1]}


def test_which_of_many_stands_first_follows_from_the_seed():
    firsts = {s.id: made("contrast", s).passages[0].text == s.positives[0].text for s in trade_seeds()}
    assert 10 < sum(firsts.values()) < 30
    assert firsts == {s.id: made("contrast", s).passages[0].text == s.positives[0].text for s in trade_seeds()}


@pytest.mark.timeout(120)
def test_of_thousands_of_relevant_passages_two_are_drawn_without_comparing_all_pairs():
    """Judged corpora have hundreds; all pairs of these are four million, and would hang."""
    many = tuple(replace(SEED.positives[i % 2], text=f"{SEED.positives[i % 2].text} {i}.", id="") for i in range(2_000))
    topic = made("contrast", replace(SEED, positives=many))
    assert {p.text.rpartition(" ")[0] for p in topic.passages[:2]} == {p.text for p in SEED.positives}


def test_a_passage_that_reads_like_a_broken_page_is_drawn_last():
    broken = replace(SEED.positives[0], text="Home | Login | Cart | Help | Sign up " * 4, id="")
    assert flaw_of(broken)
    for seed in (replace(SEED, id=str(i), positives=(broken, *SEED.positives)) for i in range(8)):
        assert {p.id for p in made("contrast", seed).passages[:2]} == {p.id for p in SEED.positives}


class _Echoing(CharacterAsk):
    """Lists questions of the example of its prompt besides its own."""

    async def __call__(self, prompt, answer, *, role="writer", check=None):
        reply = await super().__call__(prompt, answer, role=role)
        if prompt.task == "writing.pair_questions":
            of_example = ("What was the role of the Ottomans in the recovery?", "Which scholars left Constantinople?")
            reply = reply.model_copy(update={"answered": (*of_example, *reply.answered)})
        return check(reply) if check else reply


def test_a_question_about_the_example_of_its_prompt_is_left_out():
    """As a real small model asked them: in other words than the example's, so that no run of words shows it."""
    seeds = (replace(SEED, id=str(i)) for i in range(1_000))
    seed = next(s for s in seeds if example_for("text", _number(s, "example pair_questions")).id == "web-05")
    told = made("contrast", seed, _Echoing(), sure=0.5)
    demands = " ".join(intent.attributes.get("demands", "") for intent in told.intents)
    assert demands
    assert not re.search("Ottoman|Constantinople", demands)
    first, second = seed.positives
    speaks = replace(
        seed, positives=(replace(first, text=f"{first.text} The Ottomans came from Constantinople.", id=""), second)
    )
    kept = made("contrast", speaks, _Echoing(), sure=0.5)
    assert "Ottomans" in " ".join(intent.attributes.get("demands", "") for intent in kept.intents)


def _number(seed, purpose):
    return writing_material(seed, passage_chars=2_000).number(purpose)


def test_the_judge_is_asked_every_question_of_both_passages_once():
    ask = CharacterAsk()
    made("contrast", SEED, ask)
    questions = [prompt for prompt in ask.prompts if prompt.task == "judges.demand"]
    assert len({prompt.messages for prompt in questions}) == len(questions) == len(ask.prompts) - 3
    ask = CharacterAsk()
    made("contrast", SEED, ask, sure=0.5)
    assert [prompt.task for prompt in ask.prompts] == ["writing.pair_questions", *["writing.instruction"] * 2]


@pytest.mark.parametrize(("sure", "parts"), [((0.9, 0.9), False), ((0.9, 0.55), False), ((0.9, 0.4), True)])
def test_a_question_stands_where_one_passage_is_likelier_to_answer_it_by_enough(sure, parts):
    """Odds of 9 against 1.2 are not nine times as high, against 0.67 they are: 0.93 that it is the first."""
    asked = Unsure(*sure)
    if not parts:
        with pytest.raises(Rejected, match="none is answered by one alone") as refused:
            made("contrast", SEED, asked, sure=0.9)
        assert refused.value.reason == "nothing_parts_them"
    else:
        topic = made("contrast", SEED, asked, sure=0.9)
        second = json.loads(topic.intents[2].attributes["demands"])
        first = json.loads(topic.intents[1].attributes["demands"])
        assert not {*first["demands"]} & {*second["demands"]}
        banning = second if topic.passages[0].text == SEED.positives[0].text else first
        assert (banning["demands"], bool(banning["bans"])) == ([], True), (
            "the passage that answers nothing is banned by"
        )
    assert {*asked.roles} == {JUDGE}


def test_a_seed_with_one_relevant_passage_has_the_other_written_or_is_left_out():
    seed = replace(SEED, positives=SEED.positives[:1])
    topic = made("contrast", seed)
    assert [p.role for p in topic.passages[:2]] == ["seed_positive", "generated_positive"]
    assert {j.judge for j in topic.judgments if j.passage_id == topic.passages[1].id} == {"construction"}
    twice = replace(
        SEED, positives=(SEED.positives[0], replace(SEED.positives[0], text=SEED.positives[0].text + " So.", id=""))
    )
    for alone in (seed, twice):
        with pytest.raises(Rejected) as refused:
            made("contrast", alone, write=False)
        assert refused.value.reason == "no_pair"


@pytest.mark.parametrize(("sure", "warns"), [(0.6, False), (0.5, True)])
def test_a_judge_that_the_recipe_asks_is_no_idle_model(tmp_path, sure, warns):
    """Without a judge the writer judges."""
    job = tmp_path / "job.yaml"
    model = '{kind: hosted, model: m, url: "http://127.0.0.1:9/v1"}'
    for models in (f"{{writer: {model}}}", f"{{writer: {model}, judge: {model}}}"):
        job.write_text(
            f"seeds: {{kind: table, corpus: trades, path: {corpus(tmp_path / 'rows.jsonl')}, columns: {{query: query, "
            f"positives: positives}}}}\nrecipe: {{kind: contrast, sure: {sure}}}\nmodels: {models}\n"
            f"validators: [{{kind: shape}}]\nout: {tmp_path / 'out'}\n"
        )
        planned = foil("plan", job)
        assert planned.returncode == 0, planned.stderr
        assert ("judge" in planned.stderr) == (warns and "judge" in models)


def test_kill_9_between_two_questions_to_the_judge_pays_nothing_twice(tmp_path):
    job = tmp_path / "job.yaml"
    with serving(answer=Character()) as server:
        job.write_text(
            f"seeds: {{kind: table, corpus: trades, path: {corpus(tmp_path / 'rows.jsonl')}, columns: {{id: id, query: "
            f"query, positives: positives}}}}\nrecipe: {{kind: contrast}}\nmodels: {{writer: {{kind: hosted, model: "
            f'in-character, url: "{server.url}"}}}}\nvalidators: [{{kind: judge_demands}}]\n'
            f"out: {tmp_path / 'whole'}\nlimits: {{seeds: 8}}\n"
        )
        assert foil("run", job).returncode == 0
        whole, out = calls_sent(server), tmp_path / "killed"
        assert foil("run", job, "--out", out, env={"FOIL_CRASH_POINT": "ask.answered:20"}).returncode == -9
        assert foil("run", job, "--out", out).returncode == 0
        assert calls_sent(server) - 2 * whole <= possibly_paid_twice(open_store(out))
    assert digest(out) == digest(tmp_path / "whole")
