"""What the engine must know of a model besides its answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from foil.engine.settings import Settings

_SEND_S = 120.0
_SLOWER = 3.0


class Patience(Settings):
    """How long a model is given."""

    attempts: int = Field(8, ge=1, le=1_000, description="sends of one request that may fail, 429 aside")
    timeout_s: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description="seconds that one send may take in all; none: 120, three times the slowest reply so far, and up to "
        "`deadline_s` where no other send is answered",
    )
    deadline_s: float = Field(
        900.0, gt=0, le=604_800, description="seconds after its first failure in which a request is sent again"
    )
    outage_s: float = Field(
        300.0, gt=0, le=604_800, description="seconds without an endpoint that answers, until the run stops"
    )

    @property
    def send_s(self) -> float:
        """Seconds that a send may take where nothing is known of the model's pace."""
        return self.timeout_s or _SEND_S

    def longest_s(self, slowest_s: float, *, alone: bool) -> float:
        """Seconds that a send may take in all. `alone`: nothing has been answered since it was sent.

        A connection that is open is waited for: a small machine may need minutes for the first replies.
        """
        if self.timeout_s is not None:
            return self.timeout_s
        longest = self.deadline_s if alone else _SLOWER * slowest_s
        return max(_SEND_S, min(longest, self.deadline_s))


DEFAULT_PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """`params` go with every request and enter its id. `price(prompt_tokens, completion_tokens)` is in US dollars; the
    budget reserves by it.

    `provider` names who answers in spans, as the GenAI conventions do: an OpenAI-compatible endpoint is `openai`.
    A model that `remembers` resumes by itself what was sent before a kill. `thinking_tokens` go on top of a task's own
    limit.
    A model that `samples` takes the temperature and the limit that a task needs.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    patience: Patience = DEFAULT_PATIENCE
    price: Callable[[float, float], float] = lambda _prompt_tokens, _completion_tokens: 0.0
    remembers: bool = False
    provider: str = "foil"
    thinking_tokens: int = 0
    samples: bool = False
