"""`foil watch`, `foil status` and `foil job`: a run as its folder shows it, from any machine that sees `out`.

    commits/, newest session file --every few seconds--> one line: seeds, rate, time left or a stall, workers, spend

Promise: the watcher's own clock judges whether anything moves, so clocks that differ fool nobody. Ray is never asked.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_data, print_json, print_line, say, show
from foil.engine.seeds.files.ledger import ledger_lines

_WINDOW_S = 60.0
"""The rate is that of the last minute, so that a run which slows down shows it."""
_STILL_S = 30.0
"""A run that works writes its session file many times in this time, and finishes a seed."""


def watch(
    out: OutArgument,
    every: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Seconds between two lines.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Print one line and end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Watch a run from anywhere that sees OUT: seeds, rate, time left, workers, spend; ends with the run's exit code.

    Where no seed ended for 30 s, it says so and gives no time left. Where the run has not written for 30 s, its driver
    was killed, or its machine is cut off. With --json each look is a line.
    """
    from foil.datasets_out.commits.log import CommitLog

    log = CommitLog(out)
    log.run()
    pace = Pace()
    while True:
        session = _newest_session(out)
        pace.see(session, time.monotonic())
        commits = len(log.partitions())
        if as_json:
            print_json({**session, "commits": commits, "seeds_per_s": pace.seeds_per_s()})
        else:
            print_line(describe(session, commits, pace))
        if once:
            return
        if session.get("exit_code") is not None:
            raise typer.Exit(int(session["exit_code"]))
        time.sleep(every)


@dataclass(slots=True)
class Pace:
    """How fast a run moves, by the clock of the machine that watches."""

    samples: deque[tuple[float, int]] = field(default_factory=deque)
    written_s: float = 0.0
    ended_s: float = 0.0
    now_s: float = 0.0
    _session: dict[str, Any] = field(default_factory=dict)

    def see(self, session: dict[str, Any], now_s: float) -> None:
        """Takes in one look at the session file."""
        ended = _ended(session)
        if session != self._session:
            self.written_s = now_s
        if not self.samples or ended != self.samples[-1][1]:
            self.ended_s = now_s
        self._session, self.now_s = session, now_s
        self.samples.append((now_s, ended))
        while len(self.samples) > 2 and now_s - self.samples[1][0] > _WINDOW_S:
            self.samples.popleft()

    def seeds_per_s(self) -> float:
        """Over the last minute, or as long as this watcher has looked."""
        (begun_s, begun), (last_s, last) = self.samples[0], self.samples[-1]
        return max(0.0, (last - begun) / (last_s - begun_s)) if last_s > begun_s else 0.0

    def silent_s(self) -> float:
        """Seconds since the session file changed."""
        return self.now_s - self.written_s

    def still_s(self) -> float:
        """Seconds since a seed ended."""
        return self.now_s - self.ended_s


def describe(session: dict[str, Any], commits: int, pace: Pace) -> str:
    """One line about a run. `session`: its newest session file, {} where it has none."""
    if not session:
        return f"{commits:,} partitions committed; no session has noted its progress yet (or its file was deleted)"
    counts, planned = session["counts"], session.get("planned")
    seeds = Counter(counts["seeds"])
    parts = [
        f"{seeds.total():,}/{'?' if planned is None else f'{planned:,}'} seeds",
        ", ".join(f"{seeds[status]:,} {status}" for status in ("accepted", "rejected", "failed")),
        f"{commits:,} commits",
        *_workers(session),
        f"{counts['prompt_tokens'] + counts['completion_tokens']:,} tokens, ${counts['cost_usd']:.2f}",
        _state(session, pace),
    ]
    return "; ".join(parts)


def _workers(session: dict[str, Any]) -> list[str]:
    lost = session.get("workers_lost", 0)
    placed, target = session.get("workers_placed"), session.get("workers_wanted")
    parts = [f"{placed} of {target} workers placed"] if target else []
    return parts + ([f"{lost:,} workers lost"] if lost else [])


def _state(session: dict[str, Any], pace: Pace) -> str:
    """Ended, silent, stalled, or the rate and the time left."""
    code = session.get("exit_code")
    if code is not None:
        return f"ended with exit code {code}" + (f": {session['stopped']}" if session.get("stopped") else "")
    if pace.silent_s() >= _STILL_S:
        return f"SILENT: the run has not written for {pace.silent_s():.0f} s; was it killed, or is it cut off?"
    waiting = f"; waiting for {session['waiting_for']}" if session.get("waiting_for") else ""
    if pace.still_s() >= _STILL_S:
        return f"STALLED: no seed ended for {pace.still_s():.0f} s, {session['in_flight']:,} in flight{waiting}"
    rate = pace.seeds_per_s()
    if not rate:
        return f"{session['in_flight']:,} in flight{waiting}"
    planned = session.get("planned")
    time_left = "" if planned is None else f", {max(0, planned - _ended(session)) / rate:,.0f} s left"
    return f"{rate:,.1f} seeds/s, {session['in_flight']:,} in flight{time_left}{waiting}"


def _ended(session: dict[str, Any]) -> int:
    return sum(session["counts"]["seeds"].values()) if session else 0


def _newest_session(out: Path) -> dict[str, Any]:
    """The newest session file that reads; {} if there is none."""
    from foil.engine.storage.opening import open_store

    store = open_store(out)
    for key in sorted((each.key for each in store.list_objects("sessions")), reverse=True):
        try:
            session: dict[str, Any] = json.loads(store.get(key) or b"")
            _ended(session)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
        return session
    return {}


def status(
    out: OutArgument,
    with_verdict: Annotated[
        bool, typer.Option("--verdict", help="What stands out, as `foil report` says it: reads verdicts and labels.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """How far a run is: planned, accepted, rejected, failed, calls, tokens, cost. Reads commit entries only."""
    from foil.cluster.desk.measures import run_verdict
    from foil.cluster.pages.reason_lines import print_commonest
    from foil.datasets_out.commits.log import CommitLog
    from foil.datasets_out.desk.topics import asker
    from foil.engine.flow import progress

    log = CommitLog(out)
    log.run()
    facts = progress.status(log, out)
    verdict = run_verdict(asker(out)) if with_verdict else None
    if as_json:
        print_json(facts | ({"verdict": asdict(verdict)} if verdict else {}))
        return
    left_out = ("last_session", "read", "reasons", "validators_usd")
    rows = [(name, _plain(value)) for name, value in facts.items() if name not in left_out and value != ""]
    show(["", ""], rows)
    for line in ledger_lines(facts["read"]):
        print_line(line)
    for sentence in verdict.sentences if verdict else ():
        print_line(sentence)
    print_commonest(out, Counter(facts["reasons"]), sum(facts["topics"].values()), examples=False)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items())
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def job(out: OutArgument, as_json: JsonOption = False) -> None:
    """Print the job that a run was made by, as YAML: what was set, with every --set in it. Keys are never in it."""
    from foil.cluster.job_page import job_yaml, read_job
    from foil.datasets_out.commits.log import CommitLog

    log = CommitLog(out)
    document, whole = read_job(log)
    if as_json:
        print_json({"job": {**document, "out": log.store.url}, "whole": whole})
    else:
        print_data(job_yaml(document, log.store.url))
    if not whole:
        say("this run kept no job.json: give each model its `url` or `endpoints` before you run it")
