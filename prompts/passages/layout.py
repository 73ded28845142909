"""How a text is cut: into sentences, the parts of a page of documentation, or as a whole where no part can be left out.

A block is a sentence of prose, the entries of a documentation section, an example, a line of a worked solution, or a
whole piece of code.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from foil.engine.texts.words import PROSE_END
from foil.prompts.constraints.families import Kind

MAX_BLOCK = 420
"""Characters of one block; a longer one is shortened to the end of a line or sentence."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a passage. `label` is like P1.3; `core` blocks answer the query and stand in every view.

    `gap` is the white space before it, where its neighbour in the passage (`paragraph`) stands before it too. A block
    that `leans` makes no sense without the one before it.
    """

    label: str
    text: str
    gap: str = " "
    header: str = ""
    paragraph: int = 0
    core: bool = False
    leans: bool = False


_LEANS = re.compile(
    r"(?:It|Its|This|That|These|Those|They|Their|Them|He|She|His|Her|Such|Some of|Both|Neither|Another|Others?|"
    r"However|But|And|Or|So|Yet|Thus|Therefore|Hence|Thereby|Thereafter|Then|Also|Otherwise|Instead|Moreover|Furthermore|"
    r"In addition|In contrast|In other words|(?:In |By |To |When )?(?:[Dd]oing|do|done) so|If so|By contrast|Meanwhile|"
    r"Additionally|Second|Third|Next|Last|Finally|Afterwards?|Later|Once (?:done|this)|Since then|Until then|"
    r"Nevertheless|Consequently|Accordingly|Similarly|Likewise|Conversely|"
    r"For (?:example|instance)|As (?:a (?:result|consequence)|such|noted|mentioned|above)|On the (?:other|contrary)|"
    r"(?:In|At|By|For|With|After|Before|From|Because of|Due to|Despite|Like) (?:this|that|these|those|such|it|them)|"
    r"The (?:former|latter|same|first|second|third|next|other|rest|remaining|above|following))\b"
)
_REFERS = re.compile(
    r"\b(?:of (?:these|those|them)|(?:these|those|this|such) [a-z]+|(?:the )?(?:above|former|latter|aforementioned|"
    r"mentioned (?:above|earlier|before)))\b"
)
_HERALDS = re.compile(r"\b(?:these|the following|as follows)(?: \w+){0,2}\W*$", re.IGNORECASE)
"""How a sentence ends that says nothing without the next: "Experts suggest these combinations."."""
_ENDED = re.compile(r"[.!?:;][\"'”’)\]\d]*\s*$")


def is_cut(prose: str) -> bool:
    """Whether prose of several words ends within a sentence."""
    return len(prose.split()) > 3 and not _ENDED.search(prose)


_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Mt|Ft|Adm|Gen|Col|Capt|Sgt|Lt|Maj|Prof|Rev|Hon|Sen|Rep|Gov|Pres|Jr|Sr|Ave|Blvd|Rd|Hwy|vs|"
    r"No|Nos|Vol|Fig|Figs|Eq|Sec|Ch|Art|pp|Inc|Corp|Ltd|Bros|Dept|Univ|Co|approx|etc|al|e\.g|i\.e|cf|U\.S|Jan|Feb|Mar|Apr|"
    r"Aug|Sept?|Oct|Nov|Dec|[A-Z]))$|^\d+$"
)
_RULE = re.compile(r"[ \t]*[-=~^]{3,}[ \t]*")
_COLON_HEAD = re.compile(
    r"(?:Args|Arguments|(?:Other )?Parameters|Keyword [Aa]rg(?:ument)?s|Returns?|Raises|Yields|Examples?|Notes?|"
    r"See [Aa]lso|"
    r"References?|Attributes|Methods|Warnings?|Inputs?|Outputs?|Shape):"
)
_ENTRY_SECTIONS = re.compile(
    r"(?:Other )?(?:Param|Arg|Keyword|Return|Raise|Yield|Attribute|See|Method|Input|Output|Shape|Example)",
    re.IGNORECASE,
)
_ITEM = re.compile(r"[ \t]*(?:[-*•+]|\d{1,2}[.)]) \S")
_PROSE_LINE = re.compile(r"[A-Z][\w'`,()-]*(?: [\w'`,().=-]+){3,}[^>]*[.:,]$")


def sentences(text: str) -> list[tuple[str, str]]:
    """(gap before, sentence); a very short sentence goes with the next one."""
    pieces: list[tuple[str, str]] = []
    start, gap = 0, ""
    for end in PROSE_END.finditer(text):
        group = end.lastindex or 1
        if end.start(group) - start < 25 or _ABBREVIATION.search(text[max(start, end.start() - 7) : end.start()]):
            continue
        pieces.append((gap, text[start : end.start(group)]))
        start, gap = end.end(), end.group(group)
    pieces.append((gap, text[start:]))
    if len(pieces) > 1 and len(pieces[-1][1]) < 25:
        gap, tail = pieces.pop()
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + gap + tail)
    return pieces


class _Document:
    """Documentation, line by line: sections, their entries, paragraphs, list items, examples."""

    def __init__(self, text: str) -> None:
        self.blocks: list[Block] = []
        self._lines: list[str] = []
        self._mode = "prose"
        self._header = ""
        self._paragraph, self._gap = 0, "\n"
        lines = text.split("\n")
        for i, line in enumerate(lines):
            self._line(line, lines[i + 1] if i + 1 < len(lines) else "")
        self._flush()

    def _line(self, line: str, following: str) -> None:
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if not stripped and self._in_entries() and self._lines:
            self._lines.append(line)
        elif not stripped:
            self._flush()
            self._gap = "\n\n"
        elif _RULE.fullmatch(line) and self._header.endswith("\n"):
            self._header += line
        elif _COLON_HEAD.fullmatch(stripped) or (
            _RULE.fullmatch(following) and len(following.strip()) <= len(stripped) + 3
        ):
            self._flush()
            self._header = line if stripped.endswith(":") else line + "\n"
        elif self._opens(stripped, indent):
            self._flush()
            self._mode = self._mode_of(stripped, indent)
            self._lines = [line]
        else:
            self._lines.append(line)

    def _opens(self, stripped: str, indent: int) -> bool:
        """Whether a line begins a new block."""
        if not self._lines:
            return True
        if self._in_entries():  # a list with some of its entries left out would be wrong
            return False
        if self._mode == "code":  # the lines of one example stand or fall together
            return bool(_PROSE_LINE.fullmatch(stripped))
        mode = self._mode_of(stripped, indent)
        return mode != "prose" if self._mode == "prose" else mode == "code"  # the items of a list are one block

    def _mode_of(self, stripped: str, indent: int) -> str:
        if self._in_entries():
            return "entries"
        if stripped.startswith((">>>", "..")) or indent >= 4:
            return "code"
        return "item" if _ITEM.match(stripped) else "prose"

    def _in_entries(self) -> bool:
        return bool(self._header) and bool(_ENTRY_SECTIONS.match(self._header.strip()))

    def _flush(self) -> None:
        """Ends the current block."""
        if not self._lines:
            return
        text = "\n".join(self._lines).rstrip()
        if self._mode == "prose":
            for gap, sentence in sentences(text):
                self.blocks.append(Block("", sentence, gap or self._gap, self._header, self._paragraph))
        else:
            self.blocks.append(Block("", text, self._gap, self._header, self._paragraph))
        self._gap = "\n" if self._lines[-1].strip() else "\n\n"
        self._lines, self._mode = [], "prose"
        self._paragraph += 1


def _are_steps(lines: Sequence[str]) -> bool:
    """Whether each line is a unit (a worked solution, a list), rather than prose wrapped at a margin."""
    ends = sum(
        line.rstrip().endswith((".", "!", "?", ":", ";")) or any(c.isdigit() for c in line[-8:]) for line in lines
    )
    starts = sum(line.lstrip()[:1].isupper() or not line.lstrip()[:1].isalpha() for line in lines)
    return 2 * ends >= len(lines) and 3 * starts >= 2 * len(lines)


def pieces_of(text: str, kind: Kind) -> list[Block]:
    """The blocks of a text in order, none of them empty."""
    return _with_leads([block for block in _pieces(text, kind) if block.text.strip()], text)


def _pieces(text: str, kind: Kind) -> list[Block]:
    """The blocks of a text. Code, a solution and an abstract are one: no part of them could be left out."""
    if kind in ("code", "mathematics", "abstract"):
        return [Block("", text)]
    lines = [line for line in text.splitlines() if line.strip()]
    if kind == "documentation" or "\n\n" in text:
        return [b for b in _Document(text).blocks if kind != "text" or _says_something(b.text)]
    if len(lines) > 1 and _are_steps(lines):
        return [Block("", line, "\n", "", 0) for line in lines]
    return [Block("", sentence, gap or " ", "", 0) for gap, sentence in sentences(text)]


def _says_something(text: str) -> bool:
    """Whether a paragraph is more than a date line, a row of numbers or a signature."""
    return len(_LONG_WORD.findall(text)) >= 4


_LONG_WORD = re.compile(r"[A-Za-z]{4,}")


def shortened(text: str, limit: int = MAX_BLOCK) -> str:
    """The text's beginning, up to the end of a line or sentence within `limit` characters."""
    if len(text) <= limit:
        return text
    head = text[:limit]
    end = max(head.rfind("\n"), head.rfind(". ") + 1, head.rfind(".\n") + 1)
    return head[: end if end > limit // 4 else head.rfind(" ")].rstrip()


def leans(text: str) -> bool:
    """Whether a text refers to what stands before it: by a pronoun or a connective at its start, or by "these"."""
    return bool(_LEANS.match(text.lstrip("\"'(- ")) or _REFERS.search(text))


def _with_leads(pieces: Sequence[Block], text: str) -> list[Block]:
    """The blocks, each joined to what it announces: by a colon, within a sentence, or as an example's caption."""
    joined: list[Block] = []
    at = 0  # where the last of them begins
    for block in pieces:
        both = f"{joined[-1].text}{block.gap}{block.text}" if joined and _announces(joined[-1], block) else ""
        if both and text.startswith(both, at):  # in one section, and nothing between them
            last = joined.pop()
            joined.append(replace(block, text=both, gap=last.gap, paragraph=last.paragraph))
        else:
            at = max(at, text.find(block.text, at + len(joined[-1].text) if joined else at))
            joined.append(block)
    return joined


def _announces(block: Block, following: Block) -> bool:
    if block.text.rstrip().endswith(":") or _HERALDS.search(block.text):
        return True
    if is_cut(block.text) and (following.text.startswith((">>>", "    ")) or _ITEM.match(following.text)):
        return True
    return bool(block.header) and following.text.startswith(">>>") and ">>>" not in block.text
