"""The contamination index against the naive matcher, on real sets, and as validator and screen."""

import json
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from foil.engine.errors import UsageError
from foil.engine.topic import Intent, Judgment, Passage, Seed, Topic, intent_id
from foil.validators.overlap.contamination import Contamination, ContaminationSettings, index_digest, open_index
from foil.validators.overlap.evaluation_sets import EvaluationSet
from foil.validators.overlap.ngram_index import Item, NgramIndex
from foil.validators.overlap.word_runs import hash_runs, normalise, read_batch

N = 5
WORDS = st.sampled_from(
    ["a", "B", "ab", "é", "É", "don't", "straße", "STRASSE", "x" * 70, "x" * 71, "1", "2.5", "—", "_"]
)
TEXTS = st.lists(WORDS, max_size=14).map(" ".join)


def words(text: str) -> list[str]:
    return normalise(text).decode().split()


def runs(sequence: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(sequence[i : i + n]) for i in range(len(sequence) - n + 1)}


def naive(items: list[str], texts: list[str], least: list[int]) -> set[tuple[int, str]]:
    """Which text matches which item, by the definition in `NgramIndex.find`."""
    found = set()
    for t, text in enumerate(map(words, texts)):
        for i, item in enumerate(map(words, items)):
            overlap = runs(text, N) & runs(item, N)
            whole = len(item) < N and tuple(item) in runs(text, len(item)) and len(item) >= least[t]
            if item and (overlap or whole or text == item):
                found.add((t, str(i)))
    return found


def longest_shared(left: list[str], right: list[str]) -> int:
    return max(n for n in range(len(left) + 1) if n == 0 or runs(left, n) & runs(right, n))


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=6), st.lists(st.tuples(TEXTS, st.integers(1, 7)), max_size=6))
def test_the_index_finds_exactly_what_the_naive_matcher_finds(items, texts_and_least):
    texts, least = [t for t, _ in texts_and_least], [n for _, n in texts_and_least]
    index = NgramIndex.build([Item("s", str(i), text) for i, text in enumerate(items)], N)
    hits = index.find(texts, least)
    assert {(hit.text, hit.item) for hit in hits} == naive(items, texts, least)
    assert len({(hit.text, hit.item) for hit in hits}) == len(hits)
    for hit in hits:
        left, right, span = words(texts[hit.text]), words(items[int(hit.item)]), hit.span.split()
        assert hit.words == len(span)
        assert hit.item_words == len(right)
        assert tuple(span) in runs(left, len(span)) & runs(right, len(span))
        if len(right) >= N:
            assert len(span) == longest_shared(left, right)


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=8), st.data())
def test_hits_do_not_depend_on_what_else_is_in_the_batch(texts, data):
    index = NgramIndex.build(
        [Item("s", str(i), text) for i, text in enumerate(data.draw(st.lists(TEXTS, max_size=5)))], N
    )
    together = index.find(texts, [2] * len(texts))
    alone = [hit._replace(text=i) for i, text in enumerate(texts) for hit in index.find([text], [2])]
    assert sorted(together) == sorted(alone)


def test_blocks_and_batches_do_not_hide_a_run_that_lies_across_their_edges(monkeypatch):
    item = "one two three four five six seven"
    index = NgramIndex.build([Item("s", "it", item)], N)
    monkeypatch.setattr("foil.validators.overlap.ngram_index._BLOCK_WORDS", 7)
    monkeypatch.setattr("foil.validators.overlap.word_runs._BATCH_BYTES", 60)
    for before in range(20):
        texts = ["filler", " ".join(["pad"] * before + [item, "pad"]), "filler words of another text"]
        assert [(hit.text, hit.words) for hit in index.find(texts, [3, 3, 3])] == [(1, 7)]


def test_words_that_differ_only_where_the_hash_does_not_look_are_told_apart():
    start = "y" * 64
    index = NgramIndex.build([Item("s", "it", f"a b c d {start}1 e f")], N)
    assert index.find([f"a b c d {start}2 e f"], [1]) == []
    assert index.find([f"a b c d {start}2 c d {start}1 e f a b c d {start}1 e f"], [1])[0].words == 7


def test_normalising_folds_case_width_and_marks_and_keeps_letters_apart():
    assert normalise("Janet's").split() == normalise("JANET’S").split() == [b"janet", b"s"]
    assert normalise("Ｆｕｌｌ ﬁne STRASSE").split() == normalise("full fine straße").split()
    assert normalise("naïve_snake\x01case").split() == ["naïve".encode(), b"snake", b"case"]
    assert normalise("lone \ud800 surrogate").split()[0] == b"lone"


@given(st.text(max_size=40))
def test_normalising_ascii_fast_agrees_with_the_way_of_all_other_text(text):
    through_unicode = normalise("é " + text).split()[1:]
    assert normalise(" " + text).split() == through_unicode


def test_hashes_of_runs_follow_from_their_words_alone():
    left, right = read_batch([b"p q r s t"]), read_batch([b"z z", b"q r s", b"q rs"])
    of_left, of_right = (hash_runs(batch.hashes, len(batch.hashes), 3) for batch in (left, right))
    at = int(right.first[1])
    assert of_left[2, 1] == of_right[2, at]
    assert len(set(of_right.ravel().tolist())) > 3 * 6 - 4, "a few words repeat, no others collide"


def test_of_a_run_that_many_items_share_the_first_32_are_reported():
    index = NgramIndex.build([Item("s", str(i), f"the same five words here {i}") for i in range(100)], N)
    assert [hit.item for hit in index.find(["the same five words here"], [5])] == [str(i) for i in range(32)]


def test_a_saved_index_is_mapped_and_finds_the_same(tmp_path: Path):
    index = NgramIndex.build([Item("s", "id ü", "eins zwei drei vier fünf sechs"), Item("t", "2", "short one")], N)
    index.save(tmp_path / "index")
    index.save(tmp_path / "index")
    loaded = NgramIndex.load(tmp_path / "index")
    texts = ["null eins zwei drei vier fünf", "a short one", "short one"]
    assert isinstance(loaded.hashes, np.memmap)
    assert loaded.find(texts, [2, 3, 3]) == index.find(texts, [2, 3, 3])
    assert [hit.item for hit in loaded.find(texts, [2, 3, 3])] == ["id ü", "2"]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_an_index_without_items_finds_nothing():
    assert NgramIndex.build([], N).find(["some words that are here"], [1]) == []


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_format_gives_its_items(tmp_path: Path):
    jsonl = write(
        tmp_path / "a.jsonl", '{"id": 7, "q": "first", "a": ["x", "y"]}\n\n{"id": 8, "q": "second", "a": []}\n'
    )
    tsv = write(tmp_path / "b.tsv", "12\twhat is love\n13\ttabs\tinside\n")
    trec = write(
        tmp_path / "c.txt",
        "<top>\n<num> Number: 301\n<title> Organized Crime\n<desc> Description:\nIdentify it.\n</top>\n"
        "<top><num>602</num><title>\nCzech troops\n<narr>\nRelevant if < 5.\n</top>\n",
    )
    text = write(tmp_path / "d.txt", "one line\nanother\n")

    def items(path: Path, form: str, **more: object) -> list[tuple[str, str]]:
        of = EvaluationSet.model_validate({"name": "s", "path": path, "format": form, **more})
        return [(item.id, item.text) for item in of.items()]

    assert items(jsonl, "jsonl", fields=["q", "a"], id_field="id") == [
        ("7", "first"),
        ("7", "x"),
        ("7", "y"),
        ("8", "second"),
    ]
    assert items(jsonl, "jsonl", fields=["q"]) == [("1", "first"), ("3", "second")]
    assert items(tsv, "tsv") == [("12", "what is love"), ("13", "tabs\tinside")]
    assert items(trec, "trec", fields=["title"]) == [("301", "Organized Crime"), ("602", "Czech troops")]
    assert ("301", "Identify it.") in items(trec, "trec")
    assert items(text, "text") == [("1", "one line"), ("2", "another")]


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        ("tsv", "1 no tab\n", r"set:1: evaluation set 's' expects an id, a tab and a text"),
        ("jsonl", '{"q": "x"}\n{"q": 3}\n', r"set:2: .*a string or a list of strings under 'q'"),
        ("jsonl", '{"p": "x"}\n', r"set:1: .*the key 'q', found 'p'"),
        ("jsonl", "[1]\n", r"set:1: .*a JSON object"),
        ("jsonl", "{broken\n", r"set:1: .*a JSON object"),
        ("text", "\n \n", r"holds no strings"),
        ("trec", "<top><title> no number </top>", r"set:1: .*topic"),
    ],
)
def test_a_broken_set_is_refused_with_its_place(tmp_path: Path, form: str, content: str, message: str):
    path = write(tmp_path / "set", content)
    fields = {"fields": ["q"]} if form == "jsonl" else {}
    of = EvaluationSet.model_validate({"name": "s", "path": path, "format": form, **fields})
    with pytest.raises(UsageError, match=message):
        list(of.items())


def test_a_set_that_is_not_there_or_not_text_is_refused(tmp_path: Path):
    of = EvaluationSet(name="s", path=tmp_path / "absent", format="text")
    with pytest.raises(UsageError, match="absent is not a file"):
        list(of.items())
    (tmp_path / "absent").write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(UsageError, match=r"absent:2: .*UTF-8"):
        list(of.items())


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"format": "jsonl"}, "needs `fields`"),
        ({"format": "text", "fields": ["q"]}, "has no `fields`"),
        ({"format": "trec", "fields": ["headline"]}, "has the fields title"),
        ({"format": "tsv", "id_field": "q"}, "has no `id_field`"),
    ],
)
def test_settings_that_a_format_does_not_use_are_refused(given_: dict[str, object], message: str):
    with pytest.raises(ValidationError, match=message):
        EvaluationSet.model_validate({"name": "s", "path": "x", **given_})


def contamination(tmp_path: Path, lines: list[str], **more: object) -> Contamination:
    path = write(tmp_path / "set.txt", "\n".join(lines) + "\n")
    sets = [{"name": "eval", "path": path, "format": "text"}]
    return Contamination(ContaminationSettings.model_validate({"sets": sets, **more}))


def topic(query: str, instruction: str, passage: str) -> Topic:
    intents = (
        Intent(intent_id("t", "", query), "original", "", query),
        Intent(intent_id("t", instruction, query), "instructed", instruction, query),
    )
    p = Passage(passage, "seed_positive", title="A title")
    judgments = tuple(Judgment(intent.id, p.id, 1, "seed") for intent in intents)
    return Topic("t", "s", "c", "r", query, intents, (p,), judgments)


def verdicts_on(validator: Contamination, one: Topic):
    kept, verdicts = validator(one)
    assert kept is one
    return verdicts


LONG = "a sentence of fourteen words in all that stands in the evaluation set alone"


def test_every_hit_is_a_verdict_with_set_item_field_and_span(tmp_path: Path):
    validator = contamination(tmp_path, ["unrelated", LONG, "what is paula deens brother called"])
    one = topic("What is Paula Deens brother called?", f"Look for {LONG.upper()}!", f"They say: {LONG}, twice {LONG}.")
    seen = [(v.scope, v.outcome, v.reason, json.loads(v.evidence), v.score) for v in verdicts_on(validator, one)]
    span = {"set": "eval", "item": "2", "span": LONG, "words": 14}
    assert seen == [
        ("topic", "reject", "contaminated", {"field": "query", "item": "3", "set": "eval", "words": 6,
                                             "span": "what is paula deens brother called"}, 1.0),
        (one.intents[1].id, "reject", "contaminated", {"field": "instruction", **span}, 1.0),
        (one.passages[0].id, "reject", "contaminated", {"field": "passage", **span}, 1.0),
    ]  # fmt: skip


def test_short_items_count_in_queries_and_not_inside_passages(tmp_path: Path):
    validator = contamination(tmp_path, ["paula deen", "how to cook", "what does quimica mean in spanish"])
    clean = topic("how to cook rice", "Mention Paula Deen.", "What does quimica mean in Spanish? It means chemistry.")
    assert [v.outcome for v in verdicts_on(validator, clean)] == ["pass"]
    whole = topic("How to cook?", "Paula Deen", "A passage.")
    assert [v.scope for v in verdicts_on(validator, whole)] == ["topic", whole.intents[1].id]
    held = topic("so what does Quimica mean in Spanish", "Any.", "A passage.")
    assert [json.loads(v.evidence)["words"] for v in verdicts_on(validator, held)] == [6]


def test_a_long_span_is_shown_within_bounds(tmp_path: Path):
    line = " ".join(f"word{i}" for i in range(2000))
    (verdict,) = verdicts_on(contamination(tmp_path, [line]), topic("q", "i", line))
    assert len(verdict.evidence) < 1000
    assert json.loads(verdict.evidence)["words"] == 2000


def test_the_screen_rejects_seeds_by_their_query_alone(tmp_path: Path):
    screen = contamination(tmp_path, [LONG]).screen
    assert screen(Seed("1", "c", "fine", (Passage(LONG, "seed_positive"),))) is None
    verdict = screen(Seed("2", "c", f"why {LONG}", ()))
    assert verdict is not None
    assert (verdict.validator, verdict.scope, verdict.outcome) == ("contamination", "topic", "reject")


def test_the_digest_follows_the_sets_and_stands_in_the_fingerprint(tmp_path: Path):
    first = contamination(tmp_path, [LONG])
    assert json.loads(first.fingerprint)["index"] == first.digest
    assert json.loads(first.fingerprint)["sets"] == ["eval"]
    assert contamination(tmp_path, [LONG, "more"]).digest != first.digest
    assert contamination(tmp_path, [LONG], overlap_words=12).digest != first.digest
    moved = write(tmp_path / "elsewhere.txt", LONG + "\n")
    sets = [{"name": "eval", "path": moved, "format": "text"}]
    assert index_digest(ContaminationSettings.model_validate({"sets": sets})) == first.digest


def test_the_cache_is_built_once_and_mapped(tmp_path: Path):
    cached = contamination(tmp_path, [LONG], cache=tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    assert folder.name == f"contamination-{cached.digest[:32]}"
    assert isinstance(cached.index.hashes, np.memmap)
    written = (folder / "hashes.npy").stat().st_mtime_ns
    open_index.cache_clear()
    again = contamination(tmp_path, [LONG], cache=tmp_path / "cache")
    assert (folder / "hashes.npy").stat().st_mtime_ns == written
    assert [v.reason for v in verdicts_on(again, topic("q", LONG, "p"))] == ["contaminated"]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def real(path: Path, **more: object) -> Contamination:
    return Contamination(ContaminationSettings.model_validate({"sets": [{"name": "eval", "path": path, **more}]}))


def test_all_instructir_rows_are_contaminated_by_the_development_queries(shared_data: Path):
    of = real(shared_data / "msmarco/topics/topics.msmarco-passage.dev-subset.txt", format="tsv")
    seeds = [
        Seed(r["query_id"], "msmarco", r["query"], ())
        for r in rows(shared_data / "msmarco/rows_instructir_filtered.jsonl")
    ]
    assert len(seeds) == 1743
    assert all(of.screen(seed) for seed in seeds)
    topics = [topic(seed.query, "Any instruction.", "Any passage.") for seed in seeds[:100]]
    assert all(verdicts_on(of, one)[0].reason == "contaminated" for one in topics)


def test_all_originals_of_the_backward_questions_are_found_in_the_test_set(shared_data: Path):
    of = real(shared_data / "gsm8k/test.jsonl", format="jsonl", fields=["question"])
    originals = [row["original_question"] for row in rows(shared_data / "metamath/GSM8K_Backward.jsonl")]
    hits = of.index.find(originals, [5] * len(originals))
    assert len({hit.text for hit in hits if hit.words == hit.item_words}) == len(originals) == 1270


def test_training_questions_share_few_runs_with_the_test_set_and_each_is_real(shared_data: Path):
    of = real(shared_data / "gsm8k/test.jsonl", format="jsonl", fields=["question"])
    train = [row["question"] for row in rows(shared_data / "gsm8k/train.jsonl")]
    test = [row["question"] for row in rows(shared_data / "gsm8k/test.jsonl")]
    hits = of.index.find(train, [5] * len(train))
    assert [(hit.text + 1, int(hit.item), hit.words) for hit in hits] == [
        (21, 633, 25),
        (407, 582, 15),
        (1315, 603, 19),
        (5163, 603, 19),
    ]
    for hit in hits:
        fenced = f" {hit.span} "
        assert fenced in f" {' '.join(words(train[hit.text]))} "
        assert fenced in f" {' '.join(words(test[int(hit.item) - 1]))} "
    grams = {gram for question in test for gram in runs(words(question), 13)}
    assert [i for i, question in enumerate(train) if runs(words(question), 13) & grams] == [hit.text for hit in hits]


def test_a_topic_costs_a_fraction_of_a_millisecond(tmp_path: Path):
    of = contamination(
        tmp_path, [f"{a} {b} query words number {i}" for i, (a, b) in enumerate(pairwise(LONG.split() * 50))]
    )
    one = topic("an innocent query about whales", "Must mention a year and two whales.", "Whales are mammals. " * 60)
    verdicts_on(of, one)
    started = time.process_time()
    for _ in range(300):
        of(one)
    assert (time.process_time() - started) / 300 < 1e-3, "0.15 ms where nothing else runs"
