"""Does an instruction give the answer away? Then it alone finds the passage, and following instructions is not learnt.

An instruction may say what the wanted passage is like; it may not be that passage, nor its name. A *leak* is one of:

- `quotes_passage`: it shares a run of words with a passage relevant to it that is long enough to be a sentence of it;
- `repeats_passage`: shorter shared runs make up most of the instruction;
- `quotes_answer`: it holds the answer that the corpus knows (`answer`, `answer_sentence` of the topic or passage);
- `names_source`: it holds the passage's title or its id in the corpus.

What is *not* a leak: words that the query holds already (they give nothing new), and the terms that a verifiable
constraint names ("mentions the Treaty of Versailles"). Naming a term is what such a constraint is for: it is true of
every passage with the term, and whoever asks can know it beforehand. So of a shared run only those words count that do
not repeat the query or a constraint's value, unless that value is itself as long as a sentence. The known answer is no
such term: who names it needs no search. Answers of one short word or number ("3", "yes") occur by chance and are not
looked for.

Promise: each leak is a verdict with the words that leak and the passage. Looks at the topic alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from pydantic import Field

from engine.protocols import Cost
from engine.settings import Settings
from engine.topic import Intent, Passage, Topic, Verdict
from prompts.constraints.constraint import constraints_of
from validators.overlap.word_runs import normalise
from validators.verdicts import fingerprint, passed, rejected

Words = Sequence[bytes]
Leak = tuple[str, str, float]
"""Reason, evidence, score."""

_ANSWERS = ("answer", "answer_sentence")
_LONE_ANSWER_CHARS = 5
_SOURCE_ID_CHARS = 4


class LeakSettings(Settings):
    """How much an instruction may have in common with what it asks for."""

    kind: Literal["leak"] = "leak"
    sentence_words: int = Field(8, ge=3, description="new words in a row that are a quotation")
    phrase_words: int = Field(4, ge=2, description="words in a row that count as repeated")
    repeated_share: float = Field(0.5, gt=0, le=1, description="share of the instruction's words that may be repeated")


class Leaks:
    """Compares every instruction with the passages that are relevant under it."""

    name = "leak"
    cost: Final = Cost.TOPIC

    def __init__(self, settings: LeakSettings) -> None:
        self._settings = settings
        self.fingerprint = fingerprint(settings, version=1)

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
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
        given = self._given(instruction, query, intent)
        yield from _answers_in(instruction, query, topic.attributes)
        for passage in relevant:
            yield from _answers_in(instruction, query, passage.attributes)
            yield from _names_in(intent, instruction, query, passage)
            yield from self._shared(instruction, given, passage)

    def _given(self, instruction: Words, query: Words, intent: Intent) -> set[int]:
        """The places in the instruction where it repeats the query, or names what a constraint is about."""
        spans = list(_shared_runs(instruction, query, min(self._settings.phrase_words, len(query))))
        for term in (_words(constraint.value) for constraint in constraints_of(intent)):
            if len(term) < self._settings.sentence_words:
                spans += _shared_runs(instruction, term, len(term))
        return {place for span in spans for place in span}

    def _shared(self, instruction: Words, given: set[int], passage: Passage) -> Iterator[Leak]:
        runs = list(_shared_runs(instruction, _words(passage.text), self._settings.phrase_words))
        new = [sum(place not in given for place in run) for run in runs]
        if not runs:
            return
        most, share = max(zip(new, runs, strict=True), key=lambda one: one[0]), sum(new) / len(instruction)
        evidence = f"passage {passage.id} has {_shown(instruction[most[1].start : most[1].stop])!r}"
        if most[0] >= self._settings.sentence_words:
            yield "quotes_passage", evidence, float(most[0])
        elif share > self._settings.repeated_share:
            yield "repeats_passage", evidence, round(share, 4)


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


def _shared_runs(left: Words, right: Words, least: int) -> Iterator[range]:
    """Where in `left` stand the longest runs of `least` words or more that `right` has too; in order, apart."""
    grams = {tuple(right[i : i + least]) for i in range(len(right) - least + 1)} if least else set()
    whole, at = _fenced(right), 0
    while at + least <= len(left) and grams:
        end = at + least
        if tuple(left[at:end]) not in grams:
            at += 1
            continue
        while end < len(left) and _fenced(left[at : end + 1]) in whole:
            end += 1
        yield range(at, end)
        at = end


def _words(text: str) -> Words:
    return normalise(text).split()


def _fenced(words: Words) -> bytes:
    return b" " + b" ".join(words) + b" "


def _shown(words: Words) -> str:
    return b" ".join(words).decode("utf-8", "surrogatepass")
