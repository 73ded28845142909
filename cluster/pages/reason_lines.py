"""Why topics were not accepted, in words: what a reason means, what mends it, an example, and a command to paste."""

from __future__ import annotations

import shlex
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from foil.cluster.terminal import print_line, print_paragraph
from foil.engine.errors import FoilError
from foil.engine.reasons import reason_entries

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection
    from pathlib import Path

    from foil.engine.topic import Topic

_COMMONEST = 3
_PARTITIONS_READ = 20
_QUOTED = 120
_OWN = "No part of this version gives this reason: an earlier version, your own recipe or check, or a curator did."


def print_commonest(out: Path, reasons: Counter[str], topics: int, *, examples: bool = True) -> None:
    """The commonest reasons against topics of a run, each with its meaning and, if wanted, an example from that run."""
    common = reasons.most_common(_COMMONEST)
    example_of = _examples(out, {reason for reason, _ in common}) if common and examples else {}
    for reason, count in common:
        entry = reason_entries().get(reason)
        print_paragraph(f"{count / topics:.0%} {reason}, {count:,} of {topics:,} topics: {meaning_of(reason)}")
        if entry:
            print_paragraph(f"change: {entry.mend}", "    ")
        if topic := example_of.get(reason):
            quoted = f" - {_quote(topic.detail)}" if topic.detail and not topic.detail.startswith("{") else ""
            print_paragraph(f"for example {_quote(topic.query)}{quoted}", "    ")
            print_line(f"    foil why {shlex.quote(str(out))} {shlex.quote(topic.id)}")
        print_line(f"    foil show {shlex.quote(str(out))} --reason {shlex.quote(reason)}")


def meaning_of(reason: str) -> str:
    """What a reason means, in a sentence."""
    entry = reason_entries().get(reason)
    return entry.meaning if entry else _OWN


def _examples(out: Path, reasons: Collection[str]) -> dict[str, Topic]:
    """A topic for each reason that the first partitions of the run have; fewer where data of theirs is damaged."""
    from foil.datasets_out.commits.snapshot import load_snapshot, read_partitions

    examples = dict[str, "Topic"]()
    with suppress(FoilError):  # `foil verify` says so; the end of a run must not fail over it
        for topics in islice(read_partitions(load_snapshot(out, None)), _PARTITIONS_READ):
            for topic in topics:
                if topic.status != "accepted" and topic.reason in reasons:
                    examples.setdefault(topic.reason, topic)
            if len(examples) == len(reasons):
                break
    return examples


def _quote(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")
