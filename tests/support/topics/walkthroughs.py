"""Answers by hand: what a strong writer replies to the prompts about nine seeds of our own, three of each kind.

Writer(page)                        answers every task of the published recipes from the page
Writer(page, {task: change})        and one task as a careless writer would: `change(answer, page)` is what it replies
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from foil.engine.errors import FaultyReply
from foil.engine.protocols import Prompt
from foil.engine.topic import Passage, PassageRole, Seed
from foil.prompts.constraints.dimensions import CONDITIONS, describe, name_of
from foil.prompts.parse import parse_reply
from tests.support.models.character import without_fences

Page = Mapping[str, Any]
Change = Callable[[str, Page], str]


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


def good_answer(task: str, page: Page, prompt: Prompt) -> str:
    """What a strong writer replies."""
    shown = without_fences(prompt.messages[-1].content)
    told, missing = ([f"Does it show {said}?" for said in page[name]] for name in ("aspects", "differences"))
    if task.endswith("questions"):
        both = (missing, told) if task == "writing.pair_questions" else (told, missing)
        return json.dumps({"answered": both[0], "open": both[1]})
    if task == "writing.instruction":
        return str(page["plus"] if told[0] in shown.partition("Not wanted")[0] else page["minus"])
    if task == "writing.other_query":
        return str(page["other_query"])
    if f"Query: {page['other_query']}" in shown:
        return str(page["four"])
    must = shown.partition("\nLeaves out:")[0]
    wanted = [question for question in missing if question in must]
    return str(page["two"] if missing[0] in wanted else page["three"] if wanted else page["one"])


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


def infosearch_answer(task: str, page: Page, prompt: Prompt) -> str:
    """What a strong writer replies to a prompt of InfoSearch about a length or a format."""
    shown = without_fences(prompt.messages[-1].content)
    told = describe if task.endswith("rewrite") else name_of
    condition = next((c for d in ("length", "format") for c in CONDITIONS[d] if told(d, c) in shown), "")
    name = condition.replace("_", " ").replace("stackoverflow", "Stack Overflow")
    wording = {"condition": f"It has to be a {name}.", "reversal": f"It may be anything but a {name}."}
    answers = {
        "rewrite": layouts_of(page).get(condition, ""),
        "wording": json.dumps(wording),
        "question": f"Here is what I would like to know: {shown.partition('Query: ')[2].partition(chr(10))[0]}",
        "query_negative": page["negatives"][0]["text"],
    }
    return str(answers[task.partition(".")[2]])


class Writer:
    """An `ask` that answers as a hosted model does. No reply is corrected; a usable one is taken."""

    calls = ()

    def __init__(self, page: Page, changes: Mapping[str, Change] | None = None) -> None:
        self._page, self._changes = page, changes or {}
        self.prompts: list[Any] = []
        self.roles: list[str] = []

    async def __call__(self, prompt, answer, *, role="writer", check=None):
        self.prompts.append(prompt)
        self.roles.append(role)
        answers = infosearch_answer if prompt.task.startswith("infosearch.") else good_answer
        reply = answers(prompt.task, self._page, prompt)
        if change := self._changes.get(prompt.task):
            reply = change(reply, self._page)
        try:
            return check(parse_reply(reply, answer))
        except FaultyReply as fault:
            if fault.usable is None:
                raise
            return fault.usable
