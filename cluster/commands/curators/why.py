"""`foil why`: what one record is, and where it comes from."""

import json
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_data, print_pages


def why(
    out: OutArgument,
    record: Annotated[str, typer.Argument(help="The id of a topic, intent, passage, call or seed, or its beginning.")],
    full: Annotated[bool, typer.Option("--full", help="Whole texts, ids and hashes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What a record is, and where it comes from: seed, prompts, model, calls, judgments, verdicts and file."""
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.lineage.lineage import TOPICS_SHOWN, tree_of
    from foil.datasets_out.lineage.records import find_records, read_topics, short_id_digits

    source = load_snapshot(out, None)
    matches = find_records(source, record)
    topics = read_topics(source, [match.place for match in matches[:TOPICS_SHOWN]])
    tree = tree_of(out, matches, topics)
    if as_json:
        print_data(json.dumps(tree.to_json(), ensure_ascii=False, default=str) + "\n")
        return
    digits = None if full else short_id_digits(source)
    from foil.cluster.pages.topic_page import origin_page

    print_pages(lambda console: origin_page(matches[0], topics[0], tree, console, digits))
