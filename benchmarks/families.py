"""Which families of constraints carry over to one that was not trained: each of five is left out in turn.

The recipe `verifiable` makes topics of the Python documentation (examples/jobs/objectives.yaml), once with all families
and once without each. The same encoder (MiniLM cut to its first layers) is trained on each, with equal steps. All are
measured on the same held-out topics, those in which the family stands: both-views accuracy in points of the base, of
the model that saw all families, and of the one that did not see this one, with the 95 % paired bootstrap interval of
what the family's own training brought.

    .venv/bin/python -m benchmarks.families [--families section parameter ...] [--seeds 6000] [--layers 3] [--steps 160]
        [--out datasets_out/data/families] [--quick] [--json]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from benchmarks.objectives import REPO, settings_of, shortened
from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TopicGroup, TrainingView
from foil.prompts.constraints.constraint import constraints_of
from foil.trainer.evaluate.comparison.topics import gains, score_topics
from foil.trainer.evaluate.comparison.weights import EncoderSystem
from foil.trainer.model.encoder import Encoder, load_starting_encoder
from foil.trainer.train.run.fit import fit

FAMILIES = ("section", "code_sample", "parameter", "namespace", "library")
RESAMPLES = 2000


def topics(out: Path, seeds: int, without: str = "") -> Path:
    """A run's folder, made first where it is not there yet; the family `without` is drawn by no topic."""
    folder = out / (f"without-{without}" if without else "all")
    if not (folder / "run.json").exists():
        job = ["run", "examples/jobs/objectives.yaml", "--out", str(folder), "--set", f"limits.seeds={seeds}"]
        left_out = ["--set", f"recipe.family_weights={{{without}: 0}}"] if without else []
        subprocess.run([sys.executable, "-m", "foil", *job, *left_out], check=True, cwd=REPO, stdout=subprocess.DEVNULL)
    return folder


def topics_by_family(folder: Path) -> dict[str, set[str]]:
    """The ids of the topics in which a family stands."""
    found: dict[str, set[str]] = defaultdict(set)
    for topic in read_accepted(load_snapshot(folder, None)):
        for intent in topic.intents:
            for constraint in constraints_of(intent) if intent.role in ("instructed", "dual", "reversed") else ():
                found[constraint.family].add(topic.id)
    return found


def view_of(folder: Path) -> TrainingView:
    return TrainingView([TopicSource(load_snapshot(folder, None))], SplitSettings(heldout_share=0.15, dev_share=0))


def trained(folder: Path, base: Path, options: argparse.Namespace) -> Encoder:
    """The encoder after the same steps over the run's own topics."""
    settings = settings_of("sum", ("P",), 0, options, base)
    encoder = load_starting_encoder(settings)
    with tempfile.TemporaryDirectory() as checkpoints:
        fit(encoder, load_starting_encoder(settings), settings, view_of(folder), Path(checkpoints))
    return encoder


def both_views(encoder: Encoder, groups: Sequence[TopicGroup]) -> Mapping[str, float]:
    """By topic."""
    return score_topics(EncoderSystem("", encoder), groups).values[""]["both_views"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument("--seeds", type=int, default=6000)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--topics", type=int, default=600)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--out", type=Path, default=REPO / "datasets_out/data/families")
    parser.add_argument("--quick", action="store_true", help="one family, few steps")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.families, options.seeds, options.steps = options.families[:1], 600, 4
        options.out = options.out.with_name("families-quick")
    table = Table("family left out", "topics", "base", "saw all", "did not see it", "what seeing it brought")
    with tempfile.TemporaryDirectory() as folder:
        everything, base = topics(options.out, options.seeds), shortened(options.layers, Path(folder))
        groups, standing = view_of(everything).read_all("heldout"), topics_by_family(everything)
        if unseen := set(options.families) - {family for family, found in standing.items() if len(found) > 1}:
            raise SystemExit(f"no topics have {', '.join(unseen)}; families of these are {', '.join(sorted(standing))}")
        untrained = load_starting_encoder(settings_of("sum", ("P",), 0, options, base))
        of_base = both_views(untrained, groups)
        of_all = both_views(trained(everything, base, options), groups)
        for family in options.families:
            blind = trained(topics(options.out, options.seeds, family), base, options)
            of_blind = both_views(blind, groups)
            own = sorted(standing[family] & of_base.keys())
            without, seen = ({"both_views": {t: scores[t] for t in own}} for scores in (of_blind, of_all))
            brought = gains(without, seen, RESAMPLES)["both_views"]
            start, blind_mean = 100 * fmean(of_base[t] for t in own), brought.value - brought.difference
            told = f"{brought.difference:+.1f} [{brought.low:+.1f}, {brought.high:+.1f}]"
            table.add_row(family, str(len(own)), *(f"{v:.1f}" for v in (start, brought.value, blind_mean)), told)
            print(json.dumps({"family": family, "start": start, **asdict(brought)}), flush=True)
    if not options.json:
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
