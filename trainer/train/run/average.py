"""The mean of several trained models as one: `foil average`.

    models of one base, size and form -> the mean of their weights -> a share of it, the rest the base's -> OUT/model

Promise: each model is checked before it is read; the mean is there whole or not at all, and names what it was made of.
Price: three models in memory.
Reference: Wortsman et al., Model soups, arXiv 2203.05482.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from foil.engine.atomic_files import write_json
from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json, sha256_hex
from foil.trainer.model.card import average_card
from foil.trainer.model.checkpoint import blend_weights, publish, put_weights, require_finite, weights
from foil.trainer.model.checksums import FACTS, check_model, digests_of, ranks_pairs, sealed
from foil.trainer.model.encoder import Encoder, load_encoder, load_starting_encoder, save_encoder
from foil.trainer.model.published_model import PublishedModel
from foil.trainer.settings import TrainSettings
from foil.trainer.text_templates import TextTemplate


def average_models(models: Sequence[Path], out: Path, share: float, command: str) -> PublishedModel:
    """Publishes base + share x (mean - base) in `out/model`. `models`: directories that Foil published.

    Raises UsageError for fewer than two models, for a reranker, or where they differ in base, size or form, or where
    `out` has a model already; CorruptDataError for a damaged one.
    """
    facts = [check_model(model) for model in models]
    _refuse(models, facts, out)
    settings = TrainSettings.model_validate(facts[0]["settings"])
    encoder = _averaged(models, TextTemplate(**facts[0]["template"]), settings)
    base = load_starting_encoder(settings, adapters=False)
    put_weights(encoder, blend_weights(weights(base), weights(encoder), share))
    require_finite(encoder, f"in the mean of {len(models)} models")
    new_facts = {**_facts(facts, share, command), "template": asdict(encoder.template)}

    def write(draft: Path) -> None:
        save_encoder(encoder, draft)
        write_json(draft / FACTS, sealed({**new_facts, "files": digests_of(draft)}))
        (draft / "README.md").write_text(average_card(new_facts), encoding="utf-8")

    publish(out / "model", write)
    return PublishedModel(out / "model", check_model(out / "model"))


def _refuse(models: Sequence[Path], facts: Sequence[dict[str, Any]], out: Path) -> None:
    if len(models) < 2:
        raise UsageError("an average takes two models at least; give more of them")
    if (out / "model").exists():
        raise UsageError(f"{out / 'model'} is there already; choose another `--out` or remove it")
    forms = [
        canonical_json([each["template"], each["settings"]["base"], each["settings"]["model"]["encoders"],
                        each["settings"]["model"]["cross_attention"],
                        each["settings"]["model"].get("late_interaction")])
        for each in facts
    ]  # fmt: skip
    for model, each, form in zip(models, facts, forms, strict=True):
        if ranks_pairs(each):
            raise UsageError(f"{model} is a reranker; its head starts random, so a mean of two says nothing")
        if form != forms[0]:
            raise UsageError(
                f"{model} and {models[0]} differ in template, base or form ({form}; {forms[0]}); average models that "
                "began alike"
            )


@torch.no_grad()
def _averaged(models: Sequence[Path], template: TextTemplate, settings: TrainSettings) -> Encoder:
    """The first model with the mean of all as its weights."""
    encoder = load_encoder(models[0], template, settings.encode)
    for count, model in enumerate(models[1:], start=2):
        tensors = weights(load_encoder(model, template, settings.encode))
        for name, value in weights(encoder).items():
            if name not in tensors or tensors[name].shape != value.shape:
                raise UsageError(
                    f"{model} has not the tensors of {models[0]} ({name}); average models that began alike"
                )
            value.lerp_(tensors[name], 1 / count)
    return encoder


def _facts(facts: Sequence[dict[str, Any]], share: float, command: str) -> dict[str, Any]:
    """What foil.json says of an average: what its models were made of, and of each how."""
    sources = {canonical_json(source): source for each in facts for source in each["sources"]}
    licences: dict[str, int] = {}
    for each in facts:
        licences |= {words: max(count, licences.get(words, 0)) for words, count in each["licences"].items()}
    averaged = [
        {name: each[name] for name in ("fingerprint", "snapshot", "command", "blend")}
        | {"steps": len(each["losses"]) if "losses" in each else None}  # an average itself has none
        for each in facts
    ]
    return {
        "fingerprint": sha256_hex(canonical_json([share, *(each["fingerprint"] for each in facts)])),
        "snapshot": sha256_hex(canonical_json(sorted({each["snapshot"] for each in facts}))),
        "sources": list(sources.values()),
        "licences": licences,
        "benchmarks": {name: digest for each in facts for name, digest in each["benchmarks"].items()},
        "command": command,
        "settings": facts[0]["settings"],
        "averaged": averaged,
        "blend": share,
        "warnings": [words for each in facts for words in each["warnings"]],
    }
