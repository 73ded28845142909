"""Do the judges agree, with each other and with people? Cohen's kappa over the same labels, with a bootstrap interval.

    verdicts' votes, the topics' labels, a label file -> {rater: {label key: +1 or -1}} -> Agreement of every two raters

Kappa is the agreement of two raters beyond chance, given how often each says yes: 0 is chance, 1 is always. The
interval is the 2.5th and 97.5th percentile of kappa over resamples of the shared labels. A resample is drawn as counts
of the four outcomes, which is the same and costs nothing.

Promise: the same labels give the same numbers. A line of a label file that has no usable label is an error naming it.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from foil.engine.errors import UsageError
from foil.engine.ids import sha256_hex
from foil.engine.seeds.files.rows import read_table
from foil.validators.judges.votes import TIE, UNREADABLE

LabelKey = tuple[str, str, str]
"""Topic, intent and passage by their ids."""
Labels = dict[LabelKey, int]

RESAMPLES = 2000
_COLUMNS = ("topic_id", "intent_id", "passage_id", "relevance")
_RELEVANCE = {"1": 1, "+1": 1, "-1": -1}


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two raters agree on the `pairs` of intent and passage that both judged. Kappa is None if neither varies.

    `low` and `high` bound it with 95 % confidence, as far as the pairs are independent.
    """

    first: str
    second: str
    pairs: int
    agreed: float
    kappa: float | None
    low: float | None
    high: float | None


def compare_raters(raters: Mapping[str, Labels]) -> list[Agreement]:
    """Every two raters that share a label key, in the order of their names."""
    return [
        measure_agreement(first, second, [(raters[first][key], raters[second][key]) for key in shared])
        for first, second in combinations(sorted(raters), 2)
        if (shared := sorted(raters[first].keys() & raters[second].keys()))
    ]


def measure_agreement(first: str, second: str, labels: Iterable[tuple[int, int]]) -> Agreement:
    """Kappa over the two raters' labels of +1 and -1, at least one pair."""
    outcomes = Counter(labels)
    counts = np.array([outcomes[1, 1], outcomes[1, -1], outcomes[-1, 1], outcomes[-1, -1]])
    total = int(counts.sum())
    [kappa] = _kappas(counts[np.newaxis])
    rng = np.random.default_rng(int(sha256_hex(f"kappa\x1f{first}\x1f{second}")[:16], 16))
    resampled = _kappas(rng.multinomial(total, counts / total, size=RESAMPLES))
    resampled = resampled[~np.isnan(resampled)]
    low, high = np.percentile(resampled, [2.5, 97.5]) if len(resampled) and not np.isnan(kappa) else (None, None)
    agreed = round(float((counts[0] + counts[3]) / total), 4)
    return Agreement(first, second, total, agreed, _rounded(kappa), _rounded(low), _rounded(high))


def _kappas(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Kappa of each row of counts (yes-yes, yes-no, no-yes, no-no); nan where chance explains all."""
    both, only_first, only_second, neither = (counts / counts.sum(axis=1, keepdims=True)).T
    chance = (both + only_first) * (both + only_second) + (neither + only_first) * (neither + only_second)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(chance < 1, (both + neither - chance) / (1 - chance), np.nan)


def _rounded(value: Any) -> float | None:
    return None if value is None or np.isnan(value) else round(float(value), 4)


def fleiss_kappa(labels: Iterable[Iterable[int]]) -> float | None:
    """Fleiss's kappa of labels of +1 and -1, [subjects][raters]; None where chance explains all.

    Raises ValueError where subjects have different numbers of raters, or fewer than two.
    """
    rows = [tuple(row) for row in labels]
    raters = {len(row) for row in rows}
    if len(raters) != 1 or min(raters) < 2:
        raise ValueError(f"every subject needs the same number of raters, at least two; got {sorted(raters)}")
    [count] = raters
    yes = np.array([sum(label > 0 for label in row) for row in rows], np.float64)
    agreed = ((yes**2 + (count - yes) ** 2 - count) / (count * (count - 1))).mean()
    share = yes.sum() / (count * len(rows))
    chance = share**2 + (1 - share) ** 2
    return None if chance >= 1 else float((agreed - chance) / (1 - chance))


def read_votes(rows: Iterable[tuple[str, str, str]]) -> dict[str, Labels]:
    """The labels of each judge, from (topic id, validator, evidence) of the judges' verdicts.

    A rater is a validator with a role (`judge_relevance by judge`). The majority of its votes on a label key decides;
    an even vote gives no label.
    """
    sums: dict[str, Counter[LabelKey]] = defaultdict(Counter)
    for topic, validator, evidence in rows:
        for judge, intent, passage, sign in _votes(evidence):
            sums[f"{validator} by {judge}"][topic, intent, passage] += sign
    return {rater: {key: 1 if s > 0 else -1 for key, s in totals.items() if s} for rater, totals in sums.items()}


def _votes(evidence: str) -> Iterator[tuple[str, str, str, int]]:
    """Judge, intent, passage and sign of each vote in a verdict's evidence; nothing where it holds no votes."""
    try:
        facts = json.loads(evidence)
        votes = [(judge, choice) for judge, choice in facts["votes"]]
        intent, passages = facts["intent"], facts["shown"]
    except (ValueError, KeyError, TypeError):
        return
    for judge, choice in votes:
        if choice not in (TIE, UNREADABLE):
            for passage in passages:
                yield judge, intent, passage, 1 if choice == passage else -1


def read_labels(path: Path) -> dict[str, Labels]:
    """The labels of a table by rater, with `topic_id`, `intent_id`, `passage_id`,
    `relevance` (1 or -1) and perhaps `annotator`. Raises UsageError that names the line.
    """
    raters: dict[str, Labels] = defaultdict(dict)
    for line, row in ((each.line, each.value) for each in read_table(path)):
        missing = [name for name in _COLUMNS if row.get(name) in (None, "")]
        if missing:
            raise _line_error(path, line, f"no {missing[0]!r}; every label needs {', '.join(_COLUMNS)}")
        relevance = _RELEVANCE.get(str(row["relevance"]).strip())
        if relevance is None:
            raise _line_error(path, line, f"relevance {row['relevance']!r} is neither 1 nor -1")
        annotator = str(row.get("annotator") or "")
        key = str(row["topic_id"]), str(row["intent_id"]), str(row["passage_id"])
        if raters[f"human {annotator}".strip()].setdefault(key, relevance) != relevance:
            raise _line_error(path, line, f"intent {key[1]} and passage {key[2]} were labelled otherwise before")
    if not raters:
        raise UsageError(f"the label file {path} holds no label; it needs lines with {', '.join(_COLUMNS)}")
    return dict(raters)


def _line_error(path: Path, line: int, problem: str) -> UsageError:
    return UsageError(f"{path}:{line}: {problem}; mend the line")
