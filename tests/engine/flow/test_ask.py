"""`ask`: sent once, durable before it is read, corrected if unreadable, never beyond the budget."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.datasets_out.curation.reply_archive import ReplyArchive
from foil.engine.errors import (
    BudgetSpentError,
    CutReplyError,
    FaultyReply,
    ModelError,
    RefusedRequestError,
    Rejected,
    TransientModelError,
    UnreadableReplyError,
    UsageError,
    WithheldReplyError,
)
from foil.engine.flow.ask import SeedAsk
from foil.engine.flow.budget import Budget, Spend
from foil.engine.flow.journal import Journal
from foil.engine.flow.journal_reading import paid_replies, possibly_paid_twice
from foil.engine.flow.limits import BudgetSettings
from foil.engine.flow.reply_service import ReplyService
from foil.engine.model_traits import ModelTraits
from foil.engine.protocols import Model, Prompt
from foil.engine.requests import Message, Reply, Request
from foil.engine.storage.opening import open_store
from tests.support.small_parts import Line, parse, prompt_for, seed


class Stuck(Budget):
    """Sums that are never settled."""

    async def settle(self, *_):
        await asyncio.Event().wait()


class Prober(Model):
    """Is refused, and has paid for a prompt of its own by then."""

    name, traits = "prober", ModelTraits()

    async def complete(self, request):
        raise RefusedRequestError("no")

    def unasked_replies(self):
        return [Reply("own", "Paris", prompt_tokens=9)]


def test_a_stop_loses_no_reply_that_no_seed_asked_for(tmp_path):
    async def stopped():
        journal = Journal(open_store(tmp_path))
        replies = ReplyService(journal.open(0), Stuck(BudgetSettings()), "me")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await replies.answer(Prober(), Request("prober", (Message("user", "x"),)))
        journal.close()

    asyncio.run(stopped())
    assert [reply.prompt_tokens for reply in paid_replies(open_store(tmp_path), ())] == [9]


GOOD = '{"text":"good"}'
PROMPT = prompt_for(seed(1))


class Script(Model):
    """A model that answers from a script; an exception in it is raised. Keeps the requests that it was sent."""

    name = "script"

    def __init__(self, *script: str | Exception, cost_usd: float = 0.0, tokens: int = 0) -> None:
        self.traits = ModelTraits({"temperature": 0}, samples=True)
        self.script, self.cost_usd, self.tokens = list(script), cost_usd, tokens
        self.sent: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.sent.append(request)
        await asyncio.sleep(0)
        answer = self.script.pop(0) if self.script else GOOD
        if isinstance(answer, Exception):
            raise answer
        return Reply(request.id, answer, completion_tokens=self.tokens, cost_usd=self.cost_usd)


def asker(folder, model, *, repairs=1, candidates=0, budget=None, reader=parse):
    replies = ReplyService(Journal(open_store(folder)).open(0), budget or Budget(BudgetSettings()), "me")
    return SeedAsk(replies, {"writer": model}, reader, corrections=repairs, candidates=candidates)


def test_an_answer_is_typed_and_its_call_is_kept(tmp_path):
    model = Script()
    ask = asker(tmp_path, model)
    assert asyncio.run(ask(PROMPT, Line)) == Line(text="good")
    [call], [request] = ask.calls, model.sent
    assert (call.request_id, call.reply_text, call.task) == (request.id, GOOD, "one.line")
    assert request.params == {"temperature": 0, "max_tokens": 1024}
    assert request.schema == Line.model_json_schema()


def test_a_journalled_reply_is_never_asked_for_again(tmp_path):
    first, second = Script(), Script()
    asyncio.run(asker(tmp_path, first)(PROMPT, Line))
    ask = asker(tmp_path, second)
    assert asyncio.run(ask(PROMPT, Line)) == Line(text="good")
    assert (len(first.sent), len(second.sent), len(ask.calls)) == (1, 0, 1)


def test_a_reply_is_on_disk_before_it_is_parsed(tmp_path):
    def reader(text: str, answer: type[Line]) -> Line:
        [path] = tmp_path.glob("*/*.log")
        assert GOOD.replace('"', '\\"') in path.read_text()
        return parse(text, answer)

    asyncio.run(asker(tmp_path, Script(), reader=reader)(PROMPT, Line))


def test_an_unreadable_reply_is_corrected_in_a_turn_that_shows_it_and_what_was_wanted(tmp_path):
    model = Script("no JSON at all")
    ask = asker(tmp_path, model)
    assert asyncio.run(ask(PROMPT, Line)) == Line(text="good")
    assert [call.reply_text for call in ask.calls] == ["no JSON at all", GOOD]
    *_, faulty, correction = model.sent[1].messages
    assert faulty == Message("assistant", "no JSON at all")
    assert "not a Line" in correction.content
    assert '"text"' in correction.content
    again = asker(tmp_path, Script("never asked"))
    assert asyncio.run(again(PROMPT, Line)) == Line(text="good")
    assert again.calls == ask.calls


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_after_the_last_correction_turn_the_reply_is_given_up(tmp_path, repairs):
    model = Script(*["bad"] * 9)
    ask = asker(tmp_path, model, repairs=repairs)
    with pytest.raises(UnreadableReplyError, match="not a Line"):
        asyncio.run(ask(PROMPT, Line))
    assert len(model.sent) == len(ask.calls) == repairs + 1


def at_most_four(line: Line) -> Line:
    """A check: longer texts are faulty, capitals are mended, "no" ends the seed, "soso" is usable where need be."""
    if line.text == "no":
        raise Rejected("refused", "it says no")
    if len(line.text) > 4 or line.text == "soso":
        usable = line if line.text == "soso" else None
        raise FaultyReply("too_long", f"{len(line.text)} letters", "Write four letters at most.", usable)
    return Line(text=line.text.lower())


def line(text: str) -> str:
    return Line(text=text).model_dump_json()


def test_a_faulty_reply_is_told_what_is_wrong_in_the_same_conversation(tmp_path):
    model = Script(line("longer"), line("FINE"))
    ask = asker(tmp_path, model)
    assert asyncio.run(ask(PROMPT, Line, check=at_most_four)) == Line(text="fine")
    assert model.sent[1].messages[: len(PROMPT.messages)] == PROMPT.messages
    *_, faulty, correction = model.sent[1].messages
    assert (faulty.role, faulty.content) == ("assistant", line("longer"))
    assert "Write four letters at most." in correction.content
    assert [(call.turn, call.fault, call.salvaged) for call in ask.calls] == [
        ("", "too_long: 6 letters", ""),
        ("correction", "", "text"),
    ]
    again = asker(tmp_path, Script("never asked"))
    assert asyncio.run(again(PROMPT, Line, check=at_most_four)) == Line(text="fine")
    assert again.calls == ask.calls


def test_after_the_last_turn_a_fault_rejects_and_every_attempt_is_kept(tmp_path):
    ask = asker(tmp_path, Script(*[line("longer")] * 3), repairs=2)
    with pytest.raises(FaultyReply, match="too_long"):
        asyncio.run(ask(PROMPT, Line, check=at_most_four))
    assert [call.fault for call in ask.calls] == ["too_long: 6 letters"] * 3


def test_an_answer_that_is_usable_is_taken_where_no_better_one_came(tmp_path):
    ask = asker(tmp_path, Script(line("soso"), line("longer")))
    assert asyncio.run(ask(PROMPT, Line, check=at_most_four)) == Line(text="soso")


def test_a_rejection_of_a_check_is_no_fault_to_correct(tmp_path):
    model = Script(line("no"))
    ask = asker(tmp_path, model)
    with pytest.raises(Rejected, match="refused"):
        asyncio.run(ask(PROMPT, Line, check=at_most_four))
    assert (len(model.sent), [call.fault for call in ask.calls]) == (1, ["refused: it says no"])


def test_candidates_are_drawn_by_one_request_after_the_turns_and_the_first_that_passes_is_taken(tmp_path):
    drawn = Reply("", line("longer"), others=((line("longest"), "stop"), (line("ok"), "stop"), (line("no"), "stop")))
    model = Choices(Reply("", line("longer")), Reply("", "no JSON"), drawn)
    ask = asker(tmp_path, model, candidates=4)
    assert asyncio.run(ask(PROMPT, Line, check=at_most_four)) == Line(text="ok")
    assert model.sent[2].messages == PROMPT.messages
    assert (model.sent[2].params["n"], model.sent[2].params["temperature"]) == (4, 0.7)
    assert [call.reply_text for call in ask.calls] == [line("longer"), "no JSON", line("ok")]
    assert [bool(call.fault) for call in ask.calls] == [True, True, False]
    again = asker(tmp_path, Script("never asked"), candidates=4)
    assert asyncio.run(again(PROMPT, Line, check=at_most_four)) == Line(text="ok")


def test_candidates_are_drawn_as_freely_as_the_job_says(tmp_path):
    drawn = Reply("", line("longer"), others=((line("ok"), "stop"),))
    model = Choices(Reply("", line("longer")), drawn)
    model.traits = ModelTraits({"temperature": 1.2}, samples=True)
    prompt = replace(PROMPT, sampling={"temperature": 0.8, "max_tokens": 10})
    ask = asker(tmp_path, model, repairs=0, candidates=2)
    assert asyncio.run(ask(prompt, Line, check=at_most_four)) == Line(text="ok")
    assert [request.params["temperature"] for request in model.sent] == [1.2, 1.2]


def test_candidates_of_which_none_passes_leave_the_usable_answer_or_reject(tmp_path):
    none = Reply("", line("longer"), others=((line("longest"), "stop"),))
    ask = asker(tmp_path / "a", Choices(Reply("", line("soso")), none), repairs=0, candidates=2)
    assert asyncio.run(ask(PROMPT, Line, check=at_most_four)) == Line(text="soso")
    ask = asker(tmp_path / "b", Choices(Reply("", line("longer")), none), repairs=0, candidates=2)
    with pytest.raises(FaultyReply, match="7 letters"):
        asyncio.run(ask(PROMPT, Line, check=at_most_four))


class Choices(Script):
    """Answers with further choices, or with a finish_reason."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__()
        self.replies = list(replies)

    async def complete(self, request: Request) -> Reply:
        self.sent.append(request)
        return replace(self.replies.pop(0), request_id=request.id)


def test_votes_are_all_readable_choices_and_prompt_params_go_over_the_models(tmp_path):
    said = Reply("", GOOD, others=(('{"text":"b"}', "stop"), ("no JSON", "stop"), ('{"text":"c"}', "length")))
    model = Choices(said)
    prompt = replace(PROMPT, params={"n": 4})
    votes = asyncio.run(asker(tmp_path, model).votes(prompt, Line))
    assert [vote.text for vote in votes] == ["good", "b"]
    assert model.sent[0].params == {"temperature": 0, "max_tokens": 1024, "n": 4}
    again = asyncio.run(asker(tmp_path, Script()).votes(prompt, Line))
    assert again == votes


@pytest.mark.parametrize(
    ("reason", "error", "said"),
    [("length", CutReplyError, "cut at its limit"), ("content_filter", WithheldReplyError, "held the reply back")],
)
def test_a_reply_that_was_cut_or_withheld_is_no_text_and_is_corrected(tmp_path, reason, error, said):
    model = Choices(Reply("", GOOD, finish_reason=reason), Reply("", '{"text":"second"}'))
    assert asyncio.run(asker(tmp_path / "a", model)(PROMPT, Line)) == Line(text="second")
    assert said in model.sent[1].messages[-1].content
    hopeless = Choices(*[Reply("", GOOD, finish_reason=reason)] * 2)
    with pytest.raises(error):
        asyncio.run(asker(tmp_path / "b", hopeless)(PROMPT, Line))


@pytest.mark.parametrize(
    ("said", "reason", "error"),
    [("", "length", CutReplyError), (GOOD, "abort", UnreadableReplyError), (GOOD, "vibes", UnreadableReplyError)],
)
def test_a_reply_that_is_empty_or_not_whole_is_not_shown_again_and_no_turn_stands_twice(tmp_path, said, reason, error):
    hopeless = Choices(*[Reply("", said, finish_reason=reason)] * 3)
    with pytest.raises(error):
        asyncio.run(asker(tmp_path, hopeless, repairs=2)(PROMPT, Line))
    assert [len(request.messages) for request in hopeless.sent] == [1, 1, 1]
    texts = [request.messages[0].content for request in hopeless.sent]
    assert texts[0] == PROMPT.messages[0].content
    assert [text.count("could not be used") for text in texts] == [0, 1, 2]
    assert len({request.id for request in hopeless.sent}) == 3


@pytest.mark.parametrize(
    ("params", "limits"), [({}, [1024, 11_024, 21_024]), ({"max_tokens": 2_000}, [2_000, 2_000, 2_000])]
)
def test_a_reply_that_its_thoughts_left_no_room_gets_more_unless_the_job_sets_the_limit(tmp_path, params, limits):
    model = Choices(*[Reply("", " ", finish_reason="length")] * 2, Reply("", GOOD))
    model.traits = ModelTraits(params, samples=True)
    assert asyncio.run(asker(tmp_path, model, repairs=2)(PROMPT, Line)) == Line(text="good")
    assert [request.params["max_tokens"] for request in model.sent] == limits


def test_a_price_is_reserved_before_the_request_is_sent(tmp_path):
    model, budget = Script(), Budget(BudgetSettings(usd=1.0))
    model.traits = ModelTraits({"max_tokens": 100}, price=lambda prompt, completion: completion * 0.02)
    with pytest.raises(BudgetSpentError, match="0 of 1 usd are used, and the next request needs 2"):
        asyncio.run(asker(tmp_path, model, budget=budget)(PROMPT, Line))
    assert model.sent == []


def test_equal_requests_at_the_same_time_are_sent_once(tmp_path):
    model = Script()
    ask = asker(tmp_path, model)

    async def ask_thrice() -> list[Line]:
        return await asyncio.gather(*(ask(PROMPT, Line) for _ in range(3)))

    assert asyncio.run(ask_thrice()) == [Line(text="good")] * 3
    assert (len(model.sent), len(ask.calls)) == (1, 3)


def test_a_transient_failure_is_tried_again_and_a_refusal_is_not(tmp_path):
    slow = Script(TransientModelError("busy"), TransientModelError("busy"))
    assert asyncio.run(asker(tmp_path, slow)(PROMPT, Line)) == Line(text="good")
    assert len(slow.sent) == 3
    refusing = Script(RefusedRequestError("never"))
    with pytest.raises(RefusedRequestError, match="never"):
        asyncio.run(asker(tmp_path / "other", refusing)(PROMPT, Line))
    assert len(refusing.sent) == 1


def test_a_refused_request_costs_nothing_and_is_not_counted_as_in_flight(tmp_path):
    budget = Budget(BudgetSettings(calls=1))
    ask = asker(tmp_path, Script(RefusedRequestError("never")), budget=budget)
    with pytest.raises(RefusedRequestError, match="never"):
        asyncio.run(ask(PROMPT, Line))
    assert possibly_paid_twice(open_store(tmp_path)) == 0
    assert budget.spent == Spend()


def test_a_reply_to_another_request_is_an_error_of_the_model(tmp_path):
    class Confused(Script):
        async def complete(self, request: Request) -> Reply:
            return Reply("another", GOOD)

    with pytest.raises(ModelError, match="'script' answered 'another'"):
        asyncio.run(asker(tmp_path, Confused())(PROMPT, Line))


def test_a_role_that_the_job_does_not_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no model has the role 'poet'; the job names \['writer'\]"):
        asyncio.run(asker(tmp_path, Script())(PROMPT, Line, role="poet"))


def test_dollars_are_reserved_as_the_dearest_call_so_far(tmp_path):
    model, budget = Script(cost_usd=0.4), Budget(BudgetSettings(usd=1.0))
    ask = asker(tmp_path, model, budget=budget)

    async def one_after_another() -> None:
        for i in range(5):
            await ask(prompt_for(seed(i)), Line)

    with pytest.raises(BudgetSpentError, match=r"0\.8 of 1 usd are used, and the next request needs 0\.4"):
        asyncio.run(one_after_another())
    assert len(model.sent) == 2


def test_a_request_that_ends_in_an_error_may_have_been_paid(tmp_path):
    budget = Budget(BudgetSettings(calls=5))
    with pytest.raises(ZeroDivisionError, match="broken"):
        asyncio.run(asker(tmp_path, Script(ZeroDivisionError("broken")), budget=budget)(PROMPT, Line))
    assert (budget.spent.calls, possibly_paid_twice(open_store(tmp_path))) == (1, 1)


def test_calls_stand_in_the_order_asked_however_the_replies_come_in(tmp_path):
    class Slow(Script):
        """Answers the first prompt last, and has it corrected once."""

        async def complete(self, request: Request) -> Reply:
            await asyncio.sleep(0.05 if "first" in request.messages[0].content else 0)
            unreadable = "first" in request.messages[0].content and len(request.messages) == 1
            return Reply(request.id, "none" if unreadable else GOOD)

    async def asked() -> list[str]:
        ask = asker(tmp_path, Slow())
        prompts = [Prompt(name, "t", (Message("user", name),)) for name in ("first", "second", "third")]
        await asyncio.gather(*(ask(prompt, Line) for prompt in prompts))
        return [call.task for call in ask.calls]

    assert asyncio.run(asked()) == ["first", "first", "second", "third"]


def test_what_another_run_has_paid_for_is_taken_over(tmp_path):
    asyncio.run(asker(tmp_path / "a", Script())(PROMPT, Line))
    model, paid = Script("never asked"), ReplyArchive([tmp_path / "a"])
    replies = ReplyService(Journal(open_store(tmp_path / "b")).open(0), Budget(BudgetSettings()), "me", paid)
    asyncio.run(SeedAsk(replies, {"writer": model}, parse, corrections=1)(PROMPT, Line))
    assert model.sent == []


@given(limit=st.integers(1, 12), wanted=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_no_concurrency_spends_more_calls_than_the_budget(tmp_path_factory, limit, wanted):
    model, budget = Script(), Budget(BudgetSettings(calls=limit))
    ask = asker(tmp_path_factory.mktemp("journal"), model, budget=budget)

    async def ask_all() -> Counter[type]:
        asked = (ask(prompt_for(seed(i)), Line) for i in range(wanted))
        return Counter(type(result) for result in await asyncio.gather(*asked, return_exceptions=True))

    results = asyncio.run(ask_all())
    assert len(model.sent) == results[Line] == min(limit, wanted) == budget.spent.calls
    assert results[BudgetSpentError] == wanted - results[Line]
