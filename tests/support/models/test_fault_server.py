"""The fault server really produces what the drills believe it produces: each fault once, through plain aiohttp."""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from tests.support.models.fault_server import CONTENT, FAULTS, Behaviour, FaultServer, busiest, mix, serving, task_key
from tests.support.paths import REPO


def asked(text="a task", **more):
    return {"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": text}]} | more


async def post(server, body=None, *, limit_s=5.0, path="/chat/completions", **more):
    """Status, headers and text of one request."""
    limit = aiohttp.ClientTimeout(total=limit_s)
    async with (
        aiohttp.ClientSession(timeout=limit) as session,
        session.post(server.url + path, json=body or asked(), **more) as got,
    ):
        return got.status, got.headers, await got.text()


def content(text):
    choice = json.loads(text)["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def drill(body, **behaviour):
    """Runs a coroutine function on a server that behaves so."""

    async def run():
        async with FaultServer(Behaviour(**behaviour)) as server:
            await body(server)

    asyncio.run(run())


def always(kind):
    return {"faults": {kind: 1.0}, "worst": 1, "worst_content": 1}


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind[:3] in {"429", "500", "502", "503"}])
def test_statuses_and_pauses(kind):
    async def body(server):
        status, headers, text = await post(server)
        assert status == int(kind[:3])
        assert json.loads(text)["error"]["message"]
        pause = {name.lower(): value for name, value in headers.items() if name.lower().startswith("retry")}
        if kind == "429_date":
            assert 0 < parsedate_to_datetime(pause["retry-after"]).timestamp() - time.time() < 3
        else:
            due = {
                "429_seconds": {"retry-after": "0.3"},
                "429_ms": {"retry-after-ms": "300"},
                "429_long": {"retry-after": "600"},
            }
            assert pause == due.get(kind, {})
        status, _, text = await post(server)
        assert status == 200
        assert json.loads(content(text)[0])
        assert server.report()["kinds"] == {kind: 1, "answered": 1}

    drill(body, **always(kind))


@pytest.mark.parametrize("kind", ["timeout", "slow"])
def test_what_never_ends(kind):
    async def body(server):
        with pytest.raises(asyncio.TimeoutError):
            await post(server, limit_s=0.15)
        await asyncio.sleep(0.05)
        assert server.report()["in_flight"] == 0
        assert (await post(server))[0] == 200

    drill(body, **always(kind))


@pytest.mark.parametrize("kind", ["reset", "duplicate"])
def test_broken_connections(kind):
    async def body(server):
        with pytest.raises(aiohttp.ClientError):
            await post(server)
        assert (await post(server))[0] == 200
        report = server.report()
        assert report["completion_tokens"] > 0
        assert report["delivered_twice"] == 0

    drill(body, **always(kind))


def test_a_truncated_body_is_half_an_answer():
    async def body(server):
        status, _, text = await post(server)
        assert status == 200
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            json.loads(text)

    drill(body, **always("truncated"))


def test_an_error_object_with_200():
    async def body(server):
        status, _, text = await post(server)
        assert status == 200
        assert set(json.loads(text)) == {"error"}

    drill(body, **always("error_200"))


@pytest.mark.parametrize("kind", CONTENT)
def test_spoilt_answers(kind):
    async def body(server):
        good = json.loads((await post(server, asked("another")))[2])
        spoilt, reason = content((await post(server))[2])
        assert reason == {"length": "length", "content_filter": "content_filter"}.get(kind, "stop")
        assert (spoilt == "") == (kind in {"empty", "content_filter"})
        assert "instruction" not in spoilt or kind == "length"
        turn = asked()
        turn["messages"] += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "once more"}]
        mended, reason = content((await post(server, turn))[2])
        assert reason == "stop"
        assert json.loads(mended)["text"].startswith(task_key(turn["messages"]))
        assert good["usage"]["total_tokens"] == good["usage"]["prompt_tokens"] + good["usage"]["completion_tokens"]

    drill(body, **always(kind))


def test_the_same_seed_gives_the_same_faults_in_any_order():
    def kinds(order, seed):
        found = {}

        async def body(server):
            for i in order:
                before = Counter(server.report()["kinds"])
                await post(server, asked(f"task {i}"))
                (found[i],) = Counter(server.report()["kinds"]) - before

        drill(body, seed=seed, faults={"500": 0.3, "429_bare": 0.3})
        return found

    forth = kinds(range(30), 1)
    assert forth == kinds(reversed(range(30)), 1)
    assert forth != kinds(range(30), 2)
    assert set(forth.values()) == {"500", "429_bare", "answered"}


def test_no_task_meets_more_than_worst_in_a_row():
    async def body(server):
        found = [(await post(server))[0] for _ in range(8)]
        assert found == [500, 500, 500, 200, 500, 500, 500, 200]

    drill(body, faults={"500": 1.0}, worst=3)


def test_mix_covers_every_kind_but_slow():
    shares = mix(0.3)
    assert set(shares) == set(FAULTS) - {"slow"}
    assert sum(shares.values()) == pytest.approx(0.3)


def test_refused_for_good_by_share():
    async def body(server):
        statuses = [(await post(server, asked(f"task {i % 50}")))[0] for i in range(100)]
        assert statuses[:50] == statuses[50:]
        assert 1 <= statuses[:50].count(400) <= 25

    drill(body, refused_share=0.2)


def test_stragglers():
    async def body(server):
        started = time.monotonic()
        await post(server)
        assert time.monotonic() - started >= 0.1

    drill(body, latency=0.01, straggler_share=1.0, straggler_factor=10)


def test_a_quota_refills():
    async def body(server):
        found = [await post(server, asked(f"task {i}")) for i in range(4)]
        assert [status for status, _, _ in found] == [200, 200, 200, 429]
        assert found[0][1]["x-ratelimit-remaining-requests"] == "2"
        pause = float(found[-1][1]["Retry-After"])
        assert 0 < pause <= 1
        await asyncio.sleep(pause)
        assert (await post(server))[0] == 200
        assert server.report()["busiest_60s"]["admitted"] == 4

    drill(body, rpm=60, burst=3, ratelimit_headers=True)


def test_a_token_quota():
    async def body(server):
        statuses = [(await post(server, asked(f"task {i}", max_tokens=100)))[0] for i in range(3)]
        assert statuses == [200, 200, 429]

    drill(body, tpm=1250, burst=10)


def test_capacity_refuses_and_slots_wait():
    async def body(server):
        many = [post(server, asked(f"task {i}")) for i in range(4)]
        assert sorted([status for status, _, _ in await asyncio.gather(*many)]) == [200, 200, 429, 429]
        assert server.report()["max_in_flight"] >= 3
        await server.control({"capacity": 0, "slots": 2})
        started = time.monotonic()
        many = [post(server, asked(f"task {i}")) for i in range(4)]
        assert {status for status, _, _ in await asyncio.gather(*many)} == {200}
        assert time.monotonic() - started >= 0.6

    drill(body, capacity=2, latency=0.3)


def test_an_outage_by_control():
    with serving() as server:

        async def body():
            control = server.admin + "/control"
            async with aiohttp.ClientSession() as session:
                await session.post(control, json={"outage": "503"})
                assert (await post(server))[0] == 503
                await session.post(control, json={"outage": "refuse"})
                with pytest.raises(aiohttp.ClientConnectionError):
                    await post(server)
                await session.post(control, json={"outage": "", "reset": True})
                assert (await post(server))[0] == 200
                assert (await session.post(control, json={"latencyy": 1})).status == 400
                stats = await (await session.get(server.admin + "/stats?tasks=1")).json()
            assert stats["kinds"] == {"answered": 1}
            assert [task["answered"] for task in stats["by_task"].values()] == [1]

        asyncio.run(body())


def test_keys():
    async def body(server):
        assert (await post(server))[0] == 401
        assert (await post(server, headers={"Authorization": "Bearer secret"}))[0] == 200
        assert server.report()["keys"] == {"secret": 1}

    drill(body, api_keys=("secret",))


def test_choices_models_and_bad_requests():
    async def body(server):
        choices = json.loads((await post(server, asked(n=3)))[2])["choices"]
        assert len({choice["message"]["content"] for choice in choices}) == 3
        assert (await post(server, {"model": "m"}))[0] == 400
        assert (await post(server, path="/nothing"))[0] == 404
        async with aiohttp.ClientSession() as session, session.get(server.url + "/models") as got:
            assert [one["id"] for one in (await got.json())["data"]] == ["test-model"]

    drill(body)


async def uploaded(session, server, lines):
    form = aiohttp.FormData()
    form.add_field("purpose", "batch")
    form.add_field("file", "".join(json.dumps(line) + "\n" for line in lines), filename="in.jsonl")
    async with session.post(server.url + "/files", data=form) as got:
        return (await got.json())["id"]


async def ended(session, server, batch):
    """The batch at its end, and the states that it went through."""
    states = [batch["status"]]
    while states[-1] in {"validating", "in_progress"}:
        await asyncio.sleep(0.02)
        async with session.get(f"{server.url}/batches/{batch['id']}") as got:
            batch = await got.json()
        states.append(batch["status"])
    return batch, list(dict.fromkeys(states))


async def lines_of(session, server, file_id):
    async with session.get(f"{server.url}/files/{file_id}/content") as got:
        return [json.loads(line) for line in (await got.text()).splitlines()]


def line(i, text):
    return {"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions", "body": asked(text)}


def test_a_batch_with_failures_and_expiries():
    async def body(server):
        async with aiohttp.ClientSession() as session:
            file_id = await uploaded(session, server, [line(i, f"task {i}") for i in range(60)])
            create = {"input_file_id": file_id, "metadata": {"of": "a test"}}
            async with session.post(server.url + "/batches", json=create) as got:
                batch = await got.json()
            batch, states = await ended(session, server, batch)
            assert states == ["validating", "in_progress", "expired"]
            done = await lines_of(session, server, batch["output_file_id"])
            failed = await lines_of(session, server, batch["error_file_id"])
            names = [one["custom_id"] for one in done]
            assert names != sorted(names, key=lambda name: int(name[1:]))
            assert {*names, *(one["custom_id"] for one in failed)} == {f"r{i}" for i in range(60)}
            assert all(json.loads(content(json.dumps(one["response"]["body"]))[0]) for one in done)
            ways = Counter(one["error"]["code"] if one["error"] else one["response"]["status_code"] for one in failed)
            assert set(ways) == {"batch_expired", 500, 400}
            async with session.get(server.url + "/batches?limit=1") as got:
                listed = (await got.json())["data"]
            assert [one["metadata"] for one in listed] == [{"of": "a test"}]

    drill(body, batch_seconds=0.2, batch_fail=0.2, batch_expire=0.2, refused_share=0.1)


def test_a_batch_with_equal_names_fails():
    async def body(server):
        async with aiohttp.ClientSession() as session:
            file_id = await uploaded(session, server, [line(1, "a"), line(1, "b")])
            async with session.post(server.url + "/batches", json={"input_file_id": file_id}) as got:
                assert (await got.json())["status"] == "failed"
            async with session.get(server.url + "/files/file-x/content") as got:
                assert got.status == 404

    drill(body)


def test_the_busiest_window():
    assert busiest([0, 1, 59, 60, 61, 200], [1] * 6) == 3
    assert busiest([0.0, 10.0], [5, 7], window_s=5) == 7


def test_as_a_script():
    script = REPO / "tests" / "support" / "models" / "fault_server.py"
    command = [sys.executable, str(script), "--leash", "--mix", "0.3", "--fault", "500=1", "--worst", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            server = type("Url", (), {"url": child.stdout.readline().strip()})
            statuses = [asyncio.run(post(server))[0] for _ in range(4)]
            assert 200 in statuses
        finally:
            child.kill()
