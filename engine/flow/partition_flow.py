"""How one partition runs, from its seeds to its commit. One Flow in each process that does the work.

    seeds -> recipe(seed, ask) -> validators, cheap to dear -> topics marked with verdicts -> store.commit

Promise: one bad seed never touches another. What a recipe, validator or model raises becomes a failed row with its
reason; a rejected seed becomes a rejected row. Each row keeps all that was made before it.
The topics of a partition stand in the order of its seeds, so a window of 1 and of 1,000 commit the same bytes.
Price: one task a seed. `window` seeds are in flight, over the end of one partition and the start of the next; a
partition's topics are in memory until it is committed.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from foil.engine.crash_points import crash_point
from foil.engine.errors import (
    STOPPING,
    CommitLostError,
    FoilError,
    Rejected,
    SeedsChangedError,
    SpoolError,
    UnstorableTopicError,
)
from foil.engine.flow.ask import SeedAsk
from foil.engine.flow.budget import BudgetClient
from foil.engine.flow.journal import Journal, PartitionJournal
from foil.engine.flow.limits import RuntimeSettings
from foil.engine.flow.progress import Counts, count_topics, counts_of, total
from foil.engine.flow.reply_service import ReplyService
from foil.engine.flow.seed_outcome import (
    PartName,
    SeedClock,
    SeedOutcome,
    empty_topic,
    run_guarded,
    unstorable_row,
    with_outcome,
)
from foil.engine.flow.worker_report import SeedEndings, WorkerReport
from foil.engine.protocols import Ask, Cost, Partition, Parts, PendingPartition, Recipe, Validator, recipe_for
from foil.engine.storage.lease import FENCE, Fence, check_fence
from foil.engine.storage.opening import open_store
from foil.engine.telemetry.json_logs import add_log_facts
from foil.engine.telemetry.metrics import COMMIT_SECONDS
from foil.engine.telemetry.spans import PartitionSpan, begin_partition, flush_spans, seed_span
from foil.engine.topic import ACCEPTED, Call, Seed, Topic, Verdict

LOG = logging.getLogger(__name__)


class DrainedError(FoilError):
    """The run is stopping before this partition is complete; its replies are in the journal."""


@dataclass(slots=True)
class _OpenPartition:
    """A partition between its first seed and its commit. `counted_requests` are those that `counts` holds already."""

    partition: Partition
    poison_seeds: Mapping[str, SeedOutcome]
    journal: PartitionJournal
    replies: ReplyService
    span: PartitionSpan
    again: Mapping[str, Collection[str]] = field(default_factory=dict)
    seeds: list[asyncio.Task[list[Topic]]] = field(default_factory=list)
    topics: list[Topic] = field(default_factory=list)
    seed_counts: list[Counts] = field(default_factory=list)
    counted_requests: set[str] = field(default_factory=set)

    @property
    def counts(self) -> Counts:
        """The sum over its seeds so far; added up when it is asked for, not seed by seed."""
        self.seed_counts[:] = [total(self.seed_counts)]
        return self.seed_counts[0]


class Flow:
    """Makes and commits partitions in this process. `owner` names it to the budget.

    With `log_seeds` the journal records each seed's begin and end, so that the supervisor sees what killed a worker.
    `fence` tells whether its run still holds the folder.
    """

    def __init__(
        self,
        parts: Parts,
        runtime: RuntimeSettings,
        budget: BudgetClient,
        owner: str,
        *,
        log_seeds: bool,
        fence: Fence | None = None,
    ) -> None:
        self._parts, self._budget, self._owner, self._log_seeds = parts, budget, owner, log_seeds
        self._timeout = runtime.seed_timeout_s
        self._validators = sorted(parts.validators, key=lambda validator: validator.cost)
        self._window = asyncio.Semaphore(runtime.window)
        self._starting, self._committing = asyncio.Lock(), asyncio.Lock()
        self._open_partitions: dict[int, _OpenPartition] = {}
        self._in_flight = self._answers = 0
        self._endings = SeedEndings()
        self._stop: FoilError | None = None
        self._fence = fence
        session = f"{fence.epoch:08d}" if fence else ""
        self._journal = Journal(open_store(Path(parts.out)), session)

    async def start(
        self, pending: PendingPartition, poison_seeds: Mapping[str, SeedOutcome], again: bool = False
    ) -> None:
        """Loads the seeds. Returns once every seed of a partition has its place in the window, or no more may start.

        `poison_seeds` fail without being tried. `again`: another worker of this session had the partition before.
        `make` waits for the topics.
        """
        FENCE.set(self._fence)
        partition = await _load(pending)
        open_partition = await self._begin(partition, poison_seeds, again=again)
        seeds = open_partition.seeds
        try:
            async with self._starting:
                while len(seeds) < len(partition.seeds) and await self._has_room():
                    seeds.append(asyncio.create_task(self._make_topics(partition.seeds[len(seeds)], open_partition)))
        except asyncio.CancelledError:
            for seed in seeds:
                seed.cancel()
            raise

    async def make(self, index: int) -> None:
        """Waits until the topics of a started partition are made, and holds them for `commit`.

        Raises DrainedError if the flow had to stop first, and whatever ends a run (engine.errors.STOPPING).
        """
        open_partition = self._open_partitions[index]
        topics_of_seeds = await asyncio.gather(*open_partition.seeds)
        open_partition.seeds.clear()
        if len(topics_of_seeds) < len(open_partition.partition.seeds) or not all(topics_of_seeds):
            self._close(open_partition)
            raise self._stop or DrainedError(f"partition {index} was not completed")
        open_partition.topics = list(chain.from_iterable(topics_of_seeds))
        crash_point("flow.made")

    async def commit(self, index: int) -> Counts:
        """Commits a partition that was made. Returns the counts of the entry that stands, ours or another writer's."""
        open_partition = self._open_partitions[index]
        FENCE.set(self._fence)
        await check_fence()
        async with self._committing:
            began = time.monotonic()
            counts = await asyncio.to_thread(
                commit_topics, self._parts, open_partition.partition, open_partition.topics
            )
        COMMIT_SECONDS.record(time.monotonic() - began)
        LOG.info("partition %d committed: %d topics", index, counts.topics.total())
        crash_point("flow.committed")
        self._close(open_partition)
        return counts

    async def try_seeds(self, pending: PendingPartition, seed_ids: Sequence[str]) -> None:
        """Runs these seeds of a partition for what they do to this process; replies are journalled, topics dropped."""
        FENCE.set(self._fence)
        partition, wanted_ids = await _load(pending), set(seed_ids)
        seeds = tuple(seed for seed in partition.seeds if seed.id in wanted_ids)
        open_partition = await self._begin(Partition(partition.index, seeds, digests=partition.digests), {}, again=True)
        await asyncio.gather(*(self._traced_topics(seed, open_partition) for seed in seeds))
        self._close(open_partition)

    async def live(self) -> WorkerReport:
        """What this worker is doing; it counts the seeds that are finished and not committed."""
        open_partitions = list(self._open_partitions.values())
        return WorkerReport(
            self._in_flight,
            {each.partition.index: each.counts for each in open_partitions},
            self._answers + sum(open_partition.replies.answers for open_partition in open_partitions),
            max((open_partition.replies.oldest_request_s() for open_partition in open_partitions), default=0.0),
            self._endings,
            self._journal.writer,
        )

    async def drain(self) -> None:
        """Starts no more seeds; partitions of which every seed is in flight are still completed."""
        self._stop = self._stop or DrainedError("the run is stopping; run it again to go on")

    async def flush(self) -> None:
        """Ends the journal, and the spans of what is still open: this process will be ended."""
        self._journal.close()
        for open_partition in self._open_partitions.values():
            open_partition.span.end()
        await asyncio.to_thread(flush_spans)

    async def close(self) -> None:
        """Ends the journal and the models."""
        self._journal.close()
        for open_partition in self._open_partitions.values():
            open_partition.span.end()
        await self._parts.close()

    async def _begin(
        self, partition: Partition, poison_seeds: Mapping[str, SeedOutcome], *, again: bool
    ) -> _OpenPartition:
        reading = partial(self._journal.open, partition.index, partition.digests, again=again)
        journal = await asyncio.to_thread(reading)
        open_partition = _OpenPartition(
            partition,
            poison_seeds,
            journal,
            ReplyService(journal, self._budget, self._owner, self._parts.paid),
            begin_partition(partition.index),
            await asyncio.to_thread(self._parts.store.asked_again, partition.index),
        )
        self._open_partitions[partition.index] = open_partition
        return open_partition

    def _close(self, open_partition: _OpenPartition) -> None:
        self._answers += open_partition.replies.answers
        self._open_partitions.pop(open_partition.partition.index).journal.close()
        open_partition.span.end()

    async def _has_room(self) -> bool:
        """Waits for a place in the window; False, without one, if no more seeds may start."""
        await self._window.acquire()
        if self._stop:
            self._window.release()
        return not self._stop

    async def _make_topics(self, seed: Seed, open_partition: _OpenPartition) -> list[Topic]:
        """The topics of a seed that has a place in the window, at least one; none if the run must stop instead."""
        self._in_flight += 1
        try:
            if self._log_seeds:
                await open_partition.journal.begun(seed.id)
            topics = await self._traced_topics(seed, open_partition)
            if open_partition.replies.stop_error:
                raise open_partition.replies.stop_error
        except STOPPING as error:
            self._stop = error
            return []
        finally:
            self._in_flight -= 1
            self._window.release()
        if self._log_seeds:
            open_partition.journal.ended(seed.id)
        new_counts = count_topics(topics, open_partition.counted_requests)
        if seed.id in open_partition.replies.asked_seeds or not new_counts.calls:
            self._endings += SeedEndings.of(seed.id, topics, new_counts)
        open_partition.seed_counts.append(new_counts)
        return topics

    async def _traced_topics(self, seed: Seed, open_partition: _OpenPartition) -> list[Topic]:
        """`_topics` in a span of the seed."""
        with seed_span(open_partition.span, seed.id) as span:
            topics = await self._topics(seed, open_partition)
            span.ended([(topic.status, topic.reason) for topic in topics])
            return topics

    async def _topics(self, seed: Seed, open_partition: _OpenPartition) -> list[Topic]:
        """What becomes of one seed: the recipe's topics, each validated, or one row that says why there is none."""
        add_log_facts(partition=open_partition.partition.index, seed=seed.id)
        recipe = recipe_for(self._parts.recipe, seed)
        if seed.id in open_partition.poison_seeds:
            return [with_outcome(empty_topic(recipe.name, seed), (), (), open_partition.poison_seeds[seed.id])]
        if verdict := open_partition.partition.screened.get(seed.id):
            return [with_outcome(empty_topic(recipe.name, seed), (verdict,), ())]
        clock = SeedClock(self._timeout)
        ask = self._ask_for(open_partition, seed.id, clock)
        topics = await run_guarded(_run_recipe(recipe, seed, ask), PartName("recipe", recipe.name), clock)
        if isinstance(topics, SeedOutcome):
            return [with_outcome(empty_topic(recipe.name, seed), (), ask.calls, topics)]
        return [
            await self._validate(topic, ask.calls, self._ask_for(open_partition, seed.id, clock), clock)
            for topic in topics
        ]

    async def _validate(self, topic: Topic, calls: Sequence[Call], ask: SeedAsk, clock: SeedClock) -> Topic:
        """The topic after every validator has spoken; those that ask a model are spared a topic already rejected.

        A topic that comes rejected, failed or accepted by a person is decided, and stays so. Its calls come first.
        What is not accepted is kept as the judges got it: whoever judges it anew needs what they cut.
        """
        if topic.status != "accepted" or any(verdict.reason == ACCEPTED for verdict in topic.verdicts):
            return topic
        calls = [*topic.calls, *calls]
        verdicts: list[Verdict] = []
        failure, unjudged = None, None
        for validator in self._validators:
            if validator.cost == Cost.MODEL and any(verdict.outcome == "reject" for verdict in verdicts):
                continue
            work = _run_validator(validator, topic, ask, verdicts)
            waits = validator.cost == Cost.MODEL
            unjudged = unjudged or (topic if waits else None)
            checked = await run_guarded(work, PartName("validator", validator.name), clock if waits else None)
            if isinstance(checked, SeedOutcome):
                failure = checked
                break
            topic = checked
        return with_outcome(topic, verdicts, [*calls, *ask.calls], failure, unjudged=unjudged)

    def _ask_for(self, open_partition: _OpenPartition, seed_id: str, clock: SeedClock) -> SeedAsk:
        parts = self._parts
        return SeedAsk(
            open_partition.replies,
            parts.models,
            parts.parse,
            corrections=parts.corrections,
            candidates=parts.candidates,
            seed_id=seed_id,
            clock=clock,
            again=open_partition.again.get(seed_id, ()),
        )


async def _load(pending: PendingPartition) -> Partition:
    """The partition with its seeds. Raises RunHeldError where they are gone because another run has the folder."""
    try:
        return await pending.load()
    except SpoolError:
        await check_fence()
        raise


async def _run_validator(validator: Validator, topic: Topic, ask: Ask, verdicts: list[Verdict]) -> Topic:
    topic, new_verdicts = await validator(topic, ask) if validator.cost == Cost.MODEL else validator(topic)
    verdicts.extend(new_verdicts)
    return topic


def commit_topics(parts: Parts, partition: Partition, topics: Sequence[Topic]) -> Counts:
    """Commits the topics; one that no shard can hold as a failed row. Returns the counts of the entry that stands.

    Raises SeedsChangedError if another run committed this partition with other seeds.
    """
    topics, facts = list(topics), entry_facts(parts, partition)
    while True:
        try:
            parts.store.commit(partition.index, topics, facts)
        except UnstorableTopicError as error:
            position = max(i for i, topic in enumerate(topics) if topic.id == error.topic_id)
            topics[position] = unstorable_row(topics[position], error, position)
        except CommitLostError:
            standing = parts.store.committed()[partition.index]
            if standing["facts"].get("seeds", facts["seeds"]) != facts["seeds"]:
                raise SeedsChangedError(
                    f"another run committed partition {partition.index} of {parts.out} with other seeds"
                ) from None
            return counts_of(standing)
        else:
            return count_topics(topics)


async def _run_recipe(recipe: Recipe, seed: Seed, ask: Ask) -> Sequence[Topic]:
    topics = await recipe(seed, ask)
    if not topics:
        raise Rejected("no_topic", "the recipe made no topic of this seed")
    if any(topic.seed_id != seed.id for topic in topics):
        raise ValueError(f"a topic of seed {seed.id!r} names another seed; mend the recipe")
    return topics


def entry_facts(parts: Parts, partition: Partition) -> dict[str, object]:
    """What a commit entry says of how its partition was made; equal in every attempt of the same job.

    `seeds`: the arguments of an engine.runtime.seed_stream.SeedRecord.
    """
    recipe, validators = parts.recipe, parts.validators
    return {
        "seeds": {"seeds": partition.digests, "stream": partition.stream},
        "recipe": {recipe.name: recipe.fingerprint},
        "validators": [{validator.name: validator.fingerprint} for validator in validators],
    }
