"""Negatives by BM25: never what answers the query, the same in every run, from an even sample of bounded size."""

import json
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.seeds.corpus import NegativeCandidate, sample_candidates
from foil.engine.seeds.table import Columns, TableReader, TableSettings
from foil.engine.topic import Passage, Seed

WORDS = ["seal", "pier", "rock", "tide", "salt"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def read(path: Path, pool: int = 1_000) -> list[Seed]:
    columns = Columns(query="q", positives="p", negatives="n")
    return list(TableReader(TableSettings(path=path, corpus="c", columns=columns, negatives=3, pool_passages=pool)))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=2), st.lists(TEXT, max_size=4)), min_size=1, max_size=8
    )
)
def test_no_seed_has_a_relevant_passage_among_its_negatives(
    rows: list[tuple[str, list[str], list[str]]], tmp_path_factory: object
) -> None:
    path = tmp_path_factory.mktemp("rows") / "t.jsonl"  # type: ignore[attr-defined]
    path.write_text("".join(json.dumps({"q": q, "p": p, "n": n}) + "\n" for q, p, n in rows))
    seeds = read(path)
    assert len(seeds) == len(rows)
    assert seeds == read(path)
    for seed, (query, positives, row_negatives) in zip(seeds, rows, strict=True):
        negatives = [p.text for p in seed.negatives]
        assert not set(negatives) & set(positives)
        assert len(negatives) == len(set(negatives))
        assert set(row_negatives) - set(positives) <= set(negatives)
        mined = [p for p in seed.negatives if p.attributes.get("mined") == "bm25"]
        assert all(set(p.text.split()) & set(query.split()) for p in mined)
        near_texts = {p for _, other, _ in rows for p in other if set(p.split()) & set(query.split())}
        assert len(negatives) >= min(3, len(near_texts - set(positives)))


def candidates(count: int) -> list[NegativeCandidate]:
    return [NegativeCandidate(str(n), str(n), (Passage(str(n), "seed_positive"),)) for n in range(count)]


def test_a_sample_that_holds_everything_keeps_the_order() -> None:
    assert sample_candidates(candidates(5), 5) == candidates(5)


def test_a_sample_is_even_and_the_same_in_every_run() -> None:
    sampled_candidates = sample_candidates(iter(candidates(20_000)), 2_000)
    assert sampled_candidates == sample_candidates(iter(candidates(20_000)), 2_000)
    assert len({candidate.key for candidate in sampled_candidates}) == 2_000
    by_tenth = Counter(int(candidate.key) // 2_000 for candidate in sampled_candidates)
    assert all(150 < by_tenth[tenth] < 250 for tenth in range(10))


def test_negatives_come_from_no_more_passages_than_the_pool_holds(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"q": "seal", "p": f"seal {n}0", "n": []}) + "\n" for n in range(50)))
    seeds = read(path, pool=4)
    assert len({p.text for seed in seeds for p in seed.negatives}) <= 4
    assert sum(bool(seed.negatives) for seed in seeds) == 50
