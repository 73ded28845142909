"""`foil why`: what one record is, and where it comes from. `foil reasons`: what the reasons of rows mean."""

from __future__ import annotations

import json
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument, SetOption
from foil.cluster.terminal import print_data, print_json, print_line, print_pages, print_paragraph, say
from foil.engine.errors import UsageError

if TYPE_CHECKING:
    from foil.cluster.job import Job
    from foil.engine.requests import Request
    from foil.engine.topic import Topic


def why(
    out: OutArgument,
    record: Annotated[str, typer.Argument(help="The id of a topic, intent, passage, call or seed, or its beginning.")],
    job_file: Annotated[
        Path | None,
        typer.Option("--job", dir_okay=False, help="The run's job: shows each prompt, made again from stored replies."),
    ] = None,
    overrides: SetOption = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts, ids and hashes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What a record is, and where it comes from: seed, calls, replies, judgments, verdicts and file.

    With --job also the prompts of its calls. Nothing is sent or paid.
    """
    from foil.cluster.job import load_job
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.lineage.lineage import TOPICS_SHOWN, tree_of
    from foil.datasets_out.lineage.records import find_records, read_topics, short_id_digits

    source = load_snapshot(out, None)
    matches = find_records(source, record)
    topics = read_topics(source, [match.place for match in matches[:TOPICS_SHOWN]])
    tree = tree_of(out, matches, topics)
    requests = _requests(load_job(job_file, overrides or [], out), topics[0]) if job_file else {}
    if as_json:
        prompts = {name: [[each.role, each.content] for each in request.messages] for name, request in requests.items()}
        whole = tree.to_json() | ({"prompts": prompts} if job_file else {})
        print_data(json.dumps(whole, ensure_ascii=False, default=str) + "\n")
        return
    digits = None if full else short_id_digits(source)
    from foil.cluster.pages.topic_page import origin_page

    print_pages(lambda console: origin_page(matches[0], topics[0], tree, console, digits, requests))


def _requests(job: Job, topic: Topic) -> dict[str, Request]:
    """What the topic's calls asked. Raises UsageError where that job did not make them."""
    import asyncio

    from foil.cluster.replayed_prompts import requests_of

    requests = asyncio.run(requests_of(job, {topic.seed_id}))
    wanted = {call.request_id for call in topic.calls}
    if wanted and not wanted & requests.keys():
        raise UsageError(
            f"this job did not ask what made topic {topic.id}; give the job of {job.out} as it was then, --set included"
        )
    if missing := len(wanted - requests.keys()):
        say(f"{missing} of {len(wanted)} prompts cannot be made again: replies that they follow are not in the journal")
    return {name: request for name, request in requests.items() if name in wanted}


def reasons(
    reason: Annotated[
        str,
        typer.Argument(
            metavar="[REASON]", help="One reason, or the recipe, validator or judge that decides. Default: all."
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """What each reason of a topic means, who decides it, what mends it, and an example."""
    from foil.engine.reasons import reason_entries

    entries = reason_entries()
    by_part = [entry for entry in entries.values() if reason in entry.who.replace(",", " ").replace(";", " ").split()]
    chosen = [entries[reason]] if reason in entries else by_part if reason else list(entries.values())
    if not chosen:
        near = get_close_matches(reason, entries, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`foil reasons` lists them."
        raise UsageError(f"no part of Foil gives the reason {reason!r}; {hint} Curators and own parts may use others")
    if as_json:
        print_json({"reasons": [asdict(entry) for entry in chosen]})
    elif len(chosen) > 1:
        for entry in chosen:
            print_paragraph(f"{entry.name}: {entry.meaning}")
    else:
        [entry] = chosen
        print_line(entry.name)
        for name, text in (("means", entry.meaning), ("decided by", entry.who), ("change", entry.mend),
                           ("example", entry.example)):  # fmt: skip
            print_paragraph(f"{name}: {text}", "  ")
