"""`foil doctor` against each kind of endpoint: what it finds, what Foil will do, and whether a run may begin."""

import itertools
import json
from typing import NamedTuple

import pytest

from tests.support.commands import foil, write_job
from tests.support.models.fault_server import Behaviour, serving
from tests.support.models.scripted_server import answered, scripted

COUNT = itertools.count()
ANIMALS = ("cat", "dog")


def answer(asked, choice):
    """A model that can all that is asked of it."""
    text = "\n".join(turn["content"] for turn in asked["messages"])
    if "response_format" in asked or "JSON schema" in text or "JSON object" in text:
        return '{"answer": "yes"}'
    if "remembered" in text:
        return "heron"
    return "cat" if "animal" in text else ("yes", "stop", {"yes": 0.9, "no": 0.1})


def no_grammar(asked, choice):
    """A model whose server takes a schema and does not keep it, and gives no logprobs."""
    told = answer(asked, choice)
    return "yes" if "response_format" in asked or isinstance(told, tuple) else told


def no_seed(asked, choice):
    """A model that draws another word each time."""
    told = answer(asked, choice)
    return ANIMALS[next(COUNT) % 2] if told == "cat" else told


class Case(NamedTuple):
    told: dict
    seen: dict
    code: int = 0
    answer: object = answer
    settings: tuple = ()
    model: str = "m"


SERVERS = {
    "takes everything": Case(
        {},
        {
            "parameters": "taken, with system turns", "thinking": "no", "usage": "told", "batch": "there",
            "schema": "`json_schema` is kept", "logprobs": "the 20 likeliest tokens", "n": "two choices come",
            "context": "a prompt of 5,990 words is read whole", "seed": "taken; two draws are alike",
        },
    ),
    "refuses schemas": Case({"refused_parameters": ["response_format"]}, {"schema": "`json_schema` is refused"}),
    "refuses a schema that the job wants": Case(
        {"refused_parameters": ["response_format"]}, {"schema": "refused: "}, 15, settings=("structured=json_schema",)
    ),
    "does not keep schemas": Case({}, {"schema": "`json_schema` is taken, and not kept"}, answer=no_grammar),
    "does not keep the schema that the job wants": Case(
        {}, {"schema": "taken, and not kept"}, 15, no_grammar, ("structured=json_schema",)
    ),
    "gives no logprobs": Case({}, {"logprobs": "taken, and none come"}, answer=no_grammar),
    "refuses logprobs": Case({"refused_parameters": ["logprobs"]}, {"logprobs": "refused"}),
    "has no logprobs by its name": Case(
        {}, {"logprobs": "not asked for", "parameters": "`max_completion_tokens`"}, model="o3-mini"
    ),
    "tells no usage": Case({"ignored": ["usage"]}, {"usage": "none", "context": "is read whole"}),
    "cuts prompts": Case({"context": 4_096}, {"context": "reads 4,096 tokens of a prompt of 5,990 words"}, 15),
    "refuses long prompts": Case({"longest_prompt": 4_096}, {"context": "refuses a prompt of 5,990 words"}),
    "thinks a little": Case({"thoughts": 20}, {"thinking": "yes, under `reasoning_content`; 21 tokens"}),
    "thinks beyond the limit": Case({"thoughts": 500}, {"thinking": "yes, under `reasoning_content`; 501 tokens"}),
    "thinks under another name": Case(
        {"thoughts": 500, "thoughts_in": "reasoning"}, {"thinking": "yes, under `reasoning`", "n": "two choices come"}
    ),
    "thinks in the text": Case(
        {"thoughts": 500, "thoughts_in": "content"},
        {"thinking": "yes, in the text", "schema": "kept", "context": "is read whole"},
    ),
    "thinks for ever": Case({"thoughts": 20_000}, {"thinking": "no answer within 10,064 tokens"}, 15),
    "answers under reasoning": Case({"answer_in": "reasoning"}, {"thinking": "the text is under `reasoning`"}, 15),
    "refuses system turns": Case({"refused_parameters": ["system"]}, {"parameters": "no system turn"}),
    "refuses temperature and max_tokens": Case(
        {"refused_parameters": ["temperature", "max_tokens"]},
        {"parameters": "`max_completion_tokens`, not `max_tokens`; not temperature"},
    ),
    "refuses seeds": Case({"refused_parameters": ["seed"]}, {"seed": "refused"}),
    "refuses the seed of the job": Case(
        {"refused_parameters": ["seed"]}, {"seed": "refused"}, 15, settings=("params.seed=7",)
    ),
    "does not keep seeds": Case({}, {"seed": "taken; two draws are not alike"}, answer=no_seed),
    "gives one choice": Case({"ignored": ["n"]}, {"n": "taken, and one choice comes"}),
    "refuses n": Case({"refused_parameters": ["n"]}, {"n": "refused"}),
    "has no batches": Case({"ignored": ["batches"]}, {"batch": "none"}),
    "lacks the batches that the job wants": Case(
        {"ignored": ["batches"]}, {"batch": "none"}, 15, settings=("mode=batch",)
    ),
    "is overloaded at first": Case({"faults": {"503": 0.9}, "worst": 1}, {"usage": "told", "n": "two choices come"}),
    "never works": Case({"faults": {"500": 1.0}, "worst": 99}, {}, 15),
}  # fmt: skip
"""Kind of server -> what it is told to do, words of what must be found, and the exit code."""


@pytest.mark.slow
@pytest.mark.parametrize("case", SERVERS.values(), ids=SERVERS)
def test_each_kind_of_server_is_seen_for_what_it_is(case):
    with serving(Behaviour(), case.answer) as server:
        server.control(**case.told)
        settings = [word for one in case.settings for word in ("--set", one)]
        ended = foil("doctor", f"{case.model}@{server.url}", *settings, "--json")
        sends = server.report()["requests"]
    assert ended.returncode == case.code, ended.stderr
    [model] = json.loads(ended.stdout)["models"]
    found = {trait["what"]: trait["found"] for trait in model["traits"]}
    assert {what: words in found[what] for what, words in case.seen.items()} == dict.fromkeys(case.seen, True), found
    assert model["requests"] == sends <= 16
    assert bool(model["problems"]) == bool(case.code)
    assert all(problem in ended.stderr for problem in model["problems"])


EMPTY = {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}
NO_MODELS = {
    "refuses the key": (answered(401, {"error": {"message": "no"}}), "it refuses the key", 1),
    "knows no such model": (answered(404, {"error": {"message": "no"}}), "it knows no such model or path", 1),
    "wants to be paid": (answered(402, {"error": {"message": "no"}}), "it wants to be paid", 1),
    "is no model": (answered(200, {"status": "fine"}), "answered 200 with", 3),
    "says nothing": (answered(200, EMPTY), "`content` is empty", 1),
}
"""What an endpoint answers to everything, words of the problem, and how often it is asked."""


@pytest.mark.slow
@pytest.mark.parametrize(("said", "told", "sends"), NO_MODELS.values(), ids=NO_MODELS)
def test_an_endpoint_that_cannot_be_used_is_asked_no_further(said, told, sends):
    with scripted(lambda _text, _times: said) as server:
        ended = foil("doctor", f"m@{server.url}", "--json")
    assert (ended.returncode, server.sent()) == (15, sends), ended.stderr
    [model] = json.loads(ended.stdout)["models"]
    [problem] = model["problems"]
    assert told in problem
    assert problem in ended.stderr


def test_the_table_has_room_on_a_terminal_of_80_columns():
    with serving(Behaviour(refused_parameters=("system", "seed"), context=4_096), answer) as server:
        ended = foil("doctor", f"m@{server.url}", env={"COLUMNS": "80"})
    assert ended.returncode == 15
    assert max(map(len, ended.stdout.splitlines())) <= 80
    for words in ("m at http", "no system turn", "reads 4,096 tokens", "NO: takes no reply"):
        assert words in ended.stdout
    assert "give the server a longer context" in ended.stderr


def test_each_model_of_a_job_is_asked_once_under_the_roles_that_share_it(tmp_path):
    with serving(Behaviour(), answer) as first, serving(Behaviour(refused_parameters=("n",)), answer) as second:
        job = write_job(tmp_path, 5)
        one, other = (f"{{kind: hosted, model: {name}, url: '{s.url}'}}" for name, s in (("a", first), ("b", second)))
        job.write_text(job.read_text() + f"models: {{writer: {one}, judge: {other}, passage_writer: {one}}}\n")
        ended = foil("doctor", job, "--out", tmp_path, "--json", "--words", 600, env={"RAY_AUTH_MODE": ""})
    assert ended.returncode == 0, ended.stderr
    models = {model["model"]: model for model in json.loads(ended.stdout)["models"]}
    assert {name: model["roles"] for name, model in models.items()} == {
        "a": ["writer", "passage_writer"],
        "b": ["judge"],
    }
    assert [trait["found"] for trait in models["b"]["traits"] if trait["what"] == "n"] == ["refused"]
    assert "libraries" in json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("target", "options", "told"),
    [
        ("m@http://169.254.169.254/v1", (), "link-local"),
        ("m@example.com/v1", (), "expected an http(s) URL"),
        ("no-such.yaml", (), "cannot be read"),
        ("m@http://127.0.0.1:9/v1", ("--out", "."), "name them with a JOB"),
        ("m@http://127.0.0.1:9/v1", ("--set", "api_key=sk-0123456789abcdef"), "api_key"),
    ],
)
def test_what_names_no_model_is_refused_before_anything_is_asked(target, options, told):
    ended = foil("doctor", target, *options)
    assert (ended.returncode, told in ended.stderr, "sk-0123" in ended.stderr) == (2, True, False), ended.stderr
