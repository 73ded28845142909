"""`foil try`: the first seeds of a job, and its funnel stage by stage, with what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foil.cluster.commands.arguments import JobArgument, JsonOption, OutOption, ReuseOption, SetOption
from foil.cluster.terminal import in_columns, live_table, print_json, print_line, print_paragraph, say, show
from foil.engine.seeds.files.ledger import ledger_lines

if TYPE_CHECKING:
    from foil.cluster.job import Job
    from foil.engine.planning.funnel import Change, Ending, Funnel, StageCounts
    from foil.engine.requests import Request

_STAGE_COLUMNS = {"sent": 5, "valid": 6, "mended": 7, "corrected": 10, "drawn": 6, "given up": 9, "tokens": 10}
"""Each with its width; the stage has what is left of 80 columns."""
_EXCERPT = 400
_CHANGES = 2
_Z = 1.96
"""Of a 95 % interval."""
_FAULTY = "replies.corrections ({0.corrections} now) and replies.candidates ({0.candidates} now): raise them"


def try_(
    job_file: JobArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    reuse: ReuseOption = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds that are tried, the first ones.")] = 20,
    accepted: Annotated[int, typer.Option(min=1, help="Accepted topics of which the cost is shown.")] = 5_000,
    as_json: JsonOption = False,
) -> None:
    """Run the first seeds in a folder of their own, and show the funnel stage by stage, its cost, what to change."""
    import asyncio

    from foil.cluster.commands.operators.run import ProgressPrinter
    from foil.cluster.job import load_job
    from foil.cluster.replayed_prompts import requests_of
    from foil.cluster.run_job import run_job
    from foil.cluster.tries import funnel_in, try_job

    whole = load_job(job_file, overrides or [], out)
    job, paid = try_job(whole, seeds, reuse or [])
    with live_table() as update:
        printer = ProgressPrinter(update)
        summary = run_job(job, paid, printer, printer.count_seeds)
    funnel = funnel_in(job.out)
    report = _TryReport(job, funnel, accepted, asyncio.run(requests_of(job, _shown_seeds(funnel))))
    if as_json:
        print_json(report.plain())
    else:
        report.print()
    for line in ledger_lines(summary.read):
        say(line)
    if summary.stopped:
        say(f"foil: {summary.stopped}")
    if summary.exit_code:
        raise typer.Exit(summary.exit_code)


def _shown_seeds(funnel: Funnel) -> set[str]:
    """The seeds of the examples that have a prompt."""
    return {ending.example.seed_id for ending in funnel.endings if ending.example.call}


class _TryReport:
    """What is said of a try."""

    def __init__(self, job: Job, funnel: Funnel, accepted: int, requests: Mapping[str, Request]) -> None:
        self._job, self._funnel, self._goal, self._requests = job, funnel, accepted, requests
        self._endings = sorted(funnel.endings, key=lambda ending: -ending.topics)
        self._changes = funnel.changes()[:_CHANGES]

    def plain(self) -> dict[str, Any]:
        funnel = self._funnel
        return {
            "out": str(self._job.out),
            "seeds": funnel.seeds,
            "asked": funnel.asked,
            "whole": funnel.whole,
            "topics": {status: funnel.topics[status] for status in ("accepted", "rejected", "failed")},
            "stages": [_stage_json(stage) for stage in funnel.stages.values()],
            "reasons": [self._ending_json(ending) for ending in self._endings],
            "marks": dict(funnel.marks.most_common()),
            "tokens": funnel.tokens,
            "paid_tokens": funnel.paid_tokens,
            "usd": funnel.usd,
            "an_accepted_topic": {"tokens": funnel.per_accepted(funnel.tokens), "usd": funnel.per_accepted(funnel.usd)},
            "goal": self._goal_json(),
            "changes": [self._change_json(change) for change in self._changes],
        }

    def print(self) -> None:
        """The tables and words."""
        funnel, topics = self._funnel, self._funnel.topics
        print_line(str(self._job.out))
        print_line(in_columns("stage", [*_STAGE_COLUMNS], _STAGE_COLUMNS.values()))
        for stage in funnel.stages.values():
            print_line(_stage_line(stage))
        print_paragraph(
            f"{funnel.seeds:,} seeds: {funnel.asked:,} asked, {funnel.whole:,} whole topics; "
            f"{topics['accepted']:,} accepted, {topics['rejected']:,} rejected, {topics['failed']:,} failed"
        )
        if self._endings:
            rows = [(ending.reason, f"{ending.topics:,}", ending.place) for ending in self._endings]
            show(["not accepted", "topics", "after"], rows)
        if funnel.marks:
            show(["mark", "topics"], [(mark, f"{n:,}") for mark, n in funnel.marks.most_common()], numbers=True)
        for ending in self._endings:
            self._print_example(ending)
        print_line("")
        for line in self._cost_lines():
            print_paragraph(line)
        for number, change in enumerate(self._changes, 1):
            self._print_change(number, change)
        print_paragraph(f"foil run JOB --reuse {self._job.out} takes these replies over")

    def _print_example(self, ending: Ending) -> None:
        from foil.cluster.pages.reason_lines import meaning_of
        from foil.datasets_out.lineage.evidence_words import evidence_words

        example, call = ending.example, ending.example.call
        print_line("")
        print_paragraph(
            f"{ending.reason}, {_counted(ending.topics)}, after {ending.place}: {meaning_of(ending.reason)}"
        )
        print_paragraph(f"for example {example.seed_id}:", "  ")
        for name, text in (("query", example.query), ("why", evidence_words(example.detail)), *self._exchange(ending)):
            if text:
                print_paragraph(f"{name}: {text}", "  ")
        if call and call.fault and call.fault.partition(":")[0] != ending.reason:
            print_paragraph(f"fault: {call.fault}", "  ")

    def _exchange(self, ending: Ending) -> Iterator[tuple[str, str]]:
        """The end of the prompt, which has the seed and the task, and the reply."""
        call = ending.example.call
        if call is None:
            return
        request = self._requests.get(call.request_id)
        if request:
            user = [message.content for message in request.messages if message.role == "user"]
            material = next((turn for turn in reversed(user) if ending.example.query in turn), user[0])
            yield "prompt", (material if len(material) <= _EXCERPT else f"... {material[-_EXCERPT:]}")
            yield "last turn", _beginning(user[-1]) if user[-1] != material else ""
        yield f"reply of {call.model} to {call.task}", _beginning(call.reply_text) or "(nothing)"

    def _cost_lines(self) -> Iterator[str]:
        funnel = self._funnel
        earlier = funnel.tokens - funnel.paid_tokens
        paid = f", {earlier:,} of them paid by earlier runs" if earlier else ""
        yield f"{funnel.tokens:,} tokens, ${funnel.usd:.4f}{paid}"
        goal = self._goal_json()
        if goal is None:
            yield f"no topic is accepted, so nobody can say what {self._goal:,} cost"
            return
        tokens, usd = funnel.tokens / funnel.accepted, funnel.usd / funnel.accepted
        low, high = goal["seeds_between"]
        yield f"an accepted topic: {tokens:,.0f} tokens, ${usd:.5f}"
        yield (
            f"{self._goal:,} accepted: about {goal['seeds']:,} seeds ({low:,} to {high:,}, from {funnel.seeds:,} "
            f"tried), {goal['tokens']:,} tokens, ${goal['usd']:,.2f}"
        )

    def _goal_json(self) -> dict[str, Any] | None:
        """What the wanted number of accepted topics costs; the seeds with the 95 % interval of the accepted share."""
        funnel, goal = self._funnel, self._goal
        if not funnel.accepted:
            return None
        each = funnel.topics.total() / funnel.seeds  # topics of a seed
        low, high = _interval(funnel.accepted, funnel.topics.total())
        factor = goal / funnel.accepted
        return {
            "accepted": goal,
            "seeds": math.ceil(funnel.seeds * factor),
            "seeds_between": [math.ceil(goal / high / each), math.ceil(goal / low / each)],
            "tokens": round(funnel.tokens * factor),
            "usd": funnel.usd * factor,
        }

    def _print_change(self, number: int, change: Change) -> None:
        ending = change.ending
        before = "" if change.before is None else f" instead of {change.before:,.0f}"
        at_best = "" if change.measured else ", or more: no topic has come further yet"
        print_paragraph(
            f"{number}. {ending.reason} after {ending.place} ({_counted(ending.topics)}): without it an accepted topic "
            f"would take {change.after:,.0f} tokens{before}{at_best}"
        )
        print_paragraph(f"change: {self._setting(ending)}", "   ")

    def _setting(self, ending: Ending) -> str:
        """What to change in the job."""
        from foil.engine.reasons import reason_entries

        names = [str(validator.model_dump()["kind"]) for validator in self._job.validators]
        place = f"validators[{names.index(ending.place)}] ({ending.place}): " if ending.place in names else ""
        if entry := reason_entries().get(ending.reason):
            return place + entry.mend
        if place:
            return f"{place}its settings, or leave it out"
        if ending.example.call and ending.example.call.fault:
            return _FAULTY.format(self._job.replies)
        if ending.example.call:
            return f"the writer: another model, or the template {ending.example.call.template.partition('@')[0]}"
        return "the seeds: look at them with `foil seeds preview`"

    def _ending_json(self, ending: Ending) -> dict[str, Any]:
        example, call = ending.example, ending.example.call
        request = self._requests.get(call.request_id) if call else None
        details: dict[str, Any] = {"seed": example.seed_id, "query": example.query, "detail": example.detail}
        if call:
            details |= {"task": call.task, "model": call.model, "fault": call.fault, "reply": call.reply_text}
        if request:
            details["prompt"] = [{"role": message.role, "content": message.content} for message in request.messages]
        return {
            "reason": ending.reason, "status": ending.status, "topics": ending.topics, "after": ending.place,
            "example": details,
        }  # fmt: skip

    def _change_json(self, change: Change) -> dict[str, Any]:
        return {
            "reason": change.ending.reason,
            "after": change.ending.place,
            "topics": change.ending.topics,
            "accepted_more": change.accepted,
            "tokens_an_accepted_topic": [change.before, change.after],
            "measured": change.measured,
            "change": self._setting(change.ending),
        }


def _stage_line(stage: StageCounts) -> str:
    numbers = (stage.sent, stage.valid, stage.salvaged, stage.corrected, stage.drawn, stage.given_up, stage.tokens)
    return in_columns(stage.task, [f"{number:,}" for number in numbers], _STAGE_COLUMNS.values())


def _counted(topics: int) -> str:
    return f"{topics:,} topic{'' if topics == 1 else 's'}"


def _stage_json(stage: StageCounts) -> dict[str, Any]:
    return {
        "task": stage.task,
        "templates": sorted(stage.templates),
        "models": sorted(stage.models),
        "seeds": len(stage.seeds),
        "sent": stage.sent,
        "valid": stage.valid,
        "salvaged": stage.salvaged,
        "corrected": stage.corrected,
        "drawn": stage.drawn,
        "given_up": stage.given_up,
        "faults": dict(stage.faults.most_common()),
        "calls": stage.calls,
        "prompt_tokens": sum(seed.prompt_tokens for seed in stage.seeds),
        "completion_tokens": sum(seed.completion_tokens for seed in stage.seeds),
        "usd": stage.usd,
    }


def _interval(hits: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    share, z2 = hits / total, _Z * _Z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total)) / (1 + z2 / total)
    return middle - half, middle + half


def _beginning(text: str) -> str:
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]} ..."
