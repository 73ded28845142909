"""Blind labelling of a run: one sheet (`validators.audits`), several annotators, each mark durable at once.

    LabelSession: items in an annotator's own order -> marks -> OUT/audits/NAME.ANNOTATOR.parquet (view `audits`)
                                                             -> agreement of the annotators so far

Promise: `put` returns when the item's marks survive a kill and a power cut. Nobody sees a label of the run, or a mark
of another annotator, while labelling: the agreement shown is one number for all items together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of

if TYPE_CHECKING:
    from foil.datasets_out.commits.snapshot import Snapshot
    from foil.engine.topic import Topic
    from foil.validators.audits.sheet import AuditItem, Key


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """How annotators agree on the passages that all of them marked. `who` is two names, or `all` (Fleiss's kappa)."""

    who: str
    passages: int
    kappa: float | None


@dataclass(frozen=True, slots=True)
class SheetDraw:
    """Which topics a new sheet has: how many, by which seed, of which status and, if rejected, of which reason."""

    topics: int = 40
    seed: int = 0
    status: str = "accepted"
    reason: str = ""

    @property
    def name(self) -> str:
        """What the sheet is called where nobody names it."""
        kind = "" if self.status == "accepted" else f"-{self.reason or self.status}"
        return f"seed{self.seed}-topics{self.topics}{kind}"

    def items(self, out: Path, source: Snapshot) -> list[AuditItem]:
        """The items drawn from what is committed in `out`. Raises UsageError where there is none."""
        from foil.datasets_out.commits.snapshot import read_partitions
        from foil.validators.audits.sheet import draw_items

        all_topics = chain.from_iterable(read_partitions(source))
        items = draw_items(filter(self._takes, all_topics), self.topics, self.seed)
        if not items:
            reason = f" of the reason {self.reason}" if self.reason else ""
            raise UsageError(f"{out} has no {self.status} topic{reason} with an instruction yet; nothing can be drawn")
        return items

    def _takes(self, topic: Topic) -> bool:
        return topic.status == self.status and self.reason in ("", topic.reason)


class LabelSession:
    """The sheet `name` of a run; drawn as `draw` says where there is none of that name, else gone on with.

    Raises UsageError where the run has no such topic with an instruction.
    """

    def __init__(self, out: Path, name: str, draw: SheetDraw | None = None) -> None:
        self.out, self.name = out, name
        self._key, self.items = _open_sheet(out, name, draw or SheetDraw())
        self._by_number = {item.number: item for item in self.items}

    def item(self, number: int) -> AuditItem:
        """The item of that number. Raises UsageError."""
        if number not in self._by_number:
            raise UsageError(f"the sheet {self.name!r} has no item {number}; it has 1 to {len(self.items)}")
        return self._by_number[number]

    def order(self, annotator: str) -> list[int]:
        """The numbers of the items as this annotator sees them: an order of their own, the same each time."""
        return sorted(self._by_number, key=lambda number: fraction_of("label", self.name, annotator, str(number)))

    def done(self, annotator: str) -> set[int]:
        """The items that this annotator has marked."""
        return {row["item"] for row in self._rows(annotator)}

    def next_item(self, annotator: str) -> int | None:
        """The first item in the annotator's order that is not marked; None where all are."""
        marked = self.done(annotator)
        return next((number for number in self.order(annotator) if number not in marked), None)

    def put(self, annotator: str, number: int, values: Mapping[str, str]) -> None:
        """Keeps the marks of one item (`A`: `+u`, `natural`: `y`), in place of earlier ones. Raises UsageError."""
        from foil.datasets_out.sql.audits import put_item
        from foil.validators.audits.marks import marks_of
        from foil.validators.audits.score import audit_rows

        self.item(number)
        marks = marks_of(values, number, self._key)
        rows = map(asdict, audit_rows(self.name, annotator, [marks], self._key))
        put_item(self.out, self.name, annotator, number, rows)

    def marks(self, annotator: str, number: int) -> dict[str, str]:
        """What the annotator marked on an item, as `put` takes it; {} where nothing."""
        rows = [row for row in self._rows(annotator) if row["item"] == number]
        letters = {p.passage_id: p.letter for p in self.item(number).passages}
        values = {letters[row["passage_id"]]: _mark(row) for row in rows if row["passage_id"] in letters}
        if rows and self.item(number).instruction:
            values |= {"natural": _yes_no(rows[0]["natural"]), "gives": _yes_no(rows[0]["gives_away"])}
        return values | ({"remark": rows[0]["remark"]} if rows else {})

    def agreement(self) -> list[LabelAgreement]:
        """Cohen's kappa of every two annotators, then Fleiss's of all of them where there are three and more."""
        from foil.datasets_out.sql.audits import readers_of
        from foil.validators.judges.agreement import fleiss_kappa, measure_agreement

        raters = {
            reader: {(row["item"], row["passage_id"]): row["mark"] for row in self._rows(reader)}
            for reader in readers_of(self.out, self.name)
        }
        agreements = []
        for first, second in combinations(sorted(raters), 2):
            shared = sorted(raters[first].keys() & raters[second].keys())
            pairs = [(raters[first][key], raters[second][key]) for key in shared]
            kappa = measure_agreement(first, second, pairs).kappa if pairs else None
            agreements.append(LabelAgreement(f"{first} and {second}", len(shared), kappa))
        if len(raters) > 2 and (common := set.intersection(*(set(marks) for marks in raters.values()))):
            labels = [[marks[key] for marks in raters.values()] for key in sorted(common)]
            agreements.append(LabelAgreement("all", len(common), fleiss_kappa(labels)))
        return agreements

    def false_rejections(self, annotator: str) -> list[str]:
        """In words, by reason: the rejections that the annotator's marks contradict; none of accepted topics."""
        from foil.validators.audits.score import AuditRow, false_rejections, rejection_words

        rows = [AuditRow(**row) for row in self._rows(annotator)]
        return rejection_words(false_rejections(rows, self._key))

    def _rows(self, annotator: str) -> list[dict[str, Any]]:
        from foil.datasets_out.sql.audits import read_reader

        return read_reader(self.out, self.name, annotator)


def _open_sheet(out: Path, name: str, draw: SheetDraw) -> tuple[Key, list[AuditItem]]:
    from foil.datasets_out.commits.snapshot import load_snapshot
    from foil.datasets_out.sql.audits import key_names, put_key, read_key
    from foil.validators.audits.sheet import items_of, key_of

    source = load_snapshot(out, None)
    if name in key_names(out):
        facts = read_key(out, name)
        key: Key = facts["items"]
        return key, items_of(key, _topics_of(source, key), facts["seed"])
    items = draw.items(out, source)
    key = key_of(items)
    put_key(out, name, {"seed": draw.seed, "snapshot": source.digest, "items": key})
    return key, items


def _topics_of(source: Any, key: Key) -> dict[str, Topic]:
    from foil.datasets_out.commits.snapshot import read_partitions

    topic_ids = {entry["topic_id"] for entry in key.values()}
    return {topic.id: topic for topic in chain.from_iterable(read_partitions(source)) if topic.id in topic_ids}


def _mark(row: Mapping[str, Any]) -> str:
    sign = "+" if row["mark"] > 0 else "-" if row["answers"] else "0"
    return sign if row["usable"] else f"{sign}u"


def _yes_no(value: bool) -> str:
    return "y" if value else "n"
