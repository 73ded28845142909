"""The contrastive losses against golden values, identities and examples that can be worked by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datasets_out.training_view import Group
from trainer.collate import Keys, collate, key_of, negatives
from trainer.fusion import template_named
from trainer.losses import block_scores, row_losses
from trainer.settings import LossSettings

TEMPLATE = template_named("query_instruction")


def at_angles(*degrees):
    radians = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack((radians.cos(), radians.sin()), 1)


def loss(passages, pairs, keys, anchors, **settings):
    chosen = LossSettings(**settings)
    anchors = np.array(anchors)
    to_passages = (pairs[anchors[:, 0]] @ passages.T) / chosen.temperature
    to_pairs = (passages[anchors[:, 1]] @ pairs.T) / chosen.temperature
    masks = {name: torch.from_numpy(mask) for name, mask in negatives(anchors, keys).items()}
    blocks = {name: (to_passages if name == "P" else to_pairs, mask) for name, mask in masks.items()}
    positive = to_passages[torch.arange(len(anchors)), torch.from_numpy(anchors[:, 1])]
    return row_losses(positive, blocks, chosen)


def two_rows(iq00, iq11, iq01, iq10):
    """Rows 0 and 1 of the golden example; pairs in the order iq00, iq11, iq01, iq10 (instruction, query)."""
    passages, pairs = at_angles(0, 90), at_angles(iq00, iq11, iq01, iq10)
    keys = Keys(np.array([10, 11]), np.array([(1, 5), (2, 6), (1, 6), (2, 5)]), np.array([(1, 5, 10), (2, 6, 11)]))
    return passages, pairs, keys


GOLDEN = {
    1.0: {
        "P": 0.420025, "I": 0.364101, "Q": 0.660775, "P I": 0.784126,
        "P I multi": 1.085992,
    },
    0.1: {"P": 0.012723, "I": 0.012700, "Q": 0.462888, "P I": 0.025423, "P I multi": 0.705859},
}  # fmt: skip
GOLDEN_IQ = {
    1.0: {
        "IQ": 0.412585, "P IQ": 0.832610, "I IQ": 0.776686, "P I IQ": 1.196711,
        "P IQ multi": 1.112994, "I IQ multi": 1.088049, "P I IQ multi": 1.502347,
    },
    0.1: {
        "IQ": 0.003444, "P IQ": 0.016167, "I IQ": 0.016145, "P I IQ": 0.028868,
        "P IQ multi": 0.701273, "I IQ multi": 0.701262, "P I IQ multi": 1.108273,
    },
}  # fmt: skip
CASES = [
    (tau, name, value) for table in (GOLDEN, GOLDEN_IQ) for tau, row in table.items() for name, value in row.items()
]


def golden_blocks(blocks, **settings):
    """Block IQ pairs whole rows, so there the recombined pairs iq01 and iq10 are no candidates."""
    passages, pairs, keys = two_rows(0, 60, 30, 120)
    anchors = np.array([(0, 0), (1, 1)])
    chosen = LossSettings(blocks=blocks, **settings)
    masks = {name: torch.from_numpy(mask) for name, mask in negatives(anchors, keys).items()}
    masks["IQ"][:, 2:] = False
    to_passages = pairs[:2] @ passages.T / chosen.temperature
    to_pairs = passages @ pairs.T / chosen.temperature
    scored = {name: (to_passages if name == "P" else to_pairs, mask) for name, mask in masks.items()}
    return row_losses(to_passages.diagonal(), scored, chosen).mean().item()


@pytest.mark.parametrize(("temperature", "name", "value"), CASES)
def test_every_loss_of_the_paper_has_its_golden_value(temperature, name, value):
    blocks = tuple(part for part in name.split() if part != "multi")
    combine = "multivariate" if "multi" in name else "sum"
    found = golden_blocks(blocks, combine=combine, positive_counted="each_block", temperature=temperature)
    assert found == pytest.approx(value, abs=6e-7)


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
    keys = Keys(np.arange(rows), np.stack((np.arange(rows), np.arange(rows)), 1) + 1, np.zeros((0, 3), dtype=np.int64))
    anchors = np.stack((np.arange(rows), np.arange(rows)), 1)
    keys = Keys(keys.passages, keys.pairs, np.column_stack((keys.pairs, keys.passages)))
    assert torch.allclose(loss(same, same, keys, anchors, blocks=("P",)), torch.tensor(math.log(rows)).double())
    both = loss(same, same, keys, anchors, blocks=("P", "IQ"), positive_counted="each_block")
    assert torch.allclose(both, torch.tensor(math.log(2 * rows)).double())


def record():
    """One InF-IR record: three tuples over two instructions and two queries, a perfect model at temperature 0.01."""
    return Group(
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


def test_unmasked_duplicates_leave_the_floor_that_the_paper_has():
    positive, hundred = torch.full((3,), 100.0).double(), torch.tensor(100.0).double()
    again = torch.where(torch.tensor([[True], [False], [True]]), hundred, -hundred)
    blocks = {
        "P": (torch.full((3, 2), -100.0), torch.ones(3, 2, dtype=torch.bool)),
        "I": (again, torch.ones(3, 1, dtype=torch.bool)),
    }
    only_i = row_losses(positive, blocks, LossSettings(blocks=("I",)))
    assert only_i.tolist() == pytest.approx([math.log(2), 0, math.log(2)], abs=1e-6)
    both = row_losses(positive, blocks, LossSettings(blocks=("P", "I"), positive_counted="each_block"))
    assert both.mean().item() == pytest.approx(0.963, abs=5e-4)


def test_instruction_negatives_are_the_other_instructions_on_the_same_query_only():
    batch = collate([record()], TEMPLATE)
    masks = negatives(batch.anchors, batch.keys)
    assert masks["I"].tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    assert masks["IQ"].tolist() == [[False, True, True], [True, False, True], [True, True, False]]
    assert masks["Q"].tolist() == [[False, False, True], [False, False, False], [True, False, False]]
    assert masks["P"].tolist() == [[False, True, True], [True, False, True], [True, True, False]]


def dual(query, number, bare=True):
    rows = [("keep", query), ("turn", query)] + [("", query)] * bare
    relevance = [[1, -1], [-1, 1], [1, 1]][: len(rows)]
    return Group(
        topic_id=f"t{number}", seed_id=f"s{number}", keys=((1,), (2,)), intents=tuple(rows),
        passages=(("", f"a{number}"), ("", f"b{number}")), relevance=np.array(relevance, dtype=np.int8),
    )  # fmt: skip


def test_a_bare_query_never_pushes_away_what_any_instruction_on_it_wants():
    groups = [dual("q", 0), dual("Q ", 1, bare=False), dual("other", 2)]
    batch = collate(groups, TEMPLATE)
    masks = negatives(batch.anchors, batch.keys)
    bare = np.flatnonzero((batch.keys.pairs[batch.anchors[:, 0]] == (0, key_of("q"))).all(1))
    assert len(bare) == 2
    allowed = {batch.passages[column] for column in np.flatnonzero(masks["P"][bare].any(0))}
    assert allowed == {"a2", "b2"}


def test_texts_that_occur_twice_are_encoded_once_and_pushed_away_once():
    batch = collate([dual("q", 0), dual("q", 0), dual("Q", 0)], TEMPLATE)
    assert batch.passages == ("a0", "b0")
    assert batch.pairs == ("q keep", "q turn", "q")
    assert len(batch.anchors) == 4
    twice = Keys(
        *(np.concatenate((part, part)) for part in (batch.keys.passages, batch.keys.pairs, batch.keys.relevant))
    )
    masks, doubled = negatives(batch.anchors, batch.keys), negatives(batch.anchors, twice)
    for name, mask in masks.items():
        assert np.array_equal(doubled[name], np.concatenate((mask, np.zeros_like(mask)), 1))


@given(st.permutations(range(4)))
def test_the_order_of_topics_changes_no_loss(order):
    groups = [dual(f"q{number % 3}", number) for number in range(4)]
    vectors = dict(zip("abcdefgh", at_angles(*range(0, 360, 45)), strict=True))

    def total(batch):
        passages = torch.stack([vectors["abcd"[int(text[1])]] for text in batch.passages])
        pairs = torch.stack([vectors["efgh"[len(text) % 4]] for text in batch.pairs])
        return loss(passages, pairs, batch.keys, batch.anchors).sum().item()

    assert total(collate([groups[i] for i in order], TEMPLATE)) == pytest.approx(total(collate(groups, TEMPLATE)))


def test_logits_stay_in_single_precision_under_autocast():
    anchors, columns = torch.tensor([[0.8, 0.6]]), torch.tensor([[1.0, 0.0], [0.999, 0.0447]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = block_scores(anchors, columns, 0.01)
    assert scores.dtype == torch.float32
    assert scores[0].tolist() == pytest.approx([80.0, 82.602], abs=1e-3)
