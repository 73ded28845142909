"""Mathematics: MetaMathQA rows and GSM8K rows, one question a seed, its right solutions as positives.

    MetaMathQA  {type, query, original_question, response}
    GSM8K       {question, answer}, the answer with `<<48/2=24>>` calculator notes and a last line `#### 72`
    GSM8K's sampled solutions  {question, ground_truth, NAME: {is_correct, solution}, ...}: right ones are further
        positives, wrong ones negatives
    MetaMath's backward questions  {question, answer, original_question, a solution under `inv_question_pred_answer` or
        `output`}: the solution is a positive only where it reaches the answer

Calculator notes are taken out. The seed's attributes name the `answer` and the `answer_sentence` that states it.
Mined negatives are solutions of similarly worded questions, never of a question with the same `original_question`.
Rows without an id are named by file and place, so ids hold for one version of the files.
Price: rows stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from engine.seeds.corpus import CorpusReader, CorpusSettings, NegativeCandidate, SeedDraft, make_seed
from engine.seeds.files.rows import SourceRow, place_in, rows
from engine.topic import Passage, PassageRole

_CALCULATOR = re.compile(r"<<[^<>]*>>")
_FINAL = re.compile(r"^\s*(?:####|The answer is:?|A:)\s*(?P<answer>.+?)\s*$", re.MULTILINE)
_NUMBER_NOISE = re.compile(r"[\s,$]")


class MetamathSettings(CorpusSettings):
    """Where the rows lie."""

    kind: Literal["metamath"] = "metamath"
    corpus: str = Field(default="metamath", min_length=1, description="Name of the corpus.")
    licence: str = Field(default="MIT", description="Licence of the texts.")
    redistributable: bool = Field(default=True, description="Whether the texts may be exported to others.")
    path: Path = Field(description="File or folder of rows: jsonl, JSON array or Parquet.")


class MetamathReader(CorpusReader):
    """Seeds of mathematical questions with their solutions."""

    def __init__(self, settings: MetamathSettings) -> None:
        super().__init__(settings)
        self._settings = settings

    def drafts(self) -> Iterator[SeedDraft]:
        return self.parsed(rows(self._settings.path, self._settings.max_row_bytes), self._draft)

    def candidates(self) -> Iterator[NegativeCandidate]:
        for draft in type(self)(self._settings).drafts():
            if draft.seed.positives:
                (key,) = draft.answers
                yield NegativeCandidate(key, draft.seed.query, draft.seed.positives)

    def _draft(self, row: SourceRow) -> SeedDraft:
        positives, negatives, answer = _solutions(row)
        query = row.text("query" if "query" in row.value else "question")
        original = row.text("original_question") if "original_question" in row.value else query
        attributes = {"answer": answer, "answer_sentence": _final_sentence(positives)}
        attributes["original_question"] = original if original != query else ""
        attributes["type"] = row.text("type") if "type" in row.value else ""
        known = {key: value for key, value in attributes.items() if value}
        seed = make_seed(
            self._settings, place_in(self._settings.path, row), query, positives, negatives, attributes=known
        )
        return SeedDraft(seed, frozenset({original}), row.path, row.line)


def _solutions(row: SourceRow) -> tuple[list[Passage], list[Passage], str]:
    """Right solutions, wrong solutions, and the answer."""
    if "response" in row.value:
        text = row.text("response")
        return [_solution(text, "seed_positive")], [], _final(text)
    if "ground_truth" in row.value:
        return _sampled(row)
    if "original_question" in row.value:
        return _backward(row)
    text = row.text("answer")
    if not _final(text):
        raise row.bad("a solution that ends with `#### answer`", text)
    return [_solution(text, "seed_positive")], [], _final(text)


def _sampled(row: SourceRow) -> tuple[list[Passage], list[Passage], str]:
    truth = row.text("ground_truth")
    right, wrong = [_solution(truth, "seed_positive")], []
    for name, sampled in row.value.items():
        if isinstance(sampled, dict):
            part = SourceRow(row.path, row.line, sampled)
            if not isinstance(sampled.get("is_correct"), bool):
                raise row.bad(f"true or false under 'is_correct' of {name!r}", sampled)
            if sampled["is_correct"]:
                right.append(_solution(part.text("solution"), "seed_positive", name))
            else:
                wrong.append(_solution(part.text("solution"), "seed_negative", name))
    return right, wrong, _final(truth)


def _backward(row: SourceRow) -> tuple[list[Passage], list[Passage], str]:
    answer = row.text("answer")
    if "output" in row.value:
        text = row.text("output")
        reached = _final(text)
    else:
        text, reached = row.text("inv_question_pred_answer"), str(row.value.get("pred_inv_answer_cleaned"))
    right = _NUMBER_NOISE.sub("", reached) == _NUMBER_NOISE.sub("", answer)
    solution = _solution(text.strip(), "seed_positive" if right else "seed_negative")
    return ([solution], [], answer) if right else ([], [solution], answer)


def _solution(text: str, role: PassageRole, model: str = "") -> Passage:
    return Passage(_CALCULATOR.sub("", text), role, attributes={"model": model} if model else {})


def _final(text: str) -> str:
    """The answer that the last such line of a solution states, or ""."""
    found = [match["answer"] for match in _FINAL.finditer(text)]
    return found[-1] if found else ""


def _final_sentence(solutions: list[Passage]) -> str:
    found = [match[0].strip() for match in _FINAL.finditer(solutions[0].text)] if solutions else []
    return found[-1] if found else ""
