"""Results of `foil evaluate` in a model's card, as the hub's `model-index`. The card's text and its other keys stay.

Values are shares, as mteb and sentence-transformers write them: 0.425 for 42.5 points. The revision of a data set is
the digest of what was read, and the arguments of a metric are what else decides its value.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard

from foil.engine.atomic_files import put_text
from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.model.card import front_matter, shown_name
from foil.trainer.model.checksums import CARD, read_facts

DECIDES = ("template", "max_tokens", "query_tokens", "precision")
"""Facts of a system, other than its weights, without which a value cannot be had again."""


def put_results(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Puts rows of results.jsonl, of the whole and of parts, into the card of a published model.

    What its weights were chosen on stays out. The same measured again replaces what stood there. Raises UsageError
    where the card does not read.
    """
    card, new = _read(folder / CARD), [eval_result(row) for row in rows if _is_shown(row)]
    earlier = card.data.eval_results or []
    card.data.eval_results = [old for old in earlier if not any(map(old.is_equal_except_value, new))] + new
    card.data.model_name = card.data.model_name or shown_name(str(folder))
    for key, value in front_matter(read_facts(folder)).items():
        card.data[key] = card.data.get(key) or value
    put_text(folder / CARD, str(card))


def eval_result(row: Mapping[str, Any]) -> EvalResult:
    """One row of results.jsonl as the hub has it."""
    collections = _collections(row)
    digests = sorted(collections.values())
    return EvalResult(
        task_type="information-retrieval",
        task_name="Information Retrieval",
        dataset_type=row["benchmark"],
        dataset_name=row["benchmark"],
        dataset_config=next(iter(collections)) or None if len(digests) == 1 else None,
        dataset_revision=digests[0] if len(digests) == 1 else sha256_hex(canonical_json(digests)),
        metric_type=metric_type(row["measure"]),
        metric_name=row["measure"],
        metric_value=round(row["value"] / 100, 6),
        metric_args={"queries": row["count"], "depth": row["k"], **{name: row["facts"][name] for name in DECIDES}},
    )


def metric_type(measure: str) -> str:
    """A measure's name as the hub spells such names.

    >>> metric_type("nDCG@10"), metric_type("WISE(K=20)"), metric_type("p-MRR")
    ('ndcg_at_10', 'wise_k_20', 'p_mrr')
    """
    return re.sub(r"\W+", "_", measure.lower().replace("@", "_at_")).strip("_")


def _is_shown(row: Mapping[str, Any]) -> bool:
    return not row["chosen_on"] and (not row["group"] or row["group"].startswith("part: "))


def _collections(row: Mapping[str, Any]) -> dict[str, str]:
    """Part -> digest of the collections that a row is of."""
    part, collections = row["group"].removeprefix("part: "), row["collections"]
    digests = {name.removeprefix(row["benchmark"]).lstrip("/"): about["digest"] for name, about in collections.items()}
    return {part: digests[part]} if part else digests


def _read(path: Path) -> Any:
    """A `ModelCard`; its own types say less than what it holds."""
    try:
        return ModelCard.load(path)
    except Exception as error:  # yaml and the library raise errors of several kinds
        raise UsageError(f"the card {path} does not read ({error}); restore it, or remove its front matter") from error
