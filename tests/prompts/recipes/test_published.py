"""The recipes of InF-IR, Promptriever and Dual-View: their matrices, what they refuse, and what they ask."""

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace

import jinja2
import pytest
from jinja2.meta import find_undeclared_variables

from cluster.seeds.other_run import RunReader, RunSettings
from datasets_out.commits.log import CommitLog
from engine.errors import Rejected
from engine.seeds.catalog import READERS, open_seeds
from prompts.constraints.constraint import all_hold, constraints_of
from prompts.constraints.instructions import LENGTHS, STYLES
from prompts.passages.answer_evidence import answers, evidence_of
from prompts.passages.reply_types import Demand
from prompts.recipes.dual_view import seed_of
from prompts.render import TEMPLATES, load
from tests.support.topics.matrices import SETTINGS, TABLES, build, made, matrix
from tests.support.topics.sample_seeds import SEEDS, RuleAsk, passage

CASES = [(recipe, corpus) for recipe in SETTINGS for corpus in SEEDS]


@pytest.mark.parametrize(("recipe", "corpus"), CASES)
def test_every_topic_has_the_matrix_of_its_method(recipe, corpus):
    topic = made(recipe, SEEDS[corpus])
    roles = {p.role for p in topic.passages}
    due = {i: {p: signs for p, signs in row.items() if p in roles} for i, row in TABLES[recipe].items()}
    assert matrix(topic) == due
    assert topic.intents[0].role == "original"
    assert topic.recipe == recipe


@pytest.mark.parametrize(("recipe", "corpus"), CASES)
def test_a_program_finds_every_judgment_as_the_recipe_made_it(recipe, corpus):
    topic = made(recipe, SEEDS[corpus])
    passages = {p.id: p for p in topic.passages}
    for intent in topic.intents:
        for judgment in (j for j in topic.judgments if j.intent_id == intent.id):
            found = passages[judgment.passage_id]
            relevant = answers(evidence_of(intent), found) and all_hold(constraints_of(intent), found)
            assert relevant is (judgment.relevance > 0), (intent.role, found.role)


@pytest.mark.parametrize("corpus", SEEDS)
def test_of_code_the_instruction_names_the_language_and_both_passages_are_in_it(corpus):
    topic = made("infir", SEEDS[corpus])
    named = [c.value for i in topic.intents for c in constraints_of(i) if c.family == "language"]
    spoken = {
        p.attributes.get("language") for p in topic.passages if p.role in {"seed_positive", "instruction_negative"}
    }
    assert bool(named) is (corpus == "leetcode")
    assert len(spoken) == 1


def test_a_poisoned_query_says_what_it_turns_against():
    (poisoned,) = (i for i in made("infir", SEEDS["msmarco"]).intents if i.role == "poisoned_query")
    assert poisoned.query != SEEDS["msmarco"].query
    assert 2 <= len(poisoned.attributes["aspects"].split("; ")) <= 3
    assert len(poisoned.attributes["differences"].split("; ")) >= 3


class Reader(RuleAsk):
    """A writer that reads prose, as far as this test's: it answers each task with a line of its own."""

    async def __call__(self, prompt, answer, *, role="writer"):
        self.prompts.append(prompt)
        task = prompt.task.partition(".")[2]
        thoughts = {"aspects": ["a", "b"], "differences": ["a", "b", "c"], "refusal": ""}
        words = " ".join(f"{prompt.inputs.get('role')} {i}" for i in range(30))
        replies = {
            "poisoned_instruction": {**thoughts, "instruction": " ".join(["Leave out how long the trip takes."] * 5)},
            "poisoned_query": {**thoughts, "query": "where is the ferry"},
            "passage": {"differences": ["a", "b", "c"], "title": "", "text": words},
        }
        return answer.model_validate(replies[task])


def test_a_narrative_can_be_the_instruction_where_the_writer_reads_prose():
    seed, ask = SEEDS["robust04"], Reader()
    topic = made("infir", seed, ask, narrative_as_instruction=True)
    assert topic.intents[1].instruction == seed.attributes["narrative"]
    assert [p.task.partition(".")[2] for p in ask.prompts] == [
        "poisoned_instruction",
        "poisoned_query",
        *["passage"] * 2,
    ]
    for one in (seed, replace(seed, negatives=())):
        with pytest.raises(Rejected, match=r"foreign_instruction|no_other"):
            made("infir", one, narrative_as_instruction=True)


def test_no_passage_that_answers_the_query_is_judged_against_it():
    """An instruction negative of the seed answers it; an edit is not what the corpus judged."""
    excluded = replace(SEEDS["msmarco"].positives[1], role="instruction_negative")
    seed = replace(SEEDS["msmarco"], negatives=(excluded, *SEEDS["msmarco"].negatives))
    for recipe in ("infir", "promptriever", "verifiable", "infosearch"):
        topic = made(recipe, seed)
        bare = topic.intents[0].id
        against = {j.passage_id for j in topic.judgments if j.intent_id == bare and j.relevance < 0}
        assert against
        assert excluded.id not in against
    more = " ".join(f"Boat number {i} of the line was painted in 19{i:02}." for i in range(30))
    long = replace(seed, positives=(passage(f"{seed.positives[0].text} {more}"),))
    topic = made("promptriever", long, passage_chars=400)
    (label,) = [
        j for j in topic.judgments if j.intent_id == topic.intents[0].id and j.passage_id == topic.passages[0].id
    ]
    assert (bool(topic.passages[0].edited_from), label.judge) == (True, "construction")


def test_a_held_out_seed_makes_a_held_out_topic():
    assert made("infir", replace(SEEDS["msmarco"], attributes={"split": "heldout"})).attributes["split"] == "heldout"


class Stop(RuleAsk):
    """Notes the cell that is asked for."""

    async def __call__(self, prompt, answer, *, role="writer"):
        self.prompts.append(prompt)
        raise Rejected("noted", "")


def test_the_grid_is_balanced_by_the_hash_of_the_seed():
    ask, recipe = Stop(), build("promptriever")
    for i in range(1600):
        with pytest.raises(Rejected):
            asyncio.run(recipe(replace(SEEDS["metamath"], id=f"seed {i}"), ask))
    cells = Counter((p.inputs["length"], p.inputs["style"]) for p in ask.prompts)
    assert cells.keys() == {(length, style) for length in LENGTHS for style in STYLES}
    assert min(cells.values()) > 60  # 100 expected; four standard deviations
    assert max(cells.values()) < 140


SENTENCES = {"short": (1, 2), "medium": (2, 3), "long": (2, 7), "very_long": (5, 9)}


@pytest.mark.parametrize("length", LENGTHS)
def test_instructions_keep_to_their_length_format(length):
    for style in STYLES:
        for i, seed in enumerate(SEEDS.values()):
            topic = made("promptriever", replace(seed, id=f"{i}"), lengths=[length], styles=[style])
            (intent,) = (i for i in topic.intents if i.role == "instructed")
            assert (intent.attributes["length_format"], intent.attributes["style"]) == (length, style)
            assert "\n" not in intent.instruction
            sentences = len(re.findall(r"[.!?](?=\s|$)", intent.instruction))
            low, high = SENTENCES[length]
            assert low <= sentences <= high, intent.instruction


def test_every_negative_says_how_it_fails():
    topic = made("promptriever", SEEDS["msmarco"])
    negatives = [p for p in topic.passages if p.role == "instruction_negative"]
    assert 1 <= len(negatives) <= 5  # as many as are asked for; a judge lets three stand
    assert all(p.attributes["reason"] and p.attributes["category"] for p in negatives)


class Altered(RuleAsk):
    """Answers by rule, but for one task, of which one field is changed."""

    def __init__(self, task: str, **change) -> None:
        super().__init__()
        self.task, self.change = task, change

    async def __call__(self, prompt, answer, *, role="writer"):
        right = await super().__call__(prompt, answer, role=role)
        if prompt.task != self.task:
            return right
        return right.model_copy(update={k: v(prompt, right) if callable(v) else v for k, v in self.change.items()})


def shown(prompt, _):
    return prompt.facts["material"].positive.text


def again(prompt, _):
    return prompt.inputs["instruction"]


def of_a_negative(prompt, _):
    return prompt.facts["material"].negatives[1].passage.text


def of_no_family(_, answer):
    return (answer.demands[0].model_copy(update={"family": "taste"}),)


SHORT = replace(SEEDS["msmarco"], id="m7")
"""A seed for which a short instruction is drawn."""
FREE = {"demands": ()}
COPY = {"text": shown, "title": "", "source": ""}
UNNAMED = {"instruction": "Only the best.", "demands": (Demand(family="mentions", value="causeway"),)}
LOUDER = {"query": "How long does the ferry  to lower Saltmarsh take"}
REFUSED = [
    ("infir", "infir.instruction", {"instruction": " "}, "no_instruction"),
    ("infir", "infir.instruction", {"refusal": "too_poor"}, "too_poor"),
    ("infir", "infir.poisoned_instruction", {"instruction": again, **FREE}, "same_instruction"),
    ("infir", "infir.poisoned_query", LOUDER, "same_query"),
    ("infir", "infir.passage", COPY, "same_passage"),
    ("infir", "infir.passage", {**COPY, "text": of_a_negative}, "same_passage"),
    ("infir", "infir.poisoned_query", {"query": " "}, "same_query"),
    ("infir", "infir.passage", {"text": "A ferry.", "source": ""}, "wrong_length"),
    ("infir", "infir.instruction", {**FREE, "kept": ("P1", "P2")}, "keeps_other_passages"),
    ("infir", "infir.poisoned_instruction", {**FREE, "differences": ("shorter",)}, "no_analysis"),
    ("promptriever", "promptriever.instruction", {**FREE, "kept": ("P1",), "excluded": ()}, "keeps_other_passages"),
    ("dual_view", "dual_view.instruction", {**FREE, "kept": ("P1",)}, "keeps_other_passages"),
    ("promptriever", "promptriever.instruction", UNNAMED, "value_not_named"),
    ("promptriever", "promptriever.passages", {"positive": None, "negatives": ()}, "no_negative"),
    ("dual_view", "dual_view.instruction", {"instruction": again, **FREE}, "same_instruction"),
    ("dual_view", "dual_view.instruction", {"demands": of_no_family}, "bad_constraint"),
]


@pytest.mark.parametrize(("recipe", "task", "change", "reason"), REFUSED)
def test_a_reply_that_is_not_so_rejects_its_seed_with_the_reason(recipe, task, change, reason):
    with pytest.raises(Rejected) as refused:
        made(recipe, SHORT, Altered(task, **change))
    assert refused.value.reason == reason


def test_free_text_needs_no_constraints_and_equal_passages_are_refused():
    """What a hosted writer gives: no demands, no evidence, no source."""
    free = {"demands": (), "evidence": (), "source": ""}

    class Free(RuleAsk):
        async def __call__(self, prompt, answer, *, role="writer"):
            right = await super().__call__(prompt, answer, role=role)
            return right.model_copy(update={k: v for k, v in free.items() if k in answer.model_fields})

    topic = made("infir", SHORT, Free())
    assert not any({"constraints", "evidence"} & i.attributes.keys() for i in topic.intents)
    assert {j.judge for j in topic.judgments} == {"seed", "construction"}
    with pytest.raises(Rejected, match="same_passage"):
        made("infir", SHORT, Twin())


class Twin(RuleAsk):
    """A writer whose every passage is the seed's own."""

    async def __call__(self, prompt, answer, *, role="writer"):
        right = await super().__call__(prompt, answer, role=role)
        update = {"demands": ()} if "demands" in answer.model_fields else {}
        if prompt.task == "infir.passage":
            update = {"text": shown(prompt, None), "title": "", "source": ""}
        return right.model_copy(update=update)


@pytest.mark.parametrize("recipe", SETTINGS)
def test_seeds_that_lack_something_are_rejected(recipe):
    empty = replace(SEEDS["msmarco"], query=" ")
    bare = replace(SEEDS["msmarco"], positives=())
    for seed, reason in ((empty, "empty_query"), (bare, "no_positive")):
        with pytest.raises(Rejected) as refused:
            made(recipe, seed)
        assert refused.value.reason == reason


def test_dual_view_reads_promptrievers_published_rows(tmp_path):
    ferry = SEEDS["msmarco"]

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
    topics = [made("promptriever", seed) for seed in SEEDS.values()]
    log = CommitLog(tmp_path)
    log.open("f" * 64, {})
    log.commit(0, [*topics[:3], replace(topics[3], status="rejected", reason="leak")], {})
    log.commit(1, [topics[4]], {})
    seeds = list(RunReader(RunSettings(kind="run", out=tmp_path)))
    kept = [topics[i] for i in (0, 1, 2, 4)]
    assert [s.id for s in seeds] == ["ferry", "ferry#2", "tides.height", "apples"]
    for seed, topic in zip(seeds, kept, strict=True):
        both = made("dual_view", seed, base=None)
        assert both.intents[1].instruction == topic.intents[1].instruction
        assert set(matrix(both)) == {"original", "instructed", "dual"}


def test_the_rules_and_examples_of_a_task_come_first_and_are_the_same_for_all_seeds_of_a_kind():
    """So that the prefix cache of a provider pays for them once."""
    for recipe in ("infir", "promptriever", "dual_view"):
        for path in (TEMPLATES / recipe).glob("*.j2"):
            source = load(f"{recipe}/{path.stem}").source
            system = source.partition("=== user ===")[0]
            assert find_undeclared_variables(jinja2.Environment().parse(system)) <= {"kind"}, path.name


def test_every_template_is_parsed_at_load():
    for path in TEMPLATES.rglob("*.j2"):
        assert load(path.relative_to(TEMPLATES).with_suffix("").as_posix()).variables


def test_a_passage_in_another_language_is_refused_for_code():
    foreign = passage("int main() { return 0; }", "seed_negative", form="source", language="cpp")
    seed = replace(SEEDS["leetcode"], negatives=(foreign, *SEEDS["leetcode"].negatives))
    change = {"text": foreign.text, "title": "", "source": foreign.id}
    with pytest.raises(Rejected, match="other_language"):
        made("infir", seed, Altered("infir.passage", **change))


def test_what_a_judge_turned_round_under_the_instruction_is_no_negative_of_the_bare_query(tmp_path):
    """After `positive_lost` the seed's positive is -1 under I, and still answers the query."""
    topic = made("promptriever", SEEDS["msmarco"])
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
    log.commit(0, [made("promptriever", SEEDS["msmarco"])], {})
    settings = RunSettings(kind="run", out=tmp_path)
    before = settings.identity()
    row = replace(made("promptriever", SEEDS["metamath"]), intents=(), passages=(), judgments=())
    log.commit(1, [row], {})
    assert settings.identity() != before
    assert [seed.id for seed in RunReader(settings)] == ["ferry"]


def test_rows_of_one_query_keep_the_passages_that_go_with_the_instruction(tmp_path):
    ferry = SEEDS["msmarco"]
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
