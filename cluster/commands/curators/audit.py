"""`foil audit`, `foil agreement` and `foil calibrate`: what careful readers say of labels and of judges."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foil.cluster.commands.arguments import JobArgument, JsonOption, OutArgument, SetOption, SnapshotOption
from foil.cluster.terminal import print_json, say, show
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.cluster.desk.labelling import SheetDraw
    from foil.validators.audits.score import AuditScore, Share

_SHARES = ("label_error", "unusable", "unnatural", "given_away", "answers_lost")


def audit(
    out: OutArgument,
    topics: Annotated[int, typer.Option(min=1, max=10_000, help="Topics of the sheet.")] = 40,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Which topics are drawn.")] = 0,
    status: Annotated[
        Literal["accepted", "rejected"], typer.Option(help="Rejected: to see which were so wrongly; drawn by reason.")
    ] = "accepted",
    reason: Annotated[str, typer.Option(help="Rejected topics of this reason alone.")] = "",
    sheet: Annotated[
        Path | None, typer.Option(help="Where the sheet goes: FILE.txt and FILE.jsonl. Default: the audit's name.")
    ] = None,
    name: Annotated[str, typer.Option(help="The audit's name within the run. Default: by --seed and --topics.")] = "",
    score: Annotated[Path | None, typer.Option(help="A filled sheet (.txt or .jsonl) of this audit.")] = None,
    reader: Annotated[str, typer.Option(help="Who marked it.")] = "reader",
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw topics for a blind reading, or score a filled sheet against the labels."""
    from foil.cluster.desk.labelling import SheetDraw

    draw = SheetDraw(topics, seed, "rejected" if reason else status, reason)
    name = name or draw.name
    if score is None:
        files = _draw(out, name, draw, snapshot, sheet or Path(f"audit-{name}"))
        if as_json:
            print_json({"name": name, "sheets": files})
        return
    scores = _score(out, name, score, reader)
    if as_json:
        from foil.validators.audits.score import plain

        print_json(plain(scores))
    else:
        _show(scores)
        _say_diversity(out, snapshot)


def _draw(out: Path, name: str, draw: SheetDraw, snapshot: str | None, sheet: Path) -> list[str]:
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.sql.audits import put_key
    from foil.engine.atomic_files import put_json_lines, put_text
    from foil.validators.audits.sheet import key_of, sheet_rows, sheet_text

    source = load_snapshot(out, snapshot)
    items = draw.items(out, source)
    put_key(out, name, {"seed": draw.seed, "snapshot": source.digest, "items": key_of(items)})
    name_alone = sheet.name.removesuffix(".txt").removesuffix(".jsonl")
    text, rows = sheet.with_name(f"{name_alone}.txt"), sheet.with_name(f"{name_alone}.jsonl")
    for path in (text, rows):
        if path.exists():
            raise UsageError(f"{path} exists, and may hold marks; give another --sheet")
    put_text(text, sheet_text(items))
    put_json_lines(rows, sheet_rows(items))
    say(f"{len(items)} items in {text} and {rows}; mark them in one of the two, then:")
    say(f"    foil audit {out} --name {name} --score FILE --reader NAME")
    return [str(text), str(rows)]


def _score(out: Path, name: str, sheet: Path, reader: str) -> list[AuditScore]:
    from foil.datasets_out.sql.audits import put_rows, read_key
    from foil.validators.audits.marks import read_marks
    from foil.validators.audits.score import audit_rows, false_rejections, rejection_words, score

    key = read_key(out, name)["items"]
    rows = list(audit_rows(name, reader, read_marks(sheet, key), key))
    put_rows(out, name, reader, map(asdict, rows))
    for line in rejection_words(false_rejections(rows, key)):
        say(line)
    return score(rows)


def _show(scores: list[AuditScore]) -> None:
    columns = ("group", "value", "items", "kappa", *(name.replace("_", " ") for name in _SHARES))
    rows = [
        (each.group, each.value, each.items, each.kappa, *(_share_text(getattr(each, name)) for name in _SHARES))
        for each in scores
    ]
    show(columns, rows, "share of passages or instructions, 95 % interval by Wilson", numbers=False)


def _say_diversity(out: Path, snapshot: str | None) -> None:
    """How varied the run's instructions are; by meaning where an embedder is installed."""
    from foil.cluster.desk.embedding import embedder
    from foil.datasets_out.commits.snapshot import load_snapshot, read_accepted
    from foil.validators.audits.diversity import diversity

    stats = diversity(read_accepted(load_snapshot(out, snapshot)), embedder())
    if stats is None:
        return
    similarity = "" if stats.similarity is None else f", average pairwise similarity {stats.similarity:.3f}"
    say(
        f"{stats.instructions:,} instructions of {stats.topics:,} topics, {stats.words:.0f} words on average: "
        f"{stats.distinct_sentences:.0%} of their sentences are distinct, the commonest stands in "
        f"{stats.commonest_share:.1%} of the topics ({stats.commonest_sentence!r}), {stats.distinct_trigrams:.0%} of "
        f"their trigrams are distinct{similarity}"
    )


def _share_text(share: Share) -> str:
    if not share.of:
        return "-"
    return f"{share.count}/{share.of} [{share.low:.0%}, {share.high:.0%}]"


_COLUMNS = ("first", "second", "pairs", "agreed", "kappa", "low", "high")


def agreement(
    out: OutArgument,
    labels: Annotated[
        Path | None, typer.Option(help="People's labels (.jsonl or .csv): topic_id, intent_id, passage_id, relevance.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How far judges, labels and people agree: Cohen's kappa with its interval."""
    from foil.cluster.desk.measures import agreements

    rows = agreements(out, labels)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    show(_COLUMNS, [[getattr(row, name) for name in _COLUMNS] for row in rows], "kappa, 0.95 interval")


_FIGURES = (
    "labels", "model", "units", "relevant", "unreadable", "auc", "low", "high", "chance", "within", "accuracy", "kappa",
    "first", "expected_first", "neutral", "keep", "drop", "decided", "tokens", "usd",
)  # fmt: skip


def calibrate(
    job: JobArgument,
    on: Annotated[
        list[str],
        typer.Option(
            metavar="LABELS",
            help="People's labels: a .jsonl, .tsv or .csv file with query, passage, relevant, or a benchmark "
            "KIND:PATH[#PART]. Repeatable.",
        ),
    ],
    overrides: SetOption = None,
    replies: Annotated[Path | None, typer.Option(help="What keeps replies. Default: evaluation/replies.")] = None,
    as_json: JsonOption = False,
) -> None:
    """How good a job's judges are by people's labels: AUC, kappa, bias of place, thresholds, tokens, price.

    `--set error=0.1` asks for the thresholds of that error. Exit code 5 if a judge is no better than a coin.
    """
    from foil.cluster.evaluations.judges import CalibrateSettings, measure_judges, rows_of
    from foil.cluster.job import load_job, settings_from
    from foil.validators.judges.calibration import refuse_coin

    settings = settings_from(overrides or [], CalibrateSettings)
    calibrations = measure_judges(load_job(job), on, settings, replies or Path("evaluation") / "replies" / "judges")
    rows = rows_of(calibrations)
    if as_json:
        print_json(rows)
    else:
        lines = [[figure, *(row[figure] for row in rows)] for figure in _FIGURES]
        show(["", *(row["judge"] for row in rows)], lines, f"thresholds for an error of {settings.error}")
    for _, each in calibrations:
        refuse_coin(each)
