"""What a person says of model, paper, budget and place, as sections of a job: `foil init`.

none                                                            topics by rules
NAME@URL key=VARIABLE price=0.15/0.60 judge=NAME                a hosted model; dollars a million tokens
vllm:MODEL tensor_parallel_size=2                               vLLM on this machine
"""

import asyncio
import os
import re
from collections.abc import Mapping
from copy import deepcopy
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from foil.cluster.first_job.data import Section, checked, split_answer
from foil.engine.errors import ModelError, UsageError
from foil.engine.flow.limits import Limits
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.local.local_vllm import LocalVllmSettings
from foil.engine.storage.opening import mirror_of

PAPERS: Mapping[str, tuple[str, ...]] = {
    "infir": ("shape", "leak", "judge_scenarios"),
    "promptriever": ("shape", "leak", "judge_relevance"),
    "dual_view": ("shape", "leak", "judge_polarity"),
    "infosearch": ("shape", "leak", "dimension_check", "judge_relevance"),
    "contrast": ("shape", "leak", "judge_demands"),
    "custom": ("shape", "leak", "constraint_check"),
    "verifiable": ("shape", "leak", "constraint_check", "duplicates"),
}
"""Recipe -> the checks and judges that fit it."""
_CUSTOM_RECIPE, CUSTOM_TEMPLATE = (Path(__file__).with_name(name) for name in ("custom_recipe.yaml", "aspect.j2"))
"""A first recipe of one's own: one stage and its template, to be changed."""
_LIMITS, _BUDGET = ("seeds", "accept"), ("usd", "tokens", "calls")


def read_model(answer: str, *, documents: bool, ask: bool) -> Section:
    """The section `models`, {} for none; `ask`: the endpoint must answer now."""
    name, words = split_answer(answer)
    if name in ("none", ""):
        if documents:
            raise UsageError("a folder of documents has no queries: a model writes them, so name one")
        return {}
    if name.startswith("vllm:"):
        model = {"kind": "local_vllm", "model": name.removeprefix("vllm:"), **words}
        checked(model, LocalVllmSettings)
        return {"writer": model}
    if "@http" not in name:
        raise UsageError(f"{name!r} is no model; write NAME@URL with the URL up to /v1, vllm:MODEL, or none")
    return _hosted(name, words, ask=ask)


def _hosted(name: str, words: Section, *, ask: bool) -> Section:
    model, _, url = name.rpartition("@http")
    writer: Section = {"kind": "hosted", "model": model, "url": f"http{url}"}
    if key := words.pop("key", _usual_key(writer["url"])):
        writer["api_key"] = f"${{{key}}}"
    judge = str(words.pop("judge", ""))
    if price := words.pop("price", ""):
        writer["price"] = _price(str(price))
    writer |= words
    settings = checked(writer, HostedSettings)
    if ask:
        _ask(settings, judge)
    return {"writer": writer, **({"judge": {**deepcopy(writer), "model": judge}} if judge else {})}


def _usual_key(url: str) -> str:
    """The variable that usually holds the key of a provider: OPENAI_API_KEY for api.openai.com; "" on this machine."""
    host = urlsplit(url).hostname or ""
    labels = [label for label in host.split(".")[:-1] if label not in ("api", "www")]
    return re.sub(r"\W", "_", f"{labels[-1]}_api_key".upper()) if labels and not host[0].isdigit() else ""


def _price(text: str) -> dict[str, float]:
    try:
        prompt, completion = map(float, text.split("/"))
    except ValueError:
        raise UsageError(f"price={text}: write US dollars a million tokens, of prompt and reply: 0.15/0.60") from None
    return {"prompt": prompt, "completion": completion}


def _ask(settings: HostedSettings, judge: str) -> None:
    """Asks the endpoint for its list of models, which costs nothing."""
    from foil.cluster.examining.endpoint import Examined

    async def listed() -> list[str]:
        examined = Examined(settings.all_endpoints()[0], settings, 0)
        try:
            return [str(model["id"]) for model in await examined.listed_models()]
        finally:
            await examined.client.close()

    try:
        names = asyncio.run(listed())
    except (ModelError, TimeoutError) as error:
        raise UsageError(f"{settings.url} does not answer: {error}; mend it, or leave out --ask") from None
    for name in filter(None, (settings.model, judge)):
        if names and name not in names:
            near = get_close_matches(name, names, 3, 0.3) or names[:3]
            raise UsageError(f"{settings.url} has no model {name!r}; it has {', '.join(near)}, ...")


def read_paper(answer: str, seeds: Section, models: Section, templates: Path) -> Section:
    """The sections `recipe` and `validators`."""
    if answer not in PAPERS:
        raise UsageError(f"there is no recipe {answer!r} here; name one of {', '.join(PAPERS)}")
    if answer == "verifiable" and models:
        raise UsageError("verifiable makes topics by rules and asks no model: name another paper, or the model none")
    if answer != "verifiable" and not models:
        raise UsageError(f"{answer} needs a model that writes; name one, or the paper verifiable")
    recipe: Section = {"kind": answer}
    if answer == "dual_view" and seeds["kind"] != "run":
        recipe["base"] = {"kind": "promptriever"}
    if answer == "custom":
        if templates.exists():
            raise UsageError(f"{templates} is there already and nothing is overwritten; name another job file")
        recipe |= {"templates": str(templates), **yaml.safe_load(_CUSTOM_RECIPE.read_text(encoding="utf-8"))}
    kinds = [kind for kind in PAPERS[answer] if not (seeds["kind"] == "documents" and kind.startswith("judge_"))]
    validators: list[Section] = [{"kind": kind} for kind in kinds if kind != "judge_demands"]
    if seeds["kind"] == "documents" or "judge_demands" in kinds:
        validators.append({"kind": "judge_demands", **({"compare": True} if answer == "contrast" else {})})
    return {"recipe": recipe, "validators": validators}


def usual_budget(models: Section) -> str:
    """What is proposed: dollars where the price is known, else tokens."""
    priced = any("price" in model for model in models.values())
    return "seeds=400" + (" usd=5" if priced else " tokens=2000000" if models else "")


def read_budget(answer: str, models: Section) -> Section:
    """The section `limits`; a number alone is seeds."""
    _, words = split_answer(f"- seeds={answer}" if answer.strip().isdigit() else f"- {answer}")
    limits: Section = {}
    for key, amount in words.items():
        if not isinstance(amount, int | float) or key not in (*_LIMITS, *_BUDGET):
            raise UsageError(f"{key}={amount}: write numbers: seeds=400 usd=5; there are tokens, calls and accept, too")
        (limits if key in _LIMITS else limits.setdefault("budget", {}))[key] = amount
    unpriced = [model for model in models.values() if "price" not in model and model["kind"] == "hosted"]
    if "usd" in words and unpriced:
        raise UsageError("usd= needs the price of the model: --model '... price=0.15/0.60'; or limit tokens=")
    checked(limits, Limits)
    return limits


def read_out(answer: str) -> str:
    """The section `out`, where no run is yet."""
    folder = Path(answer).expanduser()
    if "://" not in answer and any(each.exists() and not each.is_dir() for each in (folder, *folder.parents)):
        raise UsageError(f"{answer} is a file, or below one; name a folder")
    if "://" not in answer and (folder / "run.json").exists():
        raise UsageError(f"{answer} holds a run already; name another folder")
    mirror_of(answer)  # refuses a URL that is none of a bucket
    return answer


def unset_keys(models: Section) -> list[str]:
    """Variables that the models need and that nobody has set."""
    variables = {model["api_key"][2:-1] for model in models.values() if "api_key" in model}
    return sorted(name for name in variables if not os.environ.get(name))


_WORDS = {
    "seeds": "the queries and texts that topics are made of; `foil seeds preview` shows the first",
    "recipe": "how a topic is made (docs/recipes.md)",
    "models": "who writes, and who judges; another model than the writer judges better (docs/models.md)",
    "validators": "what must hold of a topic; a judge_... asks a model (docs/judges.md)",
    "out": "a folder for the run, or s3://BUCKET/RUN",
    "limits": "the run ends here; raise them, and the same command goes on",
}


def job_page(document: Mapping[str, Any], file: str) -> str:
    """The text of the job file."""
    parts = [f"# `foil init` wrote this. `foil plan {file}` says what it asks and costs. Every setting: docs/jobs.md\n"]
    for name, words in _WORDS.items():
        if document.get(name):
            flow = False if name in {"models", "out"} else None
            section = {name: document[name]}
            body = yaml.safe_dump(section, default_flow_style=flow, sort_keys=False, allow_unicode=True, width=110)
            parts.append(f"\n# {words}\n{body}")
    return "".join(parts)
