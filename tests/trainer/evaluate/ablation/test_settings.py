"""The cells that factors make, and what is refused before anything is trained."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.trainer.evaluate.ablation import settings as settings_module
from foil.trainer.evaluate.ablation.settings import AblationSettings, cells_of, check_equal_steps

LOSS = {"both": {}, "passages": {"train.loss.blocks": ["P"]}}
RATE = {"as it is": {}, "low": {"train.schedule.learning_rate": 1e-5}, "high": {"train.schedule.learning_rate": 0.01}}


def settings(factors, **changes):
    return AblationSettings(job="job.yaml", out="out", factors=factors, **changes)


def test_the_examples_hold():
    assert doctest.testmod(settings_module).failed == 0


def test_a_grid_has_every_combination_and_its_first_cell_is_the_baseline():
    cells = cells_of(settings({"loss": LOSS, "rate": RATE}))
    assert [cell.name for cell in cells] == [
        "baseline", "rate=low", "rate=high", "loss=passages", "loss=passages, rate=low", "loss=passages, rate=high",
    ]  # fmt: skip
    assert cells[0].overrides == ()
    assert cells[4].overrides == ('train.loss.blocks=["P"]', "train.schedule.learning_rate=1e-05")
    assert cells[4].levels == {"loss": "passages", "rate": "low"}


def test_one_at_a_time_changes_one_factor_in_each_cell():
    cells = cells_of(settings({"loss": LOSS, "rate": RATE}, one_at_a_time=True))
    assert [cell.name for cell in cells] == ["baseline", "loss=passages", "rate=low", "rate=high"]


@given(st.lists(st.integers(2, 4), min_size=1, max_size=3), st.booleans())
def test_names_differ_and_their_number_is_that_of_the_design(sizes, one_at_a_time):
    factors = {
        f"factor{place}": {f"level{level}": {f"train.key{place}": level} for level in range(size)}
        for place, size in enumerate(sizes)
    }
    names = [cell.name for cell in cells_of(settings(factors, one_at_a_time=one_at_a_time))]
    product = 1
    for size in sizes:
        product *= size
    assert len(set(names)) == len(names) == (1 + sum(size - 1 for size in sizes) if one_at_a_time else product)


@pytest.mark.parametrize(
    ("factors", "told"),
    [
        ({"loss": {"both": {}}}, "the factor 'loss' has 1 levels"),
        ({"loss": {"a": {}, "b": {"limits.seeds": 3}}}, "sets 'limits.seeds'; a factor sets keys below `train`"),
        ({"loss": {"a": {}, "b": {"train.schedule.seed": 3}}}, "which is the same in all cells"),
        ({"loss": {"a": {}, "b": {"train.schedule": {"seed": 3}}}}, "which is the same in all cells"),
        ({"loss": {"a": {}, "b": {"train.split.dev_share": 0.5}}}, "which is the same in all cells"),
        ({"one": LOSS, "two": {"a": {}, "b": {"train.loss": {}}}}, "'one' and 'two' both set train.loss.blocks"),
        ({f"f{n}": {"a": {}, "b": {f"train.x{n}": 1}} for n in range(11)}, "the grid has 2,048 cells"),
    ],
)
def test_factors_that_compare_nothing_or_set_what_stays_equal_are_refused(factors, told):
    with pytest.raises(UsageError, match=told):
        cells_of(settings(factors))


def test_cells_train_for_equal_steps():
    check_equal_steps([("baseline", 6), ("other", 6)])
    with pytest.raises(UsageError, match="the cell other trains for 7 steps, and baseline for 6; set `steps`"):
        check_equal_steps([("baseline", 6), ("other", 7)])
    with pytest.raises(UsageError, match="trains for epochs"):
        check_equal_steps([("baseline", None), ("other", None)])
