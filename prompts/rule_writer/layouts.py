"""Layouts: how the rule writer puts the blocks of a passage into the lengths and formats of InfoSearch.

    LAYOUTS[condition](material, source) -> the text, or "" where the passage does not allow it

Every layout keeps the answering blocks to the word, so the seed's evidence stays valid. No sentences are joined into
one, and nothing of another passage is added.
"""

from collections.abc import Callable, Mapping

from prompts.constraints.code_detectors import count_code_lines
from prompts.constraints.dimensions import PARAGRAPH_WORDS, classify_format, count_words, says_prose
from prompts.passages.blocks import Block, SourcePassage, join
from prompts.passages.seed_material import SeedMaterial

_PER_PARAGRAPH = 3
_COMMENT_WORDS = 40
"""More words than these are no comment, but a text in disguise."""


def _sentence(_material: SeedMaterial, source: SourcePassage) -> str:
    """The answering block of a text, where it is one sentence; one of documentation tells no more than details."""
    if source.kind != "text" or len(source.core_blocks) != 1 or not _is_prose(source.core_blocks[0]):
        return ""
    return _end_sentence(on_one_line(source.core_blocks[0].text))


def _paragraph(_material: SeedMaterial, source: SourcePassage) -> str:
    """The answering blocks and as many others as a paragraph holds, without a line break; at least three in all."""
    if source.kind in ("code", "mathematics") or not all(map(_is_prose, source.core_blocks)):
        return ""
    most = PARAGRAPH_WORDS[1] - sum(count_words(b.text) for b in source.core_blocks)
    kept: set[str] = set()
    for block in source.free_blocks:
        if _is_prose(block) and count_words(block.text) <= most:
            most -= count_words(block.text)
            kept.add(block.label)
    chosen = [b for b in source.blocks if b.core or b.label in kept]
    return " ".join(_end_sentence(on_one_line(b.text)) for b in chosen) if len(chosen) >= _PER_PARAGRAPH else ""


def _article(_material: SeedMaterial, source: SourcePassage) -> str:
    """A text with its own paragraphs as it is; else its sentences, three to a paragraph. Nothing else is an article."""
    if source.kind != "text":
        return ""
    if "\n\n" in source.passage.text:
        return join(source.blocks)
    runs = [source.blocks[i : i + _PER_PARAGRAPH] for i in range(0, len(source.blocks), _PER_PARAGRAPH)]
    return "\n\n".join(" ".join(_end_sentence(on_one_line(b.text)) for b in run) for run in runs)


def _snippet(_material: SeedMaterial, source: SourcePassage) -> str:
    """The code of a documentation passage, with what answers as a comment above it."""
    code = _code_of(source)
    prose = [b for b in source.core_blocks if not _is_code(b)]
    if not code or not all(map(_is_prose, prose)) or sum(count_words(b.text) for b in prose) > _COMMENT_WORDS:
        return ""
    comments = [f"# {line.strip()}" for b in prose for line in b.text.splitlines()]
    return "\n".join(["```python", *(c for c in comments if c != "# "), code, "```"])


def _post(material: SeedMaterial, source: SourcePassage) -> str:
    """The query as the question, prose and code as the answer; none where what answers is a manual's list of fields.

    Code alone makes none: with a question above it, it is hardly more than code.
    """
    code = _code_of(source)
    if not code or "```" in code or any(b.header and not _is_code(b) for b in source.core_blocks):
        return ""
    text = join([b for b in source.blocks if not _is_code(b) and (b.core or _is_prose(b))])
    return f"Question: {material.seed.query.strip()}\n\nAnswer:\n{text}\n\n```\n{code}\n```" if text else ""


def _manual(_material: SeedMaterial, source: SourcePassage) -> str:
    """A documentation passage under its headings, of which it gets those that it lacks."""
    if source.kind != "documentation" or classify_format(source.passage.text) == "manual":
        return source.passage.text if source.kind == "documentation" else ""
    return f"# {source.passage.title or 'Description'}\n\n{source.passage.text}"


def _code_of(source: SourcePassage) -> str:
    """The examples of a documentation passage; "" where prose stands between them."""
    code = "\n".join(b.text for b in source.blocks if _is_code(b)) if source.kind == "documentation" else ""
    return "" if says_prose(code) else code


def _is_code(block: Block) -> bool:
    return block.text.lstrip().startswith(">>>") or 2 * count_code_lines(block.text) > block.text.count("\n") + 1


def _is_prose(block: Block) -> bool:
    return not block.header and not _is_code(block) and not block.text.startswith((" ", "\t", "..", "-", "*"))


def _end_sentence(text: str) -> str:
    """The text with a full stop where it has no end of its own."""
    return f"{text}." if text[-1:].isalnum() else text


def on_one_line(text: str) -> str:
    """The text without line breaks or runs of blanks."""
    return " ".join(text.split())


LAYOUTS: Mapping[str, Callable[[SeedMaterial, SourcePassage], str]] = {
    "sentence": _sentence,
    "paragraph": _paragraph,
    "article": _article,
    "code_snippet": _snippet,
    "stackoverflow_post": _post,
    "manual": _manual,
}
