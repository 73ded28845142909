"""How the rule writer answers the recipe `infosearch`: conditions that a seed's own blocks can meet, and no others.

    keywords     phrases by which the seed's positives, or views of one of them, can be told apart
    rewrite      Keyword: that view; Length: the answering blocks as one sentence, with others as one paragraph, all as
                 an article; Format: the passage's code alone, as a post, or under headings
    instruction, reversal     wordings from tables

Every rewritten passage keeps the answering blocks to the word, so the evidence of the seed stays its evidence. What
needs a writer who understands (Audience, Source, a translation) is refused with `no_condition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from engine.topic import Passage
from prompts.constraints.code_detectors import code_lines
from prompts.constraints.constraint import Constraint, body
from prompts.constraints.dimensions import (
    ARTICLE_WORDS,
    PARAGRAPH_WORDS,
    format_of,
    language_name,
    length_of,
    meets,
    word_count,
)
from prompts.constraints.families import FAMILIES
from prompts.constraints.instructions import compose, pick
from prompts.constraints.phrases import COMMON, words
from prompts.constraints.wordings import deny, third_person
from prompts.passages.answer_evidence import answers
from prompts.passages.blocks import Block, Cut, join, stems
from prompts.passages.seed_material import Material
from prompts.passages.views import Demand
from prompts.recipes.infosearch import Asked, Condition, Keywords, Rewritten
from prompts.rule_writer.view_pairs import NO_LOANS

Views = dict[str, tuple[str, Passage]]
"""keyword -> (a text that has it, the passage that the text is of)."""

_REFUSED = "no_condition"
_VIEW_CHARS = 1500
_PER_PARAGRAPH = 3
_TITLE_WORDS = 25
"""A query of more words is not said again."""

# --- Keyword ---


def _write_keywords(inputs: Mapping[str, Any]) -> Keywords:
    words = list(_keyword_views(inputs["material"]))[: inputs["most"]]
    return Keywords(keywords=tuple(words)) if len(words) > 1 else Keywords(refusal=_REFUSED)


def _keyword_views(known: Material) -> Views:
    """Each keyword in its own text alone: those of whole positives, else those of views of one positive."""
    rng = Random(known.number("keyword"))
    alike = [cut for cut in known.positives if cut.kind == known.positives[0].kind]
    tried = [_of_positives(known, alike, rng)] if len(alike) > 1 else []
    tried += [_views_of(known, cut, rng) for cut in alike]
    return next((views for views in tried if len(views) > 1 and _are_apart(views)), {})


def _are_apart(views: Views) -> bool:
    texts = {word: body(Passage(text, "seed_positive", source.title)) for word, (text, source) in views.items()}
    return all(_mentions(word, text) is (word == own) for word in texts for own, text in texts.items())


def _of_positives(known: Material, cuts: Sequence[Cut], rng: Random) -> Views:
    """For each positive a phrase that no other one has."""
    found: Views = {}
    for cut in cuts:
        others = [other.passage for other in known.positives if other is not cut]
        word = next(_news(known, cut, cut.passage.text, others, rng), None)
        if word is not None:
            found[word] = (cut.passage.text, cut.passage)
    return found


def _views_of(known: Material, cut: Cut, rng: Random) -> Views:
    """Views of one positive: its answering blocks, one block with a keyword, and a share of the blocks without any."""
    free = [b for b in cut.blocks if not b.core]
    core = Passage(join([b for b in cut.blocks if b.core]) or cut.passage.text, "seed_positive", cut.passage.title)
    chosen: dict[str, Block] = {}
    for block in rng.sample(free, len(free)):
        taken = [Passage(b.text, "seed_positive") for b in chosen.values()]
        word = next(_news(known, cut, block.text, [core, *taken], rng), None)
        if word is not None and not any(_mentions(w, block.text) for w in chosen):
            chosen[word] = block
        if len(chosen) == 3:
            break
    rest = [b for b in free if b not in chosen.values() and not any(_mentions(w, _text_of(b)) for w in chosen)]
    views: Views = {}
    for i, (word, block) in enumerate(chosen.items()):
        kept = _fitting(cut, [block, *rest[i :: len(chosen)]])
        views[word] = (join(kept), cut.passage)
    return views


def _fitting(cut: Cut, wanted: Sequence[Block]) -> list[Block]:
    """The answering blocks, the first wanted one, and of the others as many as fit, in the passage's order."""
    room = _VIEW_CHARS - sum(len(b.text) for b in cut.blocks if b.core)
    labels: set[str] = set()
    for block in wanted:
        room -= len(block.text) + len(block.header)
        if room >= 0 or not labels:
            labels.add(block.label)
    return [b for b in cut.blocks if b.core or b.label in labels]


def _news(known: Material, cut: Cut, text: str, others: Sequence[Passage], rng: Random) -> Iterator[str]:
    """Phrases of the text that stand in none of the other passages, in no title, and are more than the query."""
    offered = FAMILIES["uses" if cut.kind == "code" else "mentions"].offer(text, {})
    asked = stems(known.seed.query)
    for word in sorted(dict.fromkeys(offered), key=lambda w: rng.random() - (" " in w or not w.islower())):
        own = stems(word)
        told = (cut.passage.title, *map(body, others))
        if own and not own <= asked and _mentions(word, text) and not any(_mentions(word, one) for one in told):
            yield word


def _mentions(word: str, text: str) -> bool:
    return meets("keyword", word, Passage(text, "seed_positive"))


def _text_of(block: Block) -> str:
    return f"{block.header}\n{block.text}"


# --- rewriting ---


def _write_passage(inputs: Mapping[str, Any]) -> Rewritten:
    """The first positive whose blocks can be put so that the condition is met."""
    known, dimension, condition = inputs["material"], inputs["dimension"], inputs["condition"]
    if dimension == "keyword":
        text, source = _keyword_views(known).get(condition, ("", known.positive))
        return Rewritten(text=text, source=source.id) if text else Rewritten(refusal=_REFUSED)
    for cut in known.positives:
        text = _LAYOUTS.get(condition, _nothing)(known, cut)
        passage = Passage(text, "seed_positive", cut.passage.title)
        if text and meets(dimension, condition, passage) and answers(known.evidence, passage):
            return Rewritten(text=text, source=cut.passage.id)
    return Rewritten(refusal=_REFUSED)


def _nothing(_known: Material, _cut: Cut) -> str:
    return ""


def _sentence(_known: Material, cut: Cut) -> str:
    """The answering blocks as one sentence, parted by semicolons."""
    if cut.kind == "code":
        return ""
    core = [b for b in cut.blocks if b.core]
    if not all(map(_is_prose, core)):
        return ""
    first, *further = (_flat(b.text).rstrip(".!?;:,") for b in core)
    return "; ".join([first, *map(_lowered, further)]) + "."


def _paragraph(_known: Material, cut: Cut) -> str:
    """The answering blocks and as many others as a paragraph holds, without a line break."""
    if cut.kind == "code" or not all(_is_prose(b) for b in cut.blocks if b.core):
        return ""
    most = PARAGRAPH_WORDS[1] - sum(word_count(b.text) for b in cut.blocks if b.core)
    kept: set[str] = set()
    for block in cut.blocks:
        if not block.core and _is_prose(block) and word_count(block.text) <= most:
            most -= word_count(block.text)
            kept.add(block.label)
    return " ".join(_closed(_flat(b.text)) for b in cut.blocks if b.core or b.label in kept)


def _article(known: Material, cut: Cut) -> str:
    """The whole passage in paragraphs, then other positives and, of prose, passages on neighbouring subjects."""
    if cut.kind == "code":
        return ""
    if length_of(cut.passage.text) == "article":
        return cut.passage.text
    parts = [_in_paragraphs(cut)]
    further = [c for c in known.positives if c is not cut and c.kind == cut.kind]
    further += [c for c in known.negatives if c.kind == cut.kind and cut.kind not in NO_LOANS]
    for other in further:
        if sum(map(word_count, parts)) < ARTICLE_WORDS:
            parts.append(_in_paragraphs(other))
    return "\n\n".join(parts)


def _in_paragraphs(cut: Cut) -> str:
    """A text with its own paragraphs as it is; else its sentences, three to a paragraph."""
    if cut.kind != "text" or "\n\n" in cut.passage.text:
        return join(cut.blocks)
    runs = [cut.blocks[i : i + _PER_PARAGRAPH] for i in range(0, len(cut.blocks), _PER_PARAGRAPH)]
    return "\n\n".join(" ".join(_closed(_flat(b.text)) for b in run) for run in runs)


def _snippet(_known: Material, cut: Cut) -> str:
    """The code of a documentation passage, with what answers as comments above it."""
    code = _code_of(cut)
    if not code:
        return ""
    comments = [f"# {line.strip()}" for b in cut.blocks if b.core and not _is_code(b) for line in b.text.splitlines()]
    return "\n".join(["```python", *(c for c in comments if c != "# "), code, "```"])


def _post(known: Material, cut: Cut) -> str:
    """The query as the question; prose and code as the answer."""
    code = cut.passage.text if cut.kind == "code" else _code_of(cut)
    if not code or "```" in code:
        return ""
    prose = [] if cut.kind == "code" else [b.text for b in cut.blocks if not _is_code(b) and (b.core or _is_prose(b))]
    shown = "\n\n".join([*prose, f"```\n{code}\n```"])
    return f"Question: {_flat(known.seed.query)}\n\nAnswer:\n{shown}"


def _manual(_known: Material, cut: Cut) -> str:
    """A documentation passage under its headings, of which it gets those that it lacks."""
    if cut.kind != "documentation" or format_of(cut.passage.text) == "manual":
        return cut.passage.text if cut.kind == "documentation" else ""
    return f"# {cut.passage.title or 'Description'}\n\n{cut.passage.text}"


def _code_of(cut: Cut) -> str:
    """The examples of a documentation passage."""
    return "\n".join(b.text for b in cut.blocks if _is_code(b)) if cut.kind == "documentation" else ""


def _is_code(block: Block) -> bool:
    return block.text.lstrip().startswith(">>>") or 2 * code_lines(block.text) > block.text.count("\n") + 1


def _is_prose(block: Block) -> bool:
    return not block.header and not _is_code(block) and not block.text.startswith((" ", "\t", "..", "-", "*"))


def _lowered(text: str) -> str:
    """The text as it goes on after a semicolon: a common word that opens it loses its capital."""
    first = text.partition(" ")[0]
    return text[:1].lower() + text[1:] if first.lower() in COMMON and (first[1:].islower() or first == "A") else text


def _closed(text: str) -> str:
    """The text with a full stop where it has no end of its own."""
    return f"{text}." if text[-1:].isalnum() else text


def _flat(text: str) -> str:
    return " ".join(text.split())


_LAYOUTS: Mapping[str, Callable[[Material, Cut], str]] = {
    "sentence": _sentence,
    "paragraph": _paragraph,
    "article": _article,
    "code_snippet": _snippet,
    "stackoverflow_post": _post,
    "manual": _manual,
}

# --- wordings ---

_SAID: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sentence": (
        "a single sentence",
        ("be one single sentence", "fit into one sentence", "say it in just one sentence"),
    ),
    "paragraph": ("one paragraph", ("be one paragraph", "be a single paragraph", "say it in one paragraph")),
    "article": ("a whole article", ("be a whole article", "be an article in several paragraphs", "be a full article")),
    "stackoverflow_post": (
        "a Stack Overflow post",
        ("be a Stack Overflow post", "be a post with a question and its answer", "come from Stack Overflow"),
    ),
    "code_snippet": (
        "a code snippet",
        ("be a code snippet", "consist of nothing but code", "be plain code without any text around it"),
    ),
    "manual": ("a manual page", ("be a page of the manual", "come from the manual", "be an entry of the manual")),
}
"""condition -> (what such a text is, verb phrases that ask for it)."""

_DEMANDS = (
    "Please give me a text that {third}.",
    "The answer should {base}.",
    "I want a result that {third}.",
    "Could you find something that {third}?",
    "It must {base}.",
    "I can only use a text that {third}.",
)
_QUESTIONS = ("My question is this: {q}?", "Here is what I would like to know: {q}?", "I am wondering: {q}?")
_NEEDS = ("What I am looking for is this: {q}.", "I need help with the following: {q}.", "This is my subject: {q}.")
_TASKS = (
    "I have a task that is stated in full beside this request.",
    "This is about the problem that comes with my request.",
)
_ASKING = words(
    "what who whom whose which when where why how is are was were do does did can could should will would has have"
)


def _write_instruction(inputs: Mapping[str, Any]) -> Asked:
    known: Material = inputs["material"]
    rng = Random(known.number(f"instruction {inputs['condition']}"))
    wording, demands = _worded(rng, inputs, negated=False)
    question = _question(rng, known.seed.query)
    return Asked(question=question, condition=wording, demands=demands, evidence=known.evidence)


def _write_reversal(inputs: Mapping[str, Any]) -> Condition:
    rng = Random(inputs["material"].number(f"reversal {inputs['condition']}"))
    wording, demands = _worded(rng, inputs, negated=True)
    return Condition(condition=wording, demands=demands)


def _worded(rng: Random, inputs: Mapping[str, Any], *, negated: bool) -> tuple[str, tuple[Demand, ...]]:
    """One sentence, and the constraint behind it where there is a family for it."""
    dimension, condition = inputs["dimension"], inputs["condition"]
    if dimension == "keyword":
        constraint = Constraint("mentions", condition, negated)
        wording = compose(rng, [constraint], "short", "plain", inputs["material"].positives[0].kind)
        return wording, (Demand(family="mentions", value=condition, negated=negated),)
    name = language_name(condition)
    noun, phrases = _SAID.get(condition, (f"a text in {name}", (f"be written in {name}", f"be in {name}")))
    if negated:
        phrases = (*map(deny, phrases), f"be anything but {noun}", f"be something other than {noun}")
    phrase = pick(rng, phrases)
    return pick(rng, _DEMANDS).replace("{base}", phrase).replace("{third}", third_person(phrase)), ()


def _question(rng: Random, query: str) -> str:
    """The query within a sentence of its own; a long one is only pointed at."""
    said = _flat(query).rstrip("?.! ")
    if word_count(said) > _TITLE_WORDS or not said:
        return pick(rng, _TASKS)
    frames = _QUESTIONS if said.split()[0].lower() in _ASKING or query.rstrip().endswith("?") else _NEEDS
    return pick(rng, frames).replace("{q}", said)


def _write_negative(inputs: Mapping[str, Any]) -> Rewritten:
    """The first of the seed's negatives that does not answer: nothing can be made up here."""
    known: Material = inputs["material"]
    found = next((cut.passage for cut in known.negatives if not answers(known.evidence, cut.passage)), None)
    return Rewritten(text=found.text, source=found.id) if found else Rewritten(refusal="no_negative")


def _task(
    write: Callable[[Mapping[str, Any]], Keywords | Rewritten | Condition],
) -> Callable[[Mapping[str, Any]], str]:
    return lambda inputs: write(inputs).model_dump_json(exclude_defaults=True)


INFOSEARCH_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "infosearch.keywords": _task(_write_keywords),
    "infosearch.rewrite": _task(_write_passage),
    "infosearch.instruction": _task(_write_instruction),
    "infosearch.reversal": _task(_write_reversal),
    "infosearch.query_negative": _task(_write_negative),
}
