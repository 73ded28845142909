"""The supervisor over fake workers in virtual time: deaths, places, poison, order, stalls. No process is started."""

import asyncio
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foil.engine.errors import FoilError
from foil.engine.flow.limits import RuntimeSettings
from foil.engine.runtime.workers import Cause, WorkerDiedError
from tests.support.drills.fake_workers import FakeWorker, FakeWorld, run_inline
from tests.support.small_parts import seed


async def finish(world: FakeWorld, *beside) -> float:
    """Runs the world to its end; returns its virtual seconds."""
    tasks = [asyncio.ensure_future(work(world)) for work in beside]
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(1e6):
        await world.supervisor.run()
    for task in tasks:
        task.cancel()
    return asyncio.get_running_loop().time() - began


def run_world(world: FakeWorld, *beside) -> float:
    seconds = run_inline(finish(world, *beside))
    assert not world.alive
    return seconds


def complete(world: FakeWorld) -> None:
    """Every partition is committed, with exactly the poison seeds that are in it."""
    assert world.queue.error is None
    assert set(world.committed) == set(range(len(world.partitions)))
    for partition in world.partitions:
        assert world.committed[partition.index] == world.poison & {one.id for one in partition.seeds}
    assert world.queue.counts.seeds.total() == world.seeds


async def kill_often(world: FakeWorld, dice: Random, kills: int, most_s: float) -> None:
    """Kills workers as a cluster does that is taken away; of those apart it only takes nodes."""
    for _ in range(kills):
        await asyncio.sleep(dice.uniform(0, most_s))
        if world.alive:
            victim = dice.choice(world.alive)
            victim.die(Cause.OUTSIDE if victim.apart else dice.choice([Cause.OUTSIDE, Cause.UNSURE]))


async def change_room(world: FakeWorld, dice: Random, changes: int) -> None:
    """Nodes come and go; the last of these times there is room again."""
    for left in reversed(range(changes)):
        await asyncio.sleep(dice.uniform(0, 20))
        world.room = dice.randint(0, 6) if left else 2
        while len([worker for worker in world.alive if not worker.apart]) > world.room:
            next(worker for worker in world.alive if not worker.apart).die(Cause.OUTSIDE)
        world.change()


@given(number=st.integers(0, 2**32))
@settings(max_examples=60)
def test_whatever_dies_comes_and_goes_every_partition_is_committed_once(number):
    dice = Random(number)
    with tempfile.TemporaryDirectory() as folder:
        seeds = dice.randint(1, 120)
        world = FakeWorld(
            Path(folder),
            seeds=seeds,
            size=dice.randint(1, 20),
            room=dice.randint(0, 6),
            poison=frozenset(seed(n).id for n in range(seeds) if dice.random() < 0.04),
            runtime=RuntimeSettings(workers=dice.randint(1, 6), window=dice.randint(1, 32)),
            accept=dice.choice([None, 10**6]),
            chance=dice,
        )
        kills, changes = dice.randint(0, 40), dice.randint(1, 6)
        run_world(
            world,
            partial(kill_often, dice=dice, kills=kills, most_s=10),
            partial(change_room, dice=dice, changes=changes),
        )
        complete(world)


def test_six_wanted_workers_with_room_for_two_finish_and_say_what_they_wait_for(tmp_path):
    world = FakeWorld(tmp_path, seeds=240, room=2, runtime=RuntimeSettings(kind="ray", workers=6))
    said = []

    async def listen(world):
        while True:
            await asyncio.sleep(1)
            said.append(world.supervisor.live().waiting_for)

    run_world(world, listen)
    complete(world)
    assert set(said[3:]) == {"2 of 6 workers placed; waiting for CPU"}
    assert world.started == 2


def test_a_lost_worker_that_nobody_replaces_does_not_stop_the_others(tmp_path):
    world = FakeWorld(tmp_path, seeds=400, room=2, accept=10**6)

    async def lose(world):
        await asyncio.sleep(5)
        world.room = 1
        world.alive[0].die(Cause.OUTSIDE)

    run_world(world, lose)
    complete(world)
    assert world.started == 2


def test_an_added_place_is_filled_at_once(tmp_path):
    world = FakeWorld(tmp_path, seeds=2_000, room=1, runtime=RuntimeSettings(workers={"min": 1, "max": 3}))
    placed = []

    async def add(world):
        await asyncio.sleep(10)
        placed.append(world.supervisor.live().placed)
        world.room = 3
        world.change()
        await asyncio.sleep(3)
        placed.append(world.supervisor.live().placed)
        assert world.supervisor.live().waiting_for == ""

    run_world(world, add)
    complete(world)
    assert placed == [1, 3]


@pytest.mark.slow
def test_hundreds_of_preemptions_are_nobodys_fault_and_do_not_end_a_run(tmp_path):
    world = FakeWorld(tmp_path, seeds=3_000, runtime=RuntimeSettings(workers=4, window=4))

    async def preempt(world):
        while True:
            await asyncio.sleep(2)
            if world.alive:
                world.chance.choice(world.alive).die(Cause.OUTSIDE)

    run_world(world, preempt)
    complete(world)
    assert world.deaths["outside"] > 50
    assert world.supervisor.lost() > 50


def test_a_poison_seed_among_128_in_flight_is_found_in_a_few_deaths(tmp_path):
    world = FakeWorld(
        tmp_path, seeds=512, size=256, seed_s=2.0, poison=frozenset({seed(77).id}),
        runtime=RuntimeSettings(workers=2, window=128),
    )  # fmt: skip
    seconds = run_world(world)
    complete(world)
    assert world.deaths == {"own": 5}  # among 128, then 16, then 2 of them; twice alone
    assert seconds < 60


@pytest.mark.slow
@pytest.mark.parametrize("size", [16, 64, 256])
def test_slow_seeds_do_not_keep_a_worker_from_beginning_others(tmp_path, size):
    """One in fifty takes 20 times as long, and each keeps its partition open."""
    runtime = RuntimeSettings(workers=1, window=64)
    world = FakeWorld(tmp_path, seeds=6_400, size=size, slow=0.02, runtime=runtime)
    seconds = run_world(world)
    complete(world)
    mean_s = 1 + 0.02 * 19
    assert world.seeds * mean_s / runtime.window > 0.75 * seconds


def test_a_lost_node_of_eight_workers_costs_no_trial(tmp_path):
    world = FakeWorld(tmp_path, seeds=4_000, size=64, runtime=RuntimeSettings(workers=32, window=64))

    async def lose(world):
        await asyncio.sleep(4)
        for worker in world.alive[:8]:
            worker.die(Cause.OUTSIDE)

    run_world(world, lose)
    complete(world)
    assert world.started == 40


def test_a_kill_is_forgiven_once_and_its_seeds_are_tried_the_second_time(tmp_path):
    world = FakeWorld(tmp_path, seeds=8, seed_s=10, runtime=RuntimeSettings(workers=1))

    async def kill(world):
        for _ in range(2):
            await asyncio.sleep(4)
            world.alive[0].die(Cause.UNSURE)
            assert world.started == 1 + _

    run_world(world, kill)
    complete(world)
    assert world.started == 5  # three, and two apart at a time for eight suspects


def test_workers_that_never_come_up_end_the_run_with_a_clear_error(tmp_path):
    world = FakeWorld(tmp_path)

    async def start(*, apart, on_placed):
        on_placed()
        world.started += 1
        raise WorkerDiedError("no memory")

    world.supervisor._start = start
    run_world(world)
    assert isinstance(world.queue.error, FoilError)
    assert "no worker came up: 10 died while they started" in str(world.queue.error)
    assert world.started == 10


def test_workers_that_die_while_they_start_do_not_end_a_run_that_had_one(tmp_path):
    world = FakeWorld(tmp_path, seeds=800, runtime=RuntimeSettings(workers=2))
    real = world.start

    async def start(*, apart, on_placed):
        if 1 <= world.started < 30:
            world.started += 1
            on_placed()
            raise WorkerDiedError("no memory")
        return await real(apart=apart, on_placed=on_placed)

    world.supervisor._start = start
    run_world(world)
    complete(world)


def test_a_partition_that_ends_every_worker_though_no_seed_is_to_blame_ends_the_run(tmp_path):
    class Together(FakeWorker):
        async def start(self, partition, poison_seeds, *, again):
            if partition.index == 2:
                self.die(Cause.OWN)
            await super().start(partition, poison_seeds, again=again)

    world = FakeWorld(tmp_path, seeds=80)
    world.supervisor._start = lambda **options: _start(Together, world, **options)
    run_world(world)
    assert "partition 2 lost its worker 8 times in a row, and no seed of it alone is to blame" in str(world.queue.error)


async def _start(kind, world, *, apart, on_placed):
    on_placed()
    await asyncio.sleep(1)
    world.alive.append(kind(world, apart))
    return world.alive[-1]


def test_a_worker_that_hangs_while_it_starts_is_given_up(tmp_path):
    world = FakeWorld(tmp_path, runtime=RuntimeSettings(workers=1, start_timeout_s=30))
    real = world.start

    async def start(*, apart, on_placed):
        world.started += 1
        if world.started == 1:
            await asyncio.sleep(1e9)
        return await real(apart=apart, on_placed=on_placed)

    world.supervisor._start = start
    assert 30 < run_world(world) < 100
    complete(world)


@pytest.mark.parametrize("accept", [None, 10**6])
def test_a_stall_says_what_is_waited_for(tmp_path, accept):
    world = FakeWorld(tmp_path, seeds=400, seed_s=1e5, accept=accept, runtime=RuntimeSettings(workers=2, stall_s=60))
    said = []

    async def listen(world):
        for _ in range(80):
            await asyncio.sleep(1)
            said.append(world.supervisor.live())
        world.queue.stop(FoilError("enough"))

    run_world(world, listen)
    assert [crew.stalled for crew in said] == [False] * 60 + [True] * 20
    assert "nothing was answered or committed for 79 s: 32 seeds in flight" in said[-1].waiting_for
    assert ("`limits.accept` waits for partition 0" in said[-1].waiting_for) == (accept is not None)


def test_no_worker_at_all_is_a_stall_that_is_told(tmp_path):
    world = FakeWorld(tmp_path, room=0, runtime=RuntimeSettings(kind="ray", workers=3, worker_gpus=2, stall_s=60))
    said = []

    async def listen(world):
        for _ in range(100):
            await asyncio.sleep(1)
            said.append(world.supervisor.live().waiting_for)
        world.queue.stop(FoilError("enough"))

    run_world(world, listen)
    words = said[-1]
    assert words.startswith("0 of 3 workers placed; waiting for CPU and 2 GPU; nothing was answered or committed for ")
    assert words.endswith("no worker is up")


def test_a_dead_workers_partitions_are_taken_though_all_others_wait_for_their_turn(tmp_path):
    """One partition is slow; its worker dies when all the others have made theirs and wait for it."""

    class Slow(FakeWorker):
        async def start(self, partition, poison_seeds, *, again):
            if partition.index == 0 and self.world.started == 0:
                self.world.slow = self
                await self.unless_dead(asyncio.sleep(1e9))
            await super().start(partition, poison_seeds, again=again)

    world = FakeWorld(tmp_path, seeds=400, size=1, accept=10**6, runtime=RuntimeSettings(workers=3, window=4))
    world.supervisor._start = lambda **options: _start(Slow, world, **options)

    async def lose(world):
        await asyncio.sleep(200)
        assert not world.committed
        world.started = 1
        world.slow.die(Cause.OUTSIDE)

    assert run_world(world, lose) < 1_000
    complete(world)


def test_the_error_of_one_partition_stops_the_run_and_lets_the_others_finish(tmp_path):
    class Full(FakeWorker):
        async def commit(self, index):
            if index == 3:
                raise FoilError("the disk is full")
            return await super().commit(index)

    world = FakeWorld(tmp_path, seeds=80)
    world.supervisor._start = lambda **options: _start(Full, world, **options)
    with suppress(FoilError):
        run_world(world)
    assert str(world.queue.error) == "the disk is full"
    assert 3 not in world.committed


def test_a_range_of_workers_has_its_ends_in_order():
    settings = RuntimeSettings(workers={"min": 2, "max": 8})
    assert (settings.least_workers, settings.most_workers) == (2, 8)
    with pytest.raises(ValueError, match="set `min` to at most `max`"):
        RuntimeSettings(workers={"min": 9, "max": 8})
    with pytest.raises(ValueError, match="less than or equal to 10000"):
        RuntimeSettings(workers=10_001)
