"""Answers by hand: what a strong writer replies to the prompts about nine seeds of our own, three of each kind.

Writer(page)                        answers every task of the published recipes from the page
Writer(page, {task: change})        and one task as a careless writer would: `change(answer, page)` is what it replies
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from engine.protocols import Prompt
from engine.topic import Passage, PassageRole, Seed
from prompts.constraints.dimensions import CONDITIONS, describe
from prompts.parse import parse_reply

Page = Mapping[str, Any]
Change = Callable[[dict[str, Any], Page], dict[str, Any]]


@cache
def pages() -> Mapping[str, Page]:
    """The pages by their ids."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {page["id"]: page for page in yaml.safe_load(text)}


def seed_of(page: Page, *, instructed: bool = False) -> Seed:
    """The seed of a page; `instructed`: with an instruction and an instruction negative, as Dual-View wants it."""
    facts = {"code": {"form": "source", "language": page.get("language", "")}, "mathematics": {"form": "solution"}}

    def passage(text: str, role: PassageRole = "seed_positive", **more: str) -> Passage:
        return Passage(text.strip(), role, attributes={**facts.get(page["kind"], {}), **more})

    negatives = [passage(one["text"], "seed_negative", query=one["query"]) for one in page["negatives"]]
    attributes = {"answer": page["answer"]} if "answer" in page else {}
    if instructed:
        negatives = [passage(page["two"], "instruction_negative"), *negatives]
        attributes["instruction"] = page["plus"].strip()
    positives = tuple(map(passage, page["positives"]))
    return Seed(page["id"], page["kind"], page["query"], positives, tuple(negatives), attributes=attributes)


def _negative(page: Page, name: str, category: str) -> dict[str, Any]:
    return {"category": category, "reason": page["differences"][0], "title": "", "text": page[name]}


def good_answer(task: str, page: Page, prompt: Prompt) -> dict[str, Any]:
    """What a strong writer replies."""
    thoughts = {"aspects": page["aspects"], "refusal": ""}
    shown = prompt.messages[-1].content
    others = [name for name in re.findall(r"--- begin ([PN]\d+) ---", shown) if name != "P1"]
    passage = page["four"] if f"Query: {page['other_query']}" in shown else page["two"]
    negatives = [_negative(page, "two", "different_interpretation"), _negative(page, "three", "omission")]
    answers: dict[str, dict[str, Any]] = {
        "instruction": {**thoughts, "instruction": page["plus"], "kept": ["P1"], "excluded": others},
        "passages": {
            "conditions": page["aspects"],
            "positive": {"title": "", "text": page["one"]},
            "negatives": negatives,
        },
        "poisoned_instruction": {**thoughts, "differences": page["differences"], "instruction": page["minus"]},
        "poisoned_query": {**thoughts, "differences": page["differences"], "query": page["other_query"]},
        "passage": {"differences": page["differences"], "title": "", "text": passage},
    }
    if task == "dual_view.instruction":
        return {**thoughts, "instruction": page["minus"], "kept": ["P2"], "excluded": ["P1"]}
    return answers[task.partition(".")[2]]


def layouts_of(page: Page) -> Mapping[str, str]:
    """The first answer of a page in the lengths or formats of InfoSearch; "" where it cannot be put so."""
    one = page["one"].strip()
    if page["kind"] == "code":
        block = f"```python\n{one}\n```"
        told = "The function below does it. It takes the values as they are and gives the result back."
        return {
            "code_snippet": block,
            "stackoverflow_post": f"Question: {page['query']}\n\nAnswer:\n{told}\n\n{block}",
            "manual": f"# Reference\n\n{told}\n\n{block}",
        }
    if page["kind"] == "mathematics":
        return {"sentence": page["sentence"], "paragraph": " ".join((one + "\n" + page["two"]).split()), "article": ""}
    return {"sentence": page["sentence"], "paragraph": one, "article": f"{one}\n\n{page['three'].strip()}"}


def infosearch_answer(task: str, page: Page, prompt: Prompt) -> dict[str, Any]:
    """What a strong writer replies to a prompt of InfoSearch about a length or a format."""
    shown = prompt.messages[-1].content
    condition = next((c for d in ("length", "format") for c in CONDITIONS[d] if describe(d, c) in shown), "")
    name = condition.replace("_", " ").replace("stackoverflow", "Stack Overflow")
    text = layouts_of(page).get(condition, "")
    answers: dict[str, dict[str, Any]] = {
        "rewrite": {"facts": page["aspects"], "text": text, "refusal": "" if text else "answer_would_be_lost"},
        "instruction": {"question": "Here is what I would like to know.", "condition": f"It has to be a {name}."},
        "reversal": {"condition": f"It may be anything but a {name}."},
        "query_negative": {"facts": page["aspects"], "text": page["negatives"][0]["text"], "refusal": ""},
    }
    return answers[task.partition(".")[2]]


class Writer:
    """An `ask` that answers as a hosted model does: in JSON."""

    def __init__(self, page: Page, changes: Mapping[str, Change] | None = None) -> None:
        self._page, self._changes = page, changes or {}
        self.prompts: list[Any] = []
        self.roles: list[str] = []
        self.calls = ()

    async def __call__(self, prompt, answer, *, role="writer"):
        self.prompts.append(prompt)
        self.roles.append(role)
        if prompt.task.startswith("infosearch."):
            reply = infosearch_answer(prompt.task, self._page, prompt)
        else:
            reply = good_answer(prompt.task, self._page, prompt)
        if change := self._changes.get(prompt.task):
            reply = {**reply, **change(reply, self._page)}
        return parse_reply(json.dumps(reply), answer)
