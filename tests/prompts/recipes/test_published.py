"""The recipes of InF-IR, Promptriever and Dual-View: their matrices, what they refuse, and what they ask."""

import json
from dataclasses import replace

import jinja2
import pytest
from jinja2.meta import find_undeclared_variables

from foil.cluster.catalog import open_seeds
from foil.cluster.seeds.stored_topics import RunReader, RunSettings
from foil.datasets_out.commits.log import CommitLog
from foil.engine.errors import Rejected
from foil.engine.seeds.catalog import READERS
from foil.prompts.demands import Demands
from foil.prompts.recipes.dual_view import seed_of
from foil.prompts.recipes.promptriever import PromptrieverSettings, _tasks
from foil.prompts.render import TEMPLATES, load
from tests.support.topics.character_ask import CharacterAsk
from tests.support.topics.matrices import SETTINGS, TABLES, made, matrix
from tests.support.topics.trades import trade_seeds

SEEDS = trade_seeds()[:6]
SEED = SEEDS[0]


@pytest.mark.parametrize("recipe", SETTINGS)
@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.id)
def test_every_topic_has_the_matrix_of_its_method(recipe, seed):
    topic = made(recipe, seed)
    roles = {p.role for p in topic.passages}
    due = {i: {p: signs for p, signs in row.items() if p in roles} for i, row in TABLES[recipe].items()}
    assert matrix(topic) == due
    assert topic.intents[0].role == "original"
    assert topic.recipe == recipe
    assert not any({"constraints", "evidence"} & i.attributes.keys() for i in topic.intents)
    assert {j.judge for j in topic.judgments} <= {"seed", "construction"}


def test_no_passage_that_answers_the_query_is_judged_against_it():
    """An instruction negative of the seed answers it."""
    excluded = replace(SEED.positives[1], role="instruction_negative")
    seed = replace(SEED, positives=SEED.positives[:1], negatives=(excluded, *SEED.negatives))
    for recipe in SETTINGS:
        topic = made(recipe, seed)
        bare = topic.intents[0].id
        against = {j.passage_id for j in topic.judgments if j.intent_id == bare and j.relevance < 0}
        assert against
        assert excluded.id not in against


def test_every_instruction_stands_with_the_questions_that_it_asks():
    for recipe, roles in (("infir", {"instructed", "poisoned_instruction", "poisoned_query"}), ("dual_view", {"dual"})):
        for intent in made(recipe, SEED).intents:
            known = json.loads(intent.attributes.get("demands", "{}"))
            assert bool(known.get("demands")) or intent.role not in roles
            assert all(question.endswith("?") for part in known.values() for question in part)


def test_a_seed_takes_six_requests_and_the_second_view_two_more():
    for recipe, requests in (("infir", 6), ("promptriever", 6), ("dual_view", 8)):
        ask = CharacterAsk()
        made(recipe, SEED, ask)
        assert len(ask.prompts) == requests


def test_a_held_out_seed_makes_a_held_out_topic():
    assert made("infir", replace(SEED, attributes={"split": "heldout"})).attributes["split"] == "heldout"


def test_every_negative_says_how_it_fails():
    negatives = [p for p in made("promptriever", SEED).passages if p.role == "instruction_negative"]
    assert 1 <= len(negatives) <= 5  # as many as are asked for; a judge lets three stand
    assert {p.attributes["category"] for p in negatives} <= {
        "omission",
        "mentions_excluded",
        "different_interpretation",
    }


@pytest.mark.parametrize("demands", [(), ("Who learns it?",), ("Who learns it?", "What does it cost?")])
@pytest.mark.parametrize("bans", [(), ("Is it old?",)])
def test_no_task_is_given_twice_and_each_negative_leaves_out_a_demand_or_tells_what_is_banned(demands, bans):
    questions = ("Is it old?", "Is it sold?", "Is it heavy?")
    settings = PromptrieverSettings(candidates=8, positive=False)
    tasks = _tasks(Demands(demands, bans), questions, "how is it done", settings)
    assert len(tasks) >= bool(demands or bans)
    assert len({(task.must, task.must_not) for task in tasks}) == len(tasks)
    for task in tasks:
        assert {*task.must_not} & {*demands} or {*task.must} & {*bans}


class _AnswersTheQueryAlone(CharacterAsk):
    """Finds nothing that P+ tells besides its answer."""

    async def __call__(self, prompt, answer, **more):
        reply = await super().__call__(prompt, answer, **more)
        return reply.model_copy(update={"answered": ()}) if prompt.task == "writing.questions" else reply


@pytest.mark.parametrize("ask", [CharacterAsk, _AnswersTheQueryAlone])
def test_no_request_of_a_topic_is_sent_twice(ask):
    for seed in SEEDS:
        asked = ask()
        made("promptriever", seed, asked)
        sent = [prompt.messages for prompt in asked.prompts]
        assert len(sent) > 2
        assert len({*sent}) == len(sent)


@pytest.mark.parametrize("recipe", SETTINGS)
def test_seeds_that_lack_something_are_rejected(recipe):
    empty = replace(SEED, query=" ")
    bare = replace(SEED, positives=())
    for seed, reason in ((empty, "empty_query"), (bare, "no_positive")):
        with pytest.raises(Rejected) as refused:
            made(recipe, seed)
        assert refused.value.reason == reason


def test_dual_view_reads_promptrievers_published_rows(tmp_path):
    ferry = SEED

    def item(number, p, **more):
        return {"docid": str(number), "title": "", "text": p.text, **more}

    row = {
        "query_id": "7",
        "query": f"{ferry.query} Only what names a price.",
        "only_query": ferry.query,
        "only_instruction": "Only what names a price.",
        "has_instruction": True,
        "positive_passages": [item(1, ferry.positives[0])],
        "negative_passages": [item(3, ferry.negatives[0])],
        "new_negatives": [item(2, ferry.positives[1], explanation="names no price", followir_score=0.1)],
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    settings = READERS["msmarco"][0].model_validate({"kind": "msmarco", "path": tmp_path, "negatives": 0})
    (seed,) = open_seeds(settings)
    assert (seed.query, seed.attributes["instruction"]) == (ferry.query, "Only what names a price.")
    assert [p.role for p in seed.negatives] == ["instruction_negative", "seed_negative"]
    assert seed.negatives[0].attributes["reason"] == "names no price"
    topic = made("dual_view", seed, base=None)
    assert topic.intents[1].instruction == "Only what names a price."
    assert matrix(topic) == TABLES["dual_view"]
    with pytest.raises(Rejected, match="no_instruction_negative"):
        made("dual_view", replace(seed, negatives=seed.negatives[1:]), base=None)
    with pytest.raises(Rejected, match="no_instruction'"):
        made("dual_view", replace(seed, attributes={}), base=None)


def test_the_topics_of_a_run_are_seeds_and_keep_their_side_of_the_split(tmp_path):
    topics = [made("promptriever", seed) for seed in SEEDS]
    log = CommitLog(tmp_path)
    log.open("f" * 64, {})
    log.commit(0, [*topics[:3], replace(topics[3], status="rejected", reason="leak")], {})
    log.commit(1, [topics[4]], {})
    seeds = list(RunReader(RunSettings(kind="run", out=tmp_path)))
    kept = [topics[i] for i in (0, 1, 2, 4)]
    assert [s.id for s in seeds] == [SEEDS[i].id for i in (0, 1, 2, 4)]
    for seed, topic in zip(seeds, kept, strict=True):
        both = made("dual_view", seed, base=None)
        assert both.intents[1].instruction == topic.intents[1].instruction
        assert set(matrix(both)) == {"original", "instructed", "dual"}


def test_the_rules_of_a_task_come_first_and_are_the_same_for_all_seeds_of_a_kind_and_example():
    """So that the prefix cache of a provider pays for them once: nothing of the seed stands among them."""
    for recipe in ("writing", "infosearch"):
        for path in (TEMPLATES / recipe).glob("*.j2"):
            system = load(f"{recipe}/{path.stem}").source.partition("=== user ===")[0]
            named = find_undeclared_variables(jinja2.Environment().parse(system))
            assert all(
                name in ("noun", "style", "dimension", "words", "count") or "example" in name for name in named
            ), path.name


def test_every_template_is_parsed_at_load():
    for path in TEMPLATES.rglob("*.j2"):
        assert load(path.relative_to(TEMPLATES).with_suffix("").as_posix()).variables


def test_what_a_judge_turned_round_under_the_instruction_is_no_negative_of_the_bare_query(tmp_path):
    """After `positive_lost` the seed's positive is -1 under I, and still answers the query."""
    topic = made("promptriever", SEED)
    asked = next(i for i in topic.intents if i.role == "instructed")
    lost = topic.passages[0]
    labels = [
        replace(j, relevance=-1, judge="judge:x") if (j.intent_id, j.passage_id) == (asked.id, lost.id) else j
        for j in topic.judgments
    ]
    seed = seed_of(replace(topic, judgments=tuple(labels)))
    assert lost.id not in {p.id for p in (*seed.positives, *seed.negatives)}
    assert seed.positives[0].role == "generated_positive"
    assert {p.role for p in seed.negatives} == {"instruction_negative", "seed_negative"}


def test_the_topics_of_a_run_are_another_corpus_once_the_run_went_on(tmp_path):
    log = CommitLog(tmp_path)
    log.open("f" * 64, {})
    log.commit(0, [made("promptriever", SEED)], {})
    settings = RunSettings(kind="run", out=tmp_path)
    before = settings.identity()
    row = replace(made("promptriever", SEEDS[1]), intents=(), passages=(), judgments=())
    log.commit(1, [row], {})
    assert settings.identity() != before
    assert [seed.id for seed in RunReader(settings)] == [SEED.id]


def test_rows_of_one_query_keep_the_passages_that_go_with_the_instruction(tmp_path):
    ferry = SEED
    plain, instructed = (
        {
            "query_id": "7",
            "query": ferry.query,
            "only_query": ferry.query,
            "only_instruction": words,
            "positive_passages": [{"docid": f"p{at}", "text": ferry.positives[at].text}],
            "negative_passages": [{"docid": "n", "text": ferry.negatives[0].text}],
            "new_negatives": [{"docid": "x", "text": ferry.negatives[1].text}] if words else [],
        }
        for at, words in ((0, ""), (1, "Only what names a captain."))
    )
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(plain)}\n{json.dumps(instructed)}\n")
    settings = READERS["msmarco"][0].model_validate({"kind": "msmarco", "path": tmp_path, "negatives": 0})
    (seed,) = open_seeds(settings)
    assert [p.source_id for p in seed.positives] == ["p1"]
    assert [p.source_id for p in seed.negatives] == ["x", "n"]
