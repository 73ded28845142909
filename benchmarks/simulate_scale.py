"""A run of millions of topics over a thousand workers, on a virtual clock: the real queue, supervisor, rates and
budget, made-up workers that take time and die as those of a cluster do.

A worker keeps `window` seeds in flight. A seed is one request, which takes a lognormal time, one in a hundred ten times
as long, none more than `longest_s`; the worker also takes `cpu_ms` a seed. Each minute a node is lost with all its
workers, and another comes after `boot_s`. What a lost worker had been paid for is not asked again. Latencies are
assumed, not measured: give those of your model. So is reading: with `read_us` of 0 it takes no time.

All workers share one quota of requests, `quota` times what all of them could send; a third of them could send only a
quarter of the mean, a third 1.75 times the mean. Their rates come from the real book through the real client, their
money from the real budget through real leases (tests.support.models.simulated_sender). The book is dead for a minute
in the middle of the run. With `--quota 0` there are neither rates nor money, and a worker's partition is one timer:
that is how 10^8 topics are done in minutes.

Printed: the makespan; the topics made against what the workers that were up could have made under the quota; how soon
the partitions of a lost node were at work again; how much of the quota was used; messages for rates and money; calls
between driver and workers; CPU and memory of this process. Without a quota that is what the driver takes; with one it
holds the book and all senders too.

    python -m benchmarks.simulate_scale [--topics 10000000] [--workers 1000] [--quota 0.5] [--quick] [--json]
"""

import argparse
import asyncio
import json
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from foil.engine.flow.budget import Budget
from foil.engine.flow.limits import BudgetSettings, Limits, RuntimeSettings
from foil.engine.flow.progress import Counts
from foil.engine.flow.worker_report import WorkerReport
from foil.engine.protocols import PendingPartition
from foil.engine.runtime import partition_queue
from foil.engine.runtime.partition_queue import PartitionQueue
from foil.engine.runtime.seed_process import StoredPartition
from foil.engine.runtime.supervisor import Supervisor
from foil.engine.runtime.workers import Cause, Worker, WorkerDiedError
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.store import Store
from tests.support.memory import peak_memory
from tests.support.models.simulated_sender import COST, Sender, SharedServices
from tests.support.virtual_time import run_virtually

NODE_WORKERS = 8
START_S = 5.0
COMMIT_S = 0.2
STRAGGLERS, STRAGGLER_TIMES = 0.01, 10.0
SIGMA = 0.6
"""Spread of the lognormal latency: its 99th percentile is 4 times its median."""
OWN_RATES = (0.25, 1.0, 1.75)
"""What workers could send under a quota, against their mean; as many of each."""
BOOK_DEAD_S = 60.0


@dataclass
class World:
    """The cluster: nodes with room for workers, what the workers did, and what was lost and found again."""

    told: argparse.Namespace
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    up: list["SimulatedWorker"] = field(default_factory=list)
    room: asyncio.Semaphore = field(init=False)
    done: dict[int, float] = field(default_factory=dict)
    lost_at: dict[int, float] = field(default_factory=dict)
    recoveries: list[float] = field(default_factory=list)
    capacity: float = 0.0
    services: SharedServices | None = None
    started: int = 0
    handed_out: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    _since: float = 0.0

    def __post_init__(self) -> None:
        self.room = asyncio.Semaphore(self.told.workers)
        self.latency_s = float(self.latencies(1_000_000).mean())
        self.rate = min(self.told.window / self.latency_s, 1000 / self.told.cpu_ms)
        if self.told.quota:
            self.services = self._share(self.told.quota * self.told.workers * self.rate)

    def _share(self, quota: float) -> SharedServices:
        """What the workers share. The money is enough for all, and for what lost workers forfeit."""
        calls = round(1.5 * self.told.topics)
        limits = BudgetSettings(calls=calls, tokens=calls * COST.tokens, usd=calls * COST.usd)
        middle = 0.5 * self.told.topics / quota
        return SharedServices(quota, Budget(limits), (middle, middle + BOOK_DEAD_S))

    def sender(self) -> Sender | None:
        """What the next worker sends by, under a quota."""
        self.started += 1
        if self.services is None:
            return None
        own_rate = self.rate * OWN_RATES[self.started % len(OWN_RATES)]
        return Sender(self.services, f"worker {self.started}", 1 / self.told.workers, own_rate, self.latency_s)

    def latencies(self, count: int) -> np.ndarray[Any, Any]:
        usual = self.told.latency_s * self.rng.lognormal(0.0, SIGMA, count)
        slow = np.where(self.rng.random(count) < STRAGGLERS, STRAGGLER_TIMES * usual, usual)
        return np.minimum(slow, self.told.longest_s)

    def count_capacity(self) -> None:
        """Adds what the workers that are up could have made since this was last called."""
        now = _now()
        rate = sum(worker.sender.own_rate if worker.sender else self.rate for worker in self.up)
        self.capacity += (now - self._since) * min(rate, self.services.quota if self.services else rate)
        self._since = now

    async def start(self, *, apart: bool, on_placed: Callable[[], None]) -> Worker:
        assert not apart, "a lost node accuses no seed"
        await self.room.acquire()
        on_placed()
        await asyncio.sleep(START_S)
        self.count_capacity()
        worker = SimulatedWorker(self, self.sender())
        self.up.append(worker)
        return worker

    async def lose_nodes(self) -> None:
        """Takes a node away each minute, and brings another."""
        while True:
            await asyncio.sleep(60.0)
            lost = [self.up[i] for i in self.rng.permutation(len(self.up))[:NODE_WORKERS]]
            self.count_capacity()
            for worker in lost:
                self.up.remove(worker)
                worker.die()
            asyncio.get_running_loop().call_later(self.told.boot_s, self._make_room, len(lost))

    def _make_room(self, places: int) -> None:
        for _ in range(places):
            self.room.release()


@dataclass(eq=False)
class SimulatedWorker:
    """Takes the time that a worker takes; see the top of this file."""

    world: World
    sender: Sender | None = None
    answers: int = 0
    _dead: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[int] = field(default_factory=set)

    def die(self) -> None:
        for index in self._open:
            self.world.lost_at.setdefault(index, _now())
        if self.sender:
            self.sender.die()
        self._dead.set()

    async def start(self, partition: PendingPartition, poison_seeds: Mapping[str, Any], *, again: bool) -> None:  # noqa: ARG002
        self._note("start")
        index, world = partition.index, self.world
        if index == world.told.topics // world.told.partition_seeds - 1 and not world.handed_out:
            world.handed_out = _now()
        self._open.add(index)
        if index in world.lost_at:
            world.recoveries.append(_now() - world.lost_at.pop(index))
        rest, began = 1.0 - world.done.get(index, 0.0), _now()
        if self.sender:
            await self._send(self.sender, index, round(rest * partition.size))
        else:
            seconds = rest * partition.size / world.rate
            await self._sleep(seconds, lambda: self._note_share(index, rest, _now() - began, seconds))
        self.answers += partition.size
        world.done[index] = 1.0

    async def _send(self, sender: Sender, index: int, count: int) -> None:
        """All requests of a partition; at the worker's death those that were answered are kept."""
        sending, dying = asyncio.ensure_future(sender.send(count)), asyncio.ensure_future(self._dead.wait())
        try:
            await asyncio.wait({sending, dying}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            dying.cancel()
            if not sending.done():
                sending.cancel()
                answered = max(0, sender.sent - sender.in_flight()) / self.world.told.partition_seeds
                self.world.done[index] = self.world.done.get(index, 0.0) + answered
        if self._dead.is_set():
            await asyncio.gather(sending, return_exceptions=True)
            raise WorkerDiedError("its node is lost", Cause.OUTSIDE)
        sending.result()

    async def make(self, index: int) -> None:  # noqa: ARG002
        self._note("make")
        last = min(self.world.told.window, self.world.told.partition_seeds)
        await self._sleep(float(self.world.latencies(last).max()))
        if self.sender:
            await self.sender.settle(_now())

    async def commit(self, index: int) -> Counts:
        self._note("commit")
        await self._sleep(COMMIT_S)
        self._open.discard(index)
        self.world.done.pop(index, None)
        size = self.world.told.partition_seeds
        return Counts(seeds=Counter(accepted=size), topics=Counter(accepted=size))

    async def live(self) -> WorkerReport:
        self._note("live")
        return WorkerReport(len(self._open), {}, self.answers)

    async def try_seeds(self, partition: PendingPartition, seed_ids: Sequence[str]) -> None:  # noqa: ARG002
        raise AssertionError("a lost node accuses no seed")

    async def drain(self) -> None:
        self._note("drain")

    async def close(self) -> None:
        if self.sender:
            await self.sender.close()

    def _note(self, call: str) -> None:
        self.world.calls[call] += 1
        if self._dead.is_set():
            raise WorkerDiedError("its node is lost", Cause.OUTSIDE)

    def _note_share(self, index: int, rest: float, elapsed: float, seconds: float) -> None:
        before = self.world.done.get(index, 0.0)
        self.world.done[index] = before + rest * min(1.0, elapsed / max(seconds, 1e-9))

    async def _sleep(self, seconds: float, on_death: Callable[[], None] = lambda: None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._dead.wait()
        except TimeoutError:
            return
        on_death()
        raise WorkerDiedError("its node is lost", Cause.OUTSIDE)


def partitions(options: argparse.Namespace) -> Iterator[PendingPartition]:
    """Partitions as the driver knows them; their seeds lie nowhere."""
    for index in range(options.topics // options.partition_seeds):
        yield StoredPartition(index, options.partition_seeds, "")


def read_virtually(options: argparse.Namespace) -> Callable[..., asyncio.Future[Any]]:
    """Reading a partition in the driver takes `read_us` a seed, and no thread."""

    def in_thread(work: Callable[[], Any], name: str) -> asyncio.Future[Any]:  # noqa: ARG001
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        seconds = 1e-6 * options.read_us * options.partition_seeds
        loop.call_later(seconds, _settle, future, work)
        return future

    return in_thread


class Inline(ThreadPoolExecutor):
    """Does the work at once, in no thread, since a virtual clock waits for none."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args, **options))
        return future


async def simulate(options: argparse.Namespace, journal: Store) -> dict[str, float]:
    asyncio.get_running_loop().set_default_executor(Inline())
    world = World(options)
    limits = Limits(partition_seeds=options.partition_seeds)
    runtime = RuntimeSettings(kind="ray", workers=options.workers, window=options.window)
    queue = PartitionQueue(partitions(options), {}, limits)
    supervisor = Supervisor(queue, world.start, journal, limits, runtime)
    losing = asyncio.create_task(world.lose_nodes())
    ticking = asyncio.create_task(_tick(supervisor))
    cpu = time.process_time()
    await supervisor.run()
    cpu = time.process_time() - cpu
    losing.cancel()
    ticking.cancel()
    world.count_capacity()
    if queue.error:
        raise queue.error
    recoveries = sorted(world.recoveries) or [0.0]
    return shares(world) | {
        "makespan_s": _now(),
        "topics_per_s": options.topics / _now(),
        "ratio_to_ideal": options.topics / world.capacity,
        "workers_lost": supervisor.lost(),
        "partitions_lost": len(recoveries),
        "recovery_median_s": recoveries[len(recoveries) // 2],
        "recovery_most_s": recoveries[-1],
        "cpu_us_per_topic": 1e6 * cpu / options.topics,
        "cpu_share": cpu / _now(),
        "peak_mib": peak_memory() / 2**20,
        "calls_per_1000_topics": 1000 * sum(world.calls.values()) / options.topics,
    }


def shares(world: World) -> dict[str, float]:
    """What became of the quota; `quota_used` after the first minute, while there were new partitions to hand out."""
    services = world.services
    if services is None:
        return {}
    sent = services.sent.total()
    dead, back = services.dead
    return {
        "quota_per_s": services.quota,
        "quota_used": services.used(60.0, world.handed_out),
        "quota_used_book_dead": services.used(dead, back),
        "quota_used_minute_after": services.used(back, back + 60.0),
        "quota_most_in_a_minute": services.most_in_a_minute(),
        "requests_sent_per_topic": sent / world.told.topics,
        "rate_messages_per_100": 100 * services.messages["rates"] / sent,
        "money_messages_per_100": 100 * services.messages["money"] / sent,
        "book_cpu_us_per_ask": 1e6 * services.book_cpu_s / services.messages["rates"],
    }


def _settle(future: asyncio.Future[Any], work: Callable[[], Any]) -> None:
    if not future.cancelled():
        future.set_result(work())


async def _tick(supervisor: Supervisor) -> None:
    while True:
        supervisor.live()
        await asyncio.sleep(0.5)


def _now() -> float:
    return asyncio.get_running_loop().time()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--partition-seeds", type=int, default=0, help="500 under a quota, else 1,000")
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--latency-s", type=float, default=2.0, help="median seconds of a seed's requests")
    parser.add_argument("--longest-s", type=float, default=60.0, help="what a limit on tokens allows a seed at most")
    parser.add_argument("--cpu-ms", type=float, default=5.0, help="CPU of a worker a seed")
    parser.add_argument("--boot-s", type=float, default=60.0, help="until a lost node is replaced")
    parser.add_argument("--quota", type=float, default=0.5, help="share of what all workers could send; 0: no quota")
    parser.add_argument("--read-us", type=float, default=0.0, help="the driver's reading, microseconds a seed")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.topics = options.topics or (500_000 if options.quick else 10_000_000 if options.quota else 100_000_000)
    options.partition_seeds = options.partition_seeds or (500 if options.quota else 1000)
    options.workers = options.workers or (50 if options.quick else 1000)
    logging.disable(logging.WARNING)
    partition_queue.in_thread = read_virtually(options)
    with tempfile.TemporaryDirectory(prefix="foil-bench-") as journal:
        figures = run_virtually(simulate(options, LocalStore(Path(journal))))
    for name, value in figures.items():
        print(f"{name:28} {value:14,.3f}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
