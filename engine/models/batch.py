"""A hosted model through the Batch API: files of requests, answered within a day at a lower price.

    requests in flight -> batches/NAME.jsonl -> upload -> batch -> poll -> output and error file -> replies

    batches/NAME.jsonl          the requests, one a line; `custom_id` is the request's id
    batches/NAME.json           what was done with it: {"file": id, "batch": id, "status": ...}
    batches/NAME.results.jsonl  its output file and its error file

Promise: each step is on disk before the next is taken, and a batch carries its NAME as metadata, so that a run that
was killed finds every batch again and pays for none twice. What failed or expired is sent again in a later batch.
Price: one small file a step; of a batch's results, an offset each in memory.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, stop_after_delay, wait_random_exponential

from foil.engine.atomic_files import put_bytes, replace_file, sync
from foil.engine.errors import (
    RETRYABLE,
    JournalError,
    ModelOutageError,
    OversizeReplyError,
    RefusedRequestError,
    TransientModelError,
)
from foil.engine.ids import canonical_json
from foil.engine.keys import scrub
from foil.engine.models.batch_results import OVERSIZE, custom_id, keep_results
from foil.engine.models.endpoints import HostedSettings
from foil.engine.models.hosted import traits_of
from foil.engine.models.reading import mapping
from foil.engine.models.sending.endpoint_client import EndpointClient
from foil.engine.protocols import Model
from foil.engine.requests import Reply, Request
from foil.engine.storage.lease import check_fence
from foil.engine.storage.trees import download, upload

LOG = logging.getLogger(__name__)
T = TypeVar("T")
_CLOCKS_DIFFER_S = 86_400
_MESSAGE_CHARACTERS = 500
_LONGEST_ID = 500
_MOST_LISTED = 10_000
_ENDED = {"completed", "failed", "expired", "cancelled"}


class Batched(Model):
    """`folder` keeps the batches of one run; one process may use it at a time."""

    def __init__(self, settings: HostedSettings, folder: Path) -> None:
        patience = settings.patience.model_copy(update={"deadline_s": float("inf")})
        self.name = settings.model
        self.traits = replace(traits_of(settings), patience=patience, remembers=True)
        self._settings, self._folder, self._most_reply_bytes = settings.batch, folder, settings.most_reply_bytes
        self._client = EndpointClient(settings.all_endpoints()[0], settings)
        self._waiting: dict[str, tuple[Request, asyncio.Future[Reply]]] = {}
        self._unsent: dict[str, bytes] = {}
        self._unsent_bytes = 0
        self._results: dict[str, tuple[Path, int]] = {}
        self._passed: dict[Path, bool] = {}
        self._batches: set[asyncio.Task[None]] = set()
        self._outstanding: set[str] = set()
        self._lingering: asyncio.TimerHandle | None = None
        self._opened = False

    async def complete(self, request: Request) -> Reply:
        """Waits for the batch that answers the request: one that an earlier session sent, or one still to be sent."""
        self._open()
        if request.id in self._results:
            return self._reply(request, *self._results.pop(request.id))
        if request.id not in self._waiting:
            self._waiting[request.id] = request, asyncio.get_running_loop().create_future()
            if request.id not in self._outstanding:
                self._gather(request)
        return await asyncio.shield(self._waiting[request.id][1])  # others may wait for it too

    async def close(self) -> None:
        """Stops looking; the batches go on at the provider, and the next session finds them."""
        if self._lingering:
            self._lingering.cancel()
        for task in self._batches:
            task.cancel()
        await asyncio.gather(*self._batches, return_exceptions=True)
        await self._client.close()

    def _open(self) -> None:
        """Takes up the batches of earlier sessions."""
        if self._opened:
            return
        self._opened = True
        with _storing(self._folder):
            download(self._folder)
            self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.jsonl")):
            name = path.name.removesuffix(".jsonl")
            if name.endswith(".results"):
                continue
            if (results := self._folder / f"{name}.results.jsonl").exists():
                self._index(results)
            else:
                self._outstanding.update(_ids(path))
                self._start(name)

    def _gather(self, request: Request) -> None:
        line = {"custom_id": request.id, "method": "POST", "url": "/v1/chat/completions"}
        body = self._client.body(request, self._client.form.structured)
        data = canonical_json({**line, "body": body}).encode("utf-8", "surrogatepass") + b"\n"
        too_long = self._unsent_bytes + len(data) > self._settings.most_bytes
        if len(self._unsent) >= self._settings.most_requests or too_long:
            self._send()
        self._unsent[request.id] = data
        self._unsent_bytes += len(data)
        if self._lingering:
            self._lingering.cancel()
        self._lingering = asyncio.get_running_loop().call_later(self._settings.linger_s, self._send)

    def _send(self) -> None:
        """Writes what was gathered to a file, and starts its way. Where the disk fails, all who wait hear it."""
        if not self._unsent:
            return
        requests, self._unsent, self._unsent_bytes = self._unsent, {}, 0
        try:
            with _storing(self._folder):
                count = len(list(self._folder.glob("*.json")))
                name = f"{count:06d}-{secrets.token_hex(4)}"
                put_bytes(self._folder / f"{name}.jsonl", b"".join(requests.values()))
                upload(self._folder)
        except JournalError as error:
            self._settle_all(requests, error)
            return
        self._outstanding.update(requests)
        self._start(name)

    def _start(self, name: str) -> None:
        task = asyncio.create_task(self._run_batch(name))
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _run_batch(self, name: str) -> None:
        """One batch to its results; whatever ends it early reaches those who wait for it."""
        ids = list(_ids(self._folder / f"{name}.jsonl"))
        error: Exception = TransientModelError(f"batch {name} did not answer this request")
        try:
            state = self._state(name)
            state = await self._upload(name, state)
            state = await self._create(name, state)
            await self._await_end(name, state)
            self._index(self._folder / f"{name}.results.jsonl")
        except Exception as raised:  # noqa: BLE001 - raised for everyone who waits
            error = raised
        self._outstanding.difference_update(ids)
        self._settle_all(ids, error)

    def _settle_all(self, ids: Iterable[str], error: Exception) -> None:
        for request_id in ids:
            if request_id in self._waiting:
                self._settle(request_id, error)

    def _settle(self, request_id: str, error: Exception) -> None:
        request, future = self._waiting.pop(request_id)
        if future.done():
            return
        try:
            offset = self._results.pop(request_id, None)
            future.set_result(self._reply(request, *offset)) if offset else future.set_exception(error)
        except Exception as raised:  # noqa: BLE001 - raised where it is awaited
            future.set_exception(raised)

    def _reply(self, request: Request, path: Path, offset: int) -> Reply:
        """The reply of one line of results, or the error that it tells."""
        with path.open("rb") as file:
            file.seek(offset)
            result = json.loads(file.readline())
        response, error = mapping(result.get("response")), mapping(result.get("error"))
        status = response.get("status_code")
        if status == 200:
            reply = self._client.reply(json.dumps(response.get("body")).encode(), request, 0.0)
            self._client.useless.heard(reply)
            return reply
        if error.get("code") == OVERSIZE:
            raise OversizeReplyError(str(error.get("message")))
        if not isinstance(status, int):
            message = f"the batch did not answer: {error.get('code')}: {error.get('message')}"
            raise TransientModelError(scrub(message)[:_MESSAGE_CHARACTERS])
        failure = self._client.error_of(status, json.dumps(response.get("body")), {})
        if isinstance(failure, RefusedRequestError) and failure.of_account and not self._any_passed(path):
            raise ModelOutageError(f"{failure}, and no request of its batch passed: mend the job or the account")
        raise failure

    def _any_passed(self, results: Path) -> bool:
        """Whether a batch has any reply: then its account is not to blame for what was refused."""
        if results not in self._passed:
            with results.open("rb") as file:
                statuses = (mapping(json.loads(line).get("response")).get("status_code") for line in file)
                self._passed[results] = any(status == 200 for status in statuses)
        return self._passed[results]

    def _index(self, results: Path) -> None:
        offset = 0
        with results.open("rb") as file:
            for line in file:
                if request_id := custom_id(line):
                    self._results[request_id] = (results, offset)
                offset += len(line)

    def _state(self, name: str) -> dict[str, Any]:
        path = self._folder / f"{name}.json"
        state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return state

    def _note(self, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        with _storing(self._folder):
            put_bytes(self._folder / f"{name}.json", canonical_json(state).encode())
            upload(self._folder)
        return dict(state)

    async def _upload(self, name: str, state: dict[str, Any]) -> dict[str, Any]:
        if "file" in state:
            return state
        path = self._folder / f"{name}.jsonl"
        file_id = await self._ask_provider(partial(_send_file, path))
        return self._note(name, {"file": file_id, "status": "uploaded"})

    async def _create(self, name: str, state: dict[str, Any]) -> dict[str, Any]:
        if "batch" in state:
            return state
        await check_fence()
        made_at = (self._folder / f"{name}.jsonl").stat().st_mtime
        batch_id = await self._ask_provider(partial(_find_or_create, name, state["file"], made_at))
        LOG.info("batch %s is %s at the provider", name, batch_id)
        return self._note(name, {**state, "batch": batch_id, "status": "sent"})

    async def _await_end(self, name: str, state: dict[str, Any]) -> None:
        while True:
            batch = await self._ask_provider(partial(_look, state["batch"]))
            if batch.status in _ENDED:
                break
            await asyncio.sleep(self._settings.poll_s)
        if batch.status == "failed":
            raise ModelOutageError(
                f"batch {state['batch']} was refused: {batch.problem}; mend the job, remove "
                f"{self._folder / name}.*, run again"
            )
        draft = self._folder / f"{name}.results.part"
        waiting = set(_ids(self._folder / f"{name}.jsonl"))
        with _storing(self._folder):
            with draft.open("wb") as file:
                for file_id in batch.files:
                    await self._ask_provider(partial(self._download, file_id, waiting, file))
            sync(draft)
            self._note(name, {**state, "status": batch.status})
            replace_file(draft, self._folder / f"{name}.results.jsonl")
            upload(self._folder)

    async def _download(self, file_id: str, waiting: set[str], file: BinaryIO, client: Any) -> None:
        """Adds a file of results to those kept; after a failure, whatever is missing is added by the next call."""

        def keep(line: bytes) -> None:
            with _storing(self._folder):  # else a full disk is taken for a provider that fails
                file.write(line)

        async with client.files.with_streaming_response.content(file_id) as response:
            await keep_results(response.iter_bytes(), waiting, self._most_reply_bytes, keep)

    async def _ask_provider(self, send: Callable[[Any], Awaitable[T]]) -> T:
        """What `send` brings, asked for until it works; ModelOutageError after `patience.outage_s` of failures."""

        outage_s = self.traits.patience.outage_s

        async def once() -> T:
            return await self._client.call(send(self._client.client()))

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(RETRYABLE),
            wait=wait_random_exponential(max=60),
            stop=stop_after_delay(outage_s),
            before_sleep=before_sleep_log(LOG, logging.WARNING),
            reraise=True,
        )
        try:
            return await retrying(once)
        except RETRYABLE as error:
            raise ModelOutageError(
                f"{error}; nothing worked for {outage_s:g} s (patience.outage_s): run again to go on"
            ) from None


@contextmanager
def _storing(folder: Path) -> Iterator[None]:
    """Raises JournalError where the disk fails, which stops the run: no seed is to blame."""
    try:
        yield
    except TimeoutError:  # the provider's
        raise
    except OSError as error:
        raise JournalError(
            f"the batches in {folder} could not be written ({error}); make room or mend the disk, and run again: each "
            "batch that was sent is found again"
        ) from error


@dataclass(frozen=True, slots=True)
class _BatchState:
    """What a provider says of a batch. `files` are those with its results; `problem` says why it was refused."""

    status: str
    files: tuple[str, ...]
    problem: str


async def _send_file(path: Path, client: Any) -> str:
    return _id_of(await client.files.create(file=path, purpose="batch"))


async def _look(batch_id: str, client: Any) -> _BatchState:
    batch = await client.batches.retrieve(batch_id)
    files = tuple(str(file) for file in (batch.output_file_id, batch.error_file_id) if file)
    errors = batch.errors.data if batch.errors else None
    problem = scrub("; ".join(str(error.message) for error in errors or ()))[:_MESSAGE_CHARACTERS]
    return _BatchState(str(batch.status), files, problem)


async def _find_or_create(name: str, file_id: str, made_at: float, client: Any) -> str:
    """The provider's id of a batch; of the one that was created just before a session was killed, if there is one."""
    looked_at = 0
    async for listed in client.batches.list(limit=100):  # newest first
        looked_at += 1
        if (listed.metadata or {}).get("foil") == name:
            return _id_of(listed)
        if listed.created_at < made_at - _CLOCKS_DIFFER_S or looked_at == _MOST_LISTED:
            break
    batch = await client.batches.create(
        input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"foil": name}
    )
    return _id_of(batch)


def _id_of(created: Any) -> str:
    if not isinstance(created.id, str) or not 0 < len(created.id) <= _LONGEST_ID:
        raise ValueError("the provider names no id of what it made")
    return created.id


def _ids(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [str(json.loads(line)["custom_id"]) for line in file]
