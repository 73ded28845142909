"""The small questions that `foil doctor` asks one endpoint, and what Foil does with each answer.

    answers at all, parameters, thinking, usage     one request, a second where thoughts leave no room
    schema, logprobs, context, n                    one each, one or two more where it is refused
    seed                                            two
    batch                                           a look that costs nothing

Promise: requests, answers and refusals go the way of a run's (engine.models.hosted), so what is seen here holds there.
Price: about eight requests with room for 64 tokens, and one long prompt.
"""

from dataclasses import dataclass
from typing import Any, Literal

from foil.cluster.examining.endpoint import Examined, HeardReply
from foil.engine.errors import ModelError, RefusedRequestError, UnreadableReplyError
from foil.engine.models.params import ROOM_FOR_THOUGHTS, dialect_of
from foil.engine.protocols import PlainAnswer
from foil.engine.requests import SHORTEST_CONTEXT, ending_of
from foil.prompts.judge_logprobs import probability_of_yes
from foil.prompts.parse import StructuredReply, begins_with_thoughts, parse_reply

_YES_OR_NO = "Is water wet? Answer with one word, yes or no."
_SPARE_TOKENS = 16
_MOST_LISTED, _FEWER_LISTED = 20, 5
_CODE = "heron"
_FILLER = "The old road by the river leads past the mill and over the hill to the sea. "
_SEED = 7


@dataclass(frozen=True, slots=True)
class Trait:
    """What an endpoint does with one thing, and what Foil does then. `wrong`: no run may begin like that."""

    subject: str
    finding: str
    foil: str
    wrong: bool = False


class YesOrNo(StructuredReply):
    """An answer of one word."""

    answer: Literal["yes", "no"]


async def ask_all(endpoint: Examined) -> list[Trait]:
    """What the endpoint does with each thing. Raises a ModelError where it does not answer at all."""
    first = await _first(endpoint)
    traits = [_parameters(endpoint), _thinking(endpoint, first), _usage(first)]
    if traits[1].wrong:
        return traits
    for question in (_schema, _logprobs, _context, _seeds, _choices, _batches):
        name = question.__name__.strip("_").replace("seeds", "seed").replace("choices", "n").replace("batches", "batch")
        try:
            traits.append(await question(endpoint))
        except ModelError as error:
            traits.append(Trait(name, str(error), "cannot say what it would do; mend this first", wrong=True))
    return traits


async def _first(endpoint: Examined) -> HeardReply:
    """The answer to a short question; once more, with room for thoughts, where they took all there was."""
    heard = await endpoint.ask(_YES_OR_NO)
    if ending_of(heard.reply.finish_reason) == "cut" and _thinks(heard):
        endpoint.room += ROOM_FOR_THOUGHTS
        heard = await endpoint.ask(_YES_OR_NO)
    return heard


def _thinks(heard: HeardReply) -> str:
    """Where thoughts were seen, in words; "" for nowhere."""
    text, tokens = heard.reply.text, heard.thought_tokens
    if heard.thoughts:
        return f"under `{heard.thoughts}`"
    if begins_with_thoughts(text):
        return "in the text, before the answer"
    if tokens or not text.strip() or heard.reply.completion_tokens > len(text) + _SPARE_TOKENS:
        return "hidden" if text.strip() or tokens else "unseen"
    return ""


def _thinking(endpoint: Examined, first: HeardReply) -> Trait:
    reply, budget, place = first.reply, endpoint.thinking_tokens, _thinks(first)
    text = parse_reply(reply.text, PlainAnswer).text if reply.text else ""
    if reply.elsewhere and ending_of(reply.finish_reason) == "whole":
        advice = "takes no text from there: give the server the reasoning parser that fits the model, or none"
        return Trait("thinking", f"`content` is empty, the text is under `{reply.elsewhere}`", advice, wrong=True)
    if not text.strip() and ending_of(reply.finish_reason) == "whole":
        advice = "can use no such reply: try another model, or its own chat template"
        return Trait("thinking", "no answer: `content` is empty", advice, wrong=True)
    if not text.strip():
        room = f"no answer within {endpoint.room:,} tokens (finish_reason {reply.finish_reason!r})"
        return Trait(
            "thinking",
            room,
            "can use no such reply: set `params.reasoning_effort`, or turn thinking off at the server",
            wrong=True,
        )
    if not place:
        more = f"leaves {budget:,} tokens for thoughts, as its name says that it thinks" if budget else "leaves no room"
        return Trait("thinking", "no" if ending_of(reply.finish_reason) == "whole" else "none seen", more)
    words = f"yes, {place}; {reply.completion_tokens:,} tokens for one word"
    if budget:
        return Trait("thinking", words, f"leaves {budget:,} tokens for thoughts before each answer")
    return Trait(
        "thinking",
        words,
        f"asks again with {ROOM_FOR_THOUGHTS:,} tokens more where thoughts take all: turn "
        "thinking off at the server, or set `params.max_tokens`",
    )


def _usage(first: HeardReply) -> Trait:
    if first.reply.guessed:
        return Trait(
            "usage",
            "none, or one that cannot be or does not add up",
            "guesses tokens and cost from characters, and marks them; a budget ends by the guess",
        )
    return Trait("usage", "told", "counts by it, thoughts too")


def _parameters(endpoint: Examined) -> Trait:
    dialect = endpoint.client.dialect
    gaps, does = [], []
    if not dialect.system:
        gaps.append("no system turn")
        does.append("puts the system's text at the head of the first user turn")
    if dialect.limit != "max_tokens":
        gaps.append(f"`{dialect.limit}`, not `max_tokens`")
        does.append("sends that")
    if left_out := ", ".join(sorted(dialect.dropped - {"logprobs", "top_logprobs"})):
        gaps.append(f"not {left_out}")
        does.append("leaves them out")
    if does and endpoint.settings.mode == "batch" and dialect != dialect_of(endpoint.settings.model):
        does.append("but not in `mode: batch`, which learns nothing")
    return Trait("parameters", "; ".join(gaps) or "taken, with system turns", "; ".join(does) or "sends them")


async def _schema(endpoint: Examined) -> Trait:
    setting, form = endpoint.settings.structured, endpoint.client.form
    begins, is_free = form.structured, setting == "auto"
    if is_free:
        form.structured = "json_schema"
    tried = form.structured
    try:
        heard = await endpoint.ask(_YES_OR_NO, schema=YesOrNo.model_json_schema())
    except RefusedRequestError as error:
        return Trait("schema", f"refused: {error}", "asks so all the same; set `structured: prompt`", wrong=True)
    fits = _fits(heard)
    if form.structured != tried:
        misfit = "" if fits else "; an answer to a schema in the prompt did not fit it"
        does = "asks in words" if begins == "words" else "writes the schema into the prompt"
        return Trait("schema", f"`{tried}` is refused{misfit}", f"{does}; corrects what cannot be read")
    if not fits and tried in {"json_schema", "json_object"}:
        advice = "would take every such reply for broken: set `structured: prompt`"
        if begins == "words":
            advice = "asks in words, and would gain nothing from a grammar; or set `structured: prompt`"
        return Trait("schema", f"`{tried}` is taken, and not kept", advice, wrong=begins != "words")
    words = f"`{tried}` is {'kept' if fits else 'not kept'}"
    if begins == "words" and is_free:
        return Trait("schema", words, "asks in words, and by the grammar where fewer than 80 % can be read")
    return Trait("schema", words, f"asks with {tried}" if fits else "corrects what cannot be read")


def _fits(heard: HeardReply) -> bool:
    try:
        parse_reply(heard.reply.text, YesOrNo)
    except UnreadableReplyError:
        return False
    return True


async def _logprobs(endpoint: Examined) -> Trait:
    without = "judges ask without them: an answer counts 0 or 1"
    if "logprobs" in endpoint.client.dialect.dropped:
        return Trait("logprobs", "not asked for: its name says that it has none", without)
    for listed in (_MOST_LISTED, _FEWER_LISTED):
        try:
            heard = await endpoint.ask(_YES_OR_NO, logprobs=True, top_logprobs=listed)
        except RefusedRequestError:
            continue
        if "logprobs" in endpoint.client.dialect.dropped:
            break
        if heard.reply.logprobs is None:
            return Trait("logprobs", "taken, and none come", without)
        if probability_of_yes(heard.reply.logprobs) is None:
            return Trait("logprobs", "they name neither yes nor no", without)
        few = "" if listed == _MOST_LISTED else "; `judge_demands` asks for 20 and goes without"
        return Trait("logprobs", f"the {listed} likeliest tokens can be asked for", f"judges read P(true){few}")
    return Trait("logprobs", "refused", without)


async def _context(endpoint: Examined) -> Trait:
    words = endpoint.long_prompt
    limit = await endpoint.told_context()
    says = f"; it tells {limit:,}" if limit else ""
    text = f"The word to remember is {_CODE}. " + _FILLER * (words // len(_FILLER.split()))
    count = len(text.split())
    try:
        heard = await endpoint.ask(f"{text}\nWhich word is to be remembered? Answer with that word.")
    except RefusedRequestError as error:
        return Trait(
            "context",
            f"refuses a prompt of {count:,} words{says}: {error}",
            "fails the rows whose prompts are refused (`refused_request`)",
        )
    reply, read = heard.reply, heard.reply.prompt_tokens
    if not reply.guessed and SHORTEST_CONTEXT <= read < count:
        return Trait(
            "context",
            f"reads {read:,} tokens of a prompt of {count:,} words{says}, without a word",
            "takes no reply to a prompt that was cut: give the server a longer context",
            wrong=True,
        )
    if reply.guessed and _CODE not in reply.text.lower():
        return Trait(
            "context",
            f"the first of {count:,} words may be lost; no usage tells{says}",
            "cannot see whether prompts are cut: look at the server's context",
        )
    return Trait(
        "context", f"a prompt of {count:,} words is read whole{says}", "sends prompts whole; longer ones were not tried"
    )


async def _seeds(endpoint: Examined) -> Trait:
    does = "sends one only where `params.seed` is set; stored replies make a run repeatable"
    draws = []
    for _ in range(2):
        try:
            heard = await endpoint.ask("Name any animal, in one word.", seed=_SEED, temperature=1.0)
        except RefusedRequestError:
            is_set = endpoint.settings.params.seed is not None
            return Trait(
                "seed", "refused", "is told to send one: take `params.seed` out" if is_set else does, wrong=is_set
            )
        draws.append(heard.reply.text)
    return Trait("seed", f"taken; two draws are {'alike' if draws[0] == draws[1] else 'not alike'}", does)


async def _choices(endpoint: Examined) -> Trait:
    count = endpoint.settings.params.n
    heard = await endpoint.ask("Name any animal, in one word.", n=2, temperature=1.0)
    if "n" in endpoint.client.dialect.dropped:
        if count > 1:
            return Trait("n", "refused", f"is told to ask for {count}: take `params.n` out", wrong=True)
        return Trait("n", "refused", "draws new candidates one by one")
    if not heard.reply.others:
        return Trait("n", "taken, and one choice comes", "draws new candidates one by one")
    return Trait("n", "two choices come", "draws new candidates by one request")


async def _batches(endpoint: Examined) -> Trait:
    there, batch = await endpoint.has_batches(), endpoint.settings.mode == "batch"
    if there:
        return Trait("batch", "there", "uses it" if batch else "would use it with `mode: batch`")
    return Trait("batch", "none", "is told to use it: take `mode: batch` out" if batch else "asks live", wrong=batch)


def as_data(trait: Trait) -> dict[str, Any]:
    """A trait for programs."""
    return {"what": trait.subject, "found": trait.finding, "foil": trait.foil, "wrong": trait.wrong}
