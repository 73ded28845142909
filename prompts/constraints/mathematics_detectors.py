"""Detectors of what a worked solution shows: its operations, how it writes numbers, and the words that lead on."""

import re

from foil.prompts.constraints.detectors import Attributes, Detector, by_pattern, by_patterns

OPERATION = by_patterns(
    {
        "addition": (r"\d *\+ *\$?\d|\d[\w $%.,)]{0,25}\+[ (]*\$?\d", "+"),
        "subtraction": (r"\d[\w $%.,)]{0,25}[-–−] *\$?\d+[^\n]{0,40}=", "-|–|−"),
        "multiplication": (
            r"\d[\w $%.,)]{0,25}[*×][ (]*\$?\d|\d *x *\$?\d|\d *\\(?:times|cdot) *\d",
            "*|×|x|times|cdot",
        ),
        "division": (r"\d[\w $%.,)]{0,25}(?:/|÷)[ (]*\$?\d[^\n]{0,20}=", "/|÷"),
    },
    {
        "addition": r"\+|\badd|\bsum|total|altogether|combined|\bmore\b|\bplus\b",
        "subtraction": r"[-–−] *\$?[\d(a-z.]|subtract|minus|less|left|fewer|differ|remain|take",
        "multiplication": r"[*×]|\\times|\\cdot|\d *x\b|times|multipl|product|twice|double|triple|each|per|\)\(|\^",
        "division": r"/|÷|\\frac|divid|half|third|quarter|per\b|ratio|average|each|split",
    },
)
DECIMALS = by_pattern(r"(?<![\w.])\d+\.\d*[1-9]\d*(?![\w.]\d)", ".", loose=r"\d\.\d|\.\d|decimal|point")
UNKNOWN = by_pattern(
    r"\b[Ll]et \$?[A-Za-z]\b(?: (?:be|represent|denote|stand)|\$| ?=)",
    "let",
    loose=r"\blet\b|(?<![\w'\\])[a-z] *[=+*/^-]|[=+*/^-] *[a-z](?![\w'])|\d[a-z]\b|equation|variable|unknown|\$[a-z]",
)
TOTAL = by_pattern(
    r"\btotals?\b", "total", loose=r"total|altogether|\ball\b|combined|\bsum|together|\badd|whole|overall"
)
FRACTION = by_pattern(
    r"(?<![\d/.])(?:1/[2-9]|2/[3579]|3/[4578]|[45]/[6-9])(?![\d/])",
    "/",
    loose=r"\d[ a-z]{0,20}/ *\d|\bhal[fv]|third|quarter|fourth|fifth|fraction|\\frac|[½⅓⅔¼¾]",
)
DOLLAR_SIGN = by_pattern(r"\$ ?\d", "$", loose=r"\$|USD")
_BEGINS = re.compile(r"^(?:First|To begin|To start)\b", re.MULTILINE)
_GOES_ON = re.compile(r"^(?:Then|Next|Second|Finally|After (?:that|this))\b", re.MULTILINE)
_ORDERS = re.compile(r"\b(?:first|begin|start|then|next|second|finally|after|now|last)\b", re.IGNORECASE)


def _find_order_words(text: str, _: Attributes, value: str) -> int:
    """The line that begins, where a later one goes on; two searches, since one pattern over both would be quadratic."""
    begin = _BEGINS.search(text) if not value else None
    return begin.start() if begin and _GOES_ON.search(text, begin.end()) else -1


ORDER_WORDS = Detector(
    _find_order_words,
    lambda text, attributes: ("",) if _find_order_words(text, attributes, "") >= 0 else (),
    lambda text, _attributes, _value: bool(_ORDERS.search(text)),
)
TIMES_SIGN = by_patterns(
    {"asterisk": (r"\d[%)]? *\* *[$(]?\d", "*"), "cross": (r"\d[%)]? *[x×] *[$(]?\d", "x|×")},
    {"asterisk": r"\*", "cross": r"[\d)%] *[x×]|[x×] *[\d($]|\btimes\b|\\times"},
)
_TERM, _OPERATOR = r"\(?\$?\d[\d.,]{0,12}%?\)?", r"(?:[+*/×÷–−^]|-(?![A-Za-z])|(?<=\d)x|(?<=\d )x)"
JOINED = by_pattern(
    rf"(?<![\d.,]){_TERM} ?[-+*×x–] ?{_TERM} ?[-+*×x–] ?{_TERM} ?=",
    "=",
    loose=rf"{_OPERATOR}[^=\n]{{0,80}}{_OPERATOR}|\A[^=]*\Z",
)
"""More than one operation before an equals sign. A stroke may be a fraction's: it is no witness, and leaves a doubt."""
ARITHMETIC = by_pattern(r"\d[^=\n]{0,80}= *[^\s\d]{0,2}\d", "=", loose=r"=|\d *[-+*/×÷] *\d")
ANSWER_LINE = by_pattern(
    r"^#### |\b(?:final )?answer is\b|^answer:", "####|answer", loose=r"####|answer|\\boxed|^\W*[\d.,$]+\W*$"
)
