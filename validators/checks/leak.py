"""Does an instruction give the answer away? Then it alone finds the passage, and following instructions is not learnt.

An instruction may describe the wanted passage, but not quote or name it. A *leak* is one of:

- `quotes_passage`: it shares a run of words with a passage relevant to it that is long enough to be a sentence of it;
- `repeats_passage`: shorter shared runs make up most of the instruction;
- `quotes_answer`: it holds the answer that the corpus knows (`answer`, `answer_sentence` of the topic or passage);
- `names_source`: it holds the passage's title or its id in the corpus.

What is *not* a leak: words of the query, and the terms that a verifiable constraint names ("mentions the Treaty of
Versailles"). Such a constraint is true of every passage with the term, and whoever asks can know it beforehand. So only
those words of a shared run count that repeat neither the query nor a constraint's value, unless that value is itself as
long as a sentence. The known answer always counts, save answers of one short word or number ("3", "yes"), which occur
by chance.

Promise: each leak is a verdict with the words that leak and the passage.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from foil.engine.settings import Settings
from foil.engine.topic import Intent, Passage, Topic, Verdict
from foil.prompts.constraints.constraint import constraints_of
from foil.validators.overlap.word_runs import normalise
from foil.validators.verdicts import TopicCheck, pass_verdicts, reject_verdict

Words = Sequence[bytes]
Leak = tuple[str, str, float]
"""Reason, evidence, score."""

_ANSWERS = ("answer", "answer_sentence")
_LONE_ANSWER_CHARS = 5
_SOURCE_ID_CHARS = 4


class LeakSettings(Settings):
    """How much an instruction may have in common with what it asks for."""

    kind: Literal["leak"] = "leak"
    sentence_words: int = Field(8, ge=3, le=10_000, description="new words in a row that are a quotation")
    phrase_words: int = Field(4, ge=2, le=10_000, description="words in a row that count as repeated")
    repeated_share: float = Field(0.5, gt=0, le=1, description="share of the instruction's words that may be repeated")


class LeakCheck(TopicCheck[LeakSettings]):
    """Compares every instruction with the passages that are relevant under it."""

    name = "leak"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a verdict for each way in which an intent leaks."""
        verdicts = []
        for intent in topic.intents:
            if intent.instruction:
                relevant_ids = {j.passage_id for j in topic.judgments if j.intent_id == intent.id and j.relevance > 0}
                relevant = [passage for passage in topic.passages if passage.id in relevant_ids]
                leaks = {reason: (evidence, score) for reason, evidence, score in self._leaks(intent, relevant, topic)}
                verdicts += [reject_verdict(self.name, intent.id, reason, *leak) for reason, leak in leaks.items()]
        return topic, verdicts or pass_verdicts(self.name)

    def _leaks(self, intent: Intent, relevant: Sequence[Passage], topic: Topic) -> Iterator[Leak]:
        instruction, query = _words(intent.instruction), _words(intent.query)
        allowed = self._allowed_positions(instruction, query, intent)
        yield from _known_answers(instruction, query, topic.attributes)
        for passage in relevant:
            yield from _known_answers(instruction, query, passage.attributes)
            yield from _source_names(intent, instruction, query, passage)
            yield from self._shared_with(passage, instruction, allowed)

    def _allowed_positions(self, instruction: Words, query: Words, intent: Intent) -> set[int]:
        """The word positions at which the instruction repeats the query, or names what a constraint is about."""
        spans = list(_shared_runs(instruction, query, min(self._settings.phrase_words, len(query))))
        for term in (_words(constraint.value) for constraint in constraints_of(intent)):
            if len(term) < self._settings.sentence_words:
                spans += _shared_runs(instruction, term, len(term))
        return {position for span in spans for position in span}

    def _shared_with(self, passage: Passage, instruction: Words, allowed: set[int]) -> Iterator[Leak]:
        runs = list(_shared_runs(instruction, _words(passage.text), self._settings.phrase_words))
        if not runs:
            return
        new_words = [sum(position not in allowed for position in run) for run in runs]
        most, share = max(new_words), sum(new_words) / len(instruction)
        run = runs[new_words.index(most)]
        evidence = f"passage {passage.id} has {_text(instruction[run.start : run.stop])!r}"
        if most >= self._settings.sentence_words:
            yield "quotes_passage", evidence, float(most)
        elif share > self._settings.repeated_share:
            yield "repeats_passage", evidence, round(share, 4)


def _known_answers(instruction: Words, query: Words, attributes: Mapping[str, str]) -> Iterator[Leak]:
    for key in _ANSWERS:
        answer = _words(attributes.get(key, ""))
        looked_for = len(answer) > 1 or any(len(word) >= _LONE_ANSWER_CHARS for word in answer)
        if looked_for and _adds(instruction, answer, query):
            yield "quotes_answer", f"the {key} is {_text(answer)!r}", 1.0


def _source_names(intent: Intent, instruction: Words, query: Words, passage: Passage) -> Iterator[Leak]:
    title = _words(passage.title)
    if len(title) > 1 and _adds(instruction, title, query):
        yield "names_source", f"the title of passage {passage.id} is {_text(title)!r}", 1.0
    source = _words(passage.source_id)
    names_id = len(passage.source_id) >= _SOURCE_ID_CHARS and passage.source_id in intent.instruction
    if names_id and _adds(instruction, source, query):
        yield "names_source", f"passage {passage.id} is {passage.source_id!r} in its corpus", 1.0


def _adds(instruction: Words, words: Words, query: Words) -> bool:
    """Whether the instruction has these words in a row, and the query has not."""
    return _spaced(words) in _spaced(instruction) and _spaced(words) not in _spaced(query)


def _shared_runs(first: Words, second: Words, least: int) -> Iterator[range]:
    """Where in `first` stand the longest runs of `least` words or more that `second` has too; in order, apart."""
    grams = {tuple(second[i : i + least]) for i in range(len(second) - least + 1)} if least else set()
    text, start = _spaced(second), 0
    while start + least <= len(first) and grams:
        end = start + least
        if tuple(first[start:end]) not in grams:
            start += 1
            continue
        while end < len(first) and _spaced(first[start : end + 1]) in text:
            end += 1
        yield range(start, end)
        start = end


def _words(text: str) -> Words:
    return normalise(text).split()


def _spaced(words: Words) -> bytes:
    return b" " + b" ".join(words) + b" "


def _text(words: Words) -> str:
    return b" ".join(words).decode("utf-8", "surrogatepass")
