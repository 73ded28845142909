"""Topics of several runs as one training set: chosen by SQL, in one split, under one digest."""

from dataclasses import replace

import pytest

from foil.datasets_out.commits.snapshot import take_snapshot
from foil.datasets_out.training.sources import SourceSettings, digest_of, pin_source
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.errors import UsageError
from tests.support.trainer_world import commit, open_view, topic

SHARES = SplitSettings(heldout_share=0.3, dev_share=0.3)


@pytest.fixture
def runs(tmp_path):
    """Run `a` has 30 topics; run `b` has 30 others, every third of them of the recipe `other`."""
    b = [replace(topic(number), recipe="other" if number % 3 == 0 else "test") for number in range(30, 60)]
    return commit(tmp_path / "a", [topic(number) for number in range(30)]), commit(tmp_path / "b", b)


def pinned(*settings):
    return [pin_source(SourceSettings.model_validate(each)) for each in settings]


def ids(view, split="train"):
    return {group.topic_id for group in view.read_all(split)}


def test_two_runs_are_read_as_the_one_that_holds_both(runs, tmp_path):
    both = TrainingView(pinned(*({"run": run} for run in runs)), SHARES)
    one = open_view(commit(tmp_path / "one", [topic(number) for number in range(60)]), **SHARES.model_dump())
    assert {split: ids(both, split) for split in both.facts} == {split: ids(one, split) for split in one.facts}
    members = both.members("train")
    assert [{both.read("train", [at])[0].topic_id < "topic-030" for at in topics} for topics in members] == [
        {True},
        {False},
    ]
    assert sorted(at for topics in members for at in topics) == list(range(len(both.partitions("train"))))


def test_a_text_held_out_in_one_run_is_trained_on_in_none(tmp_path):
    held_out = next(n for n in range(60) if SHARES.split_of(f"seed-{n}") == "heldout")
    trained = next(n for n in range(60) if SHARES.split_of(f"seed-{n}") == "train")
    first = commit(tmp_path / "first", [topic(held_out, text="one text of two runs")])
    second = commit(tmp_path / "second", [topic(trained, text="One text of two  runs")])
    for order in ([first, second], [second, first]):
        view = TrainingView(pinned(*({"run": run} for run in order)), SHARES)
        assert (ids(view), ids(view, "heldout")) == (set(), {f"topic-{held_out:03d}"})


def test_a_protected_run_gives_no_topics_and_its_held_out_texts_are_not_trained_on(tmp_path):
    held_out = next(n for n in range(60) if SHARES.split_of(f"seed-{n}") == "heldout")
    trained = [n for n in range(60) if SHARES.split_of(f"seed-{n}") == "train"][:2]
    apart = pinned({"run": commit(tmp_path / "apart", [topic(held_out, text="one text of two runs")])})
    topics = [topic(trained[0], text="One text of two  runs"), topic(trained[1])]
    sources = pinned({"run": commit(tmp_path / "run", topics)})
    alone, view = TrainingView(sources, SHARES), TrainingView(sources, SHARES, apart)
    assert (ids(alone), ids(view)) == ({f"topic-{n:03d}" for n in trained}, {f"topic-{trained[1]:03d}"})
    assert ids(view, "heldout") == set()
    assert (alone.digest, view.digest) == (digest_of(sources), digest_of(sources, apart))
    assert len({view.digest, alone.digest, digest_of([*sources, *apart])}) == 3


def test_topics_are_chosen_by_sql_and_by_recipe(runs):
    _, b = runs
    everything = SplitSettings(heldout_share=0, dev_share=0)
    by_recipe = TrainingView(pinned({"run": b, "recipes": ["other"]}), everything)
    assert ids(by_recipe) == {f"topic-{number:03d}" for number in range(30, 60, 3)}
    both = {"run": b, "recipes": ["other"], "where": "topic_id < 'topic-040' OR topic_id = 'topic-057'"}
    assert ids(TrainingView(pinned(both), everything)) == {f"topic-{number:03d}" for number in (30, 33, 36, 39, 57)}


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"where": "corpus = 'elsewhere'"}, "no accepted topic of .* is chosen by"),
        ({"where": "colour = 'red'"}, "colour"),
        ({"where": "true); DROP TABLE topics; --"}, "syntax|statements"),
        ({"recipes": ["it's none"]}, "no accepted topic"),
        ({"snapshot": "v7"}, "has no snapshot 'v7'"),
    ],
)
def test_a_choice_that_is_wrong_or_empty_is_told(runs, choice, told):
    with pytest.raises(UsageError, match=told):
        pinned({"run": runs[0], **choice})


def test_the_digest_is_of_the_content_and_the_choice(runs):
    a, b = runs
    take_snapshot(a, "named")
    whole, named = pinned({"run": a}), pinned({"run": a, "snapshot": "named"})
    assert digest_of(whole) == digest_of(named) == whole[0].snapshot.digest
    chosen = pinned({"run": a, "recipes": ["test"]})
    mixed, turned = pinned({"run": a}, {"run": b}), pinned({"run": b}, {"run": a})
    assert len({digest_of(sources) for sources in (whole, chosen, mixed, turned)}) == 4
    assert digest_of(mixed) == digest_of(pinned({"run": a}, {"run": b}))


def test_licences_are_those_of_the_chosen_topics(tmp_path):
    topics = [replace(topic(0), licence="CC0-1.0", redistributable=True), replace(topic(1), licence="mine")]
    run = commit(tmp_path, topics)
    view = TrainingView(pinned({"run": run, "where": "topic_id = 'topic-000'"}), SplitSettings(heldout_share=0))
    assert view.licences() == {"CC0-1.0, may be passed on": 1}
