"""`ask`: what a recipe or validator calls, and all that it sees of models, journal and money.

    prompt -> Request -> journal? -----------------------------> reply -> parse -> check -> answer
                            | no                                  ^         | faulty: a correction turn; after the
                            v                                     |         v last one, candidates drawn anew
                         budget -> model (with retries) -> journal

The replies come from a ReplyService (engine.flow.reply_service), or from what is stored.
"""

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any, Generic, Protocol

from pydantic import BaseModel

from foil.engine.answer_forms import WRITE_AGAIN, keys_line
from foil.engine.errors import (
    CutPromptError,
    CutReplyError,
    FaultyReply,
    FilteredRequestError,
    RefusedRequestError,
    Rejected,
    UnreadableReplyError,
    UsageError,
    WithheldReplyError,
)
from foil.engine.flow.seed_outcome import SeedClock
from foil.engine.keys import scrub_answer
from foil.engine.models.params import ROOM_FOR_THOUGHTS
from foil.engine.protocols import JUDGE, Answer, Model, PlainAnswer, Prompt, ReplyCheck, WordReply, for_role
from foil.engine.requests import Message, Reply, Request, ending_of, fewest_tokens, is_prompt_cut
from foil.engine.texts.chat_tokens import broken, broken_reply
from foil.engine.topic import Call

_UNREADABLE = "Your answer could not be used: {problem}. Answer the same task once more. "
_FAULTY = f"{{advice}}\n{WRITE_AGAIN} "
_PLAIN = "Write the text alone, and nothing before or after it."
_JSON = "Write one JSON object and nothing before or after it."
_WORD = "Answer with one word."
_CANDIDATE_TEMPERATURE = 0.7
"""Candidates of a prompt that asks for a lower one are drawn at this temperature: at 0 they would all be one."""
_FAULT_CHARACTERS = 500


class AnswersRequests(Protocol):
    """What a seed's `ask` gets its replies from."""

    async def answer(self, model: Model, request: Request) -> Reply: ...


class SeedAsk:
    """The `ask` of one seed, an engine.protocols.Ask. A reply has up to `corrections` turns to be mended; after them
    one request draws `candidates` new ones, of which the first that passes is taken; those that it does not bring are
    asked for one by one.

    `calls` are those answered so far, in the order in which they were asked: prompts that wait side by side keep their
    places however their replies come in, so that a topic's calls are the same in every run. Requests of `again` have
    replies that could not be used, and are asked anew.
    """

    def __init__(
        self,
        replies: AnswersRequests,
        models: Mapping[str, Model],
        parse: Callable[[str, type[Any]], Any],
        *,
        corrections: int = 2,
        candidates: int = 0,
        seed_id: str = "",
        clock: SeedClock | None = None,
        again: Collection[str] = (),
    ) -> None:
        self._again = again
        self._replies, self._models, self._parse = replies, models, parse
        self._corrections, self._candidates = corrections, candidates
        self._seed_id, self._clock = seed_id, clock or SeedClock(math.inf)
        self.calls: list[Call] = []
        self._calls_by_prompt: list[list[Call]] = []

    async def __call__(
        self, prompt: Prompt, answer: type[Answer], *, role: str = "writer", check: ReplyCheck[Answer] | None = None
    ) -> Answer:
        first, _ = await self._ask(prompt, answer, role, check)
        return first

    async def scored(self, prompt: Prompt, answer: type[Answer], *, role: str = "writer") -> tuple[Answer, Any]:
        """The answer, and the provider's logprobs of it, if it gives any."""
        first, reply = await self._ask(prompt, answer, role)
        return first, reply.logprobs

    async def votes(self, prompt: Prompt, answer: type[Answer], *, role: str = "writer") -> list[Answer]:
        """Every readable choice of an `n > 1` prompt; the first is corrected where it must be."""
        first, reply = await self._ask(prompt, answer, role)
        answers = [first]
        for text, finish_reason in reply.others:
            with suppress(UnreadableReplyError):
                answers.append(self._read(text, finish_reason, reply, answer))
        return answers

    async def _ask(
        self, prompt: Prompt, answer: type[Answer], role: str, check: ReplyCheck[Answer] | None = None
    ) -> tuple[Answer, Reply]:
        prompt = _as_judged(prompt, role, self._models)
        stage = _Stage(model_for(self._models, role), prompt, answer, check)
        self._calls_by_prompt.append(stage.calls)
        usable: tuple[Answer, Reply] | None = None
        for turns_left in range(self._corrections, -1, -1):
            request, reply = await self._reply(stage.model, prompt, answer)
            try:
                turn = "correction" if turns_left < self._corrections else ""
                return self._take(stage, request, reply, turn=turn), reply
            except (UnreadableReplyError, FaultyReply) as fault:
                last = fault
                if isinstance(fault, FaultyReply) and fault.usable is not None:
                    usable = fault.usable, reply
                if turns_left:
                    prompt = stage.corrected(prompt, request, reply, fault)
        try:
            candidate = await self._draw(stage) if self._candidates else None
        except (UnreadableReplyError, FaultyReply) as fault:
            candidate, last = None, fault
        result = candidate or usable
        if result:
            return result
        raise last

    async def _draw(self, stage: "_Stage[Answer]") -> tuple[Answer, Reply]:
        """The first of the new candidates that passes; as the last of them, where none does."""
        sampling = {**_sampling(stage.model, stage.prompt), **stage.model.traits.params, **stage.prompt.params}
        params = {**stage.prompt.params, "temperature": max(_CANDIDATE_TEMPERATURE, sampling.get("temperature", 0.0))}
        missing, single, after = self._candidates, replace(stage.prompt, params={**params, "n": 1}), None
        request, choices = await self._several(stage, {**params, "n": missing})
        while True:
            missing -= len(choices)
            for place, choice in enumerate(choices, 1):
                try:
                    is_last = place == len(choices)
                    return self._take(stage, request, choice, turn="candidates", is_last=is_last), choice
                except (UnreadableReplyError, FaultyReply):
                    if is_last and missing <= 0:
                        raise
            request, reply = await self._reply(stage.model, single, stage.answer, after)
            choices, after = [reply], request

    async def _several(self, stage: "_Stage[Answer]", params: Mapping[str, Any]) -> tuple[Request, list[Reply]]:
        """A request for several replies, and what it brought: none where they are refused."""
        prompt = replace(stage.prompt, params=params)
        try:
            request, reply = await self._reply(stage.model, prompt, stage.answer)
        except RefusedRequestError as refusal:
            if params["n"] == 1 or isinstance(refusal, FilteredRequestError):
                raise
            return make_request(stage.model, prompt, stage.answer, self._seed_id), []
        choices = ((reply.text, reply.finish_reason), *reply.others)
        return request, [replace(reply, text=text, finish_reason=reason) for text, reason in choices]

    def _take(
        self, stage: "_Stage[Answer]", request: Request, reply: Reply, *, turn: str, is_last: bool = True
    ) -> Answer:
        """The answer of a reply, read and checked. The call is kept with what was wrong or mended; of several choices
        the one that is taken, or the last."""
        fault, salvaged = "", ""
        try:
            parsed = self._heard(stage, request, reply)
            answer = stage.check(parsed) if stage.check else parsed
            salvaged = ", ".join(name for name, value in answer if value != getattr(parsed, name))
            is_last = True
        except (UnreadableReplyError, CutPromptError, Rejected) as error:
            fault = _fault(error)
            is_last = is_last or not isinstance(error, UnreadableReplyError | FaultyReply)
            raise
        finally:
            if is_last:
                stage.calls.append(_call(stage.prompt, request, reply, turn=turn, fault=fault, salvaged=salvaged))
                self.calls[:] = chain.from_iterable(self._calls_by_prompt)
        return answer

    def _heard(self, stage: "_Stage[Answer]", request: Request, reply: Reply) -> Answer:
        """The typed answer; the model learns whether its JSON could be read. Raises CutPromptError."""
        if is_prompt_cut(request, reply.prompt_tokens):
            raise CutPromptError(
                f"the server read {reply.prompt_tokens:,} tokens of a prompt of {2 * fewest_tokens(request):,} words; "
                "give it a longer context, or the job shorter prompts"
            )
        if reply.cut:
            raise CutPromptError(
                f"the server counts {reply.prompt_tokens:,} tokens for a prompt of "
                f"{sum(len(message.content) for message in request.messages):,} characters, and as many for others of "
                "other lengths; give it a longer context, or the job shorter prompts"
            )
        is_json = schema_of(stage.answer) is not None
        try:
            parsed = self._read(reply.text, reply.finish_reason, reply, stage.answer)
        except UnreadableReplyError:
            if is_json:
                stage.model.heard(readable=False)
            raise
        if is_json:
            stage.model.heard(readable=True)
        return parsed

    def _read(self, text: str, finish_reason: str, reply: Reply, answer: type[Answer]) -> Answer:
        """The typed answer. A reply that is not whole is no text, whatever it looks like."""
        ending, is_empty = ending_of(finish_reason), not text.strip()
        if ending == "cut" and (is_empty or not getattr(answer, "READS_CUT", False)):
            before = " before its text began: the model's thoughts took them" if is_empty else ""
            raise CutReplyError(f"the reply was cut at its limit of {reply.completion_tokens} tokens{before}")
        if ending == "withheld":
            raise WithheldReplyError("the provider's content filter held the reply back")
        if ending in {"broken", "unknown"}:
            raise UnreadableReplyError(f"the reply is not whole: it ended with finish_reason {finish_reason!r}")
        if is_empty and reply.elsewhere:
            raise UnreadableReplyError(
                f"the reply's `content` is empty, and a text stands under `{reply.elsewhere}`, where thoughts belong"
            )
        parsed: Answer = self._parse(text, answer)
        return scrub_answer(parsed)

    async def _reply(
        self, model: Model, prompt: Prompt, answer: type[BaseModel], after: Request | None = None
    ) -> tuple[Request, Reply]:
        """The request of a prompt, another draw than `after`, and its reply."""
        request = after.anew() if after else make_request(model, prompt, answer, self._seed_id)
        while request.id in self._again:
            request = request.anew()
        with self._clock.stopped():
            return request, await self._replies.answer(model, request)


@dataclass(frozen=True)
class _Stage(Generic[Answer]):
    """One prompt on its way to an answer, and the calls that it took."""

    model: Model
    prompt: Prompt
    answer: type[Answer]
    check: ReplyCheck[Answer] | None
    calls: list[Call] = field(default_factory=list)

    def corrected(self, prompt: Prompt, request: Request, reply: Reply, fault: Exception) -> Prompt:
        """The prompt of the next turn. A reply that is empty, or not whole and not read, is not shown again; one that
        was cut before its text began gets more room."""
        is_empty = not reply.text.strip()
        is_shown = not is_empty and (isinstance(fault, FaultyReply) or ending_of(reply.finish_reason) == "whole")
        text = broken(_advice(fault, self.answer, is_shown=is_shown))
        if is_shown:
            turns = (Message("assistant", broken_reply(reply.text)), Message("user", text))
            return replace(prompt, messages=(*prompt.messages, *turns))
        *before, last = prompt.messages
        room = _more_room(self.model, request) if is_empty and isinstance(fault, CutReplyError) else {}
        messages = (*before, replace(last, content=f"{last.content}\n\n{text}"))
        return replace(prompt, messages=messages, params={**prompt.params, **room})


def model_for(models: Mapping[str, Model], role: str) -> Model:
    """The model of a role. Raises UsageError where there is none."""
    model = for_role(models, role)
    if model is None:
        raise UsageError(f"no model has the role {role!r}; the job names {sorted(models)}: add it to `models`")
    return model


def _as_judged(prompt: Prompt, role: str, models: Mapping[str, Model]) -> Prompt:
    """The prompt. A writer that judges, where the job names no judge, does so at the temperature of judging."""
    if role != JUDGE or role in models or "temperature" not in prompt.sampling:
        return prompt
    return replace(prompt, params={"temperature": prompt.sampling["temperature"], **prompt.params})


def make_request(model: Model, prompt: Prompt, answer: type[BaseModel], seed_id: str) -> Request:
    """The request that a prompt becomes for this model."""
    return Request(
        model.name,
        prompt.messages,
        {**_sampling(model, prompt), **model.traits.params, **prompt.params},
        schema_of(answer),
        prompt.task,
        prompt.template,
        seed_id,
    )


def _sampling(model: Model, prompt: Prompt) -> Mapping[str, Any]:
    """What the task needs, with the room that the model's thoughts take; nothing for a model that does not sample."""
    if not model.traits.samples:
        return {}
    room = model.traits.thinking_tokens
    return {**prompt.sampling, "max_tokens": prompt.sampling["max_tokens"] + room} if room else prompt.sampling


@cache
def schema_of(answer: type[BaseModel]) -> dict[str, Any] | None:
    """The JSON schema of an answer type, made once; None where the answer is a text or a word."""
    return None if issubclass(answer, PlainAnswer | WordReply) else answer.model_json_schema()


def _more_room(model: Model, request: Request) -> dict[str, int]:
    """The limit of a reply that its thoughts left no room in; none where the job itself sets one."""
    limit = request.params.get("max_tokens")
    if not model.traits.samples or limit is None or "max_tokens" in model.traits.params:
        return {}
    return {"max_tokens": limit + (model.traits.thinking_tokens or ROOM_FOR_THOUGHTS)}


def _advice(fault: Exception, answer: type[BaseModel], *, is_shown: bool) -> str:
    """What a model reads of a reply that was not taken, and whether the reply is shown to it."""
    schema = schema_of(answer)
    form = _WORD if issubclass(answer, WordReply) else _PLAIN if schema is None else _JSON
    if isinstance(fault, FaultyReply) and is_shown:
        return _FAULTY.format(advice=fault.advice) + form
    problem = fault.detail if isinstance(fault, FaultyReply) else fault
    keys = f" {keys_line(schema)}" if schema else ""
    return _UNREADABLE.format(problem=problem) + form + keys


def _fault(error: Exception) -> str:
    """What a call says of a reply that was not taken: the reason code, and the detail."""
    code = "cut_prompt" if isinstance(error, CutPromptError) else "unreadable_reply"
    text = f"{error.reason}: {error.detail}" if isinstance(error, Rejected) else f"{code}: {error}"
    return text[:_FAULT_CHARACTERS]


def _call(prompt: Prompt, request: Request, reply: Reply, *, turn: str, fault: str, salvaged: str) -> Call:
    return Call(
        request_id=request.id,
        task=prompt.task,
        model=request.model,
        template=prompt.template,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cost_usd=reply.cost_usd,
        finish_reason=reply.finish_reason,
        reply_text=reply.text,
        reused=reply.reused,
        fault=fault,
        salvaged=salvaged,
        turn=turn,
    )
