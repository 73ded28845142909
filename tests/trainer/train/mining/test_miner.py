"""Mined negatives: hard, never known or likely to be relevant, never across a split, in a run like any other."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.cluster.job import load_job, settings_from
from foil.cluster.mining import mine_run, satisfies, scorer_source
from foil.cluster.run_job import run_job
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions
from foil.datasets_out.commits.verify import verify
from foil.datasets_out.sql.query import run_sql
from foil.datasets_out.training.candidate_pool import CandidatePassage, CandidatePool
from foil.datasets_out.training.mined_negatives import with_mined
from foil.datasets_out.training.training_view import SPLITS, SplitSettings, text_key
from foil.engine.errors import DifferentJobError, SeedFormatError, UsageError
from foil.engine.seeds.bm25 import Bm25Index, words_of
from foil.engine.topic import Call, Intent, Judgment, Passage, Topic, Verdict, intent_id
from foil.prompts.constraints.constraint import Constraint, dump_constraints
from foil.trainer.train.mining.mined_run import mine_snapshot
from foil.trainer.train.mining.miner import Miner, overlap, score_ceiling
from foil.trainer.train.mining.model_scorer import ModelScorer, nearest
from foil.trainer.train.mining.scorers import Bm25Scorer
from foil.trainer.train.mining.settings import MineSettings
from foil.validators.checks.shape import ShapeCheck, ShapeSettings
from tests.support.commands import foil, write_job
from tests.support.trainer_world import commit, open_view, topic

ALL = {"heldout_share": 0.0, "dev_share": 0.0}
THIRDS = {"heldout_share": 0.3, "dev_share": 0.3}


def mine(out, into, **choices):
    chosen = MineSettings(**{"split": SplitSettings(**ALL), **choices})
    return mine_snapshot(load_snapshot(out, None), into, chosen, scorer_source(chosen), satisfies)


def topics_in(out):
    return [one for part in read_partitions(load_snapshot(out, None)) for one in part]


def mined_of(one):
    """(intent, passage, facts) of every mined judgment of a topic."""
    intents, passages = {i.id: i for i in one.intents}, {p.id: p for p in one.passages}
    for judgment in one.judgments:
        if judgment.judge == "mined":
            passage = passages[judgment.passage_id]
            facts = json.loads(passage.attributes["mined_for"])[judgment.intent_id]
            yield intents[judgment.intent_id], passage, facts


def all_mined(out):
    return [(one, *found) for one in topics_in(out) for found in mined_of(one)]


def bytes_of(out):
    return {p.relative_to(out): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A run of 40 topics in five partitions, the last of them not accepted."""
    topics = [topic(number) for number in range(40)]
    topics[7] = replace(topics[7], calls=(Call("r", "t", "m", "p", 5, 5, 0.5, "stop", "{}"),))
    topics[8] = replace(topics[8], verdicts=(Verdict("judge", "topic", "pass", cost_usd=0.25),))
    topics[39] = replace(topics[39], status="rejected", reason="leak")
    return commit(tmp_path_factory.mktemp("world") / "run", topics)


@pytest.fixture(scope="module")
def by_bm25(world):
    before = bytes_of(world)
    written = mine(world, world.parent / "bm25")
    assert bytes_of(world) == before
    return written


@pytest.mark.slow
def test_the_mined_run_is_sound_and_answers_sql(world, by_bm25):
    out = by_bm25.snapshot.out
    assert verify(out) == []
    assert by_bm25.snapshot.name == "mined"
    rows = run_sql(out, "SELECT relevance, count(*) AS n FROM judgments WHERE judge = 'mined' GROUP BY ALL").to_pylist()
    assert rows == [{"relevance": -1, "n": by_bm25.counts["taken"]}]
    triplets = run_sql(out, "SELECT count(*) AS n FROM triplets WHERE negative_role = 'mined_negative'").to_pylist()
    assert triplets[0]["n"] > by_bm25.counts["taken"] > 100
    score = "json_extract(p.attributes['mined_for'], '$.' || j.intent_id || '.score')"
    joined = "judgments j JOIN passages p USING (topic_id, passage_id) WHERE j.judge = 'mined'"
    (least,) = run_sql(out, f"SELECT min(CAST({score} AS DOUBLE)) AS least FROM {joined}").to_pylist()
    assert least["least"] > 0


def test_every_topic_is_carried_over_and_no_judgment_of_it_changes(world, by_bm25):
    old, new = topics_in(world), topics_in(by_bm25.snapshot.out)
    assert [one.id for one in new] == [one.id for one in old]
    for before, after in zip(old, new, strict=True):
        added = [j for j in after.judgments if j.judge == "mined"]
        assert after.judgments == (*before.judgments, *added)
        own = {j.passage_id for j in added}
        assert Counter(p.id for p in after.passages) == Counter([*(p.id for p in before.passages), *own])
        assert own.isdisjoint(p.id for p in before.passages)
        assert (after.intents, after.seed_id, after.status) == (before.intents, before.seed_id, before.status)
    assert not any(j.judge == "mined" for j in new[39].judgments)


def test_mined_passages_come_first_among_what_the_query_does_not_want(by_bm25):
    for one in topics_in(by_bm25.snapshot.out)[:39]:
        roles = [p.role for p in one.passages]
        assert roles == sorted(
            roles, key=["seed_positive", "instruction_negative", "mined_negative", "distractor"].index
        )
        assert "mined_negative" in roles


def test_the_old_run_has_paid_for_all(world, by_bm25):
    entries = [CommitLog(out).entries() for out in (world, by_bm25.snapshot.out)]
    paid = [
        (sum(e.counts.cost_usd for e in run), sum(sum(e.counts.validators_usd.values()) for e in run))
        for run in entries
    ]
    assert paid == [(0.5, 0.25), (0.0, 0.0)]
    assert topics_in(by_bm25.snapshot.out)[7].calls[0].cost_usd == 0.5
    seeds = [[e.counts.seeds for e in run] for run in entries]
    assert seeds[0] == seeds[1]


def test_a_mined_topic_is_a_sound_topic(by_bm25):
    for one in topics_in(by_bm25.snapshot.out)[:5]:
        _, verdicts = ShapeCheck(ShapeSettings())(one)
        assert {verdict.outcome for verdict in verdicts} == {"pass"}


def test_the_counts_add_up(by_bm25):
    counts = by_bm25.counts
    refused = sum(number for name, number in counts.items() if name.startswith("refused "))
    assert counts["considered"] == refused + counts["taken"]
    assert (counts["topics"], counts["intents"]) == (39, 78)
    assert {"refused own", "refused alike"} <= set(counts)


def test_the_same_mining_gives_the_same_bytes_and_once_more_is_a_no_op(world, by_bm25, tmp_path):
    again = mine(world, tmp_path / "again")
    assert bytes_of(tmp_path / "again") == bytes_of(by_bm25.snapshot.out)
    assert again.snapshot.digest == by_bm25.snapshot.digest
    repeated = mine(world, tmp_path / "again")
    assert (repeated.snapshot.digest, repeated.counts) == (by_bm25.snapshot.digest, by_bm25.counts)


def test_a_mining_that_was_stopped_goes_on_to_the_same_bytes(world, by_bm25, tmp_path, monkeypatch):
    calls = Counter()
    whole = Miner.__call__

    def stop_at_the_third(self, topics):
        calls["partitions"] += 1
        if calls["partitions"] == 3:
            raise KeyboardInterrupt
        return whole(self, topics)

    monkeypatch.setattr(Miner, "__call__", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        mine(world, tmp_path / "run")
    assert CommitLog(tmp_path / "run").partitions() == [0, 1]
    mine(world, tmp_path / "run")
    assert calls["partitions"] == 6
    assert bytes_of(tmp_path / "run") == bytes_of(by_bm25.snapshot.out)


def test_other_settings_are_refused_in_the_same_folder(world, by_bm25):
    with pytest.raises(DifferentJobError, match=r"mine\.per_intent: 4 -> 2"):
        mine(world, by_bm25.snapshot.out, per_intent=2)
    with pytest.raises(DifferentJobError, match="holds the run of another job"):
        mine(world, world)


def test_a_training_view_reads_them_and_loses_nothing_by_them(tmp_path):
    out = commit(tmp_path / "run", [topic(number) for number in range(60)])
    mined = mine(out, tmp_path / "mined", split=SplitSettings(**THIRDS), splits=SPLITS, per_intent=2)
    before, after = (open_view(run, **THIRDS) for run in (out, mined.snapshot.out))
    assert before.facts == after.facts
    for split in SPLITS:
        grown = 0
        texts = {text for group in before.read_all(split) for _, text in group.passages}
        for old, new in zip(before.read_all(split), after.read_all(split), strict=True):
            added = [column for column, passage in enumerate(new.passages) if passage not in old.passages]
            grown += len(added)
            assert {new.passages[column][1] for column in added} <= texts
            assert set(new.relevance[:, added].flatten().tolist()) <= {0, -1}
        assert grown > 10


def test_only_the_splits_asked_for_are_mined(tmp_path):
    out = commit(tmp_path / "run", [topic(number) for number in range(30)])
    shares = SplitSettings(**THIRDS)
    mine(out, tmp_path / "mined", split=shares)
    assert {shares.split_of(one.seed_id) for one, *_ in all_mined(tmp_path / "mined")} == {"train"}


def test_a_text_that_a_held_out_topic_shares_is_mined_for_held_out_topics_alone():
    held = replace(topic(0), attributes={"split": "heldout"})
    shared = Passage(held.passages[0].text.upper(), "distractor")
    edited = Passage("an edit of a passage that is held out", "distractor", edited_from=held.passages[1].id)
    trained = replace(topic(1), passages=(*topic(1).passages, shared, edited))
    pool = CandidatePool([trained, held, topic(2)], SplitSettings(**ALL))
    texts = {split: {one.passage.text for one in candidates.candidates} for split, candidates in pool.by_split.items()}
    assert {shared.text, edited.text} <= texts["heldout"]
    assert texts["heldout"].isdisjoint(texts["train"])
    assert {p.text for p in topic(2).passages} <= texts["train"]


def test_an_intent_whose_positive_is_held_out_elsewhere_is_not_mined_for():
    held = replace(topic(0), attributes={"split": "heldout"})
    trained = replace(topic(0), id="other", seed_id="other")
    pool = CandidatePool([held, trained, *map(topic, range(1, 9))], SplitSettings(**ALL))
    miner = Miner(pool, open_bm25, MineSettings(split=SplitSettings(**ALL)), never)
    assert miner([trained]).mined == {}
    assert miner([topic(1)]).mined["topic-001"]


def test_what_answers_the_query_in_another_topic_is_refused_and_so_is_its_kin():
    query = topic(1).query
    answer = Passage("the tower of oslo number 1 stands because masons built it", "seed_positive", source_id="doc")
    twin = Topic(
        "twin", "seed-twin", "world", "test", query, (Intent("i", "original", "", query.upper()),), (answer,),
        (Judgment("i", answer.id, 1, "seed"),),
    )  # fmt: skip
    part = Passage("the tower that oslo sings of", "distractor", source_id="doc")
    edit = Passage("a tower that oslo has edited", "distractor", edited_from=answer.id)
    other = replace(topic(3), passages=(*topic(3).passages, part, edit))
    known = {answer.text, part.text, edit.text}

    def taken(*topics):
        pool = CandidatePool([topic(1), other, *topics, *map(topic, range(4, 12))], SplitSettings(**ALL))
        choices = MineSettings(split=SplitSettings(**ALL), per_intent=50, max_relative=1.0, max_overlap=1.0)
        found = Miner(pool, open_bm25, choices, never)([topic(1)])
        return {one.candidate.passage.text for one in found.mined["topic-001"]}, found.counts

    assert taken()[0] & known == {part.text, edit.text}
    texts, counts = taken(twin)
    assert not texts & known
    assert counts["refused answers"] >= 3


def test_a_near_copy_of_a_positive_is_refused_wherever_it_ranks():
    copy = Passage("bridge oslo number built by its people, so it was in 1810", "distractor")
    other = replace(topic(1), passages=(*topic(1).passages, copy))
    pool = CandidatePool([topic(0), other], SplitSettings(**ALL))
    for most, there in ((0.75, False), (1.0, True)):
        choices = MineSettings(split=SplitSettings(**ALL), max_overlap=most, max_relative=1.0, per_intent=50)
        found = Miner(pool, open_bm25, choices, never)([topic(0)])
        assert (copy in [one.candidate.passage for one in found.mined["topic-000"]]) is there
    assert overlap(frozenset(), frozenset("ab")) == 0


def test_a_passage_that_satisfies_the_constraints_is_no_negative_of_them(tmp_path):
    def constrained(one):
        year = dump_constraints([Constraint("year")])
        intents = [replace(i, attributes={"constraints": year}) if i.role == "instructed" else i for i in one.intents]
        return replace(one, intents=tuple(intents))

    out = commit(tmp_path / "run", [constrained(topic(number)) for number in range(30)])
    for satisfying in ("refuse", "keep"):
        mine(out, tmp_path / satisfying, satisfying=satisfying, max_overlap=1.0)
        years = {
            Constraint("year").holds(p) for _, i, p, _ in all_mined(tmp_path / satisfying) if i.role == "instructed"
        }
        bare = {Constraint("year").holds(p) for _, i, p, _ in all_mined(tmp_path / satisfying) if i.role == "original"}
        assert bare == {True, False}
        assert years == ({False} if satisfying == "refuse" else {True, False})


def test_rows_that_are_poisoned_get_no_mined_negative(tmp_path):
    def poisoned(one):
        query = f"where is the {one.query.split()[3]}"
        added = (
            Intent(intent_id(one.id, "poison", one.query), "poisoned_instruction", "poison", one.query),
            Intent(intent_id(one.id, "", query), "poisoned_query", "", query),
        )
        said = (
            Judgment(added[0].id, one.passages[1].id, 1, "rule"),
            Judgment(added[1].id, one.passages[2].id, 1, "rule"),
        )
        return replace(one, intents=(*one.intents, *added), judgments=(*one.judgments, *said))

    out = commit(tmp_path / "run", [poisoned(topic(number)) for number in range(20)])
    mine(out, tmp_path / "mined", roles=("original", "instructed", "reversed"))
    assert {i.role for _, i, _, _ in all_mined(tmp_path / "mined")} == {"original", "instructed", "reversed"}
    with pytest.raises(ValueError, match="'original', 'instructed', 'reversed' or 'dual'"):
        MineSettings(roles=("poisoned_query",))


def never(intent, passage):
    return False


def bodies(candidates):
    return [f"{one.passage.title} {one.passage.text}".strip() for one in candidates.candidates]


def open_bm25(candidates):
    return Bm25Scorer(bodies(candidates), candidates.minable)


WORDS = ["apple", "pear", "plum", "quince", "medlar", "cherry"]
ROLES = st.lists(st.sampled_from(["original", "instructed", "poisoned_query"]), min_size=1, max_size=3, unique=True)
PHRASES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


@st.composite
def small_topics(draw):
    """Topics over few words, so that queries, texts and judgments collide; one in four topics is held out."""
    topics = []
    for number in range(draw(st.integers(2, 6))):
        texts = draw(st.lists(PHRASES, min_size=2, max_size=4, unique=True))
        passages = tuple(Passage(text, "distractor", source_id=draw(st.sampled_from(["", "a", "b"]))) for text in texts)
        query, roles = draw(PHRASES), draw(ROLES)
        queries = {role: draw(PHRASES) if role == "poisoned_query" else query for role in roles}
        intents = tuple(
            Intent(f"{number}-{role}", role, "ripe" if role == "instructed" else "", queries[role]) for role in roles
        )
        cells = st.tuples(st.sampled_from(intents), st.sampled_from(passages), st.sampled_from([1, 1, -1]))
        judged = draw(st.lists(cells, max_size=6))
        judgments = {(i.id, p.id): Judgment(i.id, p.id, relevance, "seed") for i, p, relevance in judged}
        split = {"split": "heldout"} if draw(st.integers(0, 3)) == 0 else {}
        seed_id = f"s{draw(st.integers(0, 4))}"
        judgments = tuple(judgments.values())
        topics.append(Topic(f"t{number}", seed_id, "c", "r", query, intents, passages, judgments, attributes=split))
    return topics


choices_of = st.builds(
    MineSettings, split=st.just(SplitSettings(heldout_share=0.2, dev_share=0.2)), splits=st.just(SPLITS),
    per_intent=st.integers(1, 3), skip=st.integers(0, 2), depth=st.integers(3, 10), instruction_words=st.just(False),
    max_relative=st.sampled_from([0.5, 0.95, 1.0]), min_gap=st.sampled_from([0.0, 0.1]), max_overlap=st.just(1.0),
)  # fmt: skip


@given(small_topics(), choices_of)
@settings(max_examples=80, deadline=None)
def test_whatever_the_topics_no_mined_row_is_poisoned(topics, choices):
    pool = CandidatePool(topics, choices.split)
    found = Miner(pool, open_bm25, choices, never)(topics)
    relevant = {
        (whose, text_key(p.text, kind="passage"))
        for one in topics for i in one.intents for p in one.passages
        for whose in (text_key(i.query, kind="query"), one.seed_id)
        if any((j.intent_id, j.passage_id) == (i.id, p.id) and j.relevance > 0 for j in one.judgments)
    }  # fmt: skip
    home = {}
    for one in topics:
        for passage in one.passages:
            key = text_key(passage.text, kind="passage")
            home[key] = min(pool.split_of(one), home.get(key, "train"), key=SPLITS.index)
    for one in topics:
        mined = found.mined.get(one.id, ())
        intents = {i.id: i for i in one.intents}
        assert max(Counter(m.intent_id for m in mined).values(), default=0) <= choices.per_intent
        for m in mined:
            intent, key = intents[m.intent_id], text_key(m.candidate.passage.text, kind="passage")
            assert intent.role in choices.roles
            asked = {one.seed_id, *(text_key(i.query, kind="query") for i in one.intents)}
            assert not any((whose, key) in relevant for whose in asked)
            assert key not in {text_key(p.text, kind="passage") for p in one.passages}
            assert home[key] == pool.split_of(one)
            assert choices.skip < m.rank <= choices.depth
            candidates = pool.by_split[pool.split_of(one)]
            index = Bm25Index(bodies(candidates))
            for other in one.intents:
                wanted = {j.passage_id for j in one.judgments if j.intent_id == other.id and j.relevance > 0}
                places = [candidates.position(p) for p in one.passages if p.id in wanted]
                scores = index.scores(words_of([other.query])[0])
                scores = np.zeros(len(candidates.candidates)) if scores is None else scores
                if not places or None in places:
                    assert other != intent
                    continue
                score = float(scores[candidates.position(m.candidate.passage)])
                lowest = min(float(scores[place]) for place in places)
                assert score <= min(choices.max_relative * lowest, lowest - choices.min_gap)
                assert other != intent or (m.score, m.positive) == (score, lowest)
        carried = with_mined(one, mined, "bm25")
        assert carried.judgments[: len(one.judgments)] == one.judgments
        assert {(j.intent_id, j.passage_id) for j in carried.judgments[len(one.judgments) :]} == {
            (m.intent_id, m.candidate.passage.id) for m in mined
        }
        assert len({p.id for p in carried.passages}) == len(carried.passages)
    counts = found.counts
    assert counts["considered"] == counts["taken"] + sum(n for name, n in counts.items() if name.startswith("refused"))


@given(st.floats(-30, 30), st.floats(0.1, 1), st.floats(0, 5))
def test_a_ceiling_is_never_above_the_lowest_positive(positive, relative, gap):
    ceiling = score_ceiling(positive, MineSettings(max_relative=relative, min_gap=gap))
    assert ceiling <= positive - gap
    assert ceiling <= relative * positive + 1e-9 or positive < 0
    assert ceiling == positive or (relative, gap) != (1.0, 0.0)


@given(
    st.integers(1, 4), st.integers(1, 30), st.integers(1, 12), st.integers(1, 9), st.integers(0, 2**32 - 1)
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_the_nearest_are_those_of_the_whole_matrix_whatever_the_block(queries, vectors, depth, block, seed):
    draw = np.random.default_rng(seed)
    q, v = (draw.integers(-2, 3, size=(n, 3)).astype(np.float32) for n in (queries, vectors))
    whole = [np.argsort(-row, kind="stable")[:depth].tolist() for row in q @ v.T]
    assert nearest(q, v, depth, block) == whole


def test_a_model_mines_by_cosine_and_keeps_the_margin(world, bert, tmp_path, capsys):
    choices = {"miner": "model", "model": bert, "max_overlap": 1.0, "max_relative": 0.999, "per_intent": 3}
    written = mine(world, tmp_path / "mined", **choices)
    assert verify(tmp_path / "mined") == []
    assert "encoded 117 of 117 passages" in capsys.readouterr().err
    found = all_mined(tmp_path / "mined")
    assert len(found) == written.counts["taken"] > 50
    assert {p.attributes["mined"][:6] for _, _, p, _ in found} == {"model:"}
    vectors = _cosines(bert, found)
    for one, intent, passage, facts in found:
        wanted = {j.passage_id for j in one.judgments if j.intent_id == intent.id and j.relevance > 0}
        lowest = min(vectors(intent, p) for p in one.passages if p.id in wanted)
        assert facts["positive"] == pytest.approx(lowest, abs=5e-3)
        assert facts["score"] == pytest.approx(vectors(intent, passage), abs=5e-3)
        assert facts["score"] <= 0.999 * facts["positive"] + 1e-6
    mine(world, tmp_path / "again", **choices)
    assert bytes_of(tmp_path / "again") == bytes_of(tmp_path / "mined")


def _cosines(model, found):
    """The cosine of an intent with a passage, by the library alone."""
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(model), device="cpu", local_files_only=True)
    texts = {f"{i.query} {i.instruction}".strip() for _, i, _, _ in found} | {
        p.text for t, *_ in found for p in t.passages
    }
    order = {text: row for row, text in enumerate(sorted(texts))}
    vectors = library.encode(sorted(texts), normalize_embeddings=True, show_progress_bar=False)
    return lambda intent, passage: float(
        vectors[order[f"{intent.query} {intent.instruction}".strip()]] @ vectors[order[passage.text]]
    )


def test_a_finished_mining_is_known_by_its_model_and_loads_it_no_more(world, bert, tmp_path, monkeypatch):
    mine(world, tmp_path / "mined", miner="model", model=bert, per_intent=1)
    monkeypatch.setattr(ModelScorer, "__init__", lambda *_: pytest.fail("the model was asked again"))
    mine(world, tmp_path / "mined", miner="model", model=bert, per_intent=1)
    with pytest.raises(DifferentJobError, match=r"mine\.by"):
        mine(world, tmp_path / "mined", miner="model", per_intent=1)


def test_a_model_that_is_no_directory_is_refused(world, tmp_path):
    with pytest.raises(UsageError, match="nowhere is no directory"):
        mine(world, tmp_path / "mined", miner="model", model=tmp_path / "nowhere")


def test_a_file_can_be_mined_with_its_rights(world, tmp_path):
    rows = [
        {"id": str(n), "title": "guide", "text": f"who built the {thing} number {n}, a tourist asks"}
        for n, thing in enumerate(["bridge", "tower", "river", "engine", "market"] * 6)
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    choices = {"corpus": "file", "file": tmp_path / "corpus.jsonl", "licence": "CC", "redistributable": False}
    shareable = commit(tmp_path / "run", [replace(one, redistributable=True) for one in topics_in(world)])
    mine(shareable, tmp_path / "mined", **choices)
    found = all_mined(tmp_path / "mined")
    assert {p.text for _, _, p, _ in found} <= {row["text"] for row in rows}
    assert {(p.title, p.attributes["licence"], p.source_id.isdigit()) for _, _, p, _ in found} == {
        ("guide", "CC", True)
    }
    touched = {one.id for one, *_ in found}
    assert touched
    assert all(one.redistributable is (one.id not in touched) for one in topics_in(tmp_path / "mined"))


def test_the_texts_of_a_file_have_one_split_each(tmp_path):
    shares = SplitSettings(**THIRDS)
    topics = [topic(number) for number in range(30)]
    theirs = [CandidatePassage(p, "", True, "x") for one in topics for p in one.passages]
    fresh = [CandidatePassage(Passage(f"tower {n}", "mined_negative"), "", True, f"text-{n}") for n in range(30)]
    pool = CandidatePool(topics, shares, [*theirs, *fresh])
    for one in topics:
        assert all(pool.by_split[shares.split_of(one.seed_id)].position(p) is not None for p in one.passages)
    held = [{c.passage.text for c in candidates.candidates} for candidates in pool.by_split.values()]
    assert sum(map(len, held)) == len(set.union(*held)) == 120
    assert all(
        any(c.passage.text.startswith("tower") for c in candidates.candidates) for candidates in pool.by_split.values()
    )


def test_what_a_corpus_knows_to_answer_a_query_is_refused():
    answer = CandidatePassage(Passage("tower of oslo, built by masons", "seed_positive"), "", True, "s", topic(1).query)
    other = CandidatePassage(Passage("tower of lima, built by sailors", "seed_negative"), "", True, "s")
    pool = CandidatePool([topic(1)], SplitSettings(**ALL), [answer, other])
    found = Miner(pool, open_bm25, MineSettings(split=SplitSettings(**ALL)), never)([topic(1)])
    assert {one.candidate.passage.text for one in found.mined["topic-001"]} == {other.passage.text}
    assert found.counts["refused answers"] == 2


def test_a_bad_corpus_row_is_named(world, tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "text": "x"}\n{"id": "2"}\n')
    with pytest.raises(SeedFormatError, match=r"corpus\.jsonl:2"):
        mine(world, tmp_path / "mined", corpus="file", file=tmp_path / "corpus.jsonl")
    with pytest.raises(UsageError, match="--job JOB"):
        mine(world, tmp_path / "mined", corpus="seeds")


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ({"skip": 5, "depth": 5}, "skip is 5 and depth 5"),
        ({"corpus": "file"}, "`file` and `corpus: file` go together"),
        ({"file": "x"}, "`file` and `corpus: file` go together"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(choices, match):
    with pytest.raises(ValueError, match=match):
        MineSettings(**choices)


@pytest.mark.slow
def test_the_command_mines_counts_and_refuses(world, by_bm25, tmp_path):
    shares = ["--set", "split={heldout_share: 0, dev_share: 0}"]
    told = foil("mine", world, tmp_path / "mined", *shares, "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {
        "snapshot": by_bm25.snapshot.digest, "out": str(tmp_path / "mined"), **dict(sorted(by_bm25.counts.items())),
    }  # fmt: skip
    assert bytes_of(tmp_path / "mined") == bytes_of(by_bm25.snapshot.out)


def test_every_wrong_setting_is_named_at_once():
    with pytest.raises(UsageError, match=r"(?s)--set max_relative: .*found 2\n.*--set depht: unknown key"):
        settings_from(["depht=3", "max_relative=2"], MineSettings)
    with pytest.raises(UsageError, match="not of the form"):
        settings_from(["depth"], MineSettings)


def test_the_seeds_of_a_job_can_be_mined_with_its_splits(tmp_path, capsys):
    job = write_job(tmp_path, 30)
    job.write_text(job.read_text() + "train: {split: {heldout_share: 0, dev_share: 0}}\n")
    assert run_job(load_job(job)).complete
    capsys.readouterr()
    mine_run(tmp_path / "out", tmp_path / "mined", ["corpus=seeds"], job, None, as_json=True)
    told = json.loads(capsys.readouterr().out)
    rows = map(json.loads, (tmp_path / "seeds.jsonl").read_text().splitlines())
    corpus = {text for row in rows for text in (row["good"], *row["bad"])}
    found = all_mined(tmp_path / "mined")
    assert len(found) == told["taken"] > 20
    assert {p.text for _, _, p, _ in found} <= corpus
    assert verify(tmp_path / "mined") == []


def test_nothing_to_mine_for_is_a_run_all_the_same(tmp_path):
    out = commit(tmp_path / "run", [Topic("plain", "s", "c", "custom", "q"), replace(topic(0), status="failed")])
    written = mine(out, tmp_path / "mined")
    assert written.counts == {}
    assert topics_in(tmp_path / "mined") == topics_in(out)
    assert verify(tmp_path / "mined") == []


def test_a_run_that_is_not_finished_can_be_mined_as_far_as_it_is(tmp_path):
    log = CommitLog(tmp_path / "run")
    log.open("f" * 64, {})
    for partition in (0, 2):
        log.commit(partition, [topic(number) for number in range(partition * 8, partition * 8 + 8)], {"index": "d1"})
    mine(tmp_path / "run", tmp_path / "mined")
    assert [one.id for one in topics_in(tmp_path / "mined")] == [topic(n).id for n in (*range(8), *range(16, 24))]
    assert verify(tmp_path / "mined") == []
    entries = CommitLog(tmp_path / "mined").entries()
    assert [(entry.partition, entry.facts["index"]) for entry in entries] == [(0, "d1"), (1, "d1")]
