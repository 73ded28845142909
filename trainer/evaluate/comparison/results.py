"""The results of systems on a benchmark: a mean a measure, against the base model with a paired bootstrap interval.

A benchmark of several collections is averaged as its authors do: over all queries (MAIR, InstructIR), or over the means
of the collections (FollowIR, InfoSearch). The interval resamples queries of all collections together.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from foil.engine.atomic_files import put_json_lines
from foil.engine.errors import CorruptDataError
from foil.trainer.evaluate.comparison.scores import CollectionScores, Values
from foil.trainer.evaluate.measures.significance import bootstrap_interval, differences, holm, t_test, wilcoxon

Average = Literal["queries", "parts"]


@dataclass(frozen=True, slots=True)
class Result:
    """One number, in points (x 100), of `count` queries or cores. `low` and `high` bound the difference to the base.

    `group` is "" for the whole, else `mode: reversed`, `dimension: length`, `part: Core17` and the like. The p-values
    are of no difference to the base, by Student's paired t-test and Wilcoxon's signed-rank test; `p_holm` is that of
    the t-test corrected over all systems and measures of the group. The base, and a single query, have none.
    """

    benchmark: str
    group: str
    measure: str
    system: str
    count: int
    value: float
    difference: float
    low: float
    high: float
    p_t_test: float | None = None
    p_wilcoxon: float | None = None
    p_holm: float | None = None


def results(
    benchmark: str, scores: Sequence[CollectionScores], base: str, average: Average, resamples: int
) -> Iterator[Result]:
    """All results on a benchmark: of the whole, then of its parts and groups where it has several."""
    for group, parts in _slices(scores):
        rows = []
        for measure in dict.fromkeys(measure for part in parts for measure in part[base]):
            by_system = {
                system: weighted([part[system].get(measure, {}) for part in parts], average) for system in parts[0]
            }
            for system, values in by_system.items():
                if values:
                    name = (benchmark, group, measure, system)
                    rows.append(_result(name, values, by_system[base], resamples, tested=system != base))
        tested = {str(place): each.p_t_test for place, each in enumerate(rows) if each.p_t_test is not None}
        corrected = holm(tested)
        yield from (replace(each, p_holm=corrected.get(str(place))) for place, each in enumerate(rows))


@dataclass(frozen=True, slots=True)
class InstructionLine:
    """What instructions are worth to a system, in points, on the `instructed` queries that have one.

    `low` and `high` bound `gain`, with - without, with 95 % confidence. None: nothing to compare. `unreachable` counts
    judgments that no system can rank, `unreachable_relevant` those of them that are relevant.
    """

    instructed: int
    with_instruction: float | None
    without_instruction: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    p_mrr: float | None
    unreachable: int
    unreachable_relevant: int


Gain = tuple[float | None, float | None, float | None, float | None, float | None]
LineKey = tuple[str, str, str]
"""Group, measure, system: the row of results that a line belongs to."""


def instruction_lines(
    scores: Sequence[CollectionScores], average: Average, resamples: int
) -> Iterator[tuple[LineKey, InstructionLine]]:
    """A line a system, of the whole and of each part; of parts with measures of their own the whole has the last's."""
    groups = {"": list(scores)}
    if len(scores) > 1:
        groups |= {f"part: {part.name.partition('/')[2]}": [part] for part in scores}
    for group, parts in groups.items():
        for system in dict.fromkeys(name for part in parts for name in part.both_ways):
            own = [part.both_ways[system] for part in parts if system in part.both_ways]
            paired = [both for both in own if both.bare] or own
            lost = [sum(part.unreachable[place] for part in parts) for place in (0, 1)]
            key = (group, own[-1].measure, system)
            instructed, bare, p_mrr = (
                {name: 100 * value for name, value in weighted(values, average).items()}
                for values in ([w.instructed for w in paired], [w.bare for w in paired], [w.p_mrr for w in own])
            )
            with_it, without, gain, low, high = _gain(instructed, bare, resamples)
            yield key, InstructionLine(len(instructed), with_it, without, gain, low, high, _mean(p_mrr), *lost)


def _gain(instructed: Values, bare: Values, resamples: int) -> Gain:
    """The means with and without, their difference and its bounds."""
    if not bare:
        return _mean(instructed), None, None, None, None
    gains = differences(bare, instructed)
    low, high = bootstrap_interval(gains, resamples) if gains.any() else (0.0, 0.0)
    return _mean(instructed), _mean(bare), float(gains.mean()), low, high


def _mean(values: Values) -> float | None:
    return float(np.mean(list(values.values()))) if values else None


def means(scores: Sequence[CollectionScores], system: str, average: Average) -> dict[str, float]:
    """The mean of each measure that has values, in points."""
    parts = [part.values[system] for part in scores]
    measures = dict.fromkeys(measure for part in parts for measure in part)
    values = {measure: weighted([part.get(measure, {}) for part in parts], average) for measure in measures}
    return {measure: 100 * float(np.mean(list(of.values()))) for measure, of in values.items() if of}


def weighted(parts: Sequence[Values], average: Average) -> dict[str, float]:
    """All values of all parts, such that their plain mean is the average over queries, or over the parts' means.

    >>> weighted([{"a": 1.0}, {"b": 0.0, "c": 0.5}], "parts")
    {'0/a': 1.5, '1/b': 0.0, '1/c': 0.375}
    """
    parts = [part for part in parts if part]
    total = sum(map(len, parts))
    scales = [total / len(parts) / len(part) if average == "parts" else 1.0 for part in parts]
    return {f"{place}/{key}": value * scales[place] for place, part in enumerate(parts) for key, value in part.items()}


def _result(name: tuple[str, str, str, str], values: Values, base: Values, resamples: int, *, tested: bool) -> Result:
    gains = 100 * differences(base, values)
    low, high = bootstrap_interval(gains, resamples) if gains.any() else (0.0, 0.0)
    mean = 100 * float(np.mean(list(values.values())))
    p_values = (t_test(gains), wilcoxon(gains)) if tested and len(gains) > 1 else ()
    return Result(*name, len(values), mean, float(gains.mean()), low, high, *p_values)


Slice = tuple[str, list[Mapping[str, Mapping[str, Values]]]]
"""A group's name, and of each collection the values of its queries."""


def _slices(scores: Sequence[CollectionScores]) -> Iterator[Slice]:
    yield "", [part.values for part in scores]
    if len(scores) > 1:
        yield from ((f"part: {part.name.partition('/')[2]}", [part.values]) for part in scores)
    for attribute in dict.fromkeys(attribute for part in scores for attribute in part.groups):
        names = {name for part in scores for name in part.groups.get(attribute, {}).values()}
        for name in sorted(names) if len(names) > 1 else ():
            yield f"{attribute}: {name}", [_only(part, attribute, name) for part in scores]


def _only(part: CollectionScores, attribute: str, name: str) -> dict[str, dict[str, dict[str, float]]]:
    group_of = part.groups.get(attribute, {})
    return {
        system: {
            measure: {key: value for key, value in values.items() if group_of.get(key) == name}
            for measure, values in by_measure.items()
        }
        for system, by_measure in part.values.items()
    }


def keep(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows to a JSONL file; one that measured the same thing in the same way replaces the earlier one."""
    by_key = {_key(row): row for row in [*_read(path), *rows]}
    put_json_lines(path, by_key.values())


def _key(row: Mapping[str, Any]) -> str:
    key_fields = ("benchmark", "group", "measure", "system", "collections", "k", "base", "facts")
    return json.dumps([row.get(name) for name in key_fields], sort_keys=True)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    except ValueError as error:
        raise CorruptDataError(
            f"{path} does not read as JSON lines ({error}); remove it or name another --out"
        ) from error
