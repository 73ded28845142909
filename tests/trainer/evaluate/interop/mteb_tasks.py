"""Two tasks of mteb in a few lines of our own: retrieval, and re-ranking under instructions that change."""

from datasets import Dataset
from mteb._evaluators.retrieval_metrics import evaluate_p_mrr_change
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.aggregate_task_metadata import AggregateTaskMetadata
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from mteb.abstasks.task_metadata import TaskMetadata

from tests.support.trainer_world import NO_YEAR, PLACES, THINGS, YEAR

CORPUS = {
    f"{thing}-{kind}": (title, f"the {thing} of {place} {told}")
    for thing, place in zip(THINGS, PLACES, strict=True)
    for kind, title, told in (("dated", place, "was built in 1871"), ("plain", "", "was built by its people"))
}
QUERIES = {thing: f"who built the {thing} of {place}" for thing, place in zip(THINGS, PLACES, strict=True)}
QRELS = {thing: {f"{thing}-dated": 2, f"{thing}-plain": 1} for thing in THINGS}
VARIANTS = {f"{thing}-{mode}": text for thing, text in QUERIES.items() for mode in ("og", "changed")}
INSTRUCTIONS = {name: YEAR if name.endswith("og") else NO_YEAR for name in VARIANTS}
VARIANT_QRELS = {
    f"{thing}-{mode}": {f"{thing}-dated": int(mode == "og"), f"{thing}-plain": 1}
    for thing in THINGS
    for mode in ("og", "changed")
}
CANDIDATES = {name: list(CORPUS)[: 6 + place % 9] + list(CORPUS)[-2:] for place, name in enumerate(VARIANTS)}
CANDIDATES = {name: list(dict.fromkeys([*VARIANT_QRELS[name], *found])) for name, found in CANDIDATES.items()}
SCORES = {}
"""Task -> query -> trec_eval's measure -> value; what mteb reports of these is rounded to five digits."""


def described(name: str, kind: str, main_score: str) -> TaskMetadata:
    return TaskMetadata(
        name=name, description="Who built what.", type=kind, main_score=main_score, eval_langs=["eng-Latn"],
        dataset={"path": "ours/tiny", "revision": "r1"}, category="t2t", prompt="Find the builders.",
    )  # fmt: skip


def split_of(queries, qrels, **columns):
    return {
        "corpus": Dataset.from_list([
            {"id": name, "title": title, "text": text} for name, (title, text) in CORPUS.items()
        ]),
        "queries": Dataset.from_list([
            {"id": name, "text": text, **{key: values[name] for key, values in columns.items()}}
            for name, text in queries.items()
        ]),
        "relevant_docs": {name: dict(grades) for name, grades in qrels.items()},
        "top_ranked": None,
    }  # fmt: skip


class TinyRetrieval(AbsTaskRetrieval):
    metadata = described("TinyRetrieval", "Retrieval", "ndcg_at_10")

    def load_data(self, **_):
        self.dataset = {"default": {"test": split_of(QUERIES, QRELS)}}
        self.data_loaded = True

    def task_specific_scores(self, scores, qrels, results, hf_split, hf_subset):
        SCORES[self.metadata.name] = scores
        return {}


class TinyOther(TinyRetrieval):
    """The same without two of its queries."""

    metadata = described("TinyOther", "Retrieval", "ndcg_at_10")

    def load_data(self, **_):
        kept = dict(list(QUERIES.items())[2:])
        self.dataset = {"default": {"test": split_of(kept, {name: QRELS[name] for name in kept})}}
        self.data_loaded = True


class TinyAggregate(AbsTaskAggregate):
    metadata = AggregateTaskMetadata(
        name="TinyAggregate", description="Both.", reference=None, tasks=[TinyRetrieval(), TinyOther()],
        main_score="ndcg_at_10", type="Retrieval", eval_splits=["test"], bibtex_citation="",
    )  # fmt: skip


class TinyInstructionReranking(AbsTaskRetrieval):
    metadata = described("TinyInstructionReranking", "InstructionReranking", "p-MRR")

    def load_data(self, **_):
        split = split_of(VARIANTS, VARIANT_QRELS, instruction=INSTRUCTIONS)
        self.dataset = {"default": {"test": split | {"top_ranked": CANDIDATES}}}
        self.data_loaded = True

    def task_specific_scores(self, scores, qrels, results, hf_split, hf_subset):
        SCORES[self.metadata.name] = scores
        changed = {thing: [f"{thing}-dated"] for thing in THINGS}
        return evaluate_p_mrr_change(qrels, results, changed, self.k_values)
