"""Whom a refusal is about: one prompt, one sample of its reply, or everybody who asks there.

    refusal -> names the account, or nothing has passed yet? -no--> the prompt is to blame
                 | yes
                 v
               a request that was sent later has passed -----yes--> the prompt is to blame; of what was refused before,
                 | no                                               one that was sent after that refusal came
                 v
               a harmless prompt is asked -> passes: the prompt is to blame; is refused too: the job or the account is

Promise: no prompt alone ends a run, and no closed account makes a row. Price: one short request where nobody else's
tells; those that are refused side by side share it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from math import inf

from foil.engine.errors import ModelError, ModelOutageError, RefusedRequestError, TransientModelError
from foil.engine.requests import Message, Request

ACCOUNT = {401: "refuses the key", 402: "wants to be paid", 403: "forbids this", 404: "knows no such model or path"}
_OF_ACCOUNT = re.compile(
    r"credit balance|\bbilling\b|insufficient[_ ](?:quota|credits?|funds|balance)|api[_ ]key|model_not_found",
    re.IGNORECASE,
)
_OF_SAMPLE = re.compile(
    r"json_validate_failed|failed_generation|output_parse_failed|tool_use_failed|failed to (?:generate|validate) json|"
    r"(?:did not|failed to) generate valid json",
    re.IGNORECASE,
)
_OF_FILTER = re.compile(
    r"content[ _-]?filter|content[ _](?:management )?policy|responsibleai|data_inspection_failed|content exists risk|"
    r"prohibited_content|moderation|flagged",
    re.IGNORECASE,
)
_HARMLESS = "Answer with the one word: yes"
_ONE_REPLY = {"n", "logprobs", "top_logprobs"}

AskAnother = Callable[[Request], Awaitable[None]]
"""Sends a request."""


def is_of_account(status: int, message: str) -> bool:
    """Whether a refusal may be about the key, the account or the model, whatever was asked."""
    return status in ACCOUNT or bool(_OF_ACCOUNT.search(message))


def is_of_sample(message: str) -> bool:
    """Whether a refusal is about one sampled reply, that did not fit its schema."""
    return bool(_OF_SAMPLE.search(message))


def is_of_filter(message: str) -> bool:
    """Whether a refusal says that a filter of the provider's did not let the prompt pass."""
    return bool(_OF_FILTER.search(message))


def harmless(request: Request) -> Request:
    """A prompt that nobody has a reason to refuse, under the parameters of a request."""
    params = {name: value for name, value in request.params.items() if name not in _ONE_REPLY}
    return Request(request.model, (Message("user", _HARMLESS),), params)


class Blame:
    """What is known of one endpoint: when the last request was sent that passed, and that was refused like another."""

    def __init__(self) -> None:
        self._passed = self._refused = -inf
        self._doubted: dict[str, float] = {}  # when each was first refused
        self._asking = asyncio.Lock()

    def passed(self, sent_at: float) -> None:
        """Notes that a request sent then was answered."""
        self._passed = max(self._passed, sent_at)

    async def of(self, refusal: RefusedRequestError, request: Request, sent_at: float, ask: AskAnother) -> ModelError:
        """The refusal if it is about this request, sent then, else a ModelOutageError. What `ask` raises passes. Where
        the account may be meant, it is asked once more: it met a stray, or those that passed overtook it."""
        since, is_first = -inf, False
        if refusal.of_account:
            is_first = request.id not in self._doubted
            came_at = self._doubted.setdefault(request.id, asyncio.get_running_loop().time())
            since = sent_at if is_first else came_at
        if not await self._is_to_blame(request, since, ask):
            return ModelOutageError(
                f"{refusal}; another prompt is refused too: mend the job or the account, and run again"
            )
        return TransientModelError(str(refusal)) if is_first else refusal

    async def _is_to_blame(self, request: Request, since: float, ask: AskAnother) -> bool:
        """Whether another request passes, that was sent since then."""
        if self._passed > since:
            return True
        async with self._asking:
            if max(self._passed, self._refused) <= since:  # else another has asked meanwhile
                await self._ask_another(request, ask)
        return self._passed > self._refused

    async def _ask_another(self, request: Request, ask: AskAnother) -> None:
        sent_at = asyncio.get_running_loop().time()
        try:
            await ask(harmless(request))
            self._passed = sent_at
        except RefusedRequestError:
            self._refused = sent_at
