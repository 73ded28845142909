"""Keeps the strings of evaluation sets out of the data: exact containment, and overlap of 13 words in a row.

    sets -> items -> NgramIndex (built once, its digest in every commit entry)
    seed  -> screen: the query              -> rejected before any request is paid
    topic -> validator: every text it holds -> a verdict for each hit, with set, item, field and span

What counts, in words after normalising (`word_runs`):
- 13 words in a row shared with an item, in any field. GPT-3 used this length; shorter runs are figures of speech.
- A whole item of under 13 words: in a query or an instruction from 5 words on, in a passage from 8. Under 5 words an
  item is a phrase ("what is a") that other questions begin with. A passage has more text: MS MARCO's development
  queries of 5 and 6 words stand in 13 of 1,743 passages that answer another question, those of 7 and more in none.
- A query or instruction that equals an item, at any length.

Price: 0.1 ms a topic, 40 MB/s and more of text a core, about 25 bytes of index for each word of the sets.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field

from foil.engine.ids import canonical_json, sha256_hex
from foil.engine.protocols import Cost
from foil.engine.settings import Settings
from foil.engine.topic import Seed, Topic, Verdict
from foil.validators.overlap import word_runs
from foil.validators.overlap.evaluation_sets import EvaluationSet
from foil.validators.overlap.ngram_index import Hit, NgramIndex
from foil.validators.verdicts import pass_verdicts, reject_verdict, truncate

VERSION = 1
"""Changes when the same hits would be judged otherwise."""


class ContaminationSettings(Settings):
    """Which sets, and from how many words on a shared run counts."""

    kind: Literal["contamination"] = "contamination"
    sets: tuple[EvaluationSet, ...] = Field(min_length=1, description="the evaluation sets to keep out")
    overlap_words: int = Field(13, ge=5, le=64, description="words in a row that count in any field")
    query_words: int = Field(
        5, ge=1, le=10_000, description="least words of a shorter item held by a query or an instruction"
    )
    passage_words: int = Field(8, ge=1, le=10_000, description="least words of a shorter item held by a passage")
    cache: Path | None = Field(None, description="folder that keeps the index, mapped by every process; default: none")


class _ScannedText(NamedTuple):
    scope: str
    field: str
    text: str
    least_words: int


class Contamination:
    """Scans every text of a topic; `screen` scans a seed's query before the topic is made."""

    name = "contamination"
    cost: Final = Cost.INDEX

    def __init__(self, settings: ContaminationSettings) -> None:
        self._settings = settings
        self.digest = index_digest(settings)
        self.index = open_index(settings)
        self.fingerprint = _fingerprint(settings, self.digest)

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a verdict for each hit; a text that stands in several places is reported once."""
        return topic, self._hits(self._texts(topic)) or pass_verdicts(self.name)

    @property
    def screen(self) -> ContaminationScreen:
        """The same check for seeds, over the same index."""
        return ContaminationScreen(self)

    def query_verdict(self, query: str) -> Verdict | None:
        """The verdict on a seed's query, with its longest shared run."""
        hits = self._hits([_ScannedText("topic", "query", query, self._settings.query_words)])
        return max(hits, key=lambda verdict: verdict.score or 0.0, default=None)

    def _texts(self, topic: Topic) -> list[_ScannedText]:
        short, long = self._settings.query_words, self._settings.passage_words
        texts = [_ScannedText("topic", "query", topic.query, short)]
        for intent in topic.intents:
            texts.append(_ScannedText(intent.id, "query", intent.query, short))
            texts.append(_ScannedText(intent.id, "instruction", intent.instruction, short))
        texts += (_ScannedText(p.id, "passage", f"{p.title}\n{p.text}", long) for p in topic.passages)
        first = {(text.text, text.least_words): text for text in reversed(texts)}
        return list(reversed(first.values()))

    def _hits(self, texts: Sequence[_ScannedText]) -> list[Verdict]:
        hits = self.index.find([text.text for text in texts], [text.least_words for text in texts])
        return [self._verdict(texts[hit.text], hit) for hit in hits]

    def _verdict(self, scanned: _ScannedText, hit: Hit) -> Verdict:
        """Reject, with what a reader needs to agree; the score is the share of the item's words that was found."""
        facts = {"field": scanned.field, "set": hit.source, "item": hit.item, "words": hit.words}
        evidence = canonical_json(facts | {"span": truncate(hit.span)})
        return reject_verdict(self.name, scanned.scope, "contaminated", evidence, round(hit.words / hit.item_words, 4))


class ContaminationScreen:
    """Rejects seeds whose query is in an evaluation set, before a topic of theirs is paid for and rejected."""

    name = "contamination"

    def __init__(self, contamination: Contamination) -> None:
        self._contamination = contamination
        self.fingerprint = contamination.fingerprint

    def __call__(self, seed: Seed) -> Verdict | None:
        """A rejecting verdict, or None."""
        return self._contamination.query_verdict(seed.query)


def _fingerprint(settings: ContaminationSettings, digest: str) -> str:
    """What enters every commit entry: the sets by name, the index by digest, and the least words that count."""
    names = [evaluation_set.name for evaluation_set in settings.sets]
    least = {"passage_words": settings.passage_words, "query_words": settings.query_words}
    return canonical_json({"index": digest, "sets": names, "version": VERSION, **least})


def index_digest(settings: ContaminationSettings) -> str:
    """Names the index by all that decides its content: the sets' bytes and how they are read, cut and hashed."""
    sets = [evaluation_set.digest() for evaluation_set in settings.sets]
    return sha256_hex(canonical_json([word_runs.VERSION, settings.overlap_words, sets]))


@functools.lru_cache(maxsize=2)
def open_index(settings: ContaminationSettings) -> NgramIndex:
    """The index over the sets: mapped from the cache folder, where there is one, else built in memory."""
    if settings.cache is None:
        return _build_index(settings)
    folder = settings.cache / f"contamination-{index_digest(settings)[:32]}"
    if not folder.is_dir():
        _build_index(settings).save(folder)
    return NgramIndex.load(folder)


def _build_index(settings: ContaminationSettings) -> NgramIndex:
    items = [item for evaluation_set in settings.sets for item in evaluation_set.items()]
    return NgramIndex.build(items, settings.overlap_words)
