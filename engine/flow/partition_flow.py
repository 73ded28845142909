"""How one partition runs, from its seeds to its commit. One Flow in each process that does the work.

    seeds -> recipe(seed, ask) -> validators, cheap to dear -> topics marked with verdicts -> store.commit

Promise: one bad seed never touches another. Whatever a recipe, validator or model raises becomes a failed row with its
reason, a rejected seed a rejected row, each with all that was made before; nothing is dropped, everything is marked.
The topics of a partition stand in the order of its seeds, so a window of 1 and of 1,000 commit the same bytes.
Price: one task a seed. `window` seeds are in flight, over the end of one partition and the start of the next; a
partition's topics are in memory until it is committed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from engine.crash_points import crash_point
from engine.errors import STOPPING, CommitLostError, FoilError, Rejected, UnstorableTopicError
from engine.flow.ask import ReplyService, SeedAsk
from engine.flow.budget import BudgetClient
from engine.flow.journal import Journal
from engine.flow.limits import RuntimeSettings
from engine.flow.progress import Counts, count_topics, counts_of, total
from engine.flow.seed_outcome import SeedClock, SeedOutcome, empty_topic, run_guarded, unstorable_row, with_outcome
from engine.protocols import Ask, Partition, Parts, Validator
from engine.topic import Call, Seed, Topic, Verdict

_ASKS_A_MODEL = 2


class DrainedError(FoilError):
    """The run is stopping before this partition is complete; its replies are in the journal."""


@dataclass(slots=True)
class _Making:
    """A partition between its first seed and its commit. `seen` are the requests that `counts` holds already."""

    partition: Partition
    condemned: Mapping[str, SeedOutcome]
    journal: Journal
    desk: ReplyService
    topics: list[Topic] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    seen: set[str] = field(default_factory=set)


class Flow:
    """Makes and commits partitions in this process. `owner` names it to the purse.

    `marks` has it note in the journal when each seed begins and ends: whoever supervises it reads there what killed it.
    """

    def __init__(self, parts: Parts, runtime: RuntimeSettings, purse: BudgetClient, owner: str, *, marks: bool) -> None:
        self._parts, self._purse, self._owner, self._marks = parts, purse, owner, marks
        self._timeout = runtime.seed_timeout_s
        self._validators = sorted(parts.validators, key=lambda validator: validator.cost)
        self._window = asyncio.Semaphore(runtime.window)
        self._starting, self._committing = asyncio.Lock(), asyncio.Lock()
        self._makings: dict[int, _Making] = {}
        self._in_flight = 0
        self._stop: FoilError | None = None

    async def make(self, partition: Partition, condemned: Mapping[str, SeedOutcome]) -> None:
        """Makes the topics of a partition and holds them for `commit`. `condemned` seeds fail without being tried.

        Raises DrainedError if the flow was told to stop first, and whatever ends a run (engine.errors.STOPPING).
        """
        making = self._begin(partition, condemned)
        seeds: list[asyncio.Task[list[Topic]]] = []
        async with self._starting:
            while len(seeds) < len(partition.seeds) and await self._has_room():
                seeds.append(asyncio.create_task(self._in_window(partition.seeds[len(seeds)], making)))
        made = await asyncio.gather(*seeds)
        if len(made) < len(partition.seeds) or not all(made):
            self._makings.pop(partition.index).journal.close()
            raise self._stop or DrainedError(f"partition {partition.index} was not completed")
        making.topics = list(chain.from_iterable(made))
        crash_point("flow.made")

    async def commit(self, index: int) -> Counts:
        """Commits a partition that was made. Returns the counts of the entry that stands, ours or another writer's."""
        making = self._makings[index]
        async with self._committing:
            counts = await asyncio.to_thread(commit_topics, self._parts, index, making.topics)
        crash_point("flow.committed")
        self._makings.pop(index).journal.close()
        return counts

    async def try_alone(self, index: int, seed: Seed) -> None:
        """Runs one seed for what it does to this process; its replies are journalled, its topics dropped."""
        making = self._begin(Partition(index, (seed,)), {})
        await self._topics(seed, making)
        self._makings.pop(index).journal.close()

    async def live(self) -> tuple[int, Counts]:
        """The seeds in flight, and the counts of the seeds that are finished and not committed."""
        return self._in_flight, total(making.counts for making in self._makings.values())

    async def drain(self) -> None:
        """Starts no more seeds; partitions of which every seed is in flight are still completed."""
        self._stop = self._stop or DrainedError("the run is stopping; run it again to go on")

    async def close(self) -> None:
        """Ends what the models hold: connections, an engine, a server."""
        for model in self._parts.models.values():
            if close := getattr(model, "close", None):
                await close()

    def _begin(self, partition: Partition, condemned: Mapping[str, SeedOutcome]) -> _Making:
        journal = Journal(Path(self._parts.out) / "journal", partition.index, f"{os.getpid()}-{secrets.token_hex(6)}")
        making = _Making(
            partition, condemned, journal, ReplyService(journal, self._purse, self._owner, self._parts.paid)
        )
        self._makings[partition.index] = making
        return making

    async def _has_room(self) -> bool:
        """Waits for a place in the window; False, without one, if no more seeds may start."""
        await self._window.acquire()
        if self._stop:
            self._window.release()
        return not self._stop

    async def _in_window(self, seed: Seed, making: _Making) -> list[Topic]:
        """The topics of a seed that has a place in the window, at least one; none if the run must stop instead."""
        self._in_flight += 1
        if self._marks:
            making.journal.begun(seed.id)
        try:
            topics = await self._topics(seed, making)
            if making.desk.stopped:
                raise making.desk.stopped
        except STOPPING as error:
            self._stop = error
            return []
        finally:
            self._in_flight -= 1
            self._window.release()
        if self._marks:
            making.journal.ended(seed.id)
        making.counts = total([making.counts, count_topics(topics, making.seen)])
        return topics

    async def _topics(self, seed: Seed, making: _Making) -> list[Topic]:
        """What becomes of one seed: the recipe's topics, each validated, or one row that says why there is none."""
        nothing = empty_topic(self._parts.recipe.name, seed)
        if seed.id in making.condemned:
            return [with_outcome(nothing, (), (), making.condemned[seed.id])]
        if verdict := making.partition.screened.get(seed.id):
            return [with_outcome(nothing, (verdict,), ())]
        clock = SeedClock(self._timeout)
        ask = self._asker(making, seed.id, clock)
        made = await run_guarded(self._made(seed, ask), f"recipe {self._parts.recipe.name}", clock)
        if isinstance(made, SeedOutcome):
            return [with_outcome(nothing, (), ask.calls, made)]
        return [await self._validated(topic, ask.calls, self._asker(making, seed.id, clock), clock) for topic in made]

    async def _made(self, seed: Seed, ask: Ask) -> Sequence[Topic]:
        topics = await self._parts.recipe(seed, ask)
        if not topics:
            raise Rejected("no_topic", "the recipe made no topic of this seed")
        if any(topic.seed_id != seed.id for topic in topics):
            raise ValueError(f"a topic of seed {seed.id!r} names another seed; mend the recipe")
        return topics

    async def _validated(self, topic: Topic, calls: Sequence[Call], ask: SeedAsk, clock: SeedClock) -> Topic:
        """The topic after every validator has spoken; those that ask a model are spared a topic already rejected."""
        verdicts: list[Verdict] = []
        failure = None
        for validator in self._validators:
            if validator.cost >= _ASKS_A_MODEL and any(verdict.outcome == "reject" for verdict in verdicts):
                continue
            said = await run_guarded(_judged(validator, topic, ask, verdicts), f"validator {validator.name}", clock)
            if isinstance(said, SeedOutcome):
                failure = said
                break
            topic = said
        return with_outcome(topic, verdicts, [*calls, *ask.calls], failure)

    def _asker(self, making: _Making, seed_id: str, clock: SeedClock) -> SeedAsk:
        parts, repairs = self._parts, self._parts.repair_attempts
        return SeedAsk(making.desk, parts.models, parts.parse, repair_attempts=repairs, seed_id=seed_id, clock=clock)


async def _judged(validator: Validator, topic: Topic, ask: Ask, verdicts: list[Verdict]) -> Topic:
    topic, found = await validator(topic, ask)
    verdicts.extend(found)
    return topic


def commit_topics(parts: Parts, index: int, topics: Sequence[Topic]) -> Counts:
    """Commits the topics; one that no shard can hold as a failed row. Returns the counts of the entry that stands."""
    topics = list(topics)
    while True:
        try:
            parts.store.commit(index, topics, facts_of(parts))
        except UnstorableTopicError as error:
            at = max(i for i, topic in enumerate(topics) if topic.id == error.topic_id)
            topics[at] = unstorable_row(topics[at], error, at)
        except CommitLostError:
            return counts_of(parts.store.committed()[index])
        else:
            return count_topics(topics)


def facts_of(parts: Parts) -> dict[str, object]:
    """What a commit entry says of how its partition was made; equal in every attempt of the same job."""
    recipe, validators = parts.recipe, parts.validators
    return {
        "recipe": {recipe.name: recipe.fingerprint},
        "validators": [{validator.name: validator.fingerprint} for validator in validators],
    }
