"""What ranks the documents of a benchmark: the protocol of a system, and every choice that changes its ranking."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pydantic import Field

from foil.engine.model_traits import Patience
from foil.engine.models.params import Price
from foil.engine.settings import SecretSource, Settings
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark
from foil.trainer.evaluate.measures.judged import Run
from foil.trainer.settings import EncodeSettings

ONNX = "onnx:"
"""Begins the name of a model that `foil export` wrote."""
Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much."""


class System(Protocol):
    """Orders documents: BM25, an embedder, a reranker, an LLM."""

    name: str

    def facts(self) -> Mapping[str, str | float]:
        """What a result names: model, digest of its weights, template, lengths."""

    def rank(self, benchmark: Benchmark, k: int) -> Run:
        """At most `k` documents of each query, or its candidates. Every query has an entry, perhaps an empty one."""


class Bm25Settings(Settings):
    """The two numbers of BM25, and what is a word to it."""

    k1: float = Field(1.5, ge=0, le=100, description="how fast repeated words stop counting")
    b: float = Field(0.75, ge=0, le=1, description="how much a document's length counts")
    stop_words: bool = Field(True, description="whether English stop words count; `not` is one")


class LlmSettings(Settings):
    """How an LLM re-ranks."""

    words: int = Field(300, ge=1, le=10**6, description="of a passage that it reads, the first ones")
    window: int = Field(20, ge=2, le=1_000, description="passages that a listwise reranker orders at once")
    step: int = Field(10, ge=1, le=1_000, description="passages by which its window moves to the front")
    list_tokens: int = Field(200, ge=8, le=100_000, description="of the reply that orders a window")
    prompt: Path | None = Field(None, description="a model's own prompt, in place of ours (docs/evaluation.md)")


class RewriteSettings(Settings):
    """How `rewrite:MODEL@URL|SYSTEM` asks, and what SYSTEM then sees."""

    keep_instruction: bool = Field(False, description="whether the system sees the instruction too")
    tokens: int = Field(200, ge=8, le=100_000, description="of the text that is searched for")


class SystemSettings(Settings):
    """How systems are run."""

    depth: int = Field(1000, ge=1, le=10**6, description="documents ranked for a query")
    template: str = Field("", description="how instruction and query are joined; none = as a model learnt")
    encode: EncodeSettings = EncodeSettings(max_tokens=512, precision="float32")
    bm25: Bm25Settings = Bm25Settings()
    llm: LlmSettings = LlmSettings()
    rewrite: RewriteSettings = RewriteSettings()
    rerank_depth: int = Field(100, ge=1, le=10**6, description="documents that a reranker gets of a query")
    api_key: SecretSource = Field("", description="${NAME} or file:PATH, the key of an endpoint")
    price: Price = Price()
    batch: int = Field(64, ge=1, le=10_000, description="texts in a request to an endpoint, or to a reranker")
    concurrency: int = Field(4, ge=2, le=1_000, description="requests in flight at an endpoint")
    patience: Patience = Patience()
    resamples: int = Field(2000, ge=100, le=10**6, description="of the paired bootstrap")
    bare: bool = Field(True, description="rank queries without their instructions too, to say what these bring")


def quiet(stage: str, count: int, total: int) -> None:
    """Tells no progress."""


def ranking_of(system: System, benchmark: Benchmark, depth: int) -> Run:
    """The system's `depth` documents of each query, less those that the benchmark excludes for it."""
    run, excluded = system.rank(benchmark, depth), benchmark.excluded
    if not excluded:
        return run
    return {
        query: {name: score for name, score in scores.items() if name not in excluded[query]} if query in excluded
        else scores
        for query, scores in run.items()
    }  # fmt: skip


def documents_to_rerank(benchmark: Benchmark, first: System, depth: int) -> dict[str, list[str]]:
    """For each query its candidates, or the best `depth` documents of the first stage, best first."""
    if benchmark.candidates is not None:
        return {query.id: list(benchmark.candidates.get(query.id, ())) for query in benchmark.queries}
    run = ranking_of(first, benchmark, depth)
    return {query: sorted(scores, key=lambda document: -scores[document])[:depth] for query, scores in run.items()}


def positions_of_candidates(benchmark: Benchmark, documents: Sequence[str]) -> dict[str, list[int]] | None:
    """For each query the places of its candidates among the documents; None where all are ranked."""
    if benchmark.candidates is None:
        return None
    places = {document: place for place, document in enumerate(documents)}
    return {query.id: [places[document] for document in benchmark.candidates.get(query.id, ())]
            for query in benchmark.queries}  # fmt: skip
