"""The seed stream of a run with workers: seeds a second with one reading process and with several, in one run.

made-up rows -> `runtime.readers` processes parse and mine -> one cuts partitions -> spool; nothing makes topics

python -m benchmarks.reading [--seeds 40000] [--readers 1 2] [--quick] [--json]
"""

import argparse
import json
import pickle
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from foil.datasets_out.commits.log import CommitLog
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.protocols import DivisibleReader, Screen, SeedReader, SketchingScreen
from foil.engine.runtime.seed_process import SeedProcess, SeedSource
from foil.engine.runtime.seed_stream import split_into_partitions
from foil.engine.seeds.msmarco import MsmarcoRows, MsmarcoSettings
from foil.engine.seeds.table import TableReader, TableSettings
from foil.engine.storage.local_store import LocalStore
from foil.validators.overlap.duplicates import Duplicates, DuplicatesSettings

WORDS = 20_000
COLUMNS = {"query": "query", "positives": "passage", "id": "id"}
"""Of the table, whose rows have no negatives: BM25 finds five for each."""


def text(rng: random.Random, words: int) -> str:
    """Words drawn as in prose, the common ones often."""
    return " ".join(f"w{int(WORDS ** rng.random())}" for _ in range(words))


def ten_passages(rng: random.Random, number: int) -> dict[str, object]:
    passages = [{"passage_text": text(rng, 60), "is_selected": int(i == 0)} for i in range(10)]
    return {"query_id": number, "query": text(rng, 6), "passages": passages}


def one_passage(rng: random.Random, number: int) -> dict[str, object]:
    return {"id": number, "query": text(rng, 6), "passage": text(rng, 60)}


def table(negatives: int, path: Path) -> DivisibleReader:
    return TableReader(TableSettings(corpus="made_up", path=path, columns=COLUMNS, negatives=negatives))


def msmarco(path: Path) -> DivisibleReader:
    return MsmarcoRows(MsmarcoSettings(path=path))


CORPORA: dict[str, tuple[Callable[[random.Random, int], dict[str, object]], Callable[[Path], DivisibleReader]]] = {
    "a table, one passage a row": (one_passage, partial(table, 0)),
    "the same, near-duplicates screened": (one_passage, partial(table, 0)),
    "the same, five negatives mined": (one_passage, partial(table, 5)),
    "MS MARCO, ten passages a row": (ten_passages, msmarco),
}


def opened(
    reader: Callable[[Path], DivisibleReader], path: Path, screened: bool
) -> tuple[SeedReader, Sequence[Screen]]:
    return reader(path), screens(screened)


def screens(screened: bool) -> list[Screen]:
    return [Duplicates(DuplicatesSettings())] if screened else []


def seconds(
    reader: Callable[[Path], DivisibleReader], path: Path, out: Path, readers: int, screened: bool
) -> tuple[float, str]:
    """How long the stream takes, and the digest of its end."""
    log = CommitLog(out)
    log.open("", {})
    opening = partial(opened, reader, path, screened)
    source = SeedSource(opening, Limits(partition_seeds=1_000), log, LocalStore(out), readers)
    seeds = SeedProcess(source, RuntimeSettings(workers=1, readers=readers), "reading", lambda *_: None)
    seeds.open(LocalStore(out), 1)
    start, stream = time.perf_counter(), ""
    for partition in seeds:
        seeds.committed(partition)
        stream = partition.stream
    took = time.perf_counter() - start
    seeds.close()
    return took, stream


def cutting_us(reader: DivisibleReader, screened: bool) -> float:
    """CPU microseconds a seed of the process that joins the blocks of two others, cuts partitions and pickles them."""
    start, count, looking = time.process_time(), 0, screens(screened)
    sketches = [screen.sketch for screen in looking if isinstance(screen, SketchingScreen)]
    seeds = reader.in_parallel(2, sketches)
    for partition in split_into_partitions(seeds, looking, Limits(partition_seeds=1_000)):
        count += len(partition.seeds)
        pickle.dumps(partition, pickle.HIGHEST_PROTOCOL)
    return 1e6 * (time.process_time() - start) / count


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=40_000)
    options.add_argument("--readers", type=int, nargs="+", default=[1, 2])
    options.add_argument("--quick", action="store_true", help="4,000 seeds")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    count = 4_000 if given.quick else given.seeds
    result = Table(
        "corpus",
        *(f"seeds/s, {n} reading" for n in given.readers),
        "times the first",
        "CPU us a seed of the one that cuts",
    )
    with tempfile.TemporaryDirectory(prefix="foil-reading-") as folder:
        for name, (make, reader) in CORPORA.items():
            rng, path, screened = random.Random(7), Path(folder) / "rows.jsonl", "screened" in name
            path.write_text("".join(json.dumps(make(rng, i)) + "\n" for i in range(count)))
            found = [seconds(reader, path, Path(folder) / f"{len(name)}-{n}", n, screened) for n in given.readers]
            assert len({stream for _, stream in found}) == 1, "the streams differ"
            times = [took for took, _ in found]
            result.add_row(
                name,
                *(f"{count / t:,.0f}" for t in times),
                f"{times[0] / times[-1]:.2f}",
                f"{cutting_us(reader(path), screened):.1f}",
            )
            if given.json:
                print(
                    json.dumps({"corpus": name, **dict(zip(map(str, given.readers), times, strict=True))}), flush=True
                )
    Console().print(result)


if __name__ == "__main__":
    main()
