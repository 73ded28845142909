"""`seeds: {kind: documents}`: a folder of text, Markdown, HTML and PDF, for who has no queries.

    files -> blocks -> passages of about `passage_words` words -> no near-duplicates -> one seed for each

A seed has no query: a model writes one for its passages before any recipe (`prompts.recipes.written_query`). By
`queries` it has one passage, several in a row of one document, or passages of several documents, the nearest by BM25.
What is left out is counted in the ledger. Price: all passages are in memory.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from foil.cluster.extras import need
from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.ids import fraction_of
from foil.engine.seeds.bm25 import Bm25Index
from foil.engine.seeds.corpus import CorpusReader, CorpusSeed, CorpusSettings, NegativeCandidate
from foil.engine.seeds.documents.file_texts import ENDINGS, WINDOWS_1252, UnreadableDocumentError, read_blocks
from foil.engine.seeds.documents.passages import count_words, cut_into_passages
from foil.engine.settings import Settings
from foil.engine.topic import Passage
from foil.validators.overlap.minhash import Sketcher, SketchStore

_NEXT_TO = 2
"""A passage so near in its document may answer the query too, and is no negative."""
_NEAREST = 100
"""Passages among which others of several documents are looked for."""


class QueryShares(Settings):
    """What the queries are for: shares of the seeds."""

    passage: float = Field(0.6, ge=0, le=1e6, description="one passage")
    passages: float = Field(0.2, ge=0, le=1e6, description="several passages in a row of one document")
    documents: float = Field(0.2, ge=0, le=1e6, description="passages of several documents")

    @model_validator(mode="after")
    def _has_one(self) -> "QueryShares":
        if not self.passage + self.passages + self.documents:
            raise ValueError("one of the shares must be above 0")
        return self


class DocumentsSettings(CorpusSettings):
    """The folder, and how it is cut into passages."""

    kind: Literal["documents"] = "documents"
    licence: str = Field("unknown", description="Licence of the texts.")
    redistributable: bool = Field(False, description="Whether the texts may be passed on to others.")
    on_error: Literal["refuse", "skip"] = Field(
        "skip", description="What happens at a file that cannot be read: the run ends, or Foil counts it."
    )
    max_row_bytes: int = Field(64 << 20, ge=1, le=2**30, description="Bytes that one file may have.")
    path: Path = Field(description=f"A folder, or one file; names end in {', '.join(ENDINGS)}.")
    passage_words: int = Field(150, ge=20, le=5_000, description="Words of a passage, about.")
    least_words: int = Field(20, ge=1, le=5_000, description="A passage with fewer words is left out.")
    similarity: float = Field(
        0.8, ge=0.5, le=1, description="Jaccard similarity of 3-word shingles at which a passage is left out."
    )
    queries: QueryShares = Field(default_factory=QueryShares, description="What the queries are for, in shares.")
    together: int = Field(2, ge=2, le=5, description="Passages of a query for several.")

    def asks(self) -> tuple[str, ...]:
        return ("instruction_writer",)


@dataclass(frozen=True, slots=True)
class _Place:
    """A passage, its file, and its number there."""

    passage: Passage
    file: Path
    number: int

    @property
    def search_text(self) -> str:
        return f"{self.passage.title}\n{self.passage.text}"


class DocumentsReader(CorpusReader[DocumentsSettings]):
    """Makes one seed of each passage."""

    def __init__(self, settings: DocumentsSettings) -> None:
        super().__init__(settings)
        self._places: list[_Place] = []

    def corpus_seeds(self) -> Iterator[CorpusSeed]:
        for module in ("markdown_it", "markdownify", "pypdf"):
            need(module, extra="documents")
        self._places = list(self._distinct_places())
        index = Bm25Index([place.search_text for place in self._places]) if self._settings.queries.documents else None
        for _, positions in groupby(range(len(self._places)), key=lambda position: self._places[position].file):
            own = [*positions]
            for position in own:
                yield self._corpus_seed(position, self._others(position, range(own[0], own[-1] + 1), index))

    def _corpus_seed(self, position: int, neighbours: list[int]) -> CorpusSeed:
        place, chosen = self._places[position], [self._places[each] for each in (position, *neighbours)]
        purpose = "passage" if not neighbours else "passages" if chosen[1].file == place.file else "documents"
        source_id, passages = place.passage.source_id, [each.passage for each in chosen]
        seed = self.make_seed(source_id, "", passages, (), {"query_for": purpose})
        near = (self._places[max(0, p - _NEXT_TO) : p + _NEXT_TO + 1] for p in (position, *neighbours))
        files = {each.file for each in chosen}
        keys = {each.passage.source_id for places in near for each in places if each.file in files}
        return CorpusSeed(seed, frozenset(keys), str(place.file), place.number, place.search_text)

    def negative_candidates(self) -> Iterator[NegativeCandidate]:
        for place in self._places:
            yield NegativeCandidate(place.passage.source_id, place.search_text, (place.passage,))

    def _others(self, position: int, own: range, index: Bm25Index | None) -> list[int]:
        """The other passages that the query of this one is for, by the shares; `own` are those of its document."""
        place, count, shares = self._places[position], self._settings.together - 1, self._settings.queries
        at = fraction_of("query_for", place.passage.source_id) * (shares.passage + shares.passages + shares.documents)
        if at < shares.passage:
            return []
        if at < shares.passage + shares.passages or index is None:
            begin = max(own.start, min(position, own.stop - 1 - count))
            return [each for each in range(begin, min(begin + count + 1, own.stop)) if each != position]
        [nearest] = index.nearest([place.search_text], _NEAREST, [own])
        by_file = {self._places[each].file: each for each in reversed(nearest)}
        return sorted(by_file.values(), key=nearest.index)[:count]

    def _distinct_places(self) -> Iterator[_Place]:
        sketcher, store = Sketcher(0), SketchStore()
        source_ids: list[str] = []
        for file in self._files():
            for place in self._places_of(file):
                sketch = sketcher(place.passage.text)
                match = store.match_or_add(sketch, self._settings.similarity) if sketch else None
                if match is None:
                    source_ids.append(place.passage.source_id)
                    yield place
                else:
                    self.ledger.note("near_duplicates", f"{place.passage.source_id}, as {source_ids[match.number]}")

    def _places_of(self, file: Path) -> Iterator[_Place]:
        """The passages of a file that are long enough."""
        settings = self._settings
        try:
            blocks, encoding = read_blocks(file, settings.max_row_bytes)
        except UnreadableDocumentError as error:
            self._refuse(file, str(error))
            return
        if encoding == WINDOWS_1252:
            self.ledger.note("reencoded_files", str(file))
        name = file.relative_to(settings.path).as_posix() if settings.path.is_dir() else file.name
        is_blank = True
        for number, passage in enumerate(cut_into_passages(blocks, settings.passage_words), 1):
            source_id = f"{name}#{number}"
            if count_words(passage.text) < settings.least_words:
                self.ledger.note("short_passages", source_id)
                continue
            is_blank = False
            yield _Place(replace(passage, source_id=source_id), file, number)
        self.ledger.note("blank_files" if is_blank else "files", str(file))

    def _refuse(self, file: Path, why: str) -> None:
        if self._settings.on_error == "refuse":
            raise SeedFormatError(file, 1, "a document that can be read", why)
        self.ledger.note("unreadable_files", f"{file}: {why}")

    def _files(self) -> Iterator[Path]:
        """The files of documents, by name; others are counted."""
        root = self._settings.path
        if not root.exists():
            raise UsageError(f"{root} does not exist; give a folder of documents as `seeds.path`")
        for file in [root] if root.is_file() else self._all_files(root):
            if file.suffix.lower() not in ENDINGS or file.name.startswith("."):
                self.ledger.note("other_files", ascii(str(file)) if not _is_storable(str(file)) else str(file))
            elif _is_storable(str(file)):
                yield file
            else:
                self._refuse(Path(ascii(str(file))), "its name is not in UTF-8")

    def _all_files(self, root: Path) -> Iterator[Path]:
        """All files below, without hidden folders; a folder that does not open counts as one that cannot be read."""

        def note(error: OSError) -> None:
            self._refuse(Path(str(error.filename)), error.strerror or str(error))

        for folder, folders, names in os.walk(root, onerror=note):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder) / name for name in sorted(names))


def _is_storable(text: str) -> bool:
    return text == text.encode("utf-8", "ignore").decode()
