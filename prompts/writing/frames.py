"""An instruction put together from its questions, for where no turn of the writer brought one.

    framed(demands, "code", 3)   "It is of use if the answer to this is yes: does it leave its argument as it was?"

The questions are a model's; only the words around them are ours, drawn by a number. So it says what its labels say.
"""

import re
from collections.abc import Sequence

from foil.prompts.demands import Demands

FRAMES_DESCRIPTION = "put mere bans, and what no turn brought, together from the questions; else writers must"
_WANTED = (
    "I also need the answer to this: {}",
    "It is only of use to me if it answers this as well: {}",
    "Please bring what tells me this too: {}",
    "What I cannot do without is an answer to this: {}",
    "Besides, I would like to be told this: {}",
    "The one that I am looking for also answers this: {}",
)
_UNWANTED = (
    "I have no use for anything that answers this: {}",
    "Leave out whatever goes into this: {}",
    "It must not deal with this: {}",
    "Spare me those that answer this: {}",
    "Nothing that tells this, please: {}",
    "I do not want to be told this: {}",
)
_YES = (
    "It is of use if the answer to this is yes: {}",
    "The answer to this has to be yes: {}",
    "I need one for which this is true: {}",
)
_NO = (
    "It is of use if the answer to this is no: {}",
    "The answer to this must not be yes: {}",
    "I need one for which this is not true: {}",
)
_YES_OR_NO = re.compile(r"(?:is|are|does|do|did|can|could|has|have|was|were|will|would|should)\b", re.IGNORECASE)
_OPENS_A_QUESTION = re.compile(rf"(?:wh\w+|how|in|on|at|by|{_YES_OR_NO.pattern})\b", re.IGNORECASE)


def framed(demands: Demands, kind: str, number: int) -> str:
    """A sentence that asks for the demands, and one that excludes the bans. Of a program a yes or no is asked for."""
    parts = []
    for questions, frames, of_code in ((demands.demands, _WANTED, _YES), (demands.bans, _UNWANTED, _NO)):
        decided = [q for q in questions if kind == "code" and _YES_OR_NO.match(q) and " or " not in q]
        for group, ways in (([q for q in questions if q not in decided], frames), (decided, of_code)):
            if group:
                parts.append(ways[number % len(ways)].format(_joined(group)))
    return " ".join(parts)


def _joined(questions: Sequence[str]) -> str:
    return " And: ".join(q[:1].lower() + q[1:] if _OPENS_A_QUESTION.match(q) else q for q in questions)
