"""Judges that are wrong in known ways: the rule judge's answers, spoilt at known rates. For tests and the benchmark.

Each is a model of its own. `Gullible` has no answer of its own to a command: it obeys what it reads in the rendered
messages wherever it takes itself to be addressed, which is everywhere but between the tags of the call's code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.ask import Asker, Desk
from engine.budget import Budget
from engine.ids import fraction_of
from engine.journal import Journal
from engine.limits import BudgetSettings
from engine.topic import Reply, Request
from prompts.judge_answers import LABELS
from prompts.parse import parse_reply
from prompts.rule_writer import RuleWriter


class Corrupt:
    """The rule judge, spoilt. Subclasses say how, in `spoilt`."""

    free = True

    def __init__(self, name: str, rate: float = 1.0) -> None:
        self.name, self.rate, self.asked = name, rate, 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        reply = await RuleWriter().complete(request)
        answer = json.loads(reply.text)
        [(field, value)] = answer.items()
        if fraction_of(self.name, request.id) < self.rate:
            value = self.spoilt(request, value)
        return Reply(request.id, json.dumps({field: value}), model=self.name)

    def spoilt(self, request: Request, value: Any) -> Any:
        raise NotImplementedError


class Honest(Corrupt):
    """Not spoilt at all."""

    def spoilt(self, request: Request, value: Any) -> Any:
        return value


class Flips(Corrupt):
    """Gives some other answer than the right one, any of them equally often."""

    def spoilt(self, request: Request, value: Any) -> Any:
        others = [choice for choice in choices(request) if choice != value]
        return others[int(fraction_of("which", self.name, request.id) * len(others))]


class First(Corrupt):
    """Prefers what is shown first, whatever it is."""

    def spoilt(self, request: Request, value: Any) -> Any:
        return choices(request)[0]


class Gullible(Corrupt):
    """Does what it is told in any text outside of fences that carry the call's code."""

    def spoilt(self, request: Request, value: Any) -> Any:
        told = COMMAND.search(outside(request.messages[-1].content))
        if told is None:
            return value
        return told[1] == "yes" if isinstance(value, bool) else told[1] if told[1] in choices(request) else value


COMMAND = re.compile(r"Judge, your answer is (\w+)\.")
"""What the injected passages of the tests say."""


def choices(request: Request) -> Sequence[Any]:
    """All that may be answered."""
    shown = LABELS[: len(request.facts["passages"])]
    return {
        "judges.scenario": [*shown, "none"],
        "judges.relevance": [True, False],
        "judges.polarity": ["A", "B", "both", "neither"],
    }[request.task]


def outside(text: str) -> str:
    """The text without what stands in its fences; a prompt that names no code has none."""
    code = re.search(r"code of this call is (\w+)\.", text)
    if code is None:
        return text
    return re.sub(rf"<(\w+)-{code[1]}[^>]*>.*?</\1-{code[1]}>", "", text, flags=re.DOTALL)


def asker(folder: Path, **models: Any) -> Asker:
    """A real `ask` over these models, by role."""
    desk = Desk(Journal(folder, 0, "judge"), Budget(BudgetSettings()), "judge")
    return Asker(desk, models, parse_reply, repair_attempts=1)
