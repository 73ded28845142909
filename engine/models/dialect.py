"""Which parameters an endpoint takes, and under which names: known from the model's name, or learnt from a refusal.

    dialect_of("o3-mini")            max_completion_tokens for max_tokens, no temperature, no logprobs
    dialect.after(refusal, params)   the dialect that avoids what a 400 complained of, or None

Reasoning models think before they answer, and their limit counts the thoughts too: `thinking_tokens` is the room for
them, on top of what a task's answer takes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_SAMPLING = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs"})
"""What may be left out without a change of the task: the answer is then drawn as the model always draws."""
_REASONING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-5(?!-chat))(?:[-.:]|$)")
_FIXED_SAMPLING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-5(?!-chat|\.))(?:[-:]|$)")
_NO_SYSTEM = re.compile(r"(?:.*/)?o1-(?:mini|preview)")
_REFUSES = re.compile(
    r"not support|unsupported|unrecogni[sz]ed|unknown|not permitted|not allowed|unexpected|only the default",
    re.IGNORECASE,
)
_SYSTEM_REFUSED = re.compile(r"messages\[\d+\]\.role.{0,40}system|system (?:role|messages?)", re.IGNORECASE)
_SHORT, _LONG = "max_tokens", "max_completion_tokens"
_THINKING = {"none": 0, "minimal": 2_000, "low": 4_000, "medium": 10_000, "high": 25_000, "xhigh": 50_000}


@dataclass(frozen=True, slots=True)
class Dialect:
    """`limit` names the most tokens of a reply, `dropped` are not sent; `system`: system messages are taken."""

    limit: str = _SHORT
    dropped: frozenset[str] = frozenset()
    system: bool = True

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a request in this dialect."""
        kept = {name: value for name, value in body.items() if name not in self.dropped}
        limit = kept.pop(_LONG, None) or kept.get(_SHORT)
        if limit is not None and (self.limit == _LONG or _LONG in body):
            kept.pop(_SHORT, None)
            kept[self.limit if _LONG not in body else _LONG] = limit
        return kept if self.system else {**kept, "messages": _without_system(kept["messages"])}

    def after(self, refusal: str, params: Mapping[str, Any]) -> "Dialect | None":
        """The dialect that leaves out or renames what the refusal names; None where it names nothing of that kind."""
        if not _REFUSES.search(refusal):
            return None
        named = set(re.findall(r"\w+", refusal))
        dropped = self.dropped | {name for name in _SAMPLING & params.keys() if name in named}
        if "logprobs" in dropped:
            dropped |= {"top_logprobs"}
        other = _LONG if self.limit == _SHORT else _SHORT
        limit = other if self.limit in named and self.limit in refusal.split(other, maxsplit=1)[0] else self.limit
        system = self.system and not _SYSTEM_REFUSED.search(refusal)
        learnt = replace(self, limit=limit, dropped=dropped, system=system)
        return learnt if learnt != self else None


def dialect_of(model: str) -> Dialect:
    """What is known of a model by its name; anything else is learnt when it is refused."""
    name = model.lower()
    return Dialect(
        _LONG if _REASONING.match(name) else _SHORT,
        _SAMPLING if _FIXED_SAMPLING.match(name) else frozenset(),
        not _NO_SYSTEM.match(name),
    )


def thinking_tokens(model: str, effort: str | None) -> int:
    """The room for the thoughts of a model that is known to reason, or that is told how much to."""
    if effort is None and not _FIXED_SAMPLING.match(model.lower()):
        return 0
    return _THINKING.get(effort or "medium", _THINKING["medium"])


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the system's text at the head of the first user message."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    if not system or not others:
        return others or messages
    first = {**others[0], "content": "\n\n".join([*system, others[0]["content"]])}
    return [first, *others[1:]]
