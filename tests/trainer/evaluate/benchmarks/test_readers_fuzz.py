"""Whatever a benchmark's file holds: it is read, or refused in words."""

import json
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.catalog import parts_of, read_benchmark
from tests.support.fuzzing import fuzzed
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import LAYOUTS, write_benchmark

FILES = [(kind, name) for kind, files in LAYOUTS.items() for name in files]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["", "d1", "q1-og", "\x00", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "score"]), inner, max_size=2),
    max_leaves=4,
)


def read_all(source):
    with suppress(UsageError):
        for part in parts_of(source):
            benchmark = read_benchmark(source, part)
            assert len(benchmark.digest) == 64
            assert all(isinstance(text, str) for parts in benchmark.documents.values() for text in parts)
            assert all(isinstance(grade, int) for grades in benchmark.qrels.values() for grade in grades.values())


@fuzzed(60)
@given(st.sampled_from(FILES), st.integers(0, 400), st.binary(max_size=6))
def test_bytes_that_were_overwritten_end_in_words(place, start, noise):
    kind, name = place
    with tempfile.TemporaryDirectory() as folder:
        source, path = write_benchmark(kind, Path(folder)), Path(folder) / name
        content = path.read_bytes()
        path.write_bytes(content[:start] + noise + content[start + len(noise) :])
        read_all(source)


@fuzzed(150)
@given(st.sampled_from([place for place in FILES if place[1].endswith((".jsonl", ".json"))]), st.data())
def test_values_of_any_kind_end_in_words(place, data):
    kind, name = place
    with tempfile.TemporaryDirectory() as folder:
        source, path = write_benchmark(kind, Path(folder)), Path(folder) / name
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        row = data.draw(st.sampled_from(rows[0] if isinstance(rows[0], list) else rows))
        inner = [value for value in row.values() if isinstance(value, dict)]
        inner += [each for value in row.values() if isinstance(value, list) for each in value if isinstance(each, dict)]
        target = data.draw(st.sampled_from([row, *inner]))
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(VALUES)
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
        read_all(source)
