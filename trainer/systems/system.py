"""What ranks the documents of a benchmark: the protocol of a system, and every choice that changes its ranking."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pydantic import Field

from engine.keys import SecretSource
from engine.model_traits import Patience
from engine.settings import Settings
from trainer.benchmarks.benchmark import Benchmark
from trainer.measures.judged import Run
from trainer.settings import EncodeSettings

Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much."""


class System(Protocol):
    """Orders documents: BM25, an embedder, a reranker. An LLM that re-ranks fits here too; Foil has none."""

    name: str

    def facts(self) -> Mapping[str, str | float]:
        """What a result names: model, digest of its weights, template, lengths."""

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """At most `k` documents of each query, or its candidates. Every query has an entry, perhaps an empty one."""


class Bm25Settings(Settings):
    """The two numbers of BM25, and what is a word to it."""

    k1: float = Field(default=1.5, ge=0, le=100, description="how fast repeated words stop counting")
    b: float = Field(default=0.75, ge=0, le=1, description="how much a document's length counts")
    stop_words: bool = Field(default=True, description="whether English stop words count; `not` is one")


class SystemSettings(Settings):
    """How systems are run."""

    depth: int = Field(default=1000, ge=1, le=10**6, description="documents ranked for a query")
    template: str = Field(default="", description="how instruction and query are joined; none = as a model learnt")
    encode: EncodeSettings = EncodeSettings(max_tokens=512, precision="float32")
    bm25: Bm25Settings = Bm25Settings()
    rerank_depth: int = Field(default=100, ge=1, le=10**6, description="documents that a reranker gets of a query")
    api_key: SecretSource = Field(default="", description="${NAME} or file:PATH, the key of an endpoint")
    batch: int = Field(default=64, ge=1, le=10_000, description="texts in a request to an endpoint, or to a reranker")
    concurrency: int = Field(default=4, ge=2, le=1_000, description="requests in flight at an endpoint")
    patience: Patience = Patience()
    resamples: int = Field(default=2000, ge=100, le=10**6, description="of the paired bootstrap")


def quiet(what: str, done: int, total: int) -> None:
    """Tells no progress."""


def positions_of_candidates(benchmark: Benchmark, documents: Sequence[str]) -> dict[str, list[int]] | None:
    """For each query the places of its candidates among the documents; None where all are ranked."""
    if benchmark.candidates is None:
        return None
    places = {document: place for place, document in enumerate(documents)}
    return {query.id: [places[document] for document in benchmark.candidates.get(query.id, ())]
            for query in benchmark.queries}  # fmt: skip
