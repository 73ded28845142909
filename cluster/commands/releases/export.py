"""`foil export`: a run as a release that others load, or a model as ONNX files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, SetOption, SnapshotOption
from foil.cluster.extras import need
from foil.cluster.releases.onnx_files import LEAST_COSINE, need_onnx, show_export
from foil.cluster.terminal import print_json, say, show
from foil.engine.errors import UsageError
from foil.engine.storage.opening import mirror_of

if TYPE_CHECKING:
    from foil.datasets_out.release.release import WrittenRelease


class Format(StrEnum):
    """What a run or a model can be written as."""

    HF = "hf"
    SENTENCE_TRANSFORMERS = "sentence-transformers"
    TEVATRON = "tevatron"
    FLAG_EMBEDDING = "flagembedding"
    GRITLM = "gritlm"
    BEIR = "beir"
    MTEB = "mteb"
    JSON_LINES = "jsonl"
    ATLAS = "atlas"
    NOTEBOOK = "notebook"
    ONNX = "onnx"


class SplitName(StrEnum):
    """Which topics of a run."""

    TRAIN = "train"
    DEV = "dev"
    HELDOUT = "heldout"
    ALL = "all"


SplitOption = Annotated[SplitName, typer.Option(help="The topics that a training run trains on, or those it does not.")]
JobOption = Annotated[
    Path | None, typer.Option(help="The run's job: its `train` gives split, protected runs, template.")
]
SeedsOption = Annotated[Path | None, typer.Option(help="A job or `seeds` page: where withheld texts are looked up.")]
SignOption = Annotated[
    Path | None, typer.Option(help="An Ed25519 private key (PEM, OpenSSH) that signs the checksums.")
]
AllowOption = Annotated[bool, typer.Option("--allow-nonredistributable", help="Write texts that may not be passed on.")]
CosineOption = Annotated[
    float, typer.Option(min=-1, max=1, help="onnx: what the mean cosine of int8 vectors may not be below.")
]


def export(
    source: Annotated[Path, typer.Argument(parser=mirror_of, metavar="FROM", help="A run, or the folder of a model.")],
    form: Annotated[Format | None, typer.Option("--format", help="As what. Default for a model: onnx.")] = None,
    split: SplitOption = SplitName.TRAIN,
    into: Annotated[Path | None, typer.Option(help="The folder of the release; it must not exist.")] = None,
    snapshot: SnapshotOption = None,
    job: JobOption = None,
    seeds: SeedsOption = None,
    overrides: SetOption = None,
    sign: SignOption = None,
    allow: AllowOption = False,
    int8: Annotated[bool, typer.Option("--int8/--no-int8", help="onnx: write a file of 8-bit weights too.")] = True,
    least_cosine: CosineOption = LEAST_COSINE,
    as_json: JsonOption = False,
) -> None:
    """Write a run as a release in the layout of a trainer or a hub, or a model as ONNX files.

    A release has exactly the separation of a training run: no text lies in two splits. Texts that may not be passed on
    go out as ids and offsets into their corpus, and `foil restore` brings them back where the corpus is. With the
    release come a card, a Croissant document, checksums and, with --sign, a signature.
    """
    is_run = (source / "run.json").exists()
    form = form or (None if is_run else Format.ONNX)
    if form is None:
        raise UsageError(f"{source} is a run; say as what it is exported: --format {' | '.join(list(Format)[:-1])}")
    if form is Format.ONNX:
        _export_onnx(source, int8=int8, least_cosine=least_cosine, as_json=as_json)
        return
    if into is None:
        raise UsageError(f"--format {form} writes a release; give its folder with --into FOLDER")
    if form is Format.NOTEBOOK:
        _export_notebook(source, into, snapshot)
        return
    options = ReleaseOptions(source, form, split, into, snapshot, job, seeds, overrides or [], sign, allow)
    show_release(write(options), into, as_json=as_json)


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """The options of a release."""

    out: Path
    form: Format
    split: SplitName
    into: Path
    snapshot: str | None
    job: Path | None
    seeds: Path | None
    overrides: Sequence[str]
    sign: Path | None
    allow: bool

    def command(self) -> str:
        """The command that makes the release again; paths without their folders, since the card is for others."""
        out, into = self.out.name, self.into.name
        words = ["foil", "export", out, "--format", self.form, "--split", self.split, "--into", into]
        for name, value in (("--snapshot", self.snapshot), ("--job", self.job), ("--seeds", self.seeds)):
            if value is not None:
                words += [name, value.name if isinstance(value, Path) else value]
        words += [word for override in self.overrides for word in ("--set", override)]
        return shlex.join([*words, *(["--allow-nonredistributable"] if self.allow else [])])


def _export_onnx(model: Path, *, int8: bool, least_cosine: float, as_json: bool) -> None:
    need_onnx()
    files = show_export(model, int8=int8, least_cosine=least_cosine)
    if as_json:
        print_json([asdict(each) for each in files])


def _export_notebook(out: Path, into: Path, snapshot: str | None) -> None:
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.release.formats.notebook import NOTEBOOK, notebook_text
    from foil.engine.atomic_files import put_text

    load_snapshot(out, snapshot)  # or there is none
    if (into / NOTEBOOK).exists():
        raise UsageError(f"{into / NOTEBOOK} exists, and may hold work of yours; give another --into")
    put_text(into / NOTEBOOK, notebook_text(out, snapshot))
    say(f"{into / NOTEBOOK} asks {out.resolve()}; it holds no text of the run. Open it: marimo edit {into / NOTEBOOK}")


def write(options: ReleaseOptions) -> WrittenRelease:
    """Writes the release."""
    from functools import partial

    from foil.cluster.releases import ordering
    from foil.datasets_out.release.formats.catalog import FORMATS
    from foil.datasets_out.release.release import ReleaseOrder, parse_splits, write_release

    if options.sign:
        need("cryptography", extra="cloud")
    settings = ordering.export_settings(options.overrides, options.job)
    if options.job is None and not options.overrides:
        say(f"splits: {settings.split.heldout_share:.0%} held out, {settings.split.dev_share:.0%} dev (the defaults); "
            "--job JOB takes those of a training job")  # fmt: skip
    view = ordering.open_view(options.out, options.snapshot, settings)
    source = view.sources[0].snapshot
    order = ReleaseOrder(
        FORMATS[options.form.value], parse_splits(options.split.value), ordering.template_of(settings),
        options.command(), options.allow, partial(ordering.seeds_of, options.seeds) if options.seeds else None,
        ordering.languages_of(source), ordering.audit_rows_of(options.out),
        ordering.judge_rows_of(options.out, source.name),
    )  # fmt: skip
    return write_release(options.into, view, order, options.sign)


def show_release(release: WrittenRelease, into: Path, *, as_json: bool) -> None:
    """Prints what a release has."""
    facts = release.facts
    if as_json:
        print_json(
            {"into": str(into), "digest": release.digest, "topics": facts.topics, "separation": facts.separation,
             "withheld_texts": facts.held_back, "nonredistributable_topics": facts.nonredistributable,
             "files": {file.name: file.rows for file in release.files}, "signed_by": release.signed_by}
        )  # fmt: skip
        return
    show(
        ["file", "rows", "withheld"], [(f.name, f"{f.rows:,}", f"{f.withheld:,}") for f in release.files], numbers=True
    )
    for split, counts in facts.separation.items():
        words = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
        say(f"{split}: {words or 'no topics'}, as a training run has them")
    if facts.without_intents:
        say(f"{facts.without_intents:,} accepted rows have no intent, and are in no file; ask them with `foil sql`")
    if scored := facts.cells["scored"]:
        say(f"scores: P(relevant) of {scored:,} of {facts.cells['judged']:,} judged pairs. {facts.format.scores}")
    _say_rights(release, into)
    if release.signed_by:
        say(f"signed by the key {release.signed_by}")
    say(f"{into} has the digest {release.digest[:16]}; README.md is its card, `foil verify {into}` checks it")


def _say_rights(release: WrittenRelease, into: Path) -> None:
    facts = release.facts
    if facts.nonredistributable and facts.allowed:
        say(f"WARNING: {into} holds texts of {facts.nonredistributable:,} topics that may not be passed on; keep it to "
            "those who have a right to the corpus")  # fmt: skip
    elif facts.nonredistributable:
        placed = ", ".join(f"{count:,} {name}" for name, count in facts.held_back.items())
        say(f"{facts.nonredistributable:,} topics may not be passed on: {facts.held_back.total():,} texts "
            f"of theirs went out as ids and offsets ({placed}); `foil restore` brings them back")  # fmt: skip
    if nowhere := facts.held_back.get("nowhere", 0):
        say(f"{nowhere:,} texts were not found in the corpus and cannot be restored; give the run's job as --seeds, "
            "or --allow-nonredistributable where you have the right to")  # fmt: skip
