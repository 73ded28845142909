"""Passages in pieces: how a passage is cut into blocks, and how a view is put together from some of them.

Two views of one passage that share its answering blocks and differ in the rest are the pair from which instructions are
learnt. A block is a sentence of prose, an entry of a documentation section, an example, a line of a worked solution, or
a stretch of code. About 60 microseconds for 100 words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.topic import Passage
from prompts.families import is_source
from prompts.phrases import COMMON

MAX_TEXT = 6000
"""Characters of a passage that are looked at; what lies beyond is not offered for views."""
MAX_BLOCKS = 24
MAX_BLOCK = 420
"""Characters of one block; a longer one is offered shortened, at the end of a line or sentence."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a passage. `label` is like P1.3; `core` blocks answer the query and stand in every view.

    `gap` is the white space before it, where its neighbour in the passage (`paragraph`) stands before it too.
    """

    label: str
    text: str
    gap: str = " "
    header: str = ""
    paragraph: int = 0
    core: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A passage and its blocks in order. `name` is the label of the passage: P1, P2, ..., N1, N2, ..."""

    name: str
    passage: Passage
    blocks: tuple[Block, ...]
    whole: bool
    """Whether the blocks together are the whole passage."""


_SENTENCE_END = re.compile(r"[.!?][\"')\]”]*(\s+)(?=[A-Z0-9\"'(\[“•])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Adm|Gen|Col|Lt|Jr|Sr|vs|No|Fig|Eq|approx|etc|al|e\.g|i\.e|cf|U\.S|[A-Z]))$|^\d+$"
)
_UNDERLINED = re.compile(r"^([A-Z][\w &/-]{2,40})\n[ \t]*[-=~^]{3,}[ \t]*$", re.MULTILINE)
_COLON_HEAD = re.compile(
    r"^(?:Args|Arguments|Parameters|Keyword args|Keyword Arguments|Returns?|Raises|Yields|Examples?|Notes?|See [Aa]lso|"
    r"References?|Attributes|Warnings?|Inputs?|Outputs?|Shape):?:$"
)
_ENTRY_SECTIONS = re.compile(
    r"^(?:Other )?(?:Param|Arg|Keyword|Return|Raise|Yield|Attribute|See|Method|Input|Output|Shape)", re.IGNORECASE
)


def _sentences(text: str) -> list[tuple[str, str]]:
    """(gap before, sentence); a very short sentence goes with the next one."""
    pieces: list[tuple[str, str]] = []
    start, gap = 0, ""
    for end in _SENTENCE_END.finditer(text):
        if end.start(1) - start < 25 or _ABBREVIATION.search(text[max(start, end.start() - 7) : end.start()]):
            continue
        pieces.append((gap, text[start : end.start(1)]))
        start, gap = end.end(), end.group(1)
    pieces.append((gap, text[start:]))
    if len(pieces) > 1 and len(pieces[-1][1]) < 25:
        gap, tail = pieces.pop()
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + gap + tail)
    return pieces


def _entries(lines: Sequence[str]) -> list[str]:
    """Groups of lines, each opened by a line at the smallest indentation."""
    base = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    groups: list[list[str]] = []
    for line in lines:
        if not groups or (len(line) - len(line.lstrip()) == base and line.strip()):
            groups.append([])
        groups[-1].append(line)
    return ["\n".join(group) for group in groups]


def _head(paragraph: str) -> tuple[str, str]:
    """(header line or lines, what follows it) where the paragraph opens a section; else ("", paragraph)."""
    underlined = _UNDERLINED.match(paragraph)
    if underlined:
        return underlined.group(), paragraph[underlined.end() :].lstrip("\n")
    first, _, rest = paragraph.partition("\n")
    return (first, rest) if _COLON_HEAD.match(first) else ("", paragraph)


def _document(text: str) -> list[Block]:
    """Documentation: sections, their entries, paragraphs, examples."""
    blocks: list[Block] = []
    header = ""
    for number, paragraph in enumerate(re.split(r"\n(?:[ \t]*\n)+", text)):
        head, rest = _head(paragraph)
        header = head or header
        if not rest.strip():
            continue
        lines = rest.splitlines()
        if not head and header and blocks and blocks[-1].header == header and _continues(lines[0], blocks[-1].text):
            blocks[-1] = replace(blocks[-1], text=f"{blocks[-1].text}\n\n{rest}")
        elif header and _ENTRY_SECTIONS.match(header):
            blocks += [Block("", entry, "\n", header, number) for entry in _entries(lines)]
        elif lines[0].lstrip().startswith((">>>", "..", "* ", "- ", "#")) or lines[0].startswith((" ", "\t")):
            blocks.append(Block("", rest, "\n\n", header, number))
        else:
            blocks += [Block("", sentence, gap or "\n\n", header, number) for gap, sentence in _sentences(rest)]
    return blocks


def _continues(line: str, previous: str) -> bool:
    """Whether an indented line goes on with the previous entry rather than opening a new one."""
    indent = len(line) - len(line.lstrip())
    return indent > len(previous) - len(previous.lstrip()) and not line.lstrip().startswith(">>>")


def _source(text: str) -> list[Block]:
    """Code in stretches that blank lines part."""
    return [Block("", part, "\n\n", "", n) for n, part in enumerate(re.split(r"\n(?:[ \t]*\n)+", text)) if part.strip()]


def _are_steps(lines: Sequence[str]) -> bool:
    """Whether each line stands for itself (a worked solution, a list), as against prose wrapped at a margin."""
    ends = sum(
        line.rstrip().endswith((".", "!", "?", ":", ";")) or any(c.isdigit() for c in line[-8:]) for line in lines
    )
    starts = sum(line.lstrip()[:1].isupper() or not line.lstrip()[:1].isalpha() for line in lines)
    return 2 * ends >= len(lines) and 3 * starts >= 2 * len(lines)


def _pieces(text: str) -> list[Block]:
    if is_source(text):
        return _source(text)
    if re.search(r"\n[ \t]*\n|\n[ \t]*[-=~]{3,}\n|^>>> ", text):
        return _document(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and _are_steps(lines):
        return [Block("", line, "\n", "", 0) for line in lines]
    return [Block("", sentence, gap or " ", "", 0) for gap, sentence in _sentences(text)]


def _shortened(text: str) -> str:
    """The text's beginning, up to the end of a line or sentence within `MAX_BLOCK` characters."""
    if len(text) <= MAX_BLOCK:
        return text
    head = text[:MAX_BLOCK]
    end = max(head.rfind("\n"), head.rfind(". ") + 1, head.rfind(".\n") + 1)
    return head[: end if end > MAX_BLOCK // 4 else head.rfind(" ")].rstrip()


def cut(name: str, passage: Passage, query: str = "", answer: str = "") -> Cut:
    """The passage in blocks, those that answer the query marked as core (needs the query; `answer` helps if known)."""
    text = passage.text[:MAX_TEXT]
    raw = [b for b in _pieces(text) if b.text.strip()][:MAX_BLOCKS]
    short = [_shortened(b.text) for b in raw]
    core = _core([b.text for b in raw], query, answer) if query else frozenset[int]()
    blocks = tuple(
        replace(b, label=f"{name}.{i + 1}", text=s, core=i in core)
        for i, (b, s) in enumerate(zip(raw, short, strict=True))
    )
    whole = (
        len(text) == len(passage.text)
        and len(raw) < MAX_BLOCKS
        and all(len(s) == len(b.text) for b, s in zip(raw, short, strict=True))
    )
    return Cut(name, passage, blocks, whole)


_WORD = re.compile(r"[A-Za-z][\w'-]+|\d+")
_ASKS_AMOUNT = re.compile(
    r"\bhow (?:many|much|long|far|old|tall|big|large|fast|high|often|deep|hot|cold|late)\b|\bwhen\b|\bwhat (?:year|time|date|day|age)\b"
    r"|\b(?:cost|price|salary|average|population|temperature|number|calories|phone|wage|rate|age)\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|year|month|week|day|hour|minute|dozen|hundred)s?\b",
    re.IGNORECASE,
)
_ASKS_MEANING = re.compile(r"\b(?:what (?:is|are|does)|define|definition|meaning)\b", re.IGNORECASE)
_MEANING = re.compile(
    r"\b(?:is|are) (?:an?|the|defined|called|when)\b|\brefers? to\b|\bmeans?\b|\bstands? for\b", re.IGNORECASE
)
_FINAL = re.compile(r"^#### |\banswer(?: is|:)", re.IGNORECASE)


def stems(text: str) -> frozenset[str]:
    """The text's content words by their first five letters: enough to see that two texts speak of the same thing."""
    return frozenset(w[:5] for w in map(str.lower, _WORD.findall(text)) if w not in COMMON and len(w) > 2)


def _core(texts: Sequence[str], query: str, answer: str) -> frozenset[int]:
    """The blocks that answer: the one with the known answer, or the last two of a worked solution, or the best match.

    In a text of five blocks or more the better neighbour of the best match stays too: an answer often leans on the
    sentence beside it. The first block of a documentation page is its description and always stays.
    """
    if len(texts) < 2:
        return frozenset(range(len(texts)))
    if _FINAL.search(texts[-1]):
        return frozenset({len(texts) - 1, len(texts) - 2})
    if answer:
        given = next((i for i, text in enumerate(texts) if answer in text), None)
        if given is not None:
            return frozenset({given})
    scores = _match(texts, query)
    best = max(range(len(texts)), key=lambda i: (scores[i], -i))
    kept = {best}
    if len(texts) >= 5:
        beside = [i for i in (best - 1, best + 1) if 0 <= i < len(texts)]
        kept.add(max(beside, key=lambda i: (scores[i], -i)))
    return frozenset(kept)


def _match(texts: Sequence[str], query: str) -> list[float]:
    """How well each text answers: shared words, and whether it has the kind of thing that the query asks for."""
    wanted = stems(query)
    amount, meaning = _ASKS_AMOUNT.search(query), _ASKS_MEANING.search(query)
    scores = []
    for i, text in enumerate(texts):
        score = float(len(wanted & stems(text)))
        score += 1.5 if amount and _AMOUNT.search(text) else 0.0
        score += 1.0 if meaning and not amount and _MEANING.search(text) else 0.0
        scores.append(score + (0.5 if i == 0 else 0.0))
    return scores


def join(blocks: Sequence[Block]) -> str:
    """The blocks as one text: each with the gap that it had, its section's header before the first of a section."""
    parts: list[str] = []
    previous: Block | None = None
    for block in blocks:
        if previous is not None:
            beside = previous.paragraph == block.paragraph and _owner(previous) == _owner(block)
            parts.append(block.gap if beside else _break(previous, block))
        if block.header and (previous is None or previous.header != block.header):
            parts.append(block.header + "\n")
        parts.append(block.text)
        previous = block
    return "".join(parts)


def _owner(block: Block) -> str:
    return block.label.partition(".")[0]


def _break(previous: Block, block: Block) -> str:
    """White space between blocks that were no neighbours: prose flows on, everything else starts a paragraph."""
    flows = "\n" not in previous.gap and "\n" not in block.gap and not block.header and not previous.header
    return " " if flows else "\n\n"
