"""Texts that may not be passed on: what stands for them in a release, and how they come back from their corpus.

    topic --withhold--> the same topic with tokens for its texts, and an entry for each: where in the corpus it stands
    entries + seeds of the corpus --found_texts--> the texts, each checked against its sha256

A token names the sha256 of its text. An entry of a whole text is found among the seeds by that digest. An edited text
is kept as pieces: offsets into the text that it edits, and the words of whoever edited it. Promise: what goes out of a
topic that is not redistributable is ids, offsets, instructions, words that a model wrote, and judgments. Price: one
pass over the seeds.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

from foil.engine.errors import CorruptDataError
from foil.engine.ids import ID_HEX, sha256_hex
from foil.engine.topic import Intent, Passage, Seed, Topic

Piece = str | tuple[int, int]
Place = Literal["corpus", "edit", "not looked up", "nowhere"]

_TOKEN = re.compile(f"\ue000([0-9a-f]{{{ID_HEX}}})\ue001")
_WORDS = re.compile(r"\S+|\s+")
_LEAST_WORDS = 5  # words and blanks that a piece of the corpus has; what is shorter goes out as it is
_KEPT = {"topic": ("split", "mix"), "passage": ("mined",)}
"""Attributes that quote no text of a corpus."""


@dataclass(frozen=True, slots=True)
class WithheldText:
    """One entry: whose text it is, and how it comes back. `of` is the key of the text that it edits, or "".

    `place`: `corpus` (found there), `edit` (pieces of one that is), `not looked up` (no corpus was at hand), `nowhere`
    (looked for and not found: this text is lost to a reader of the release).
    """

    key: str
    sha256: str
    kind: Literal["query", "title", "passage"]
    corpus: str
    seed_id: str
    source_id: str
    passage_id: str
    characters: int
    place: Place
    of: str = ""
    pieces: tuple[Piece, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON: what `withheld/texts.jsonl` holds."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CorpusIndex:
    """Which of the wanted texts a corpus has, by key, and those that are edited in the release, by passage id."""

    keys: frozenset[str]
    parents: Mapping[str, str]


def key_of(text: str) -> str:
    """The key of a text: the beginning of its sha256."""
    return sha256_hex(text)[:ID_HEX]


def token_of(text: str) -> str:
    """What stands for a text; "" for none."""
    return f"\ue000{key_of(text)}\ue001" if text else ""


def holds_token(value: Any) -> bool:
    """Whether a token stands anywhere in a row."""
    if isinstance(value, str):
        return "\ue000" in value and bool(_TOKEN.search(value))
    if isinstance(value, Mapping):
        return any(map(holds_token, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_token, value))


def fill(value: Any, texts: Mapping[str, str]) -> Any:
    """The row with every token that has a text replaced by it."""
    if isinstance(value, str):
        return _TOKEN.sub(lambda match: texts.get(match[1], match[0]), value)
    if isinstance(value, Mapping):
        return {name: fill(part, texts) for name, part in value.items()}
    return [fill(part, texts) for part in value] if isinstance(value, list | tuple) else value


def texts_of_seed(seed: Seed) -> Iterator[str]:
    """Every text that a seed brings from its corpus."""
    yield seed.query
    for passage in (*seed.positives, *seed.negatives):
        yield from (passage.text, passage.title, passage.attributes.get("query", ""))


def look_up(topics: Iterable[Topic], seeds: Iterable[Seed]) -> CorpusIndex:
    """What of these topics' texts stands in the corpus."""
    keys, parents = set[str](), set[str]()
    for topic in topics:
        queries = (topic.query, *(intent.query for intent in topic.intents))
        keys.update(map(key_of, (*queries, *(part for p in topic.passages for part in (p.text, p.title)))))
        parents.update(passage.edited_from for passage in topic.passages)
    corpus_keys, texts = set[str](), dict[str, str]()
    for seed in seeds:
        corpus_keys.update(keys.intersection(map(key_of, texts_of_seed(seed))))
        texts |= {p.id: p.text for p in (*seed.positives, *seed.negatives) if p.id in parents}
    return CorpusIndex(frozenset(corpus_keys), texts)


def withhold(topic: Topic, index: CorpusIndex | None) -> tuple[Topic, list[WithheldText]]:
    """The topic with tokens for the texts of its corpus, and their entries; a redistributable topic as it is.

    `index` tells texts of the corpus from those that a model wrote; without it all that may be of the corpus is held
    back. An edit is kept as pieces of the text that it edits, if the topic or the corpus has that.
    """
    if topic.redistributable:
        return topic, []
    withholder = _Withholder(topic, index)
    attributes = {name: value for name, value in topic.attributes.items() if name in _KEPT["topic"]}
    withheld = replace(
        topic,
        query=withholder.query(topic.query),
        intents=tuple(map(withholder.intent, topic.intents)),
        passages=tuple(map(withholder.passage, topic.passages)),
        verdicts=tuple(replace(verdict, evidence="") for verdict in topic.verdicts),
        attributes=attributes,
    )
    return withheld, withholder.entries


class _Withholder:
    def __init__(self, topic: Topic, index: CorpusIndex | None) -> None:
        self._topic, self._index = topic, index
        self._texts = {passage.id: passage.text for passage in topic.passages}
        self.entries: list[WithheldText] = []

    def query(self, text: str) -> str:
        """A query of another seed is one of the corpus too; one that a model wrote goes out."""
        if not text or (self._index and text != self._topic.query and key_of(text) not in self._index.keys):
            return text
        return self._hold(text, "query", None)

    def intent(self, intent: Intent) -> Intent:
        return replace(intent, query=self.query(intent.query))

    def passage(self, passage: Passage) -> Passage:
        attributes = {name: value for name, value in passage.attributes.items() if name in _KEPT["passage"]}
        if self._is_written(passage):
            return replace(passage, attributes=attributes)
        title = self._hold(passage.title, "title", passage) if passage.title else ""
        return replace(passage, title=title, text=self._hold(passage.text, "passage", passage), attributes=attributes)

    def _is_written(self, passage: Passage) -> bool:
        if passage.edited_from or passage.source_id or passage.role.startswith("seed_"):
            return False
        absent = self._index is not None and key_of(passage.text) not in self._index.keys
        return absent or passage.role == "generated_positive"

    def _hold(self, text: str, kind: Literal["query", "title", "passage"], passage: Passage | None) -> str:
        place, of, pieces = self._place(text, passage if kind == "passage" else None)
        source, name = (passage.source_id, passage.id) if passage else ("", "")
        self.entries.append(
            WithheldText(
                key_of(text), sha256_hex(text), kind, self._topic.corpus, self._topic.seed_id, source, name, len(text),
                place, of, pieces,
            )
        )  # fmt: skip
        return token_of(text)

    def _place(self, text: str, passage: Passage | None) -> tuple[Place, str, tuple[Piece, ...]]:
        if self._index and key_of(text) in self._index.keys:
            return "corpus", "", ()
        if passage and passage.edited_from:
            parent = self._texts.get(passage.edited_from) or (
                self._index and self._index.parents.get(passage.edited_from)
            )
            if parent:
                return "edit", key_of(parent), pieces_of(text, parent)
            return "nowhere", "", ()
        return ("nowhere" if self._index else "not looked up"), "", ()


def pieces_of(text: str, parent: str) -> tuple[Piece, ...]:
    """The text as spans [start, end) of its parent, in characters, and what stands between them.

    >>> pieces_of("In all, the ferry runs every hour in calm water.", "The ferry is old. the ferry runs every hour.")
    ('In all, ', (18, 43), 'in calm water.')
    """
    old, new = _WORDS.findall(parent), _WORDS.findall(text)
    starts = [0]
    for word in old:
        starts.append(starts[-1] + len(word))
    pieces: list[Piece] = []
    position = 0
    for at, begin, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        if size >= _LEAST_WORDS:
            pieces += ["".join(new[position:begin]), (starts[at], starts[at + size])]
            position = begin + size
    return tuple(piece for piece in (*pieces, "".join(new[position:])) if piece)


def found_texts(entries: Collection[Mapping[str, Any]], seeds: Iterable[Seed]) -> dict[str, str]:
    """Key -> text of every entry that these seeds bring back. Raises CorruptDataError for a text of another sha256."""
    keys = {key for entry in entries for key in (entry["key"], entry["of"]) if key}
    texts: dict[str, str] = {}
    for seed in seeds:
        texts |= {key: text for text in texts_of_seed(seed) if text and (key := key_of(text)) in keys}
    edits = [entry for entry in entries if entry["of"] and entry["key"] not in texts]
    while ready := [entry for entry in edits if entry["of"] in texts or not _spans(entry)]:
        texts |= {entry["key"]: _joined(entry, texts) for entry in ready}
        edits = [entry for entry in edits if entry["key"] not in texts]
    for entry in entries:
        text = texts.get(entry["key"])
        if text is not None and sha256_hex(text) != entry["sha256"]:
            raise CorruptDataError(
                f"the {entry['kind']} {entry['passage_id'] or entry['seed_id']} of {entry['corpus']} comes back as "
                f"another text than was released (sha256 {sha256_hex(text)[:16]}, not {entry['sha256'][:16]}); use the "
                "corpus of the release"
            )
    return {entry["key"]: texts[entry["key"]] for entry in entries if entry["key"] in texts}


def _spans(entry: Mapping[str, Any]) -> list[Piece]:
    return [piece for piece in entry["pieces"] if not isinstance(piece, str)]


def _joined(entry: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    parent = texts.get(entry["of"], "")
    return "".join(piece if isinstance(piece, str) else parent[piece[0] : piece[1]] for piece in entry["pieces"])
