"""Which topics a page shows, and how it writes small amounts of money."""

from collections import Counter

import pytest

from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.desk.pages import cell
from foil.datasets_out.desk.topics import sample_topics
from tests.support.topics.voted_run import good, lost, make


def test_each_reason_is_shown_before_any_is_shown_again(tmp_path):
    ask = make(tmp_path, [*good(40), *lost(60, "common"), *lost(5, "rare"), *lost(1, "single")])
    shown = [topic.reason for topic in sample_topics(load_snapshot(tmp_path, None), ask, 20, 50)]
    assert shown[:4] == ["", "common", "rare", "single"]
    assert Counter(shown) == {"": 20, "common": 24, "rare": 5, "single": 1}


@pytest.mark.parametrize(("kept", "dropped"), [(60, 10), (3, 60), (60, 0), (0, 60)])
def test_where_few_topics_are_of_one_kind_the_other_fills_the_sample(kept, dropped, tmp_path):
    ask = make(tmp_path, [*good(kept), *lost(dropped, "common")])
    shown = sample_topics(load_snapshot(tmp_path, None), ask, 20, 50)
    assert len(shown) == 50
    assert sum(topic.status == "accepted" for topic in shown) == min(kept, max(20, 50 - dropped))


@pytest.mark.parametrize(
    ("dollars", "words"), [(0.0, "0.00"), (0.00001234, "0.0000123"), (0.0123, "0.0123"), (1234.5, "1,234.50")]
)
def test_dollars_have_digits_enough(dollars, words):
    assert cell(dollars, "cost_usd") == words
