"""`foil show`: topics as a person reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SnapshotOption
from foil.cluster.terminal import print_data, print_pages, say
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.datasets_out.commits.snapshot import Snapshot
    from foil.datasets_out.lineage.records import ChosenTopics

_SHOWN = 5
_MOST = 1000
_HAS_REASON = """reason = REASON OR topic_id IN (SELECT topic_id FROM verdicts WHERE reason = REASON)
OR list_contains(string_split(attributes['marks'], ', '), REASON)"""


def show(
    out: OutArgument,
    record: Annotated[str, typer.Argument(metavar="[ID]", help="The id of a record, or its beginning.")] = "",
    where: Annotated[str, typer.Option(help="SQL condition on the view `topics`: \"reason = 'leak'\".")] = "",
    reason: Annotated[str, typer.Option(help="Topics with this reason, as a verdict too: `foil reasons`.")] = "",
    sample: Annotated[int, typer.Option(min=0, max=_MOST, help="Draw so many at random, not the first 5.")] = 0,
    seed: Annotated[int, typer.Option(help="What the draw follows from.")] = 0,
    snapshot: SnapshotOption = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts, ids and hashes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show topics: query, instructions, passages and their edits, judgments, verdicts."""
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.desk.topic_view import EXCERPT_CHARS, view_topic
    from foil.datasets_out.lineage.records import read_topics, short_id_digits

    if record and (where or reason or sample):
        raise UsageError("an ID names what to show; leave out --where, --reason and --sample, or the ID")
    source = load_snapshot(out, snapshot)
    chosen = _named(source, record) if record else _chosen(source, where, reason, sample, seed)
    views = [
        view_topic(topic, None if full or as_json else EXCERPT_CHARS) for topic in read_topics(source, chosen.places)
    ]
    if as_json:
        document = {"matched": chosen.matched, "topics": [view.to_json() for view in views]}
        print_data(json.dumps(document, ensure_ascii=False) + "\n")
        return
    from foil.cluster.pages.topic_page import topic_pages

    digits = None if full else short_id_digits(source)
    print_pages(lambda console: topic_pages(views, console, digits))
    if chosen.matched > len(views):
        say(f"{len(views)} of {chosen.matched:,} topics; `--sample N` draws others, `--where SQL` chooses")


def _condition(where: str, reason: str) -> str:
    """`where`, and that the topic, one of its verdicts or one of its marks has this reason."""
    if not reason:
        return where
    text = "'" + reason.replace("'", "''") + "'"
    return f"({where or 'true'}\n) AND ({_HAS_REASON.replace('REASON', text)})"


def _named(source: Snapshot, record: str) -> ChosenTopics:
    from foil.datasets_out.lineage.records import ChosenTopics, find_records

    matches = find_records(source, record)
    places = tuple(match.place for match in matches[:_SHOWN])
    return ChosenTopics(places, len(matches))


def _chosen(source: Snapshot, where: str, reason: str, sample: int, seed: int) -> ChosenTopics:
    from foil.datasets_out.lineage.records import choose_topics

    condition, drawn_by = _condition(where, reason), seed if sample else None
    chosen = choose_topics(
        source.out, condition, most=sample or _SHOWN, sample_seed=drawn_by, snapshot=source.name or None
    )
    if not chosen.places:
        wanted = " and ".join(filter(None, (where, reason and f"the reason {reason!r}"))) or "nothing"
        raise UsageError(f"no topic of {source.out} is chosen by {wanted}; look with `foil sql`")
    return chosen
