"""Cross-attention over tokens: equation 4 by hand, what padding and neighbours may not do, and why not over vectors."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.errors import CorruptDataError
from foil.trainer.model.cross_attention import CrossAttention

torch.set_num_threads(1)

DIRECTIONS = ["instruction_queries", "query_queries"]
KINDS = [(d, r, p) for d in DIRECTIONS for r in (False, True) for p in ("mean", "last")]


def states(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def learnt(*kind, dim=8, seed=0):
    """A module whose matrices are no longer the identity."""
    module = CrossAttention(dim, *kind)
    for number, matrix in enumerate(module.parameters()):
        matrix.data += 0.3 * states(dim, dim, seed=seed + number)
    return module


def one(module, instruction, query):
    """The vector of one pair without padding, as the equation has it, a row at a time."""
    w_i, w_q1, w_q2 = (matrix.weight.T for matrix in (module.w_i, module.w_q1, module.w_q2))
    asking, seen, left, right = instruction, query, w_i, w_q1
    if module.direction == "query_queries":
        asking, seen, left, right = query, instruction, w_q1, w_i
    rows = []
    for row in asking:
        scores = torch.stack([(row @ left) @ (key @ right) / math.sqrt(len(row)) for key in seen])
        rows.append(sum(share * (key @ w_q2) for share, key in zip(scores.softmax(0), seen, strict=True)))
    mixed = torch.stack(rows)
    pooled = mixed.mean(0) if module.pooling == "mean" else mixed[-1]
    if module.residual:
        pooled = pooled + (query.mean(0) if module.pooling == "mean" else query[-1])
    return pooled / pooled.norm()


def padded(texts, left=False):
    """Texts as one tensor with rubbish in its padding, and the mask."""
    width = max(map(len, texts)) + 2
    table, mask = 100 * states(len(texts), width, texts[0].shape[1], seed=9), torch.zeros(len(texts), width)
    for row, text in enumerate(texts):
        place = slice(width - len(text), width) if left else slice(0, len(text))
        table[row, place], mask[row, place] = text, 1
    return table, mask


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=10)
@given(lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4), left=st.booleans())
def test_every_pair_is_the_equation_whatever_its_padding_and_its_neighbours(kind, lengths, left):
    module = learnt(*kind)
    instructions = [states(i, 8, seed=n) for n, (i, _) in enumerate(lengths)]
    queries = [states(q, 8, seed=50 + n) for n, (_, q) in enumerate(lengths)]
    vectors = module(*padded(instructions, left), *padded(queries, left))
    expected = torch.stack([one(module, *pair) for pair in zip(instructions, queries, strict=True)])
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(lengths)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_instruction_leaves_the_query_as_it_is(kind):
    module = learnt(*kind)
    query, full = states(2, 5, 8), torch.ones(2, 5)
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    own = query.mean(1) if kind[2] == "mean" else query[:, -1]
    own = own / own.norm(dim=1, keepdim=True)
    mixed = module(states(2, 3, 8, seed=1), mask, query, full)
    torch.testing.assert_close(mixed[1], own[1])
    assert (mixed[0] - own[0]).norm() > 0.01
    torch.testing.assert_close(module(torch.empty(2, 0, 8), torch.empty(2, 0), query, full), own)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_beside_an_empty_instruction(kind):
    module = learnt(*kind)
    instruction, query = states(2, 3, 8, seed=1).requires_grad_(), states(2, 5, 8).requires_grad_()
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    module(instruction, mask, query, torch.ones(2, 5))[:, 0].sum().backward()
    found = [value.grad for value in (*module.parameters(), instruction, query)]
    assert all(torch.isfinite(grad).all() and grad.abs().sum() > 0 for grad in found)
    assert instruction.grad[1].abs().sum() == 0
    assert instruction.grad[0, 2].abs().sum() == 0


def test_over_pooled_vectors_the_instruction_would_decide_nothing():
    module, mask = learnt("instruction_queries", False, "mean"), torch.ones(1, 1)
    query = states(1, 6, 8)
    pooled = query.mean(1, keepdim=True)
    one_way, other_way = (module(states(1, 1, 8, seed=seed), mask, pooled, mask) for seed in (1, 2))
    assert torch.equal(one_way, other_way)
    one_way, other_way = (module(states(1, 1, 8, seed=seed), mask, query, torch.ones(1, 6)) for seed in (1, 2))
    assert (one_way - other_way).norm() > 0.01


def test_the_matrices_begin_as_identities():
    module = CrossAttention(8)
    assert all(torch.equal(matrix, torch.eye(8)) for matrix in module.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_module_comes_back_equal(kind, tmp_path):
    module = learnt(*kind)
    module.save(tmp_path / "cross")
    again = CrossAttention.load(tmp_path / "cross")
    given = (*padded([states(3, 8)]), *padded([states(4, 8, seed=1)]))
    assert torch.equal(module(*given), again(*given))
    assert again.facts == module.facts


def test_a_damaged_module_is_refused(tmp_path):
    CrossAttention(8).save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"dim": 4}))
    with pytest.raises(CorruptDataError, match=r"cross-attention in .* does not read"):
        CrossAttention.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"rot")
    with pytest.raises(CorruptDataError, match=r"cross-attention in .* does not read"):
        CrossAttention.load(tmp_path)


def test_bfloat16_autocast_gives_unit_vectors_in_float32():
    module = CrossAttention(8)
    given = (*padded([states(3, 8)]), *padded([states(4, 8, seed=1)]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        vectors = module(*given)
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors, module(*given), atol=0.03, rtol=0)
