"""MinHash against exact Jaccard similarity, and the screen that lets the same seed in once."""

import json
import resource
import tempfile
import time
from collections import deque
from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.cluster.build import build_run
from foil.cluster.job import load_job
from foil.datasets_out.commits.log import CommitLog
from foil.engine.errors import SpoolError
from foil.engine.topic import Passage, Seed
from foil.validators.overlap.duplicates import Duplicates, DuplicatesSettings
from foil.validators.overlap.minhash import SHINGLE_WORDS, ShingleFile, Sketcher, SketchStore, estimate_similarities
from foil.validators.overlap.minhash import jaccard as packed_jaccard
from foil.validators.overlap.word_runs import normalise
from foil.validators.verdicts import fingerprint
from tests.support.commands import foil, write_job
from tests.support.small_parts import Numbers, topic_of

VOCABULARY = [f"word{i}" for i in range(3000)]


def shingles(text: str) -> set[tuple[bytes, ...]]:
    found = normalise(text).split()
    n = min(SHINGLE_WORDS, len(found))
    return {tuple(found[i : i + n]) for i in range(len(found) - n + 1)}


def jaccard(left: str, right: str) -> float:
    one, two = shingles(left), shingles(right)
    return len(one & two) / len(one | two)


def text(rng: Random, length: int = 100) -> str:
    return " ".join(rng.choices(VOCABULARY, k=length))


def edited(rng: Random, of: str, changes: int) -> str:
    found = of.split()
    for place in rng.sample(range(len(found)), changes):
        found[place] = rng.choice(VOCABULARY)
    return " ".join(found)


def family(rng: Random, size: int) -> list[str]:
    """Texts with all degrees of likeness: edits of edits of one text."""
    texts = [text(rng)]
    while len(texts) < size:
        texts.append(edited(rng, rng.choice(texts), rng.choice([1, 2, 4, 8, 16])))
    return texts


def test_estimates_agree_with_exact_jaccard_on_hundreds_of_texts():
    rng = Random(1)
    texts = [one for _ in range(15) for one in family(rng, 20)]
    sketch = Sketcher(0)
    made = [sketch(one) for one in texts]
    sketches = np.stack([one.keys for one in made])

    def estimated(i: int, j: int) -> float:
        return float(estimate_similarities(sketches[i], sketches[j : j + 1])[0])

    pairs = [*combinations(range(20), 2), *((i, j) for i in range(0, 300, 20) for j in range(i + 1, i + 20))]
    errors = np.array([estimated(i, j) - jaccard(texts[i], texts[j]) for i, j in pairs])
    assert len(pairs) > 400
    assert abs(errors.mean()) < 0.015
    assert errors.std() < 0.06, "0.05 is what 96 minima give at the worst similarity, one half"
    assert all(packed_jaccard(made[i].shingles, made[j].shingles) == jaccard(texts[i], texts[j]) for i, j in pairs)
    strangers = [estimated(i, i + 20) for i in range(0, 280, 20)]
    assert max(strangers) < 0.06


def test_the_store_finds_the_pairs_that_brute_force_finds():
    rng = Random(2)
    found = wanted = 0
    for _ in range(150):
        first = text(rng)
        second = edited(rng, first, rng.choice([1, 2, 3]))
        if jaccard(first, second) < 0.85:
            continue
        store, sketch = SketchStore(), Sketcher(0)
        for other in (first, *(text(rng) for _ in range(5))):
            assert store.match_or_add(sketch(other), 0.7) is None
        match = store.match_or_add(sketch(second), 0.7)
        wanted += 1
        found += match is not None and match.number == 0 and not match.exact
    assert wanted > 80
    assert found >= 0.98 * wanted


def test_unlike_texts_are_never_taken_for_repeats():
    rng, sketch, store = Random(3), Sketcher(0), SketchStore()
    texts = [text(rng, 60) for _ in range(3000)]
    assert all(store.match_or_add(sketch(one), 0.5) is None for one in texts)
    matches = [store.match_or_add(sketch(one.upper() + " !"), 1.0) for one in texts]
    assert [(m.number, m.exact) for m in matches if m] == [(i, True) for i in range(3000)], "tables grew, all are found"


def test_a_phrase_that_thousands_share_neither_slows_nor_hides():
    rng, sketch, store = Random(4), Sketcher(0), SketchStore()
    frame = text(rng, 40)
    texts = [f"{frame} {text(rng, 20)}" for _ in range(2000)]
    started = time.process_time()
    kept = [one for one in texts if store.match_or_add(sketch(one), 0.95) is None]
    assert time.process_time() - started < 4
    assert len(kept) == 2000
    again = [store.match_or_add(sketch(one), 0.95) for one in texts]
    assert all(match and match.exact for match in again)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdé"), min_size=1, max_size=6).map(" ".join), max_size=30))
def test_exact_repeats_are_always_found_and_only_they_are_called_exact(texts):
    screen = Duplicates(DuplicatesSettings(text="query", similarity=1.0))
    kept: dict[bytes, str] = {}
    for number, one in enumerate(texts):
        verdict = screen(Seed(str(number), "c", one, ()))
        key = b" ".join(normalise(one).split())
        if key in kept:
            assert verdict is not None
            assert (verdict.reason, json.loads(verdict.evidence)["seed"]) == ("duplicate", kept[key])
        elif verdict is None:
            kept[key] = str(number)
        else:
            assert verdict.reason == "near_duplicate"


def seed(name: str, query: str, *positives: str) -> Seed:
    return Seed(name, "c", query, tuple(Passage(one, "seed_positive") for one in positives))


def test_a_repeat_is_rejected_with_the_earlier_seed_and_the_similarity():
    rng = Random(5)
    passage = text(rng)
    screen = Duplicates(DuplicatesSettings())
    assert screen(seed("first", "what is it", passage)) is None
    exact = screen(seed("second", "What is it?!", passage.upper()))
    near = screen(seed("third", "what is it", passage + " indeed"))
    assert exact is not None
    assert near is not None
    assert (exact.outcome, exact.scope, exact.reason, exact.score) == ("reject", "topic", "duplicate", 1.0)
    assert json.loads(exact.evidence) == {"seed": "first", "similarity": 1.0}
    assert (near.reason, json.loads(near.evidence)["seed"]) == ("near_duplicate", "first")
    exactly = round(jaccard(f"what is it {passage}", f"what is it {passage} indeed"), 4)
    assert (near.score, json.loads(near.evidence)["similarity"]) == (exactly, exactly)


def pairs_near(least: float) -> list[tuple[str, str, float, float]]:
    """Pairs of texts whose similarity is within 0.1 of `least`: the two, their similarity, and its estimate."""
    rng, sketch, pairs = Random(10), Sketcher(0), []
    while len(pairs) < 400:
        first = text(rng, 60)
        second = edited(rng, first, rng.choice([2, 3, 4, 5]))
        if abs((exactly := jaccard(first, second)) - least) < 0.1:
            estimate = estimate_similarities(sketch(first).keys, sketch(second).keys[None])[0]
            pairs.append((first, second, exactly, float(estimate)))
    return pairs


def screened(*texts: str, **settings) -> list[str]:
    """For each text, "" if it is kept, or the place of its witness."""
    screen = Duplicates(DuplicatesSettings(text="query", **settings))
    verdicts = [screen(Seed(str(place), "c", one, ())) for place, one in enumerate(texts)]
    return [json.loads(verdict.evidence)["seed"] if verdict else "" for verdict in verdicts]


def test_what_is_estimated_as_a_repeat_and_is_none_is_kept():
    taken = [pair for pair in pairs_near(0.75) if pair[3] >= 0.75 > pair[2]]
    assert len(taken) > 20
    assert all(screened(first, second, similarity=0.75) == ["", ""] for first, second, *_ in taken)


def test_a_repeat_whose_estimate_is_too_low_is_found_all_the_same():
    missed = [pair for pair in pairs_near(0.75) if pair[2] >= 0.75 > pair[3]]
    found = [screened(first, second, similarity=0.75) for first, second, *_ in missed]
    assert len(missed) > 20
    assert found.count(["", "0"]) >= 0.95 * len(found), "one in 40 shares no band with its witness"


def test_a_chain_of_alike_texts_is_thinned_and_never_a_whole():
    """Each is like the one before it and unlike the one before that: what only a rejected seed resembles is kept."""
    rng = Random(11)
    words = [rng.choice(VOCABULARY) for _ in range(120)]
    chain = [" ".join(words[place : place + 60]) for place in range(0, 60, 6)]
    neighbours = [jaccard(one, two) for one, two in pairwise(chain)]
    ahead = [jaccard(one, two) for one, two in zip(chain, chain[2:], strict=False)]
    assert min(neighbours) > 0.75
    assert max(ahead) < 0.7
    assert screened(*chain, similarity=0.75) == ["", "0", "", "2", "", "4", "", "6", "", "8"]


def test_a_full_disk_is_told_with_what_to_do():
    screen, rng = Duplicates(DuplicatesSettings()), Random(12)
    seeds = (seed(str(number), text(rng)) for number in range(2_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(SpoolError, match=r"set TMPDIR to a folder with 4 bytes for each word"):
            deque(map(screen, seeds), maxlen=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_shingles_lie_in_the_folder_of_temporary_files_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file, parts = ShingleFile(), [bytes([number]) * 4 * number for number in range(1, 200)]
    for number, part in enumerate(parts):
        file.append(part)
        assert file.read(number // 2) == parts[number // 2]
    assert [file.read(number) for number in range(199)] == parts
    assert list(tmp_path.iterdir()) == []
    assert file.nbytes == 8 * 200


def test_the_same_query_with_another_answer_is_a_seed_of_its_own_unless_queries_must_differ():
    rng = Random(6)
    pair = [seed("1", "compute the mean", text(rng)), seed("2", "compute the mean", text(rng))]
    of_both, of_queries = Duplicates(DuplicatesSettings()), Duplicates(DuplicatesSettings(text="query"))
    assert [of_both(one) is None for one in pair] == [True, True]
    assert [of_queries(one) is None for one in pair] == [True, False]


def test_seeds_without_words_repeat_nothing():
    screen = Duplicates(DuplicatesSettings())
    assert [screen(seed(name, "???", "!!!")) for name in "ab"] == [None, None]


def test_the_same_stream_gives_the_same_verdicts():
    rng = Random(7)
    seeds = [seed(str(i), one) for i, one in enumerate(family(rng, 200))]
    first, second = Duplicates(DuplicatesSettings()), Duplicates(DuplicatesSettings())
    assert [first(one) for one in seeds] == [second(one) for one in seeds]


@pytest.mark.slow
def test_a_run_that_an_earlier_foil_screened_by_estimates_is_refused_by_name(tmp_path):
    """It is whole and can be read; going on would reject other seeds than its first half did."""
    page, out = write_job(tmp_path, 20), tmp_path / "out"
    page.write_text(page.read_text().replace("[{kind: shape}", "[{kind: duplicates}, {kind: shape}"))
    job = load_job(page)
    identity = build_run(job).identity
    earlier = fingerprint(DuplicatesSettings(), version=1)
    earlier_identity = {**identity, "fingerprints": {**identity["fingerprints"], "duplicates": earlier}}
    log = CommitLog(out)
    log.open("earlier", earlier_identity)
    log.commit(0, [topic_of(one) for one in Numbers(10)], {})
    refused = foil("run", page)
    assert refused.returncode == 2
    assert f"fingerprints.duplicates: {json.dumps(earlier)[:40]}" in refused.stderr.replace("\n", "")
    assert foil("verify", out).returncode == 11, "whole, and not all that was planned"
    assert foil("sql", out, "SELECT count(*) AS n FROM topics", "--csv").stdout.splitlines()[1] == "10"


def check_size(count: int, length: int) -> None:
    """What a seed costs in time is shown by benchmarks/reading.py."""
    rng, screen = Random(8), Duplicates(DuplicatesSettings())
    for number in range(count):
        assert screen(seed(f"corpus-{number:09d}", text(rng, length))) is None
    assert screen.nbytes / count < 300


def test_a_seed_costs_under_300_bytes():
    check_size(5_000, 100)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_million_seeds_cost_under_300_megabytes():
    check_size(1_000_000, 20)
