"""Systems by the names that the command line gives them."""

from pathlib import Path
from typing import Any

from foil.engine.errors import UsageError
from foil.trainer.evaluate.systems.cross_encoder import Reranker
from foil.trainer.evaluate.systems.embedder import embedder, onnx_embedder
from foil.trainer.evaluate.systems.endpoint import endpoint
from foil.trainer.evaluate.systems.llm_reranker import METHODS, LlmReranker
from foil.trainer.evaluate.systems.model_free import Bm25, GivenOrder, TrecRun
from foil.trainer.evaluate.systems.rewriter import BEFORE, REWRITER, Rewriter
from foil.trainer.evaluate.systems.system import ONNX, Progress, System, SystemSettings, quiet

ENDPOINT, RERANKER, RUN = "openai:", "rerank:", "run:"


def open_system(
    name: str, settings: SystemSettings, cache: Path, first: str = "bm25", on_progress: Progress = quiet
) -> System:
    """`bm25`, `given`, `run:FILE`, `base`, `openai:MODEL@URL`, `onnx:MODEL`, a directory, or a hub name; over `first`:
    `rerank:MODEL`, `rerank:onnx:MODEL`, `pointwise:MODEL@URL`, `listwise:MODEL@URL`. Before any of these, `|` between
    them: `rewrite:MODEL@URL|SYSTEM`.

    Raises UsageError where there is no such system.
    """
    if name.startswith(REWRITER):
        model, _, after = name.partition(BEFORE)
        if not after:
            raise UsageError(f"{name} names no system to search with; write '{model}{BEFORE}bm25', in quotes")
        stage = open_system(after, settings, cache, first, on_progress)
        return Rewriter(name, stage, settings, cache.parent / "replies", on_progress)
    rerankers = (RERANKER, *METHODS)
    kind = next((kind for kind in rerankers if name.startswith(kind)), "")
    if not kind:
        return _open_first(name, settings, cache, on_progress)
    if first.rpartition(BEFORE)[2].startswith(rerankers):
        raise UsageError(f"the first stage {first} is a reranker too; take bm25 or an embedder as --first")
    stage = open_system(first, settings, cache, on_progress=on_progress)
    if kind == RERANKER:
        return Reranker(name.removeprefix(kind), stage, settings, on_progress)
    return LlmReranker(name, stage, settings, cache.parent / "replies", on_progress)


def bills_of(system: System) -> dict[str, dict[str, Any]]:
    """What the LLMs of a system cost since the last bill, by the name of the system that asks."""
    bills = {}
    while isinstance(system, Rewriter | LlmReranker | Reranker):
        if not isinstance(system, Reranker):
            bills[system.name] = system.replies.take_bill()
        system = system.first
    return bills


def _open_first(name: str, settings: SystemSettings, cache: Path, on_progress: Progress) -> System:
    """A system that needs no other one's ranking."""
    if name == "bm25":
        return Bm25(settings.bm25, on_progress)
    if name == GivenOrder.name:
        return GivenOrder()
    if name.startswith(RUN):
        return TrecRun(name.removeprefix(RUN))
    if name.startswith(ENDPOINT):
        return endpoint(name.removeprefix(ENDPOINT), settings, cache, on_progress)
    if name.startswith(ONNX):
        return onnx_embedder(name.removeprefix(ONNX), settings, cache, on_progress)
    return embedder(name, settings, cache, on_progress)
