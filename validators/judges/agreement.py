"""Do the judges agree, with each other and with people? Cohen's kappa over the same pairs, with a bootstrap interval.

    verdicts' votes, the topics' labels, a label file -> {rater: {pair: +1 or -1}} -> Agreement of every two raters

A pair is (topic, intent, passage). Kappa is what two raters agree beyond what they would by chance, given how often
each says yes: 0 is chance, 1 is always. The interval is the 2.5th and 97.5th percentile of kappa over resamples of the
pairs (drawn as counts of the four outcomes, which is the same and costs nothing). Promise: the same labels give the
same numbers; a line of a label file that says nothing usable is an error that names it.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import UsageError
from engine.ids import sha256_hex
from validators.judges.panel import TIE, UNREADABLE

Pair = tuple[str, str, str]
"""Topic, intent and passage by their ids."""
Labels = dict[Pair, int]

RESAMPLES = 2000
_COLUMNS = ("topic_id", "intent_id", "passage_id", "relevance")
_SAID = {"1": 1, "+1": 1, "-1": -1}


@dataclass(frozen=True, slots=True)
class Agreement:
    """What two raters said of the pairs that both judged. Kappa is None where both always say one thing.

    `low` and `high` bound it with 95 % confidence, as far as the pairs are independent.
    """

    first: str
    second: str
    pairs: int
    agreed: float
    kappa: float | None
    low: float | None
    high: float | None


def compare(raters: Mapping[str, Labels]) -> list[Agreement]:
    """Every two raters that share a pair, in the order of their names."""
    return [
        agreement(first, second, [(raters[first][pair], raters[second][pair]) for pair in common])
        for first, second in combinations(sorted(raters), 2)
        if (common := sorted(raters[first].keys() & raters[second].keys()))
    ]


def agreement(first: str, second: str, said: Iterable[tuple[int, int]]) -> Agreement:
    """Kappa over pairs of +1 and -1, at least one."""
    counted = Counter(said)
    counts = np.array([counted[1, 1], counted[1, -1], counted[-1, 1], counted[-1, -1]])
    total = int(counts.sum())
    [kappa] = _kappas(counts[np.newaxis])
    rng = np.random.default_rng(int(sha256_hex(f"kappa\x1f{first}\x1f{second}")[:16], 16))
    drawn = _kappas(rng.multinomial(total, counts / total, size=RESAMPLES))
    known = drawn[~np.isnan(drawn)]
    low, high = np.percentile(known, [2.5, 97.5]) if len(known) and not np.isnan(kappa) else (None, None)
    agreed = round(float((counts[0] + counts[3]) / total), 4)
    return Agreement(first, second, total, agreed, _plain(kappa), _plain(low), _plain(high))


def _kappas(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Kappa of each row of counts (yes-yes, yes-no, no-yes, no-no); nan where chance explains all."""
    both, mine, yours, neither = (counts / counts.sum(axis=1, keepdims=True)).T
    chance = (both + mine) * (both + yours) + (neither + mine) * (neither + yours)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(chance < 1, (both + neither - chance) / (1 - chance), np.nan)


def _plain(value: Any) -> float | None:
    return None if value is None or np.isnan(value) else round(float(value), 4)


# --- what judges said ---


def votes_of(rows: Iterable[tuple[str, str, str]]) -> dict[str, Labels]:
    """What each judge said, from (topic id, validator, evidence) of the judges' verdicts.

    A rater is a validator with a role (`judge_relevance by judge`); of its votes on a pair most decide, and none does
    where they are even.
    """
    sums: dict[str, Counter[Pair]] = defaultdict(Counter)
    for topic, validator, evidence in rows:
        for judge, intent, passage, sign in _votes(evidence):
            sums[f"{validator} by {judge}"][topic, intent, passage] += sign
    return {rater: {pair: 1 if s > 0 else -1 for pair, s in said.items() if s} for rater, said in sums.items()}


def _votes(evidence: str) -> Iterator[tuple[str, str, str, int]]:
    """Judge, intent, passage and sign of each vote in a verdict's evidence; nothing where it holds no votes."""
    try:
        facts = json.loads(evidence)
        found = [(judge, choice) for judge, choice in facts["votes"]]
        intent, shown = facts["intent"], facts["shown"]
    except (ValueError, KeyError, TypeError):
        return
    for judge, choice in found:
        if choice not in (TIE, UNREADABLE):
            for passage in shown:
                yield judge, intent, passage, 1 if choice == passage else -1


# --- what people said ---


def read_labels(path: Path) -> dict[str, Labels]:
    """The labels of a file by rater: lines of JSON, or CSV with a header, with `topic_id`, `intent_id`, `passage_id`,
    `relevance` (1 or -1) and perhaps `annotator`. Raises UsageError that names the line.
    """
    raters: dict[str, Labels] = defaultdict(dict)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the label file {path} cannot be read: {error}; give a .jsonl or .csv file in UTF-8"
        ) from None
    for line, row in _json_lines(path, text) if path.suffix == ".jsonl" else _csv_lines(path, text):
        missing = [name for name in _COLUMNS if row.get(name) in (None, "")]
        if missing:
            raise _bad(path, line, f"no {missing[0]!r}; every label needs {', '.join(_COLUMNS)}")
        said = _SAID.get(str(row["relevance"]).strip())
        if said is None:
            raise _bad(path, line, f"relevance {row['relevance']!r} is neither 1 nor -1")
        who = str(row.get("annotator") or "")
        pair = str(row["topic_id"]), str(row["intent_id"]), str(row["passage_id"])
        if raters[f"human {who}".strip()].setdefault(pair, said) != said:
            raise _bad(path, line, f"intent {pair[1]} and passage {pair[2]} were labelled otherwise before")
    if not raters:
        raise UsageError(f"the label file {path} holds no label; it needs lines with {', '.join(_COLUMNS)}")
    return dict(raters)


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise _bad(path, number, f"no JSON: {error}") from None
            if not isinstance(row, dict):
                raise _bad(path, number, "no JSON object")
            yield number, row


def _csv_lines(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise _bad(path, 1, f"the header has no column {missing[0]!r}; it needs {', '.join(_COLUMNS)}")
    for row in reader:
        yield reader.line_num, row


def _bad(path: Path, line: int, problem: str) -> UsageError:
    return UsageError(f"{path}:{line}: {problem}; mend the line")
