"""Dual-View's mixes: equal in size, different in rows alone, and runs like any other."""

from collections import Counter
from dataclasses import replace

import pytest

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted
from foil.datasets_out.training.row_mixes import write_mixes
from foil.engine.errors import UsageError
from foil.validators.checks.shape import ShapeCheck, ShapeSettings
from tests.support.topics.matrices import made, matrix
from tests.support.topics.trades import trade_seeds
from tests.support.trainer_world import open_view


@pytest.fixture(scope="module")
def mixes(tmp_path_factory):
    """The run and its mixes: nine topics with both views, one rejected, one with a single view."""
    out = tmp_path_factory.mktemp("run")
    topics = [made("dual_view", seed) for seed in trade_seeds()[:10]]
    single = made("promptriever", trade_seeds()[10])
    log = CommitLog(out)
    log.open("f" * 64, {})
    log.commit(0, [*topics[:6], replace(topics[6], status="rejected", reason="leak")], {})
    log.commit(1, [*topics[7:], single], {})
    return load_snapshot(out, None), write_mixes(load_snapshot(out, None), out.parent / f"{out.name}-mixes")


def test_pairs_of_mixes_are_of_equal_size(mixes):
    _, written = mixes
    assert {name: (mix.rows("topics"), mix.rows("intents")) for name, mix in written.items()} == {
        "ins_orig": (8, 8),
        "ins_dv": (4, 8),
        "all_orig": (8, 16),
        "all_dv": (8, 16),
    }
    for mix in written.values():
        mix.check()


def test_a_topic_keeps_its_rows_and_each_row_the_negatives_of_the_query(mixes):
    source, written = mixes
    whole = {topic.id: topic for topic in read_accepted(source)}
    roles = {"ins_orig": ["instructed"], "ins_dv": ["instructed", "dual"], "all_orig": ["original", "instructed"]}
    for name, due in roles.items():
        for topic in read_accepted(written[name]):
            assert [intent.role for intent in topic.intents] == due
            assert all(matrix(topic)[role]["seed_negative"] == {-1} for role in due)
            assert matrix(topic)["instructed"]["seed_positive"] == {1}
            assert (topic.seed_id, topic.attributes["mix"]) == (whole[topic.id].seed_id, name)


def test_a_mix_is_sound_and_can_be_trained_on(mixes):
    _, written = mixes
    for name, mix in written.items():
        for topic in read_accepted(mix):
            _, verdicts = ShapeCheck(ShapeSettings())(topic)
            assert {verdict.outcome for verdict in verdicts} == {"pass"}
        view = open_view(mix.out, heldout_share=0, dev_share=0)
        groups = view.read_all("train")
        rows = Counter(instruction == "" for group in groups for instruction, _ in group.intents)
        assert sum(rows.values()) == mix.rows("intents")
        assert (rows[True] > 0) is (name == "all_orig")


def test_the_same_run_gives_the_same_mixes(mixes, tmp_path):
    source, written = mixes
    assert {n: s.digest for n, s in write_mixes(source, tmp_path).items()} == {n: s.digest for n, s in written.items()}
    assert write_mixes(source, tmp_path).keys() == written.keys()


def test_a_run_without_two_views_is_refused(tmp_path):
    log = CommitLog(tmp_path / "run")
    log.open("f" * 64, {})
    log.commit(0, [made("promptriever", trade_seeds()[0])], {})
    with pytest.raises(UsageError, match="fewer than two accepted topics with both views"):
        write_mixes(load_snapshot(tmp_path / "run", None), tmp_path / "mixes")
