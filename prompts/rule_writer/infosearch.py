"""How the rule writer answers the recipe `infosearch`: conditions that a seed's own blocks can meet, and no others.

    keywords                  phrases that tell the seed's positives, or views of one of them, apart
    rewrite                   Keyword: that view; Length and Format: a layout of the blocks (`layouts`)
    instruction, reversal     wordings from tables

Every rewritten passage keeps the answering blocks to the word, so the seed's evidence stays valid. The rule writer
refuses what needs understanding (Audience, Source, a translation) with `no_condition`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from engine.topic import Passage
from prompts.constraints.constraint import Constraint, surely_broken
from prompts.constraints.detectors import fold_text
from prompts.constraints.dimensions import count_words, language_name, meets
from prompts.constraints.families import FAMILIES, Kind
from prompts.constraints.instructions import compose, pick
from prompts.constraints.phrases import word_set
from prompts.constraints.query_fit import asks_for_a_fact
from prompts.constraints.wordings import third_person
from prompts.passages.answer_evidence import answers
from prompts.passages.blocks import Block, SourcePassage, join, stems
from prompts.passages.reply_types import AskedInstruction, Condition, Demand, Keywords, Rewritten
from prompts.passages.seed_material import SeedMaterial
from prompts.rule_writer.layouts import LAYOUTS, on_one_line
from prompts.rule_writer.published import as_task
from prompts.rule_writer.view_pairs import WHOLE, ViewPairFinder, may_be_cut, may_be_subject

KeywordViews = dict[str, tuple[str, Passage]]
"""keyword -> (a text that has it, the passage that the text is of)."""

_REFUSAL = "no_condition"
_VIEW_CHARS = 1500
_STRUCTURE = word_set("import notes note parameters returns raises examples example warnings attributes references see")
"""Words of headings and of code, about which nobody asks."""
_TITLE_WORDS = 25
"""A longer query is not repeated in the instruction."""


def _write_keywords(inputs: Mapping[str, Any]) -> Keywords:
    words = list(_keyword_views(inputs["material"]))[: inputs["most"]]
    if len(words) < 2:
        return Keywords(aspects=(), keywords=(), refusal=_REFUSAL)
    return Keywords(aspects=tuple(f"about {word}" for word in words), keywords=tuple(words), refusal="")


def _keyword_views(material: SeedMaterial) -> KeywordViews:
    """Each keyword in its own text alone: those of whole positives, else those of views of one positive.

    A worked solution has none: its words are those of the problem. Documentation has none either: what it names beside
    its object is seldom what somebody looks for.
    """
    if material.positives[0].kind in ("mathematics", "documentation"):
        return {}
    rng = Random(material.number("keyword"))
    sources = [source for source in material.positives if source.kind == material.positives[0].kind]
    candidates = [_positive_views(material, sources, rng)] if len(sources) > 1 else []
    candidates += [_block_views(material, source, rng) for source in sources]
    return next((views for views in candidates if len(views) > 1 and _are_apart(views)), {})


def _are_apart(views: KeywordViews) -> bool:
    texts = {word: Passage(text, "seed_positive", source.title) for word, (text, source) in views.items()}
    return all(
        _mentions(word, texts[own].text) if word == own else surely_broken([Constraint("mentions", word)], texts[own])
        for word in texts
        for own in texts
    )


def _positive_views(material: SeedMaterial, sources: Sequence[SourcePassage], rng: Random) -> KeywordViews:
    """For each positive a phrase that no other one has."""
    views: KeywordViews = {}
    for source in sources:
        others = [other.passage for other in material.positives if other is not source]
        word = next(_distinctive_phrases(material, source, source.passage.text, others, rng), None)
        if word is not None:
            views[word] = (source.passage.text, source.passage)
    return views


def _block_views(material: SeedMaterial, source: SourcePassage, rng: Random) -> KeywordViews:
    """Views of one positive: its answering blocks, one block with a keyword, and a share of the blocks without any."""
    if source.kind in WHOLE or not may_be_cut(source):
        return {}
    free = source.free_blocks
    core = Passage(join(source.core_blocks) or source.passage.text, "seed_positive", source.passage.title)
    chosen: dict[str, Block] = {}
    for block in rng.sample(free, len(free)):
        taken = [Passage(b.text, "seed_positive") for b in chosen.values()]
        word = next(_distinctive_phrases(material, source, block.text, [core, *taken], rng), None)
        if word is not None and not any(_mentions(w, block.text) for w in chosen):
            chosen[word] = block
        if len(chosen) == 3:
            break
    rest = [b for b in free if b not in chosen.values() and not any(_mentions(w, _text_of(b)) for w in chosen)]
    views: KeywordViews = {}
    for i, (word, block) in enumerate(chosen.items()):
        kept = _fitting(source, [block, *rest[i :: len(chosen)]])
        views[word] = (join(kept), source.passage)
    return views


def _fitting(source: SourcePassage, wanted: Sequence[Block]) -> list[Block]:
    """The answering blocks, the first wanted one, and of the others as many as fit, in the passage's order."""
    room = _VIEW_CHARS - sum(len(b.text) for b in source.core_blocks)
    labels: set[str] = set()
    for block in wanted:
        room -= len(block.text) + len(block.header)
        if room >= 0 or not labels:
            labels.add(block.label)
    return [b for b in source.blocks if b.core or b.label in labels]


def _distinctive_phrases(
    material: SeedMaterial, source: SourcePassage, text: str, others: Sequence[Passage], rng: Random
) -> Iterator[str]:
    """Subjects of the text that stand in none of the other passages, in no title, and in neither query nor answer."""
    family = "uses" if source.kind == "code" else "mentions"
    offered = FAMILIES[family].detector.offer(text, source.passage.attributes)
    known_stems = stems(" ".join((material.seed.query, material.seed.attributes.get("answer", ""))))
    finder = ViewPairFinder(
        material.seed.query, material.positives, material.negatives, (), room=_VIEW_CHARS, rng=rng, dual=False
    )
    for word in sorted(dict.fromkeys(offered), key=lambda w: rng.random() - (" " in w or not w.islower())):
        is_news = bool(stems(word)) and not stems(word) & known_stems and word.lower() not in _STRUCTURE
        is_name = " " in word and word != fold_text(word) and may_be_subject(word, text)
        is_subject = source.kind == "code" or is_name or finder.is_topical(word, text)
        if (
            is_news
            and is_subject
            and _mentions(word, text)
            and not _mentions(word, source.passage.title)
            and all(surely_broken([Constraint("mentions", word)], other) for other in others)
        ):
            yield word


def _mentions(word: str, text: str) -> bool:
    return meets("keyword", word, Passage(text, "seed_positive"))


def _text_of(block: Block) -> str:
    return f"{block.header}\n{block.text}"


def _write_passage(inputs: Mapping[str, Any]) -> Rewritten:
    """The first positive that some layout of its blocks makes meet the condition."""
    material, dimension, condition = inputs["material"], inputs["dimension"], inputs["condition"]
    if dimension == "keyword":
        text, original = _keyword_views(material).get(condition, ("", material.positive))
        return _rewritten(material, text, original) if text else _not_rewritten(_REFUSAL)
    is_prose = material.positives[0].kind == "text" and not asks_for_a_fact(material.seed.query)
    fits = condition in LAYOUTS and (dimension != "length" or is_prose)
    for source in material.positives if fits else ():
        if source.kind == "text" and not may_be_cut(source):
            continue  # who knows which of its sentences answers?
        text = LAYOUTS[condition](material, source)
        passage = Passage(text, "seed_positive", source.passage.title)
        if text and meets(dimension, condition, passage) and answers(material.evidence, passage):
            return _rewritten(material, text, source.passage)
    return _not_rewritten(_REFUSAL)


def _rewritten(material: SeedMaterial, text: str, source: Passage) -> Rewritten:
    facts = material.evidence[0][:4] if material.evidence else ()
    return Rewritten(facts=facts, text=text, refusal="", source=source.id)


def _not_rewritten(reason: str) -> Rewritten:
    return Rewritten(facts=(), text="", refusal=reason)


_CONDITION_PHRASES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sentence": (
        ("be one single sentence", "fit into one sentence", "say it in just one sentence", "be a single sentence long"),
        ("be longer than one sentence", "be more than a single sentence", "say more than fits into one sentence"),
    ),
    "paragraph": (
        (
            "be one paragraph of several sentences",
            "be a single paragraph with several sentences",
            "say it in one paragraph of several sentences",
        ),
        ("be either a single sentence or a whole article", "be a one-liner or else a full article"),
    ),
    "article": (
        ("be a whole article", "be an article in several paragraphs", "be a full article"),
        ("be shorter than an article", "be less than a whole article", "be one paragraph at most"),
    ),
    "stackoverflow_post": (
        ("be a post with a question and its answer", "be set out as a question and an answer"),
        ("not be set out as a question and an answer", "not be a post with a question and its answer"),
    ),
    "code_snippet": (
        ("be a code snippet", "be code with comments at most", "be code from the first line to the last"),
        (
            "not be a code snippet",
            "be something other than a code snippet",
            "not be code from the first line to the last",
        ),
    ),
    "manual": (
        ("be laid out like a manual page", "read like a page of a manual", "have the form of a manual page"),
        ("not be laid out like a manual page", "not have the form of a manual page"),
    ),
}
"""condition -> verb phrases that ask for it, and verb phrases that ask for anything else of its dimension."""

_DEMANDS = (
    "Please give me a text that {third}.",
    "The text should {base}.",
    "I want a result that {third}.",
    "Could you find something that {third}?",
    "The text must {base}.",
    "I can only use a text that {third}.",
)
_QUESTIONS = ("My question is this: {q}?", "Here is what I would like to know: {q}?", "I am wondering: {q}?")
_NEEDS = ("What I am looking for is this: {q}.", "I need help with the following: {q}.", "This is my subject: {q}.")
_ORDERS = ("What I want to do is this: {q}.", "I need help with the following: {q}.", "This is my task: {q}.")
_SEARCHES = ("What I typed in is this: {q}.", "I searched for this: {q}.", "My search was this: {q}.")
_SPEAKER = frozenset(("i", "my", "we", "our", "need"))
"""Whoever asks in the first person, or says "need something", needs no opening."""
_TASKS = (
    "I am looking for a solution to this problem.",
    "I need help with this problem.",
    "I am stuck on this task.",
    "I have to solve this task.",
    "I am working on this exercise.",
    "I would like to see how this is solved.",
    "This task is part of my course.",
    "I could not solve this problem on my own.",
    "How would you solve this task?",
    "I want to compare my attempt at this problem.",
)
_PROBLEMS = ("I am working on this problem: {q}.", "This is about the following problem: {q}.", "I am stuck here: {q}.")
_LEAST_PROBLEM_WORDS, _PROBLEM_WORDS = 10, 45
"""A shorter first paragraph is no task, a longer one is not repeated."""
_TO_DO = re.compile(
    r"\b(?:return|find|determine|check|write|implement|design|count|compute|calculate|generate|convert|merge|remove|delete"
    r"|sort|solve|reverse|rotate|invert|split|partition|capture|task is)\b",
    re.IGNORECASE,
)
_REFERENCES = (
    "I am looking for an answer to this.",
    "I want to find out about this.",
    "This is what I have to look up.",
)
_BROKEN = re.compile(
    r"\b(?:please|and|or|the|a|an|of|in|to|for|with|by|is|are|what|how|who|where|when)$|\?", re.IGNORECASE
)
"""What a query ends with that nobody finished, or holds that is more than one sentence."""
_ASKING = word_set(
    "what who whom whose which when where why how is are was were do does did can could should will would has have"
)


def _write_instruction(inputs: Mapping[str, Any]) -> AskedInstruction:
    material: SeedMaterial = inputs["material"]
    rng = Random(material.number(f"instruction {inputs['condition']}"))
    wording, demands = _word_condition(rng, inputs, negated=False)
    question = _question(rng, material.seed.query, material.positives[0].kind)
    return AskedInstruction(question=question, condition=wording, demands=demands, evidence=material.evidence)


def _write_reversal(inputs: Mapping[str, Any]) -> Condition:
    rng = Random(inputs["material"].number(f"reversal {inputs['condition']}"))
    wording, demands = _word_condition(rng, inputs, negated=True)
    return Condition(condition=wording, demands=demands)


def _word_condition(rng: Random, inputs: Mapping[str, Any], *, negated: bool) -> tuple[str, tuple[Demand, ...]]:
    """One sentence, and the constraint behind it where there is a family for it."""
    dimension, condition = inputs["dimension"], inputs["condition"]
    if dimension == "keyword":
        kind = inputs["material"].positives[0].kind
        constraint = Constraint("uses" if kind == "code" else "mentions", condition, negated)
        wording = compose(rng, [constraint], "short", "plain", kind)
        return wording, (Demand.of(constraint),)
    name = language_name(condition)
    in_language = (
        (f"be written in {name}", f"be in {name}"),
        (f"not be in {name}", f"be in a language other than {name}"),
    )
    phrase = pick(rng, _CONDITION_PHRASES.get(condition, in_language)[negated])
    return pick(rng, _DEMANDS).replace("{base}", phrase).replace("{third}", third_person(phrase)), ()


def _question(rng: Random, query: str, kind: Kind) -> str:
    """The query within a sentence of its own; of a long one its last question or its task, or else a reference."""
    subject = on_one_line(query).rstrip("?.! ")
    if count_words(subject) > _TITLE_WORDS and query.rstrip().endswith("?") and kind != "code":
        subject = re.split(r"[.!?]\s", subject)[-1]
    if count_words(subject) > _TITLE_WORDS or not subject:
        return _problem(rng, query) if kind == "code" else pick(rng, _TASKS)
    if _BROKEN.search(subject):
        return pick(rng, _REFERENCES)
    first, asks = subject.split()[0].lower(), query.rstrip().endswith("?")
    if first in _SPEAKER:
        return f"{subject}?" if asks else f"{subject}."
    if first == "python" or (subject[0].islower() and not asks and first not in _ASKING):
        return pick(rng, _SEARCHES).replace("{q}", subject)
    orders = _ORDERS if kind in ("documentation", "code") else _NEEDS
    return pick(rng, _QUESTIONS if asks or first in _ASKING else orders).replace("{q}", subject)


def _problem(rng: Random, query: str) -> str:
    """The first paragraph of a problem, if it is short: examples and limits come after it."""
    task = on_one_line(query.strip().split("\n\n")[0]).rstrip(":. ")
    says_what = _TO_DO.search(task) and not _BROKEN.search(task)
    if says_what and _LEAST_PROBLEM_WORDS <= count_words(task) <= _PROBLEM_WORDS:
        return pick(rng, _PROBLEMS).replace("{q}", task)
    return pick(rng, _TASKS)


def _write_negative(inputs: Mapping[str, Any]) -> Rewritten:
    """The first of the seed's negatives that does not answer: the rule writer makes nothing up."""
    material: SeedMaterial = inputs["material"]
    negative = next((p for p in material.negative_passages if not answers(material.evidence, p)), None)
    return _rewritten(material, negative.text, negative) if negative else _not_rewritten("no_negative")


INFOSEARCH_TASKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "infosearch.keywords": as_task(_write_keywords),
    "infosearch.rewrite": as_task(_write_passage),
    "infosearch.instruction": as_task(_write_instruction),
    "infosearch.reversal": as_task(_write_reversal),
    "infosearch.query_negative": as_task(_write_negative),
}
