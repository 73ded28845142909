"""Pairs of a search and a passage that people have judged, and the topics over which judges are asked about them.

    LABELS.jsonl, .tsv or .csv -> LabelledPair -> a topic a search, its passages judged as people did

Columns: query, passage, relevant; perhaps instruction, title, demands and bans (a list, or several in a cell with ` | `
between), and core (what a search shares with its variants; otherwise its query).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from foil.engine.errors import UsageError
from foil.engine.ids import content_id
from foil.engine.seeds.files.rows import read_table
from foil.engine.topic import Intent, IntentRole, Judgment, Passage, Topic, intent_id
from foil.prompts.demands import ATTRIBUTE, Demands, dump_demands

COLUMNS = ("query", "passage", "relevant")
_RELEVANT = {"1": True, "+1": True, "true": True, "0": False, "-1": False, "false": False}
_NONE = Demands()


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """What somebody said of one passage under one search. Pairs of one `core` are not independent of each other."""

    query: str
    text: str
    relevant: bool
    instruction: str = ""
    title: str = ""
    demands: Demands = _NONE
    core: str = ""


def read_pairs(path: Path) -> list[LabelledPair]:
    """The pairs of a file. Raises UsageError that names the line."""
    pairs = [_pair(path, row.line, row.value) for row in read_table(path)]
    if not pairs:
        raise UsageError(f"{path} holds no labelled pair; it needs lines with {', '.join(COLUMNS)}")
    return pairs


def _pair(path: Path, line: int, row: Mapping[str, Any]) -> LabelledPair:
    missing = [name for name in COLUMNS if row.get(name) in (None, "")]
    if missing:
        raise _refused(path, line, f"no {missing[0]!r}; every pair needs {', '.join(COLUMNS)}")
    relevant = _RELEVANT.get(str(row["relevant"]).strip().lower())
    if relevant is None:
        raise _refused(path, line, f"relevant is {row['relevant']!r}; write one of {', '.join(_RELEVANT)}")
    texts = {name: str(row.get(name) or "").strip() for name in ("query", "passage", "instruction", "title", "core")}
    questions = Demands(*(_questions(path, line, row.get(name)) for name in Demands._fields))
    return LabelledPair(
        texts["query"], texts["passage"], relevant, texts["instruction"], texts["title"], questions,
        texts["core"] or texts["query"],
    )  # fmt: skip


def _questions(path: Path, line: int, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(" | ") if part.strip())
    if value is None or (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        return tuple(value or ())
    raise _refused(path, line, f"{value!r} is no list of questions")


def _refused(path: Path, line: int, problem: str) -> UsageError:
    return UsageError(f"{path}:{line}: {problem}; mend the line")


def topics_of(pairs: Iterable[LabelledPair]) -> list[tuple[Topic, str]]:
    """A topic for each search, with its core: one intent, its passages, and people's judgments of them.

    Of a passage that is judged twice under a search, the first judgment counts.
    """
    searches: dict[tuple[str, str, Demands], list[LabelledPair]] = {}
    for pair in pairs:
        searches.setdefault((pair.query, pair.instruction, pair.demands), []).append(pair)
    return [(_topic(own), own[0].core) for own in searches.values()]


def _topic(pairs: list[LabelledPair]) -> Topic:
    first = pairs[0]
    name = content_id("labelled", first.query, first.instruction, dump_demands(*first.demands))
    attributes = {ATTRIBUTE: dump_demands(*first.demands)} if any(first.demands) else {}
    id_, role = intent_id(name, first.instruction, first.query), "instructed" if first.instruction else "original"
    intent = Intent(id_, cast("IntentRole", role), first.instruction, first.query, attributes)
    labels: dict[str, tuple[Passage, Judgment]] = {}
    for pair in pairs:
        passage = Passage(pair.text, "distractor", pair.title)
        labels.setdefault(passage.id, (passage, Judgment(id_, passage.id, 1 if pair.relevant else -1, "human")))
    passages, judgments = zip(*labels.values(), strict=True)
    return Topic(name, name, "labelled", "labelled", first.query, (intent,), passages, judgments)
