"""Reads a docstring into its summary line and sections of plain text.

    docstring --parse_docstring--> Docstring(summary, sections) --pack_sections--> chunks of a bounded length

reStructuredText, numpydoc and Google headings are understood. Roles and quotes lose their markup. Version notes,
citations that no sentence leans on, "see also" lists, comments and empty sections are dropped. A hard-wrapped
paragraph becomes one line; code keeps its lines. Nothing is executed. Price: a few regular expressions for each line,
about 8 000 docstrings a second.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from foil.engine.texts.words import DOCSTRING_END

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

_TEXT_DIRECTIVES = frozenset(["math", "admonition", "topic", "container"])

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
_TILDE = re.compile(r"^~(?=[A-Za-z]\w*\.)")
"""Before a name of which a page shows the last part alone."""
_CITED = re.compile(r"(?i)\b(to|in|by|see|of|from|with|and|per|following) \[([\w.+-]{1,12})\]_")
_CITED_FIRST = re.compile(r"(^|[.:!?]\s+)\[([\w.+-]{1,12})\]_(?=\s+[a-z])")
_CITATION = re.compile(r"\s?\[[\w.+-]{1,12}\]_")
_STRONG = re.compile(r"(?<![\w*])\*{1,2}([A-Za-z][^*\n]*?)\*{1,2}(?![\w*])")
_PROMPT = re.compile(r"^\s*(>>>|\.\.\. |\.\.\.$|In \[)|^\s+(?:class \w+[^.]*:$|def \w+\(|@\w[\w.]*$)")
_BULLET = re.compile(r"^\s*([-*•]|\d{1,2}[.)]|\(?[a-z0-9]\))\s+\S")
_COLUMNS = re.compile(r"^\s*(={2,}\s+[= ]+|\+[-=+]+\+)$")
_RULE = re.compile(r"^\s*[=+*~^_-][=+*~^_ -]{2,}$")
_ARGUMENT = re.compile(r"^\s*\*{0,2}\w+(?:\s*\([^)]*\))?\s*:\s")
_POINTER = re.compile(
    r"sphx_glr|(?i:^(?:read|see) (?:more|details?|further)?\s*(?:in |at )?(?:the |term )*(?:user guide|glossary))"
    r"|(?i:^(?:refer to|see) [\w.`:~]+ for (?:full |more |further )?(?:documentation|details?|information)\.?$)"
)
_LATEX = (
    (re.compile(r"([_^])\{(\w+)\}"), r"\1\2"),
    (re.compile(r"([_^])\{([^{}\\]*)\}"), r"\1(\2)"),
    (re.compile(r"\\(?:text|math[a-z]+|operatorname|boldsymbol|rm|bf|cal)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"(\1) / (\2)"),
    (re.compile(r"\\(?:left|right|quad|qquad|displaystyle|math[a-z]+)(?![A-Za-z])|\\[,;!:\\]"), " "),
    (re.compile(r"\\(?:begin|end)\{\w+\*?\}"), " "),
    (re.compile(r"\\([A-Za-z]+)"), r" \1 "),
)
_NOTICE = re.compile(r"\s*(?:Copyright|\(c\)|Licen[cs]ed? )", re.IGNORECASE)
_REMARK = re.compile(r"\s*\(functional\s+name:[^)]*\)|^[ \t]*\$\{\w+\}$", re.MULTILINE)
"""Torch's second name of a data pipe, in the middle of a sentence, and numpy's place for a parameter."""
_DOCTEST_FLAG = re.compile(r"\s*# ?(doctest|xdoctest)\s*:.*$")
_SIGNATURE = re.compile(r"^[\w.]+\s?\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?:->\s*[^.]{1,100})?$")
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
        return count_words(self.lines)


@dataclass(frozen=True, slots=True)
class Docstring:
    """`summary` is the first sentence on one line, with its full stop if it has one."""

    summary: str
    sections: tuple[Section, ...]
    deprecated: bool = False


def count_words(lines: Iterable[str]) -> int:
    """How many words the lines hold."""
    return sum(len(line.split()) for line in lines)


def parse_docstring(text: str) -> Docstring:
    """Parses the docstring of one object; an empty or unreadable one has an empty summary."""
    lines = inspect.cleandoc(_REMARK.sub("", text)).expandtabs().splitlines()
    deprecated = any(line.startswith(".. deprecated::") for line in lines)
    lines = list(takewhile(lambda line: not _NOTICE.match(line), _drop_directives(_drop_signatures(lines))))
    first_paragraph, body = _split_paragraph(lines)
    lead = split_sentences(strip_markup(" ".join(" ".join(first_paragraph).split())))
    if not lead:
        return Docstring("", (), deprecated)
    sections = tuple(section for section in _sections([" ".join(lead[1:]), "", *body]) if _is_kept(section))
    opening = [lead[0], *(line for section in sections[:1] for line in section.lines)]
    return Docstring(lead[0], sections, deprecated or any(line.lower().startswith("deprecated") for line in opening))


def split_sentences(text: str) -> list[str]:
    """The sentences of one paragraph, each a substring of it; no cut after an abbreviation or an initial."""
    sentences, start = [], 0
    for end in DOCSTRING_END.finditer(text):
        if not _ABBREVIATION.search(text, start, end.start()):
            sentences.append(text[start : end.start()].strip() + text[end.start() : end.end()].rstrip())
            start = end.end()
    return [*sentences, text[start:].strip()] if text[start:].strip() else sentences


def strip_markup(line: str) -> str:
    """A line of prose without its reStructuredText markup."""
    line = _ROLE.sub(lambda match: _role_text(match[1]), line)
    line = _LINK.sub(r"\1", line)
    line = _QUOTES.sub(lambda match: match[1] or _TILDE.sub("", match[2]), line)
    line = _STRONG.sub(r"\1", _CITATION.sub("", _CITED.sub(r"\1 [\2]", _CITED_FIRST.sub(r"\1[\2]", line))))
    line = line.replace("\\ ", "").replace("\\*", "*").replace("\\_", "_").replace(" 's ", "'s ")
    return _strip_latex(line) if "\\" in line else line


def _strip_latex(line: str) -> str:
    """A line with LaTeX as one would type it: `\\frac{a}{b} \\in \\mathbb{R}` becomes `(a) / (b) in R`."""
    indent = line[: _indent(line)]
    for pattern, replacement in _LATEX:
        line = pattern.sub(replacement, line)
    return indent + " ".join(line.split())


def is_code(line: str) -> bool:
    """Whether the line is a line of an interactive example, or opens indented code."""
    return bool(_PROMPT.match(line))


def _role_text(role: str) -> str:
    text = role.partition("<")[0].strip() if role.endswith(">") else role
    return text[1:].rsplit(".", 1)[-1] if text.startswith("~") else text.lstrip("!")


def _drop_signatures(lines: list[str]) -> list[str]:
    """Drops the signature with which a compiled object begins, on one or several lines, once or several times."""
    while lines:
        for count in range(1, min(8, len(lines)) + 1):
            joined_lines = " ".join(line.strip() for line in lines[:count])
            if _SIGNATURE.match(joined_lines):
                lines = lines[count:]
                break
            if not lines[count - 1].strip() or "(" not in joined_lines:
                return lines
        else:
            return lines
        while lines and (not lines[0].strip() or lines[0].strip() in {"--", "::"}):
            lines = lines[1:]
    return lines


def _drop_directives(lines: list[str]) -> Iterator[str]:
    """Keeps the content of directives that carry text or code, and drops the others with their blocks."""
    dropped_indent: int | None = None
    in_options = False
    for line in lines:
        if dropped_indent is not None and (not line.strip() or _indent(line) > dropped_indent):
            continue
        dropped_indent = None
        if in_options and _OPTION.match(line):
            continue
        directive = _DIRECTIVE.match(line)
        name = directive[2].lower() if directive else ""
        in_options = bool(directive and not _ADMONITION.fullmatch(name) and _KEPT_DIRECTIVE.fullmatch(name))
        if directive and _ADMONITION.fullmatch(name):
            yield f"{directive[1]}{name.capitalize()}: {directive[3]}".rstrip()
        elif directive and in_options:
            yield f"{directive[1]}{directive[3] if name in _TEXT_DIRECTIVES else '::'}".rstrip()
            yield ""
        elif directive or re.match(r"\s*\.\.(\s|$)", line):
            dropped_indent = _indent(line)
        else:
            yield line


def _split_paragraph(lines: list[str]) -> tuple[list[str], list[str]]:
    """The first paragraph, or a title without its underline, and the lines after it."""
    is_text = [bool(line.strip()) and not _UNDERLINE.match(line) for line in lines]
    start = is_text.index(True) if any(is_text) else len(lines)
    end = start
    while end < len(lines) and is_text[end] and not is_code(lines[end]):
        if end > start and (_FIELD.match(lines[end]) or _BULLET.match(lines[end]) or _LABEL.match(lines[end])):
            break
        end += 1
    body_start = end + 1 if end < len(lines) and _UNDERLINE.match(lines[end]) else end
    return [line.strip() for line in lines[start:end]], lines[body_start:]


def _sections(lines: list[str]) -> Iterator[Section]:
    heading, style, start, number = "", "", 0, 0
    while number < len(lines):
        section_start = _heading_at(lines, number)
        if section_start:
            yield Section(heading, tuple(_reflow(lines[start:number], style)))
            heading, style, start = section_start
        number = start if section_start else number + 1
    yield Section(heading, tuple(_reflow(lines[start:], style)))


def _heading_at(lines: list[str], number: int) -> tuple[str, str, int] | None:
    """The heading that begins at this line, the layout of its section, and the line where that section begins."""
    line, next_line = lines[number].rstrip(), lines[number + 1] if number + 1 < len(lines) else ""
    after_blank = number == 0 or not lines[number - 1].strip()
    if after_blank and line and not line.startswith(" ") and _UNDERLINE.match(next_line) and not _UNDERLINE.match(line):
        return _normalise_heading(line), "numpydoc", number + 2
    label = _LABEL.match(line)
    if label and label[1].lower() in _HEADING_OF:
        literal = line.endswith("::") or label[1].lower() == "usage"
        return _normalise_heading(label[1]), "literal" if literal else "google", number + 1
    return None


def _normalise_heading(text: str) -> str:
    text = strip_markup(text.strip()).rstrip(":")
    return _HEADING_OF.get(text.lower(), text)


def _reflow(lines: list[str], style: str) -> Iterator[str]:
    """Joins the lines of each paragraph into one; code, output and list items keep lines of their own."""
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    literal_indent = -1 if style == "literal" else None
    in_example = in_table = False
    paragraph: list[str] = []
    for line in [*(line[margin:].rstrip() for line in lines), ""]:
        in_example = is_code(line) or (in_example and bool(line))
        in_table = bool(_COLUMNS.match(line)) or (in_table and bool(line))
        if literal_indent is not None and line and _indent(line) <= literal_indent:
            literal_indent = None
        if paragraph and (not line or in_example or in_table or _starts_item(line, paragraph, style)):
            text = _join_paragraph(paragraph)
            literal_indent = _indent(paragraph[0]) if text.endswith("::") else literal_indent
            yield from _clean_paragraph(text, _indent(paragraph[0]))
            paragraph = []
        in_literal = literal_indent is not None and _indent(line) > literal_indent
        if line and (in_example or in_table or in_literal):
            yield from _clean_code(line)
        elif line and not _RULE.match(line):
            paragraph.append(line)


def _clean_code(line: str) -> Iterator[str]:
    """The line of code without markup and test flags; nothing if nothing is left."""
    code = _DOCTEST_FLAG.sub("", strip_markup(line) if "``" in line or ":`" in line else line)
    if code.strip() not in {"", ">>>", "..."} and not _RULE.match(code):
        yield code


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join_paragraph(paragraph: list[str]) -> str:
    field = _FIELD.match(paragraph[0])
    first = f"{field[2].strip() or field[1]}: {field[3]}" if field else paragraph[0]
    return " ".join(" ".join([first, *paragraph[1:]]).split())


def _clean_paragraph(text: str, indent: int) -> Iterator[str]:
    """The paragraph without markup and without sentences that only point elsewhere; nothing if nothing is left."""
    text = strip_markup(text[:-1] if text.endswith("::") else text)
    sentences = split_sentences(text)
    if any(_POINTER.search(sentence) for sentence in sentences):
        text = " ".join(sentence for sentence in sentences if not _POINTER.search(sentence))
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


def _is_kept(section: Section) -> bool:
    return bool(section.lines) and not _DROPPED_SECTION.fullmatch(section.heading)
