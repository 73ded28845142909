"""A docstring as a reader would want it: its summary line, and the rest as sections of plain text.

    docstring --read_docstring--> Docstring(summary, sections) --passages_of--> texts of a bounded length

Understood are reStructuredText, numpydoc and Google headings. Roles and quotes are unwrapped; version notes, citations,
"see also" lists, comments and empty sections are dropped; hard-wrapped paragraphs become one line; code is kept as it
stands. Nothing is executed. Price: a few regular expressions a line, about 8 000 docstrings a second.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

_DROPPED_SECTION = re.compile(
    "see also|references|bibliography|methods|authors?|copyright|license|todo|history|contents|links?|credits|index",
    re.IGNORECASE,
)
_ADMONITION = re.compile("note|warning|tip|important|caution|attention|hint|danger")
_KEPT_DIRECTIVE = re.compile(
    "math|code|code-block|sourcecode|testcode|testoutput|doctest|ipython|parsed-literal|plot|highlight|topic|admonition"
    "|container|jupyter-execute"
)
_HEADINGS = {
    "Parameters": ["args", "arguments", "params", "parameters"],
    "Keyword arguments": ["keyword args", "keyword arguments", "kwargs"],
    "Returns": ["returns", "return", "return value"],
    "Yields": ["yields"],
    "Raises": ["raises"],
    "Examples": ["example", "examples", "example usage"],
    "Usage": ["usage"],
    "Notes": ["note", "notes"],
    "Warnings": ["warning", "warnings"],
    "Attributes": ["attributes"],
    "Shape": ["shape"],
    "Inputs": ["inputs"],
    "Outputs": ["outputs"],
    "See also": ["see", "see also"],
    "References": ["reference", "references"],
}
_HEADING_OF = {spelling: heading for heading, spellings in _HEADINGS.items() for spelling in spellings}

_TEXTUAL = frozenset(["math", "admonition", "topic", "container"])

_UNDERLINE = re.compile(r"^([-=~^*#\"'+])\1{2,}\s*$")
_LABEL = re.compile(r"^([A-Z][A-Za-z]+(?: [A-Za-z]+)?)\s*::?\s*$")
_DIRECTIVE = re.compile(r"^(\s*)\.\.\s+([A-Za-z][\w:-]*?)\s*::\s*(.*)$")
_OPTION = re.compile(r"^\s+:[\w-]+:(\s.*)?$")
_FIELD = re.compile(
    r"^\s*:(param|parameter|arg|type|return|returns|rtype|raises|raise|keyword|key)\b\s*([^:]*):\s*(.*)$"
)
_ROLE = re.compile(r":[\w+.-]+(?::[\w+.-]+)*:`([^`]+)`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`_{0,2}")
_QUOTES = re.compile(r"``(.+?)``|`([^`\n]+)`_{0,2}")
_CITATION = re.compile(r"\s?\[[\w.+-]{1,12}\]_")
_STRONG = re.compile(r"(?<![\w*])\*{1,2}([A-Za-z][^*\n]*?)\*{1,2}(?![\w*])")
_PROMPT = re.compile(r"^\s*(>>>|\.\.\. |\.\.\.$|In \[)")
_BULLET = re.compile(r"^\s*([-*•]|\d{1,2}[.)]|\(?[a-z0-9]\))\s+\S")
_COLUMNS = re.compile(r"^\s*(={2,}\s+[= ]+|\+[-=+]+\+)$")
_RULE = re.compile(r"^\s*[=+*~^_-][=+*~^_ -]{2,}$")
_ARGUMENT = re.compile(r"^\s*\*{0,2}\w+(?:\s*\([^)]*\))?\s*:\s")
_POINTER = re.compile(
    r"sphx_glr|(?i:^(?:read|see) (?:more|details?|further)?\s*(?:in |at )?(?:the |term )*(?:user guide|glossary))"
)
_LATEX = (
    (re.compile(r"\\(?:text|math[a-z]+|operatorname|boldsymbol|rm|bf|cal)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}"), r"(\1) / (\2)"),
    (re.compile(r"\\(?:left|right|quad|qquad|displaystyle|begin\{\w+\*?\}|end\{\w+\*?\})(?![A-Za-z])|\\[,;!:\\]"), " "),
    (re.compile(r"\\([A-Za-z]+)"), r" \1 "),
    (re.compile(r"([_^])\{(\w+)\}"), r"\1\2"),
)
_NOTICE = re.compile(r"\s*(?:Copyright|\(c\)|Licen[cs]ed? )", re.IGNORECASE)
_DOCTEST_FLAG = re.compile(r"\s*# ?(doctest|xdoctest)\s*:.*$")
_SIGNATURE = re.compile(r"^[\w.]+\s?\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?:->\s*[^.]{1,100})?$")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z\"'(\[`*]|[a-z_]+[.(_])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|vs|cf|etc|resp|approx|incl|w\.r\.t|a\.k\.a|Eq|Eqs|Fig|Ref|Sec|No|al|[A-Z]))\.$"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading ("" before the first) and its lines: one paragraph, list item or line of code each."""

    heading: str
    lines: tuple[str, ...]

    @property
    def words(self) -> int:
        """How many words its lines hold."""
        return sum(len(line.split()) for line in self.lines)


@dataclass(frozen=True, slots=True)
class Docstring:
    """`summary` is the first sentence, on one line, without its full stop only if it never had one."""

    summary: str
    sections: tuple[Section, ...]
    deprecated: bool = False


def read_docstring(text: str) -> Docstring:
    """Reads the docstring of one object; an empty or unreadable one gives an empty summary."""
    lines = inspect.cleandoc(text).expandtabs().splitlines()
    deprecated = any(line.startswith(".. deprecated::") for line in lines)
    lines = list(takewhile(lambda line: not _NOTICE.match(line), _without_directives(_without_signatures(lines))))
    head, rest = _split_paragraph(lines)
    first = sentences(unmarked(" ".join(" ".join(head).split())))
    if not first:
        return Docstring("", (), deprecated)
    rest = [" ".join(first[1:]), "", *rest]
    sections = tuple(section for section in _sections(rest) if _worth_keeping(section))
    opening = [first[0], *(line for section in sections[:1] for line in section.lines)]
    return Docstring(first[0], sections, deprecated or any(line.lower().startswith("deprecated") for line in opening))


def sentences(text: str) -> list[str]:
    """The sentences of one paragraph, each a substring of it; no cut after an abbreviation or an initial."""
    found, start = [], 0
    for end in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text, start, end.start()):
            found.append(text[start : end.start()].strip() + text[end.start() : end.end()].rstrip())
            start = end.end()
    return [*found, text[start:].strip()] if text[start:].strip() else found


def unmarked(line: str) -> str:
    """A line of prose without its reStructuredText markup."""
    line = _ROLE.sub(lambda m: _target(m[1]), line)
    line = _LINK.sub(r"\1", line)
    line = _QUOTES.sub(lambda m: m[1] or m[2], line)
    line = _STRONG.sub(r"\1", _CITATION.sub("", line))
    line = line.replace("\\ ", "").replace("\\*", "*").replace("\\_", "_").replace(" 's ", "'s ")
    return _plain_formula(line) if "\\" in line else line


def _plain_formula(line: str) -> str:
    """A line with LaTeX as one would type it: `\\frac{a}{b} \\in \\mathbb{R}` becomes `(a) / (b) in R`."""
    indent = line[: _indent(line)]
    for pattern, plain in _LATEX:
        line = pattern.sub(plain, line)
    return indent + " ".join(line.split())


def is_code(line: str) -> bool:
    """Whether the line is a line of an interactive example."""
    return bool(_PROMPT.match(line))


def _target(role: str) -> str:
    shown = role.partition("<")[0].strip() if role.endswith(">") else role
    return shown[1:].rsplit(".", 1)[-1] if shown.startswith("~") else shown.lstrip("!")


def _without_signatures(lines: list[str]) -> list[str]:
    """Compiled objects open with their signature, at times on several lines or several times."""
    while lines:
        for taken in range(1, min(8, len(lines)) + 1):
            head = " ".join(line.strip() for line in lines[:taken])
            if _SIGNATURE.match(head):
                lines = lines[taken:]
                break
            if not lines[taken - 1].strip() or "(" not in head:
                return lines
        else:
            return lines
        while lines and (not lines[0].strip() or lines[0].strip() in {"--", "::"}):
            lines = lines[1:]
    return lines


def _without_directives(lines: list[str]) -> Iterator[str]:
    """Keeps the content of the directives that carry some, and drops the others with their blocks."""
    dropped_at: int | None = None
    options = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if dropped_at is not None and (not line.strip() or indent > dropped_at):
            continue
        dropped_at = None
        if options and _OPTION.match(line):
            continue
        options = False
        directive = _DIRECTIVE.match(line)
        name = directive[2].lower() if directive else ""
        if directive and _ADMONITION.fullmatch(name):
            yield f"{directive[1]}{name.capitalize()}: {directive[3]}".rstrip()
        elif directive and _KEPT_DIRECTIVE.fullmatch(name):
            options = True
            yield f"{directive[1]}{directive[3] if name in _TEXTUAL else '::'}".rstrip()
            yield ""
        elif directive or re.match(r"\s*\.\.(\s|$)", line):
            dropped_at = indent
        else:
            yield line


def _split_paragraph(lines: list[str]) -> tuple[list[str], list[str]]:
    """The first paragraph (a title with its underline is skipped as a paragraph of its own kind) and what follows."""
    start = next((i for i, line in enumerate(lines) if line.strip() and not _UNDERLINE.match(line)), len(lines))
    end = start
    while end < len(lines) and lines[end].strip() and not _UNDERLINE.match(lines[end]) and not is_code(lines[end]):
        if end > start and (_FIELD.match(lines[end]) or _BULLET.match(lines[end]) or _LABEL.match(lines[end])):
            break
        end += 1
    after = end + 1 if end < len(lines) and _UNDERLINE.match(lines[end]) else end
    return [line.strip() for line in lines[start:end]], lines[after:]


def _sections(lines: list[str]) -> Iterator[Section]:
    heading, style, start, at = "", "", 0, 0
    while at < len(lines):
        found = _heading_at(lines, at)
        if found:
            yield Section(heading, tuple(_reflowed(lines[start:at], style)))
            heading, style, start = found
        at = start if found else at + 1
    yield Section(heading, tuple(_reflowed(lines[start:], style)))


def _heading_at(lines: list[str], at: int) -> tuple[str, str, int] | None:
    """The heading that begins at this line, how its section is laid out, and the line where that section begins."""
    line, below = lines[at].rstrip(), lines[at + 1] if at + 1 < len(lines) else ""
    apart = at == 0 or not lines[at - 1].strip()
    if apart and line and not line.startswith(" ") and _UNDERLINE.match(below) and not _UNDERLINE.match(line):
        return _heading(line), "numpydoc", at + 2
    label = _LABEL.match(line)
    if label and label[1].lower() in _HEADING_OF:
        literal = line.endswith("::") or label[1].lower() == "usage"
        return _heading(label[1]), "literal" if literal else "google", at + 1
    return None


def _heading(text: str) -> str:
    text = unmarked(text.strip()).rstrip(":")
    return _HEADING_OF.get(text.lower(), text)


def _reflowed(lines: list[str], style: str) -> Iterator[str]:
    """Joins the lines of each paragraph into one; code, output and list items keep lines of their own."""
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    literal_at = -1 if style == "literal" else None
    in_example = in_table = False
    paragraph: list[str] = []
    for line in [*(line[margin:].rstrip() for line in lines), ""]:
        in_example = is_code(line) or (in_example and bool(line))
        in_table = bool(_COLUMNS.match(line)) or (in_table and bool(line))
        verbatim = in_example or in_table
        if literal_at is not None and line and _indent(line) <= literal_at:
            literal_at = None
        if paragraph and (not line or verbatim or _starts_item(line, paragraph, style)):
            text = _joined(paragraph)
            literal_at = _indent(paragraph[0]) if text.endswith("::") else literal_at
            yield from _shown(text, _indent(paragraph[0]))
            paragraph = []
        if line and (verbatim or (literal_at is not None and _indent(line) > literal_at)):
            code = _DOCTEST_FLAG.sub("", unmarked(line) if "``" in line or ":`" in line else line)
            if code.strip() not in {"", ">>>", "..."} and not _RULE.match(code):
                yield code
        elif line and not _RULE.match(line):
            paragraph.append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(paragraph: list[str]) -> str:
    field = _FIELD.match(paragraph[0])
    first = f"{field[2].strip() or field[1]}: {field[3]}" if field else paragraph[0]
    return " ".join(" ".join([first, *paragraph[1:]]).split())


def _shown(text: str, indent: int) -> Iterator[str]:
    """The paragraph without markup and without sentences that only point elsewhere; nothing if nothing is left."""
    text = unmarked(text[:-1] if text.endswith("::") else text)
    if _POINTER.search(text):
        text = " ".join(sentence for sentence in sentences(text) if not _POINTER.search(sentence))
    if text.strip(" :"):
        yield " " * min(indent, 8) + text


def _starts_item(line: str, paragraph: list[str], style: str) -> bool:
    """Whether the line begins a new paragraph although no blank line stands before it."""
    indent, first, last = _indent(line), paragraph[0], paragraph[-1]
    if _BULLET.match(line) or _FIELD.match(line) or indent < _indent(last):
        return True
    if indent > _indent(last):
        return style == "numpydoc" and len(paragraph) == 1 and not _BULLET.match(first)
    if style == "numpydoc" and not indent and " : " in line:
        return True
    return style == "google" and bool(_ARGUMENT.match(line)) and indent == _indent(first)


def _worth_keeping(section: Section) -> bool:
    return bool(section.lines) and not _DROPPED_SECTION.fullmatch(section.heading)


@dataclass(frozen=True, slots=True)
class DocstringText:
    """Some sections as one text. `opens` tells whether it begins where a section begins."""

    text: str
    headings: tuple[str, ...]
    opens: bool

    @property
    def words(self) -> int:
        """How many words it holds."""
        return len(self.text.split())


def texts_of(sections: tuple[Section, ...], max_words: int) -> list[DocstringText]:
    """Packs the sections into texts of about at most `max_words` words.

    A new text begins at a section once half of the room is used; a section longer than the room left before that is
    cut between its items, and only an item longer than a whole text passes the limit.
    """
    texts: list[DocstringText] = []
    lines: list[str] = []
    headings: list[str] = []
    opens, used = True, 0

    def close() -> None:
        texts.append(DocstringText("\n".join(lines), tuple(headings), opens))
        lines.clear()
        headings.clear()

    for section in sections:
        if lines and used + section.words > max_words and used >= max_words // 2:
            close()
            opens, used = True, 0
        headed = False
        for item in _items(section.lines, max_words):
            words = sum(len(line.split()) for line in item)
            if lines and used + words > max_words:
                close()
                opens, used, headed = not headed, 0, False
            if section.heading and not headed:
                lines.append(section.heading + ":")
                headings.append(section.heading)
            headed = True
            lines.extend(item)
            used += words
    if lines:
        close()
    return texts


def _items(lines: tuple[str, ...], max_words: int) -> Iterator[list[str]]:
    """The lines in groups that belong together: each unindented line with the indented ones below it."""
    item: list[str] = []
    for line in lines:
        below = line.startswith((" ", "..."))
        if item and (not below or sum(len(part.split()) for part in item) > max_words // 2):
            yield item
            item = []
        item.append(line)
    if item:
        yield item
