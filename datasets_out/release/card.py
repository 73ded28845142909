"""The dataset card of a release: README.md, its YAML front matter for the Hugging Face hub, then what is known of it.

Every figure is one of the run, its audits or the release itself; what nobody measured is said to be so.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from foil.datasets_out.release.ancestry import AncestorRun, cleaned_value, is_derived, shown_job
from foil.datasets_out.release.formats.release_format import BENCHMARK_SPLITS, ReleaseFormat
from foil.datasets_out.release.formats.training_script import SCRIPT
from foil.datasets_out.release.row_files import WrittenFile
from foil.datasets_out.release.run_facts import RunFacts, sections
from foil.datasets_out.training.judge_scores import JUDGE
from foil.datasets_out.training.training_view import Split, SplitSettings
from foil.engine.ids import canonical_json
from foil.engine.visible_text import visible

_SIZES = (("n<1K", 1_000), ("1K<n<10K", 10_000), ("10K<n<100K", 100_000), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
_HUB_LICENCES = {
    "Apache-2.0": "apache-2.0", "MIT": "mit", "BSD-3-Clause": "bsd-3-clause", "BSD-2-Clause": "bsd-2-clause",
    "CC0-1.0": "cc0-1.0", "CC-BY-4.0": "cc-by-4.0", "CC-BY-SA-4.0": "cc-by-sa-4.0", "ISC": "isc", "PSF-2.0": "psfl",
}  # fmt: skip
_SHOWN_REASONS = 12
DEFAULT_TABLE = "triplets"
"""What `load_dataset(FOLDER)` gives."""


@dataclass(frozen=True, slots=True)
class CardRow:
    """A result of an audit: of which passages, what it measures, and the figure in words."""

    group: str
    measure: str
    value: str


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """What a release is: how it was asked for, and what was counted on the way."""

    name: str
    format: ReleaseFormat
    splits: tuple[Split, ...]
    split: SplitSettings
    template: str
    separation: Mapping[str, Mapping[str, int]]
    topics: Mapping[str, int]
    without_intents: int
    held_back: Counter[str]
    nonredistributable: int
    allowed: bool
    command: str
    languages: tuple[str, ...]
    audits: tuple[CardRow, ...]
    judges: tuple[CardRow, ...]
    cells: Counter[str]


def configs(files: Sequence[WrittenFile], splits: Sequence[Split]) -> list[dict[str, Any]]:
    """The configurations of `datasets`, one a table; files of one table and split are one entry.

    `triplets` is the one that is loaded where none is named.
    """
    patterns: dict[str, dict[str, str]] = {}
    for file in files:
        if not file.name.startswith("withheld/") and not file.name.endswith(".tsv"):  # one reader a folder
            config, split, pattern = _place(file.name, splits)
            patterns.setdefault(config, {})[split] = pattern
    return [
        {
            "config_name": name,
            **({"default": True} if name == DEFAULT_TABLE else {}),
            "data_files": [{"split": s, "path": p} for s, p in sorted(patterns[name].items())],
        }
        for name in sorted(patterns)
    ]


def has_training_rows(files: Sequence[WrittenFile]) -> bool:
    """Whether there are triplets to train on, for the script next to them."""
    return any(file.name.startswith(f"{DEFAULT_TABLE}/train") for file in files)


def _place(name: str, splits: Sequence[Split]) -> tuple[str, str, str]:
    """Configuration, split and pattern of a file; a table that several splits have apart is named SPLIT-TABLE.

    >>> _place("triplets/train-00000.parquet", ("train",)), _place("train/corpus.jsonl", ("train", "dev"))
    (('triplets', 'train', 'triplets/train-*.parquet'), ('train-corpus', 'train', 'train/corpus.jsonl'))
    """
    *folders, file = name.split("/")
    pattern = re.sub(r"-\d{5}\.parquet$", "-*.parquet", name)
    stem = re.sub(r"-\d{5}$|\.\w+$", "", file.removesuffix(".parquet"))
    names = (*splits, *(BENCHMARK_SPLITS[split] for split in splits), "qrel_diff", "texts")
    split = stem if stem in names else (folders[0] if folders and folders[0] in names else names[0])
    parts = [*folders, *([] if stem in names else [stem])]
    config = "-".join(parts) or "default"
    return ("default" if config == "qrels" and file.endswith(".parquet") else config), split, pattern


def card(facts: ReleaseFacts, run: RunFacts, files: Sequence[WrittenFile]) -> str:
    """The whole README.md."""
    head = yaml.safe_dump(front_matter(facts, run, files), sort_keys=False, allow_unicode=True, width=120)
    body = "\n".join(_body(facts, run, files))
    return f"---\n{head}---\n\n{visible(body)}"


def front_matter(facts: ReleaseFacts, run: RunFacts, files: Sequence[WrittenFile]) -> dict[str, Any]:
    """What the hub reads."""
    licences = sorted({licence for licence, _, _ in run.licences})
    hub_names = [_HUB_LICENCES.get(licence, "other") for licence in licences]
    rows = max((file.rows for file in files), default=0)
    matter: dict[str, Any] = {"pretty_name": facts.name}
    matter["license"] = hub_names[0] if len(hub_names) == 1 else sorted(set(hub_names)) or "unknown"
    if "other" in hub_names:
        matter["license_name"] = ", ".join(licence or "unknown" for licence in licences)
    return {
        **matter,
        **({"language": list(facts.languages)} if facts.languages else {}),
        "task_categories": [facts.format.task],
        "size_categories": [next((name for name, most in _SIZES if rows < most), "10M<n<100M")],
        "source_datasets": list(run.corpora),
        "annotations_creators": ["machine-generated"],
        "tags": ["instruction-following-retrieval", "foil"],
        "configs": configs(files, facts.splits),
    }


def _body(facts: ReleaseFacts, run: RunFacts, files: Sequence[WrittenFile]) -> Iterable[str]:
    yield f"# {facts.name}\n"
    yield "Queries with instructions that decide which passages are relevant, made by Foil.\n"
    yield from _use(facts, files)
    yield from _rights(facts, run)
    yield from _funnel(facts, run)
    yield "## Recipe\n"
    yield from _yaml_block(shown_job(run.job))
    yield from _ancestors(run.ancestors)
    yield "## Prompts\n"
    yield from _table(("template and the beginning of its sha256", "calls"), run.templates)
    yield "## Models\n"
    yield from _table(("model", "calls", "tokens", "US dollars"), [(*row[:3], f"{row[3]:.4f}") for row in run.models])
    yield "## Audits\n"
    rows = [(row.group, row.measure, row.value) for row in facts.audits]
    yield from _table(
        ("of which passages", "measure", "value"), rows, "No careful reader has marked a sheet of this run."
    )
    yield "## Judges\n"
    rows = [(row.group, row.measure, row.value) for row in facts.judges]
    yield from _table(
        ("who", "measure", "value"), rows, "No judge was asked a canary, and none is compared with labels by people."
    )
    yield from _contamination(run)
    yield from _reproduction(facts, run, files)


def _ancestors(runs: Sequence[AncestorRun]) -> Iterable[str]:
    if runs:
        yield "The run was made of these, the nearest first:\n"
    for run in runs:
        yield f"### Run {run.fingerprint}\n\nTaken with the digest {run.digest}.\n"
        if run.job:
            yield from _yaml_block(shown_job(run.job))
        else:
            yield "It was not at hand when this release was written; its `run.json` has its job.\n"


def _use(facts: ReleaseFacts, files: Sequence[WrittenFile]) -> Iterable[str]:
    split = facts.splits[0]
    usage = facts.format.usage.format(folder=facts.name, split=split, benchmark_split=BENCHMARK_SPLITS[split])
    yield f"## Use\n\n```python\n{usage}\n```\n"
    if has_training_rows(files):
        yield f"`python {SCRIPT} BASE_MODEL` trains an embedder on it with sentence-transformers.\n"
    if facts.cells["scored"]:
        yield (
            f"**Scores.** {JUDGE} gave P(relevant) of {facts.cells['scored']:,} of {facts.cells['judged']:,} judged "
            f"pairs of intent and passage. {facts.format.scores}\n"
        )
    yield f"Instruction and query, title and text are one text by the template `{facts.template}`."
    yield (
        "Cut the query where it is too long for a model with its instruction: trainers cut a text at its end, "
        "and topics without their instructions are equal rows with contrary labels."
    )
    yield "`sha256sum --check checksums.sha256` or `foil verify` finds any changed file.\n"


def _rights(facts: ReleaseFacts, run: RunFacts) -> Iterable[str]:
    yield "## Rights\n"
    rows = [
        (licence or "unknown", "may" if allowed else "may not", f"{count:,}")
        for licence, allowed, count in run.licences
    ]
    yield from _table(("licence of the seeds", "texts be passed on", "accepted topics of the run"), rows)
    if facts.nonredistributable and facts.allowed:
        yield (
            f"**The texts of {facts.nonredistributable:,} topics that may not be passed on are in this folder** "
            "(`--allow-nonredistributable`). Keep it to those who have a right to the corpus.\n"
        )
    elif facts.nonredistributable:
        yield (
            f"{facts.nonredistributable:,} topics are of texts that may not be passed on. Their rows are in "
            "`withheld/`, with ids and offsets into the corpus for the texts; whoever has the corpus restores them: "
            f"`foil restore {facts.name} --seeds JOB`.\n"
        )
        yield from _table(
            ("withheld texts", "count"), [(_PLACES[name], f"{n:,}") for name, n in facts.held_back.items()]
        )


_PLACES = {
    "corpus": "found in the corpus, by their sha256",
    "edit": "kept as offsets into the text that they edit, and words of a model",
    "not looked up": "named by their sha256; the corpus was not at hand",
    "nowhere": "not found in the corpus: not to be restored",
}


def _funnel(facts: ReleaseFacts, run: RunFacts) -> Iterable[str]:
    yield "## From seeds to rows\n"
    seeds, topics = run.counts.seeds, run.counts.topics
    rows: list[tuple[str, str]] = [
        ("seeds planned", f"{run.planned:,}" if run.planned is not None else "not known yet")
    ]
    rows += [(f"seeds {status}", f"{seeds[status]:,}") for status in ("accepted", "rejected", "failed")]
    rows += [(f"topics {status}", f"{topics[status]:,}") for status in ("accepted", "rejected", "failed")]
    rows += [
        (f"not accepted: {reason}", f"{count:,}") for reason, count in run.counts.reasons.most_common(_SHOWN_REASONS)
    ]
    if facts.without_intents:
        rows.append(("accepted rows without an intent, which no format takes", f"{facts.without_intents:,}"))
    for split, counts in facts.separation.items():
        rows += [(f"{split}: {name.replace('_', ' ')}", f"{count:,}") for name, count in counts.items()]
    rows += [(f"in this release: topics of {split}", f"{count:,}") for split, count in facts.topics.items()]
    yield from _table(("what", "count"), rows)
    yield ("No text lies in two splits: what shares one with held-out or dev topics was removed.\n")


def _contamination(run: RunFacts) -> Iterable[str]:
    yield "## Contamination\n"
    jobs = [(run.fingerprint, run.job), *((each.fingerprint, each.job) for each in run.ancestors)]
    rows = [
        (each.get("name", ""), each.get("format", ""), fingerprint)
        for fingerprint, job in jobs
        for section in sections(job, "contamination")
        for each in section.get("sets", ())
    ]
    yield from _table(("kept apart from", "format", "by the run"), rows, "The run checked no evaluation set.")


def _reproduction(facts: ReleaseFacts, run: RunFacts, files: Sequence[WrittenFile]) -> Iterable[str]:
    yield "## Digests\n"
    yield from _table(("of what", "digest"), [
        ("fingerprint of the job", run.fingerprint),
        (f"snapshot {run.snapshot or '(all that is committed)'}", run.digest),
        ("schema version", run.schema_version),
        ("split settings", canonical_json(facts.split.model_dump(mode="json"))),
    ])  # fmt: skip
    yield from _table(("file", "rows", "rows withheld"), [(f.name, f"{f.rows:,}", f"{f.withheld:,}") for f in files])
    first = "# the runs above, the last one first" if is_derived(run.job) else "foil run JOB        # the job above"
    yield f"## Made again\n\n```\n{first}\n{facts.command}\n```\n"
    yield "The same job gives byte-equal shards, and the same snapshot and command byte-equal files of rows.\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]], nothing: str = "None.") -> Iterable[str]:
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    if not lines:
        yield f"{nothing}\n"
        return
    yield f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    yield "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    """The value on one line, with nothing that ends the cell, or is a tag, code or an image."""
    return re.sub(r"([|<`\[])", r"\\\1", " ".join(cleaned_value(str(value)).split()))


def _yaml_block(value: Any) -> Iterable[str]:
    """The value in a fence that no text in it can close."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield f"{fence}yaml\n{text}{fence}\n"
