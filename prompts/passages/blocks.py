"""Segmentation: how a passage is cut into labelled blocks, and how some of them are joined into a text.

A block is a sentence of prose, the entries of a documentation section, an example, a line of a worked solution, or a
whole piece of code. Two views of one passage share its answering blocks and differ in the rest. About 60 microseconds
for 100 words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from foil.engine.texts.sentences import PROSE_END
from foil.engine.topic import Passage
from foil.prompts.constraints.code_detectors import count_code_lines
from foil.prompts.constraints.families import FAMILIES, Kind
from foil.prompts.constraints.phrases import COMMON_WORDS

MAX_TEXT = 6000
"""Characters of a positive that are segmented; views cannot use the rest."""
MAX_BLOCKS = 48
MAX_BLOCK = 420
"""Characters of one block; a longer one is shortened to the end of a line or sentence."""
_KEPT_ATTRIBUTES = frozenset({"language", "library", "kind", "form", "module"})


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


def _is_cut(prose: str) -> bool:
    """Whether prose of several words ends within a sentence."""
    return len(prose.split()) > 3 and not _ENDED.search(prose)


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """A passage and its blocks in order. `name` is the label of the passage: P1, P2, ..., N1, N2, ..."""

    name: str
    passage: Passage
    blocks: tuple[Block, ...]
    whole: bool
    """Whether the blocks together are the whole passage, or all but a tenth of it."""
    kind: Kind = "text"
    is_core_sure: bool = False
    """Whether the core is what the corpus names as the answer; where it names none, whether it has all of the query
    that the text has, or the amount that is asked for."""

    @property
    def core_blocks(self) -> list[Block]:
        return [b for b in self.blocks if b.core]

    @property
    def free_blocks(self) -> list[Block]:
        """Those that a view may show or leave out; of prose only whole sentences."""
        return [b for b in self.blocks if not b.core and not (self.kind == "text" and _is_cut(b.text))]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(b.label for b in self.blocks)

    @property
    def listing(self) -> str:
        """The labelled blocks as a prompt shows them, core blocks starred."""
        return "\n".join(
            f"{b.label}{'*' if b.core else ''}: {f'({b.header.strip()}) ' if b.header else ''}{b.text}"
            for b in self.blocks
        )

    @property
    def facts(self) -> str:
        """The title and the attributes that constraints look at, as a prompt shows them."""
        values = {
            k: self.passage.attributes.get(k, "") for k in ("form", "language", "library", "module", "kind", "query")
        }
        return " | ".join([self.passage.title, *(f"{k}: {v}" for k, v in values.items() if v)])


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


def _sentences(text: str) -> list[tuple[str, str]]:
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
            for gap, sentence in _sentences(text):
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


def kept_attributes(passage: Passage) -> dict[str, str]:
    """The attributes that stay true of a passage whatever blocks are dropped."""
    return {k: v for k, v in passage.attributes.items() if k in _KEPT_ATTRIBUTES}


_SPOKEN = frozenset({"", "en", "english"})


def kind_of(passage: Passage) -> Kind:
    """What sort of text a passage is: which constraints make sense for it, and how it may be cut."""
    form = passage.attributes.get("form", "")
    if form in ("source", "documentation"):
        return "code" if form == "source" else "documentation"
    if form == "abstract":
        return "abstract"
    text = passage.text[:1500]
    lines = count_code_lines(text)
    if lines * 4 >= text.count("\n") + 1 or (lines > 1 and passage.attributes.get("language", "") not in _SPOKEN):
        return "code"
    if "library" in passage.attributes or "\n>>> " in text or text.startswith(">>> "):
        return "documentation"
    solved = text.rstrip().rpartition("\n")[2].startswith(_RESULTS) and len(text) == len(passage.text)
    return "mathematics" if solved or _calculates(text) else "text"


_RESULTS = ("#### ", "A: ", "The answer is")


def _calculates(text: str) -> bool:
    """Whether at least every second line or sentence is a calculation: one in an abstract makes no solution of it."""
    pieces = [piece for line in text.splitlines() for _, piece in _sentences(line)]
    calculations = sum(FAMILIES["arithmetic"].detector.find(piece, {}, "") >= 0 for piece in pieces)
    return calculations > 1 and len(pieces) <= 2 * calculations


def _pieces(text: str, kind: Kind) -> list[Block]:
    """The blocks of a text. Code, a solution and an abstract are one: no part of them could be left out."""
    if kind in ("code", "mathematics", "abstract"):
        return [Block("", text)]
    lines = [line for line in text.splitlines() if line.strip()]
    if kind == "documentation" or "\n\n" in text:
        return [b for b in _Document(text).blocks if kind != "text" or _says_something(b.text)]
    if len(lines) > 1 and _are_steps(lines):
        return [Block("", line, "\n", "", 0) for line in lines]
    return [Block("", sentence, gap or " ", "", 0) for gap, sentence in _sentences(text)]


def _says_something(text: str) -> bool:
    """Whether a paragraph is more than a date line, a row of numbers or a signature."""
    return len(_LONG_WORD.findall(text)) >= 4


_LONG_WORD = re.compile(r"[A-Za-z]{4,}")


def _shortened(text: str, limit: int = MAX_BLOCK) -> str:
    """The text's beginning, up to the end of a line or sentence within `limit` characters."""
    if len(text) <= limit:
        return text
    head = text[:limit]
    end = max(head.rfind("\n"), head.rfind(". ") + 1, head.rfind(".\n") + 1)
    return head[: end if end > limit // 4 else head.rfind(" ")].rstrip()


def segment(
    name: str,
    passage: Passage,
    query: str = "",
    answer: str = "",
    *,
    limit: int = MAX_TEXT,
    most_blocks: int | None = MAX_BLOCKS,
) -> SourcePassage:
    """The first `limit` characters of the passage in blocks; those that answer the query are marked as core.

    Without a query none are; `answer` is the answering sentence, or the answer itself, where it is known.
    """
    kind = kind_of(passage)
    text = _shortened(passage.text, limit)
    pieces = _with_leads([b for b in _pieces(text, kind) if b.text.strip()], text) or [Block("", text)]
    used = pieces[:most_blocks]
    texts = [b.text for b in used]
    core = _core(texts, query, answer, kind) if query else frozenset[int]()
    if answer:
        is_core_sure = bool(_giving(texts, answer, query))
    else:
        is_core_sure = _is_sure(" ".join(texts[i] for i in core), text, query)
    blocks = tuple(
        replace(
            b,
            label=f"{name}.{i + 1}",
            text=_shortened(b.text) if kind == "text" else b.text,
            core=i in core,
            leans=i > 0 and b.header == used[i - 1].header and leans(b.text),
        )
        for i, b in enumerate(used)
    )
    whole = len(text) == len(passage.text) and used == pieces and 10 * len(join(blocks)) >= 9 * len(text.strip())
    return SourcePassage(name, passage, blocks, whole, kind, is_core_sure)


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
            block = replace(block, text=both, gap=last.gap, paragraph=last.paragraph)  # noqa: PLW2901
        else:
            at = max(at, text.find(block.text, at + len(joined[-1].text) if joined else at))
        joined.append(block)
    return joined


def _announces(block: Block, following: Block) -> bool:
    if block.text.rstrip().endswith(":") or _HERALDS.search(block.text):
        return True
    if _is_cut(block.text) and (following.text.startswith((">>>", "    ")) or _ITEM.match(following.text)):
        return True
    return bool(block.header) and following.text.startswith(">>>") and ">>>" not in block.text


_WORD = re.compile(r"[A-Za-z][\w'-]+|\d+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ASKS_AMOUNT = re.compile(
    r"\bhow (?:many|much|long|far|old|tall|big|large|fast|high|often|deep|hot|cold|late)\b|\bwhen\b"
    r"|\bwhat (?:year|time|date|day|age)\b"
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
_HEADING = 45
"""A matching block of fewer characters is taken for a heading."""
_FINAL = re.compile(r"^#### |^A: |\banswer(?: is|:)", re.IGNORECASE)


@lru_cache(maxsize=256)
def stems(text: str) -> frozenset[str]:
    """The text's content words without a final s, by their first five letters: enough to see that two texts speak of
    the same thing."""
    words = (w for w in map(str.lower, _WORD.findall(text)) if w not in COMMON_WORDS and len(w) > 2)
    return frozenset((w[:-1] if len(w) > 3 and w.endswith("s") else w)[:5] for w in words)


_PROSE = frozenset({"text", "abstract"})
"""Kinds of text that say what a query asks for in its words."""
_MOST_WORDS, _ENOUGH_WORDS, _ENOUGH_IF_JUDGED = 2 / 3, 5, 7


def is_judged(passage: Passage) -> bool:
    """Whether an assessor of a collection called it relevant, not its owner."""
    return passage.attributes.get("relevance") == "judged"


def is_about(query: str, passage: Passage) -> bool:
    """Whether prose has most of the query's words, or five of a long one: else it seldom answers. Other kinds may.

    Of a collection's judged passages (`relevance: judged`), all words or seven: of those with fewer, readers found 28 %
    without an answer, of those with all 16 % (lab/2026-11-26-audits.md).
    """
    if is_judged(passage):
        return _has_words(query, passage, min(len(stems(query)), _ENOUGH_IF_JUDGED))
    return may_answer(query, passage)


def may_answer(query: str, passage: Passage) -> bool:
    """Whether prose has most of the query's words (of two, one), or five of a long one: nobody may say that it does not
    answer.
    """
    return _has_words(query, passage, min(_MOST_WORDS * len(stems(query)) - 1 / 3, _ENOUGH_WORDS))


def _has_words(query: str, passage: Passage, least: float) -> bool:
    text_stems = stems(f"{passage.title}\n{passage.text}")
    return kind_of(passage) not in _PROSE or len(stems(query) & text_stems) >= least


def _core(texts: Sequence[str], query: str, answer: str, kind: Kind) -> frozenset[int]:
    """The blocks that answer: the last two of a worked solution, those that give the known answer, or the best match.

    What follows a heading or a question that matches stays with it. In a text of four blocks or more the better
    neighbour of the best match stays too, since an answer often leans on the sentence next to it, and what a kept block
    leans on always does. The first block of a documentation page is its description and always stays.
    """
    if len(texts) < 2:
        return frozenset(range(len(texts)))
    if _FINAL.search(texts[-1]):
        return frozenset({len(texts) - 1, len(texts) - 2})
    return _with_supports(texts, _answering(texts, query, answer, kind))


def _is_sure(core: str, text: str, query: str) -> bool:
    """Whether the core has all of the query that the text has, or the amount asked for near a word of the query."""
    query_stems, core_stems = stems(query), stems(core)
    gives_amount = bool(_ASKS_AMOUNT.search(query) and _AMOUNT.search(core) and query_stems & core_stems)
    return gives_amount or query_stems & stems(text) <= core_stems


def _with_supports(texts: Sequence[str], indices: frozenset[int]) -> frozenset[int]:
    """The kept blocks and those that they lean on."""
    needed = {i - 1 for i in indices if i and leans(texts[i])} - indices
    return _with_supports(texts, indices | needed) if needed else indices


def _answering(texts: Sequence[str], query: str, answer: str, kind: Kind) -> frozenset[int]:
    always = frozenset({0}) if kind == "documentation" else frozenset[int]()
    known_answer = _giving(texts, answer, query) if answer else frozenset[int]()
    if known_answer:
        return always | known_answer
    scores = _match(texts, query)
    best = max(range(len(texts)), key=lambda i: (scores[i], -i))
    core = {best}
    if best + 1 < len(texts) and (len(texts[best]) < _HEADING or texts[best].endswith("?")):
        core.add(best + 1)
    if len(texts) >= 4:
        beside = [i for i in (best - 1, best + 1) if 0 <= i < len(texts)]
        core.add(max(beside, key=lambda i: (scores[i], -i)))
    return always | core


def _giving(texts: Sequence[str], answer: str, query: str) -> frozenset[int]:
    """The blocks that give the answer and name what the query is about: as few as possible, figures above all.

    None where the passage shares no figure and fewer than two words with the answer, those of the query not counted.
    """
    text_words = [_said(text) for text in texts]
    spoken, query_words = frozenset().union(*text_words), _said(query)
    chosen = {next((i for i, text in enumerate(texts) if answer in text), -1)} - {-1}
    if not chosen and sum(map(_weight, (_said(answer) - query_words) & spoken)) < 2:
        return frozenset()
    needed_words = query_words if chosen else query_words | _said(answer)
    missing = (needed_words & spoken).difference(*(text_words[i] for i in chosen))
    while missing:
        best = max(range(len(texts)), key=lambda i: (sum(map(_weight, missing & text_words[i])), -i))
        chosen.add(best)
        missing -= text_words[best]
    return frozenset(chosen)


def _said(text: str) -> frozenset[str]:
    return stems(text) | frozenset(_NUMBER.findall(text))


def _weight(word: str) -> int:
    return 3 if word[0].isdigit() else 1


def _match(texts: Sequence[str], query: str) -> list[float]:
    """How well each text answers: shared words, and whether it has the kind of thing that the query asks for."""
    query_stems = stems(query)
    amount, meaning = _ASKS_AMOUNT.search(query), _ASKS_MEANING.search(query)
    scores = []
    for i, text in enumerate(texts):
        score = float(len(query_stems & stems(text)))
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
    """White space between blocks that were no neighbours: borrowed prose flows on, the rest takes a line."""
    if "\n\n" in previous.gap or "\n\n" in block.gap:
        return "\n\n"
    prose = "\n" not in previous.gap + block.gap and block.header == previous.header
    return " " if prose and _owner(previous) != _owner(block) else "\n"
