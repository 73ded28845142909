"""Does an instruction give the answer away? Then it alone finds the passage, and following instructions is not learnt.

An instruction may say what the wanted passage is like; it may not be that passage, nor its name. A *leak* is one of:

- `quotes_passage`: it shares a run of words with a passage relevant to it that is long enough to be a sentence of it;
- `repeats_passage`: shorter shared runs make up most of the instruction;
- `quotes_answer`: it holds the answer that the corpus knows (`answer`, `answer_sentence` of the topic or passage);
- `names_source`: it holds the passage's title or its id in the corpus.

What is *not* a leak: words that the query holds already (they give nothing new), and the terms that a verifiable
constraint names ("mentions the Treaty of Versailles"). Naming a term is what such a constraint is for: it is true of
every passage with the term, and whoever asks can know it beforehand. So a shared run that lies inside the query or
inside a constraint's value does not count, unless that value is itself as long as a sentence. The known answer is no
such term: who names it needs no search. Answers of one short word or number ("3", "yes") occur by chance and are not
looked for.

Promise: each leak is a verdict with the words that leak and the passage. Looks at the topic alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from engine.protocols import Ask
from engine.settings import Settings
from engine.topic import Intent, Passage, Topic, Verdict
from prompts.constraints import constraints_of
from validators.verdicts import fingerprint, passed, rejected
from validators.word_runs import normalise

Words = Sequence[bytes]
Leak = tuple[str, str, float]
"""Reason, evidence, score."""

_ANSWERS = ("answer", "answer_sentence")
_LONE_ANSWER_CHARS = 5
_SOURCE_ID_CHARS = 4


class LeakSettings(Settings):
    """How much an instruction may have in common with what it asks for."""

    kind: Literal["leak"] = "leak"
    sentence_words: int = Field(8, ge=3, description="words in a row that are a quotation")
    phrase_words: int = Field(4, ge=2, description="words in a row that count as repeated")
    repeated_share: float = Field(0.5, gt=0, le=1, description="share of the instruction's words that may be repeated")


class Leaks:
    """Compares every instruction with the passages that are relevant under it."""

    name = "leak"
    cost = 0

    def __init__(self, settings: LeakSettings) -> None:
        self._settings = settings
        self.fingerprint = fingerprint(settings, version=1)

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:  # noqa: ARG002
        """The topic as it was, and a verdict for each way in which an intent leaks."""
        verdicts = []
        for intent in topic.intents:
            if intent.instruction:
                wanted = {j.passage_id for j in topic.judgments if j.intent_id == intent.id and j.relevance > 0}
                relevant = [passage for passage in topic.passages if passage.id in wanted]
                leaks = {reason: (evidence, score) for reason, evidence, score in self._leaks(intent, relevant, topic)}
                verdicts += [rejected(self.name, intent.id, reason, *said) for reason, said in leaks.items()]
        return topic, verdicts or passed(self.name)

    def _leaks(self, intent: Intent, relevant: Sequence[Passage], topic: Topic) -> Iterator[Leak]:
        instruction, query = _words(intent.instruction), _words(intent.query)
        known = _Known([query, *self._terms(intent)])
        yield from _answers_in(instruction, query, topic.attributes)
        for passage in relevant:
            yield from _answers_in(instruction, query, passage.attributes)
            yield from _names_in(intent, instruction, query, passage)
            yield from self._shared(instruction, passage, known)

    def _terms(self, intent: Intent) -> Iterator[Words]:
        """What the instruction's constraints name, save what is as long as a sentence."""
        terms = (_words(constraint.value) for constraint in constraints_of(intent))
        return (term for term in terms if len(term) < self._settings.sentence_words)

    def _shared(self, instruction: Words, passage: Passage, known: _Known) -> Iterator[Leak]:
        text = _words(passage.text)
        runs = [run for run in _shared_runs(instruction, text, self._settings.phrase_words) if not known.holds(run)]
        if not runs:
            return
        longest, repeated = max(runs, key=len), sum(map(len, runs)) / len(instruction)
        evidence = f"passage {passage.id} has {_shown(longest)!r}"
        if len(longest) >= self._settings.sentence_words:
            yield "quotes_passage", evidence, float(len(longest))
        elif repeated > self._settings.repeated_share:
            yield "repeats_passage", evidence, round(repeated, 4)


class _Known:
    """Word sequences that may be repeated freely."""

    def __init__(self, texts: Sequence[Words]) -> None:
        self._texts = [_fenced(text) for text in texts]

    def holds(self, run: Words) -> bool:
        """Whether one of them has the whole run."""
        return any(_fenced(run) in text for text in self._texts)


def _answers_in(instruction: Words, query: Words, attributes: Mapping[str, str]) -> Iterator[Leak]:
    for key in _ANSWERS:
        answer = _words(attributes.get(key, ""))
        telling = len(answer) > 1 or any(len(word) >= _LONE_ANSWER_CHARS for word in answer)
        if telling and _adds(instruction, answer, query):
            yield "quotes_answer", f"the {key} is {_shown(answer)!r}", 1.0


def _names_in(intent: Intent, instruction: Words, query: Words, passage: Passage) -> Iterator[Leak]:
    title = _words(passage.title)
    if len(title) > 1 and _adds(instruction, title, query):
        yield "names_source", f"the title of passage {passage.id} is {_shown(title)!r}", 1.0
    source = _words(passage.source_id)
    literal = len(passage.source_id) >= _SOURCE_ID_CHARS and passage.source_id in intent.instruction
    if literal and _adds(instruction, source, query):
        yield "names_source", f"passage {passage.id} is {passage.source_id!r} in its corpus", 1.0


def _adds(instruction: Words, words: Words, query: Words) -> bool:
    """Whether the instruction has these words in a row, and the query has not."""
    return _fenced(words) in _fenced(instruction) and _fenced(words) not in _fenced(query)


def _shared_runs(left: Words, right: Words, least: int) -> Iterator[Words]:
    """The longest runs of `left`, none inside another, of at least `least` words that `right` has too, in order."""
    grams = {tuple(right[i : i + least]) for i in range(len(right) - least + 1)}
    whole, at = _fenced(right), 0
    while at + least <= len(left):
        end = at + least
        if tuple(left[at:end]) not in grams:
            at += 1
            continue
        while end < len(left) and _fenced(left[at : end + 1]) in whole:
            end += 1
        yield left[at:end]
        at = end


def _words(text: str) -> Words:
    return normalise(text).split()


def _fenced(words: Words) -> bytes:
    return b" " + b" ".join(words) + b" "


def _shown(words: Words) -> str:
    return b" ".join(words).decode("utf-8", "surrogatepass")
