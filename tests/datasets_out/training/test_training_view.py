"""Committed topics as groups: nothing held out is trained on, and no changed byte is read."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest

from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions
from foil.datasets_out.training import training_view
from foil.datasets_out.training.training_view import SPLITS, SplitSettings
from foil.engine.errors import CorruptDataError
from foil.engine.storage.mirrors import mirror_of
from foil.engine.storage.object_store import ObjectStore
from foil.engine.topic import Passage, passage_id
from tests.support.trainer_world import YEAR, commit, open_view, topic

SHARES = {"heldout_share": 0.3, "dev_share": 0.3}


def split_of(number):
    return SplitSettings(**SHARES).split_of(f"seed-{number}")


def numbers_in(split):
    return [number for number in range(60) if split_of(number) == split]


def texts(view, split):
    return {text for group in view.read_all(split) for _, text in group.passages}


def test_a_group_is_its_topic(tmp_path):
    view = open_view(commit(tmp_path, [topic(3)]), heldout_share=0, dev_share=0)
    (group,) = view.read("train", [0])
    expected = topic(3)
    assert group.topic_id == expected.id
    assert group.intents == tuple((intent.instruction, intent.query) for intent in expected.intents)
    assert [text for _, text in group.passages] == [passage.text for passage in expected.passages]
    assert group.relevance.tolist() == [[1, 1, -1], [1, -1, -1], [-1, 1, -1]]
    assert group.intents[1][0] == YEAR


def test_every_topic_is_in_one_split_and_reads_back_in_the_order_asked(tmp_path):
    view = open_view(commit(tmp_path, [topic(number) for number in range(60)]), **SHARES)
    ids = {split: [group.topic_id for group in view.read_all(split)] for split in SPLITS}
    assert {split: len(names) for split, names in ids.items()} == {s: len(numbers_in(s)) for s in SPLITS}
    assert [group.topic_id for group in view.read("train", [5, 0, 5])] == [ids["train"][i] for i in (5, 0, 5)]
    assert view.partitions("train").tolist() == [number // 8 for number in numbers_in("train")]


def test_rejected_topics_are_not_seen(tmp_path):
    topics = [topic(0), replace(topic(1), status="rejected", reason="leak"), topic(2)]
    view = open_view(commit(tmp_path, topics), heldout_share=0, dev_share=0)
    assert [group.topic_id for group in view.read_all("train")] == ["topic-000", "topic-002"]


@pytest.mark.parametrize("kind", ["equal text", "same parent", "edit of a held-out passage"])
@pytest.mark.parametrize("protected", ["heldout", "dev"])
def test_a_training_topic_that_shares_a_needed_passage_is_dropped(tmp_path, kind, protected):
    kept, lost = numbers_in(protected)[0], numbers_in("train")[:2]
    parent = passage_id("", "a text that both were made of")
    topics = {
        "equal text": [topic(kept, text="One text, of two  topics"), topic(lost[0], text="one text, of two topics")],
        "same parent": [topic(kept, edited_from=parent), topic(lost[0], edited_from=parent)],
        "edit of a held-out passage": [topic(kept), topic(lost[0], edited_from=topic(kept).passages[0].id)],
    }[kind]
    view = open_view(commit(tmp_path, [*topics, topic(lost[1])]), **SHARES)
    assert [group.topic_id for group in view.read_all("train")] == [f"topic-{lost[1]:03d}"]
    assert len(view.read_all(protected)) == 1
    assert view.facts["train"] == {"topics_kept": 1, "topics_dropped": 1, "passages_removed": 1, "intents_dropped": 2}


def test_a_shared_distractor_is_removed_and_its_topic_kept(tmp_path):
    heldout, trained = topic(numbers_in("heldout")[0]), topic(numbers_in("train")[0])
    common = Passage("somebody else's passage", "distractor")
    trained = replace(trained, passages=(*trained.passages, common))
    heldout = replace(heldout, passages=(*heldout.passages, common))
    view = open_view(commit(tmp_path, [heldout, trained]), **SHARES)
    (group,) = view.read_all("train")
    assert [text for _, text in group.passages] == [passage.text for passage in trained.passages[:3]]
    assert common.text in texts(view, "heldout")
    assert view.facts["train"]["passages_removed"] == 1


def test_a_query_that_a_held_out_topic_asks_is_not_trained_on(tmp_path):
    heldout, trained = topic(numbers_in("heldout")[0]), topic(numbers_in("train")[0])
    same = tuple(replace(intent, query=heldout.query.upper()) for intent in trained.intents)
    view = open_view(commit(tmp_path, [heldout, replace(trained, intents=same)]), **SHARES)
    assert view.read_all("train") == []
    assert view.facts["train"]["topics_dropped"] == 1


def test_a_changed_byte_stops_the_view_before_anything_is_read(tmp_path):
    out = commit(tmp_path, [topic(0)])
    path = next((out / "data" / "passages").glob("*.parquet"))
    path.chmod(0o600)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptDataError, match="passages"):
        open_view(out)


def test_a_topic_that_says_so_is_held_out_and_its_texts_are_protected(tmp_path):
    topics = [topic(number) for number in range(4)]
    topics[2] = replace(topics[2], attributes={"split": "heldout"})
    view = open_view(commit(tmp_path, topics), heldout_share=0, dev_share=0)
    assert [group.topic_id for group in view.read_all("heldout")] == [topics[2].id]
    assert len(view.read_all("train")) == 3
    assert texts(view, "heldout").isdisjoint(texts(view, "train"))


def test_a_view_of_a_bucket_fetches_what_it_reads_once_and_again_where_a_copy_is_gone(
    bucket_url, tmp_path, monkeypatch
):
    topics, chunks, fetched = [topic(number) for number in range(60)], ObjectStore._chunks, Counter()

    def counted(store, key):
        fetched[key] += 1
        return chunks(store, key)

    monkeypatch.setattr(ObjectStore, "_chunks", counted)
    local = open_view(commit(tmp_path / "local", topics), **SHARES)
    view = open_view(commit(mirror_of(bucket_url), topics), **SHARES)
    assert set(fetched.values()) == {1}
    assert {key.split("/")[1] for key in fetched} == {"topics", "intents", "passages", "judgments"}
    shutil.rmtree(tmp_path / "cache" / "objects")
    training_view._read.cache_clear()
    for split in SPLITS:
        found, wanted = view.read_all(split), local.read_all(split)
        assert [replace(each, relevance=None) for each in found] == [replace(each, relevance=None) for each in wanted]
        assert [each.relevance.tolist() for each in found] == [each.relevance.tolist() for each in wanted]
    assert set(fetched.values()) == {2}


def test_an_export_of_a_bucket_runs_ahead_of_its_reader_by_a_few_partitions(bucket_url, monkeypatch):
    chunks, fetched = ObjectStore._chunks, set()

    def counted(store, key):
        fetched.update({key} if "/topics/" in key else ())
        return chunks(store, key)

    monkeypatch.setattr(ObjectStore, "_chunks", counted)
    out = commit(mirror_of(bucket_url), [topic(number) for number in range(240)])
    reading = read_partitions(load_snapshot(out, None))
    assert len(next(reading)) == 8
    assert len(fetched) <= 10
    assert sum(map(len, reading)) == 232
    assert len(fetched) == 30
