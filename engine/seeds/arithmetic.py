"""Whether a worked solution's arithmetic holds: a right result does not make a solution right.

Only what can be read without doubt is held against it: an equation of numbers alone that is false, an operator without
its operand, and a last line whose results are all other numbers than the answer.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping

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
    """False where the text contradicts itself or its answer; True also where nothing can be checked."""
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
