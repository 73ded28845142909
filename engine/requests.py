"""One call to a model: what is asked, and what came back.

Promise: equal content is one request with one id, whoever asks it. Price: one hash a request.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from foil.engine.ids import canonical_json, sha256_hex

CHARACTERS_PER_TOKEN = 4
SHORTEST_CONTEXT = 256
MOST_TOKENS = 2**31 - 1
"""More than any reply uses. A larger number is nonsense, and no column of a shard could hold a sum of such."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat; `role` is system, user or assistant."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call to a model, content-addressed: equal `id` means equal rendered messages, parameters, model and schema.

    `task` (e.g. `writing.instruction`) names what is asked, `template` is the name and content hash of the prompt; both
    are stored with every record that it made. `affinity` is shared by requests whose prompts begin alike (those of one
    seed): a model with several endpoints sends them to one, whose prefix cache then pays. None is part of the id.
    `draw`: how often the same was asked before; it enters the id if ever.
    """

    model: str
    messages: tuple[Message, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    task: str = ""
    template: str = ""
    affinity: str = ""
    id: str = ""
    draw: int = 0

    def anew(self) -> "Request":
        """The same, to be asked once more, since its reply could not be used."""
        return replace(self, id="", draw=self.draw + 1)

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", request_id(self))


def request_id(request: Request) -> str:
    """sha256 over the canonical JSON of model, messages, parameters and schema, and of which draw it is."""
    turns = [[m.role, m.content] for m in request.messages]
    draw = [request.draw] if request.draw else []
    return sha256_hex(canonical_json([request.model, turns, dict(request.params), request.schema, *draw]))[:40]


def fewest_tokens(request: Request) -> int:
    """Fewer tokens than its prompt can have: half its words between blanks, of which every one is a token or more."""
    return sum(len(message.content.split()) for message in request.messages) // 2


def is_prompt_cut(request: Request, prompt_tokens: int) -> bool:
    """Whether a server read too few tokens for the whole prompt: it cut what did not fit its context.

    No context is as short as `SHORTEST_CONTEXT`: fewer tokens than that are a wrong number, not a cut prompt.
    """
    return SHORTEST_CONTEXT <= prompt_tokens < fewest_tokens(request)


def estimate_tokens(request: Request) -> tuple[int, int]:
    """What a request may use: prompt tokens, guessed from its characters, and the completion tokens that it allows."""
    params = request.params
    most = params.get("max_completion_tokens", params.get("max_tokens", 0))
    prompt_characters = sum(len(message.content) for message in request.messages)
    return prompt_characters // CHARACTERS_PER_TOKEN, int(most) * int(params.get("n", 1))


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for a request. `latency_s` is in seconds, `cost_usd` in US dollars, `attempts` counts sends.

    `others` are the further choices of an `n > 1` request, as (text, finish_reason). `logprobs` is the provider's own
    JSON for the first choice. `cached_tokens` of the prompt came from a prefix cache. `endpoint` and `revision` say who
    answered, as far as the provider tells. `unsure` counts sends that ended without an answer and may be billed.
    `reused` replies were paid by another run. `guessed`: the provider gave no usage, or one that cannot be or does not
    add up, so that tokens and cost are a guess. `elsewhere` names the field that holds the text of an
    empty reply. `cut`: the endpoint was seen to cut such prompts. Raises ValueError for numbers that no reply can
    have.
    """

    request_id: str
    text: str
    model: str = ""
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    latency_s: float = 0.0
    attempts: int = 1
    others: tuple[tuple[str, str], ...] = ()
    logprobs: Any = None
    cached_tokens: int = 0
    endpoint: str = ""
    revision: str = ""
    unsure: int = 0
    reused: bool = False
    guessed: bool = False
    elsewhere: str = ""
    cut: bool = False

    def __post_init__(self) -> None:
        counts = (self.prompt_tokens, self.completion_tokens, self.cached_tokens, self.attempts, self.unsure)
        if not (all(map(is_count, counts)) and all(map(_is_amount, (self.cost_usd, self.latency_s)))):
            raise ValueError(
                f"a reply to {self.request_id} has tokens, sends {counts} and dollars, seconds "
                f"{(self.cost_usd, self.latency_s)}; expected 0 <= n <= {MOST_TOKENS:,}: mend the model"
            )


def is_count(value: Any) -> bool:
    """Whether the value is an integer that a reply may count: 0 to MOST_TOKENS."""
    return type(value) is int and 0 <= value <= MOST_TOKENS


def _is_amount(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value < math.inf


def stored_reply(record: Mapping[str, Any]) -> Reply:
    """A reply as the journal has it."""
    return Reply(**{**record, "others": tuple((text, reason) for text, reason in record["others"])})


Ending = Literal["whole", "cut", "withheld", "broken", "unknown"]
"""Why a reply ended: whole; cut at its limit of tokens; held back by the provider; given up by it; or who knows."""
_ENDING_WORDS: dict[Ending, str] = {
    "whole": "stop stopped stop_sequence end_turn end end_of_turn eos eos_token complete completed finish finished "
    "done success",
    "cut": "length max_tokens max_token max_output_tokens max_completion_tokens max_new_tokens max_length "
    "model_length token_limit context_length context_length_exceeded model_context_window_exceeded truncated "
    "incomplete",
    "withheld": "content_filter content_filtered filtered safety recitation refusal refused blocklist "
    "prohibited_content spii image_safety language moderation sensitive guardrail guardrail_intervened "
    "content_policy content_policy_violation error_toxic toxic",
    "broken": "abort aborted error cancel cancelled canceled timeout network_error server_error internal_error "
    "insufficient_system_resource malformed_function_call error_limit unload disconnect",
}
_ENDINGS = {word: ending for ending, words in _ENDING_WORDS.items() for word in words.split()}
_PREFIXES = ("finish_reason_", "finishreason_", "finish_reason.", "finishreason.")


def ending_of(finish_reason: str) -> Ending:
    """What a provider's word says of its reply. One that is not known is never the end of a whole reply.

    >>> ending_of("FINISH_REASON_MAX_TOKENS"), ending_of("eos"), ending_of("vibes")
    ('cut', 'whole', 'unknown')
    """
    word = finish_reason.strip().lower().replace("-", "_").replace(" ", "_")
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    return _ENDINGS.get(word, "unknown")
