"""How far a reader agrees with a run's labels: label error, unusable text, unnatural instructions, and their like.

    marks + key -> audit rows, one a passage -> AuditScore over all, and by recipe, corpus, contrast and family

Shares come with Wilson's interval at 95 %, which holds for few items and for shares near 0 (Wilson 1927). Items of one
sheet are taken as independent; passages of one item are not quite, so the intervals of passages are a little narrow.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from foil.validators.audits.marks import ItemMarks
from foil.validators.audits.sheet import Key
from foil.validators.judges.agreement import measure_agreement

_Z = 1.959963984540054
_DIMENSIONS = ("recipe", "corpus", "contrast", "family")


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One passage as one reader marked it. `label` is the run's, `mark` the reader's: +1 or -1."""

    audit: str
    reader: str
    item: int
    topic_id: str
    seed_id: str
    intent_id: str
    passage_id: str
    recipe: str
    corpus: str
    contrast: str
    family: str
    edited: bool
    label: int
    mark: int
    answers: bool
    usable: bool
    natural: bool
    gives_away: bool
    remark: str


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`, and Wilson's 95 % interval of the share; an interval of 0 to 1 over nothing."""

    count: int
    of: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class AuditScore:
    """What a reader found in one group of items.

    `label_error`: passages whose label the reader contradicts. `unusable`: passages whose text is. `unnatural`,
    `given_away`: instructions. `answers_lost`: edited passages labelled +1 that do not answer the query. `kappa`:
    Cohen's, between labels and marks; None where neither varies.
    """

    group: str
    value: str
    items: int
    kappa: float | None
    label_error: Share
    unusable: Share
    unnatural: Share
    given_away: Share
    answers_lost: Share


def audit_rows(audit: str, reader: str, marks: Iterable[ItemMarks], key: Key) -> Iterator[AuditRow]:
    """The rows of a run's view `audits`."""
    for item in marks:
        entry = key[str(item.number)]
        for passage in entry["passages"].values():
            mark = item.passages[passage["id"]]
            yield AuditRow(
                audit=audit,
                reader=reader,
                item=item.number,
                topic_id=entry["topic_id"],
                seed_id=entry["seed_id"],
                intent_id=entry["intent_id"],
                passage_id=passage["id"],
                recipe=entry["recipe"],
                corpus=entry["corpus"],
                contrast=entry["contrast"],
                family=entry["family"],
                edited=passage["edited"],
                label=passage["label"],
                mark=1 if mark.relevant else -1,
                answers=mark.answers,
                usable=mark.usable,
                natural=item.natural,
                gives_away=item.gives_away,
                remark=item.remark,
            )


def score(rows: Sequence[AuditRow]) -> list[AuditScore]:
    """The score over all rows, then by each value of recipe, corpus, contrast and family."""
    scores = [_score("all", "", rows)]
    for name in _DIMENSIONS:
        values = sorted({str(getattr(row, name)) for row in rows})
        scores += [_score(name, value, [row for row in rows if getattr(row, name) == value]) for value in values]
    return scores


def false_rejections(rows: Sequence[AuditRow], key: Key) -> dict[str, Share]:
    """By reason, the rejected items of which a reader confirms every label and finds every text usable."""
    confirmed: dict[tuple[str, str, int], bool] = {}
    for row in rows:
        item = row.audit, row.reader, row.item
        confirmed[item] = confirmed.get(item, True) and row.label == row.mark and row.usable
    by_reason: dict[str, list[bool]] = {}
    for (_, _, number), is_false in confirmed.items():
        if reason := key[str(number)].get("reason"):
            by_reason.setdefault(reason, []).append(is_false)
    return {reason: wilson(sum(items), len(items)) for reason, items in sorted(by_reason.items())}


def rejection_words(shares: Mapping[str, Share]) -> list[str]:
    """A line for each reason."""
    return [
        f"{reason}: {share.count} of {share.of} rejections are false by the reader, "
        f"{share.count / share.of:.0%} [{share.low:.0%}, {share.high:.0%}]"
        for reason, share in shares.items()
    ]


def _score(group: str, value: str, rows: Sequence[AuditRow]) -> AuditScore:
    items = list({(row.audit, row.reader, row.item): row for row in rows}.values())
    lost = [row for row in rows if row.edited and row.label > 0]
    agreement = measure_agreement("labels", "reader", [(row.label, row.mark) for row in rows])
    return AuditScore(
        group,
        value,
        len(items),
        agreement.kappa,
        _share(rows, lambda row: row.label != row.mark),
        _share(rows, lambda row: not row.usable),
        _share(items, lambda row: not row.natural),
        _share(items, lambda row: row.gives_away),
        _share(lost, lambda row: not row.answers),
    )


def _share(rows: Sequence[AuditRow], holds: Callable[[AuditRow], bool]) -> Share:
    return wilson(sum(map(holds, rows)), len(rows))


def wilson(count: int, of: int) -> Share:
    """The share with Wilson's score interval at 95 %."""
    if not of:
        return Share(0, 0, 0.0, 1.0)
    p, z2 = count / of, _Z**2
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of))
    return Share(count, of, round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4))


def plain(scores: Iterable[AuditScore]) -> list[dict[str, Any]]:
    """The scores as JSON holds them."""
    return [asdict(each) for each in scores]
