"""Parameters that an endpoint refuses: known from the model's name, or learnt from the refusal, once."""

import asyncio

import pytest

from foil.engine.answer_forms import body_of
from foil.engine.errors import ModelOutageError
from foil.engine.flow.ask import make_request
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import Hosted
from foil.engine.models.params import Dialect, dialect_of, thinking_tokens
from foil.engine.protocols import Prompt
from foil.engine.requests import Message, Request, estimate_tokens
from foil.prompts.judge_answers import MostRelevant
from tests.support.models.fault_server import Behaviour, FaultServer

MESSAGES = (Message("system", "You judge."), Message("user", "Which one?"))
PROMPT = Prompt("judges.scenario", "judges/scenario@0", MESSAGES, params={"temperature": 0.0})
O3_MINI = ("temperature", "top_p", "logprobs", "top_logprobs", "max_tokens", "presence_penalty")


def ask(model: str, behaviour: Behaviour, times: int = 1, **params):
    """What a server has answered and refused after `times` requests, and the client's dialect."""

    async def run():
        async with FaultServer(behaviour) as server:
            hosted = Hosted(HostedSettings.model_validate({"model": model, "url": server.url, "params": params}))
            try:
                for _ in range(times):
                    await hosted.complete(make_request(hosted, PROMPT, MostRelevant, "seed"))
                return server.report()["kinds"], hosted._clients[server.url].dialect
            finally:
                await hosted.close()

    return asyncio.run(run())


def test_the_published_judge_is_asked_rightly_from_the_first_request_on():
    kinds, dialect = ask("o3-mini", Behaviour(refused_parameters=O3_MINI), reasoning_effort="high", temperature=0.5)
    assert kinds == {"answered": 1}
    assert dialect == dialect_of("o3-mini")


@pytest.mark.parametrize("refused", [("max_tokens",), ("temperature",), ("max_tokens", "temperature", "system")])
def test_what_a_refusal_teaches_holds_from_then_on(refused):
    kinds, dialect = ask("a-new-model", Behaviour(refused_parameters=refused), times=3, temperature=0.5)
    assert kinds == {"answered": 3, "refused_parameter": len(refused)}
    assert (dialect.limit == "max_completion_tokens") is ("max_tokens" in refused)
    assert ("temperature" in dialect.dropped) is ("temperature" in refused)
    assert dialect.system is ("system" not in refused)


def test_what_the_job_alone_can_mend_stays_refused():
    with pytest.raises(ModelOutageError, match="reasoning_effort"):
        ask("a-model", Behaviour(refused_parameters=("reasoning_effort",)), reasoning_effort="high")


NAMES = {
    "o1": (True, True), "o3-mini": (True, True), "o4-mini-2025-04-16": (True, True), "openai/gpt-5-mini": (True, True),
    "gpt-5.1": (True, False), "gpt-5-chat-latest": (False, False), "gpt-4o-mini": (False, False),
    "llama-3-70b": (False, False), "yo1-large": (False, False),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_a_name_tells(name):
    renames, drops = NAMES[name]
    dialect = dialect_of(name)
    assert (dialect.limit == "max_completion_tokens", "temperature" in dialect.dropped) == (renames, drops)
    assert bool(thinking_tokens(name, None)) is drops


def test_a_wrong_value_is_no_refused_parameter():
    params = {"temperature": 3.0, "max_tokens": 64}
    for refusal in ("temperature must be at most 2", "this prompt is refused", "max_tokens is too large"):
        assert Dialect().after(refusal, params) is None


def test_a_limit_that_is_unknown_gets_its_other_name_both_ways():
    learnt = Dialect().after("'max_tokens' is not supported. Use 'max_completion_tokens'.", {})
    assert learnt.applied({"max_tokens": 7}) == {"max_completion_tokens": 7}
    back = learnt.after("unrecognized argument: max_completion_tokens", {})
    assert back.applied({"max_tokens": 7}) == {"max_tokens": 7}


def test_a_job_that_names_the_new_limit_sends_it_alone():
    body = body_of(Request("m", MESSAGES, {"max_tokens": 9, "max_completion_tokens": 5000}), "prompt")
    assert Dialect().applied(body)["max_completion_tokens"] == 5000
    assert "max_tokens" not in Dialect().applied(body)


def test_the_room_for_thoughts_is_reserved_unless_the_job_sets_a_limit():
    def most(**params):
        hosted = Hosted(HostedSettings(model="o3-mini", url="http://127.0.0.1:9/v1", params=params))
        return estimate_tokens(make_request(hosted, PROMPT, MostRelevant, "seed"))[1]

    assert most() == 1024 + 10_000
    assert most(reasoning_effort="low") == 1024 + 4_000
    assert most(max_tokens=2_000) == 2_000


def test_the_system_message_is_kept_where_its_role_is_not():
    body = Dialect(system=False).applied(body_of(Request("m", MESSAGES), "prompt"))
    assert body["messages"] == [{"role": "user", "content": "You judge.\n\nWhich one?"}]


@pytest.mark.parametrize(
    "refusal",
    [
        "System role not supported", "Conversation roles must alternate user/assistant/user/assistant/...",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    ],
)  # fmt: skip
def test_a_template_or_endpoint_that_refuses_system_turns_is_noticed(refusal):
    assert Dialect().after(refusal, {}) == Dialect(system=False)
    assert Dialect(system=False).after(refusal, {}) is None


def test_a_refusal_for_another_reason_teaches_nothing_about_system_turns():
    assert Dialect().after("This model does not support images.", {}) is None
