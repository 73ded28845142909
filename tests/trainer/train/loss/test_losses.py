"""The contrastive losses against golden values, identities and examples that can be worked by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foil.datasets_out.training.training_view import TopicGroup
from foil.engine.texts.words import text_key
from foil.trainer.settings import LossSettings, TrainSettings
from foil.trainer.train.data.collate import (
    BatchKeys,
    collate,
    find_negatives,
    make_contrast_pairs,
    reduce_to_plain,
    trim_group,
)
from foil.trainer.train.loss.losses import block_scores, row_losses
from tests.support.training import TEMPLATE


def at_angles(*degrees):
    radians = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack((radians.cos(), radians.sin()), 1)


def masks_of(anchors, keys, blocks=("P", "I", "IQ", "Q")):
    return {name: found.mask for name, found in find_negatives(anchors, keys, LossSettings(blocks=blocks)).items()}


def keys_of(passages, pairs, relevant, asked=None):
    """Keys of pairs that are all asked, or of which the first `asked` are."""
    real = np.arange(len(pairs)) < (len(pairs) if asked is None else asked)
    return BatchKeys(np.array(passages)[:, None], np.column_stack((np.array(pairs), real)), np.array(relevant))


def loss(passages, pairs, keys, anchors, **settings):
    chosen = LossSettings(**settings)
    anchors = np.array(anchors)
    to_passages = (pairs[anchors[:, 0]] @ passages.T) / chosen.temperature
    to_pairs = (passages[anchors[:, 1]] @ pairs.T) / chosen.temperature
    blocks = {}
    for name, found in find_negatives(anchors, keys, chosen).items():
        scores = to_passages if name == "P" else to_pairs
        scores = scores if found.columns is None else scores.gather(1, torch.from_numpy(found.columns))
        blocks[name] = (scores, torch.from_numpy(found.mask))
    positive = to_passages[torch.arange(len(anchors)), torch.from_numpy(anchors[:, 1])]
    return row_losses(positive, blocks, chosen)


def two_rows(iq00, iq11, iq01, iq10):
    """Rows 0 and 1 of the golden example; pairs in the order iq00, iq11, iq01, iq10 (instruction, query)."""
    passages, pairs = at_angles(0, 90), at_angles(iq00, iq11, iq01, iq10)
    keys = keys_of([10, 11], [(1, 5), (2, 6), (1, 6), (2, 5)], [(1, 5, 10), (2, 6, 11)], asked=2)
    return passages, pairs, keys


GOLDEN = {
    1.0: {
        "P": 0.420025, "I": 0.364101, "Q": 0.660775, "P I": 0.784126,
        "P I multi": 1.085992,
        "IQ": 0.412585, "P IQ": 0.832610, "I IQ": 0.776686, "P I IQ": 1.196711,
        "P IQ multi": 1.112994, "I IQ multi": 1.088049, "P I IQ multi": 1.502347,
    },
    0.1: {
        "P": 0.012723, "I": 0.012700, "Q": 0.462888, "P I": 0.025423,
        "P I multi": 0.705859,
        "IQ": 0.003444, "P IQ": 0.016167, "I IQ": 0.016145, "P I IQ": 0.028868,
        "P IQ multi": 0.701273, "I IQ multi": 0.701262, "P I IQ multi": 1.108273,
    },
}  # fmt: skip
CASES = [(tau, name, value) for tau, row in GOLDEN.items() for name, value in row.items()]


@pytest.mark.parametrize("duplicates", ["masked", "kept"])
@pytest.mark.parametrize(("temperature", "name", "value"), CASES)
def test_every_loss_of_the_paper_has_its_golden_value(temperature, name, value, duplicates):
    found = loss(
        *two_rows(0, 60, 30, 120), [(0, 0), (1, 1)], temperature=temperature, positive_counted="each_block",
        blocks=tuple(part for part in name.split() if part != "multi"), duplicates=duplicates, instructions="batch",
        combine="multivariate" if "multi" in name else "sum",
    )  # fmt: skip
    assert found.mean().item() == pytest.approx(value, abs=6e-7)


def test_the_symmetric_example_has_its_closed_form():
    passages, pairs, keys = two_rows(0, 90, 60, 60)
    found = {
        block: loss(passages, pairs, keys, [(0, 0), (1, 1)], blocks=(block,), temperature=1.0).mean().item()
        for block in ("P", "I")
    }
    assert found["P"] == pytest.approx(math.log(1 + math.exp(-1)), abs=1e-9)
    tilted = math.log(1 + math.exp(-0.5)) + math.log(1 + math.exp(math.cos(math.radians(30)) - 1))
    assert found["I"] == pytest.approx(tilted / 2, abs=1e-9)


@given(st.floats(0.02, 1.0), st.lists(st.floats(0, 360), min_size=4, max_size=4))
def test_counting_the_positive_in_each_block_is_a_bonus_of_log_blocks(temperature, angles):
    passages, pairs, keys = two_rows(*angles)
    asked = {"blocks": ("P", "I"), "temperature": temperature}
    once = loss(passages, pairs, keys, [(0, 0), (1, 1)], **asked)
    each = loss(passages, pairs, keys, [(0, 0), (1, 1)], positive_counted="each_block", **asked)
    assert torch.all(each >= once)
    assert torch.allclose(each.exp(), once.exp() + 1, rtol=1e-9)


@given(st.integers(2, 6))
def test_equal_scores_cost_the_log_of_the_columns(rows):
    same = torch.ones(rows, 1, dtype=torch.float64)
    every = np.arange(rows)
    keys = keys_of(every, np.stack((every, every), 1) + 1, np.stack((every + 1, every + 1, every), 1))
    anchors = np.stack((every, every), 1)
    assert torch.allclose(loss(same, same, keys, anchors, blocks=("P",)), torch.tensor(math.log(rows)).double())
    both = loss(same, same, keys, anchors, blocks=("P", "IQ"), positive_counted="each_block")
    assert torch.allclose(both, torch.tensor(math.log(2 * rows)).double())


def record():
    """One InF-IR record: three tuples over two instructions and two queries, a perfect model at temperature 0.01."""
    return TopicGroup(
        topic_id="t", seed_id="s", keys=((1,), (2,), (3,)),
        intents=(("i+", "q+"), ("i-", "q+"), ("i+", "q-")),
        passages=(("", "p+"), ("", "p1-"), ("", "p2-")),
        relevance=np.array([[1, -1, -1], [-1, 1, 0], [-1, 0, 1]], dtype=np.int8),
    )  # fmt: skip


def test_a_perfect_model_pays_nothing_once_duplicates_are_masked():
    batch = collate([record()], TEMPLATE)
    perfect = torch.eye(3, dtype=torch.float64)
    for blocks in (("P",), ("I",), ("P", "I"), ("P", "I", "IQ"), ("P", "I", "IQ", "Q")):
        found = loss(perfect, perfect, batch.keys, batch.anchors, blocks=blocks, temperature=0.01)
        assert found.max() < 1e-9


def test_kept_duplicates_leave_the_floor_that_the_paper_has():
    whole = LossSettings(blocks=("P", "I", "IQ"), instructions="batch")
    batch = collate([record()], TEMPLATE, make_contrast_pairs([record()], [record()], whole, 0))
    assert batch.pairs == (("i+", "q+"), ("i-", "q+"), ("i+", "q-"), ("i-", "q-"))
    passages = torch.eye(3, dtype=torch.float64)
    pairs = torch.cat((passages, torch.zeros(1, 3, dtype=torch.float64)))

    def floor(*blocks, **settings):
        asked = {"temperature": 0.01, "duplicates": "kept", "instructions": "batch", "positive_counted": "each_block"}
        return loss(passages, pairs, batch.keys, batch.anchors, blocks=blocks, **{**asked, **settings})

    assert floor("I", combine="sum").tolist() == pytest.approx([math.log(2), 0, math.log(2)], abs=1e-6)
    assert floor("P").max() < 1e-6
    assert floor("IQ").max() < 1e-6
    assert floor("P", "I").mean().item() == pytest.approx(0.963, abs=5e-4)
    assert floor("P", "I", "IQ").mean().item() == pytest.approx(1.290, abs=5e-4)
    assert floor("P", "I", "IQ", duplicates="masked", positive_counted="once").max() < 1e-6


def with_bare_query():
    """The same record as a run has it: the bare query first, to which both passages on it are relevant."""
    three = record()
    return replace(
        three, intents=(("", "q+"), *three.intents),
        relevance=np.concatenate((np.array([[1, 1, -1]], dtype=np.int8), three.relevance)),
    )  # fmt: skip


@pytest.mark.parametrize(("bare_queries", "value"), [(False, 1.6544), (True, 2.1814)])
def test_the_literal_preset_has_the_value_of_equation_18_over_one_record(bare_queries, value):
    """Scores .8 .6 .5 under (I+, Q+), .4 under (I-, Q+), .7 under Q+. The equation's denominator over the three tuples
    is exp .8 + exp .6 + exp .5 for passages and twice exp .8 (I+ is in two tuples) + exp .4 for instructions."""
    settings = TrainSettings.model_validate({"preset": "inf_embed_literal"})
    assert not settings.bare_queries
    group = trim_group(with_bare_query(), settings.distractors, settings.other_queries, bare_queries)
    batch = collate([group], TEMPLATE, make_contrast_pairs([group], [group], settings.loss, 0))
    scores = {("i+", "q+"): [0.8, 0.6, 0.5], ("i-", "q+"): [0.4, 0, 0], ("", "q+"): [0.7, 0, 0]}
    pairs = torch.tensor([scores.get(pair, [0, 0, 0]) for pair in batch.pairs], dtype=torch.float64)
    found = loss(torch.eye(3, dtype=torch.float64), pairs, batch.keys, batch.anchors, **settings.loss.model_dump())
    row = batch.anchors.tolist().index([batch.pairs.index(("i+", "q+")), batch.passages.index("p+")])
    assert found[row].item() == pytest.approx(value, abs=5e-5)
    if not bare_queries:
        printed = math.exp(0.8) * 3 + math.exp(0.6) + math.exp(0.5) + math.exp(0.4)
        assert found[row].item() == pytest.approx(math.log(printed) - 0.8, abs=1e-12)


def test_a_topic_without_instructions_keeps_its_bare_query():
    plain = reduce_to_plain(with_bare_query())
    assert trim_group(plain, 0, other_queries=False, bare_queries=False).intents == (("", "q+"),)


def test_literal_columns_without_every_pair_are_refused():
    with pytest.raises(ValueError, match="set instructions: batch"):
        LossSettings(blocks=("I",), duplicates="kept")


def test_instructions_of_the_batch_are_put_to_every_own_query():
    groups = [dual("one", 0), dual("two", 1, bare=False)]
    asked = LossSettings(blocks=("P", "I"), instructions="batch")
    made = make_contrast_pairs(groups[1:], groups, asked, 0)
    assert sorted(made) == [("", "two"), ("keep", "two"), ("turn", "two")]
    assert make_contrast_pairs(groups, groups, LossSettings(), 0) == []
    few = [
        make_contrast_pairs(groups, groups, asked.model_copy(update={"instruction_samples": 1}), step)
        for step in range(9)
    ]
    assert {len(found) for found in few} == {2}
    assert len({tuple(found) for found in few}) > 1
    queries = make_contrast_pairs(groups[:1], groups, LossSettings(blocks=("Q",), instructions="batch"), 0)
    assert set(queries) == {(i, q) for i in ("keep", "turn", "") for q in ("one", "two")}


def test_a_made_pair_is_a_column_of_its_instruction_block_only():
    groups = [record(), dual("q+", 5)]
    asked = LossSettings(blocks=("P", "I", "IQ"), instructions="batch")
    batch = collate(groups, TEMPLATE, make_contrast_pairs(groups, groups, asked, 0))
    made = batch.keys.pairs[:, 2] == 0
    assert made.any()
    found = {name: one.mask for name, one in find_negatives(batch.anchors, batch.keys, asked).items()}
    assert not found["IQ"][:, made].any()
    assert found["I"][:, made].any()


def test_instruction_negatives_are_the_other_instructions_on_the_same_query_only():
    batch = collate([record()], TEMPLATE)
    masks = masks_of(batch.anchors, batch.keys)
    assert masks["I"].tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    assert masks["IQ"].tolist() == [[False, True, True], [True, False, True], [True, True, False]]
    assert masks["Q"].tolist() == [[False, False, True], [False, False, False], [True, False, False]]
    assert masks["P"].tolist() == [[False, True, True], [True, False, True], [True, True, False]]


def dual(query, number, bare=True):
    rows = [("keep", query), ("turn", query)] + [("", query)] * bare
    relevance = [[1, -1], [-1, 1], [1, 1]][: len(rows)]
    return TopicGroup(
        topic_id=f"t{number}", seed_id=f"s{number}", keys=((1,), (2,)), intents=tuple(rows),
        passages=(("", f"a{number}"), ("", f"b{number}")), relevance=np.array(relevance, dtype=np.int8),
    )  # fmt: skip


def test_a_bare_query_never_pushes_away_what_any_instruction_on_it_wants():
    groups = [dual("q", 0), dual("Q ", 1, bare=False), dual("other", 2)]
    batch = collate(groups, TEMPLATE)
    masks = masks_of(batch.anchors, batch.keys)
    bare = np.flatnonzero((batch.keys.pairs[batch.anchors[:, 0], :2] == (0, text_key("q"))).all(1))
    assert len(bare) == 2
    allowed = {batch.passages[column] for column in np.flatnonzero(masks["P"][bare].any(0))}
    assert allowed == {"a2", "b2"}


def test_texts_that_occur_twice_are_encoded_once_and_pushed_away_once():
    batch = collate([dual("q", 0), dual("q", 0), dual("Q", 0)], TEMPLATE)
    assert batch.passages == ("a0", "b0")
    assert batch.pairs == (("keep", "q"), ("turn", "q"), ("", "q"))
    assert len(batch.anchors) == 4
    twice = BatchKeys(
        *(np.concatenate((part, part)) for part in (batch.keys.passages, batch.keys.pairs, batch.keys.relevant))
    )
    masks, doubled = masks_of(batch.anchors, batch.keys), masks_of(batch.anchors, twice)
    for name, mask in masks.items():
        assert np.array_equal(doubled[name], np.concatenate((mask, np.zeros_like(mask)), 1))


KEY = st.integers(0, 3)


@given(st.data())
def test_each_cell_is_a_negative_exactly_where_the_rules_say_so(data):
    passages = data.draw(st.lists(KEY, min_size=1, max_size=6))
    pairs = data.draw(st.lists(st.tuples(KEY, KEY, st.booleans()), min_size=1, max_size=6))
    cell = st.tuples(st.integers(0, len(pairs) - 1), st.integers(0, len(passages) - 1))
    anchors = data.draw(st.lists(cell, max_size=6))
    wanted = {(*pairs[pair][:2], passages[passage]) for pair, passage in anchors}
    others = data.draw(st.sets(st.tuples(KEY, KEY, KEY), max_size=4))
    known = wanted | others | {(0, query, passage) for _, query, passage in wanted | others}
    asked = {pair[:2] for pair in pairs if pair[2]}
    tables = (np.array([*rows], dtype=np.int64).reshape(-1, 3) for rows in (pairs, wanted, others))
    masks = masks_of(np.array(anchors, dtype=np.int64).reshape(-1, 2), BatchKeys(np.array(passages)[:, None], *tables))
    firsts = [pair[:2] not in [each[:2] for each in pairs[:at]] for at, pair in enumerate(pairs)]
    for row, (pair, passage) in enumerate(anchors):
        instruction, query, _ = pairs[pair]
        for at, other in enumerate(passages):
            first = other not in passages[:at]
            assert masks["P"][row, at] == (first and (instruction, query, other) not in known)
        for at, other in enumerate(pairs):
            candidate = firsts[at] and (*other[:2], passages[passage]) not in known
            assert masks["I"][row, at] == (candidate and other[1] == query)
            assert masks["Q"][row, at] == (candidate and other[0] == instruction)
            assert masks["IQ"][row, at] == (candidate and other[:2] in asked)


@given(st.permutations(range(4)))
def test_the_order_of_topics_changes_no_loss(order):
    groups = [dual(f"q{number % 3}", number) for number in range(4)]
    vectors = dict(zip("abcdefgh", at_angles(*range(0, 360, 45)), strict=True))

    def total(batch):
        passages = torch.stack([vectors["abcd"[int(text[1])]] for text in batch.passages])
        pairs = torch.stack([vectors["efgh"[len("".join(pair)) % 4]] for pair in batch.pairs])
        return loss(passages, pairs, batch.keys, batch.anchors).sum().item()

    assert total(collate([groups[i] for i in order], TEMPLATE)) == pytest.approx(total(collate(groups, TEMPLATE)))


def test_logits_stay_in_single_precision_under_autocast():
    anchors, columns = torch.tensor([[0.8, 0.6]]), torch.tensor([[1.0, 0.0], [0.999, 0.0447]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = block_scores(anchors, columns, 0.01)
    assert scores.dtype == torch.float32
    assert scores[0].tolist() == pytest.approx([80.0, 82.602], abs=1e-3)
