"""Mathematics: MetaMathQA rows and GSM8K rows; each question is a seed, its right solutions are the positives.

    MetaMathQA  {type, query, original_question, response}
    GSM8K       {question, answer}, the answer with `<<48/2=24>>` calculator notes and a last line `#### 72`
    GSM8K's sampled solutions  {question, ground_truth, NAME: {is_correct, solution}, ...}: right ones are further
        positives, wrong ones negatives; what may have reached the answer by luck is neither (`_is_vouched`)
    MetaMath's backward questions  {question, answer, original_question, a solution under `inv_question_pred_answer` or
        `output`}: the solution is a positive only if it reaches the answer

Calculator notes are removed. The seed's attributes name the `answer` and the `answer_sentence` that states it.
Mined negatives are solutions of similarly worded questions, never of a question with the same `original_question`.
Rows without an id are named by file and line, so ids hold for one version of the files. Memory holds one row at a time.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from foil.engine.seeds.corpus import CorpusSeed, CorpusSettings, NegativeCandidate
from foil.engine.seeds.files.rows import Record, SourceRow, location_id
from foil.engine.seeds.parallel.rows import RowReader
from foil.engine.topic import Passage, PassageRole

_CALCULATOR = re.compile(r"<<[^<>]*>>")
_FINAL_ANSWER = re.compile(r"^[^\S\n]*(?:####|The answer is:?|A:)\s*(?P<answer>.+?)\s*$", re.MULTILINE)
_NUMBER_PUNCTUATION = re.compile(r"[\s,$]")


class MetamathSettings(CorpusSettings):
    """The files of the rows."""

    kind: Literal["metamath"] = "metamath"
    corpus: str = Field("metamath", min_length=1, description="Name of the corpus.")
    licence: str = Field("MIT", description="Licence of the texts.")
    redistributable: bool = Field(True, description="Whether the texts may be passed on to others.")
    path: Path = Field(description="File or folder of rows: jsonl, JSON array or Parquet.")


class MetamathReader(RowReader[MetamathSettings]):
    """Makes seeds of mathematical questions with their solutions."""

    def rows_path(self) -> Path:
        return self._settings.path

    def seeds_of(self, rows: Iterable[Record]) -> Iterator[CorpusSeed]:
        return self.parse_records(rows, self._parse_row)

    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        for corpus_seed in self.from_the_start():
            if corpus_seed.seed.positives:
                (key,) = corpus_seed.answer_keys
                query = corpus_seed.seed.query
                yield NegativeCandidate(key, query, corpus_seed.seed.positives, query)

    def _parse_row(self, row: SourceRow) -> CorpusSeed:
        positives, negatives, answer = _parse_solutions(row)
        query = row.text("query" if "query" in row.value else "question")
        original = row.text("original_question") if "original_question" in row.value else query
        values = {
            "answer": answer,
            "answer_sentence": _answer_sentence(positives),
            "original_question": original if original != query else "",
            "type": row.text("type") if "type" in row.value else "",
        }
        attributes = {key: value for key, value in values.items() if value}
        seed_id = location_id(self._settings.path, row)
        seed = self.make_seed(seed_id, query, positives, negatives, attributes)
        return CorpusSeed(seed, frozenset({original}), row.path, row.line)


def _parse_solutions(row: SourceRow) -> tuple[list[Passage], list[Passage], str]:
    """Right solutions, wrong solutions, and the answer."""
    if "response" in row.value:
        text = row.text("response")
        return [_solution(text, "seed_positive")], [], _final_answer(text)
    if "ground_truth" in row.value:
        return _parse_sampled(row)
    if "original_question" in row.value:
        return _parse_backward(row)
    text = row.text("answer")
    if not _final_answer(text):
        raise row.format_error("a solution that ends with `#### answer`", text)
    return [_solution(text, "seed_positive")], [], _final_answer(text)


def _parse_sampled(row: SourceRow) -> tuple[list[Passage], list[Passage], str]:
    ground_truth = row.text("ground_truth")
    answer = _final_answer(ground_truth)
    reference, right, negatives = _solution(ground_truth, "seed_positive"), list[Passage](), list[Passage]()
    for model, sample in row.value.items():
        if isinstance(sample, dict):
            record = row.nested(sample, "a sampled solution")
            if not isinstance(sample.get("is_correct"), bool):
                raise row.format_error(f"true or false under 'is_correct' of {model!r}", sample)
            if sample["is_correct"]:
                right.append(_solution(record.text("solution"), "seed_positive", model))
            else:
                negatives.append(_solution(record.text("solution"), "seed_negative", model))
    right = [p for p in right if is_sound(p.text, answer)]
    vouched = [p for p in right if _is_vouched(p, [reference, *right])] if len(right) > len(negatives) + 1 else []
    return [*([reference] if is_sound(reference.text, answer) else []), *vouched], negatives, answer


def _is_vouched(solution: Passage, solutions: list[Passage]) -> bool:
    """Whether other right solutions of the question come to all that this one calculates.

    A sample with a step of its own is right by luck about as often as by wit; where most samples of a question fail,
    all are under suspicion.
    """
    peer_results = (results_of(peer.text) for peer in solutions if peer is not solution)
    return results_of(solution.text) <= frozenset[float]().union(*peer_results)


def _parse_backward(row: SourceRow) -> tuple[list[Passage], list[Passage], str]:
    answer = row.text("answer")
    if "output" in row.value:
        text = row.text("output")
        reached_answer = _final_answer(text)
    else:
        text, reached_answer = row.text("inv_question_pred_answer"), str(row.value.get("pred_inv_answer_cleaned"))
    if _NUMBER_PUNCTUATION.sub("", reached_answer) == _NUMBER_PUNCTUATION.sub("", answer):
        return [_solution(text.strip(), "seed_positive")], [], answer
    return [], [_solution(text.strip(), "seed_negative")], answer


def _solution(text: str, role: PassageRole, model: str = "") -> Passage:
    return Passage(_CALCULATOR.sub("", text), role, attributes={"model": model} if model else {})


def _final_answer(text: str) -> str:
    """The answer that the last such line of a solution states, or ""."""
    answers = [match["answer"] for match in _FINAL_ANSWER.finditer(text)]
    return answers[-1] if answers else ""


def _answer_sentence(solutions: list[Passage]) -> str:
    lines = [match[0].strip() for match in _FINAL_ANSWER.finditer(solutions[0].text)] if solutions else []
    return lines[-1] if lines else ""


_NUMBER = r"\$?-?\$?(?:\d{1,3}(?:[, ]\d{3})+|\d+)?(?:\.\d+|(?<=\d))%?"
_OPERATOR = r"(?:[-–+*/×÷]|x(?=\s*[\d$(]))"
_TERM = rf"\(*\s*{_NUMBER}\s*\)*"
_EQUATION = re.compile(
    rf"(?P<left>{_TERM}(?:\s*{_OPERATOR}\s*{_TERM})+)\s*=\s*(?P<right>{_NUMBER})(?!\s*{_OPERATOR}\s*[\d$(]|[\w.,/]*\d)"
)
_UNFINISHED = re.compile(r"\d%\d|[-+*/×÷]\s*=|=\s*=|=\s*[*/×÷]")
_RESULT = re.compile(rf"(?<![\w.]){_NUMBER}(?!\s*{_OPERATOR}\s*[\d$(]|\s*=|[\w.,/]*\d)")
_BEFORE = re.compile(r"(?:[-–+*/×÷=\d)]|\bx)\s*$")
_CALCULATION: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_RESULT_OF = re.compile(rf"=\s*({_NUMBER})")
_MARKED = ("A:", "####", "The answer is")


def is_sound(solution: str, answer: str) -> bool:
    """False where the text contradicts itself or its answer; True also where nothing can be checked.

    A right result does not make a solution right. Held against it is only what can be read without doubt: an equation
    of numbers alone that is false, an operator without its operand, a last line whose results are all other numbers
    than the answer.
    """
    lines = [line for line in solution.splitlines() if line.strip() and not line.strip().startswith(_MARKED)]
    if not lines or any(_UNFINISHED.search(line) or _says_something_false(line) for line in lines):
        return False
    expected = _value(answer)
    results = [value for match in _RESULT.finditer(lines[-1]) if (value := _value(match[0])) is not None]
    return expected is None or not results or any(_are_near(value, expected, 0.01) for value in results)


def results_of(solution: str) -> frozenset[float]:
    """What the solution's calculations come to: the numbers after its equals signs."""
    values = (_value(match[1]) for match in _RESULT_OF.finditer(solution))
    return frozenset(round(value, 2) for value in values if value is not None)


def _says_something_false(line: str) -> bool:
    return any(_is_false(match) for match in _EQUATION.finditer(line) if not _BEFORE.search(line[: match.start()]))


def _is_false(equation: re.Match[str]) -> bool:
    value, stated = _value(equation["left"]), _value(equation["right"])
    if value is None or stated is None:
        return False
    room = max(0.51, 0.01 * abs(value)) if re.search(r"[/÷]", equation["left"]) else 0.01 * max(1.0, abs(value))
    return not _are_near(value, stated, room)


def _are_near(number: float, expected: float, room: float) -> bool:
    """Whether they are equal but for rounding, for a sign of per cent, or for dollars told in cents."""
    return any(abs(number - expected * scale) <= room for scale in (1, 100, 0.01))


def _value(text: str) -> float | None:
    """The value of an expression of numbers, or None."""
    plain = re.sub(r"[$,\s]", "", text).replace("×", "*").replace("x", "*").replace("÷", "/").replace("–", "-")
    try:
        return _evaluate(ast.parse(re.sub(r"([\d.]+)%", r"(\1/100)", plain), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


def _evaluate(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _CALCULATION:
            return _CALCULATION[type(op)](_evaluate(left), _evaluate(right))
    raise ValueError(ast.dump(node))
