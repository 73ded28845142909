"""The files that a batch answers with: read line by line, and kept as one line for each request, none too long.

Promise: a line that is no result of this batch is dropped; one over its bound is replaced by an error for its request
alone; no key is kept. Price: one line in memory; each line is parsed and written anew.
"""

import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from foil.engine.keys import scrub

LOG = logging.getLogger(__name__)
OVERSIZE = "oversize_reply"
"""The error code of a line that was too long to keep."""
_ID = re.compile(rb'"custom_id"\s*:\s*"([0-9a-f]{40})"')
_HEAD_BYTES = 4096


async def keep_results(
    parts: AsyncIterator[bytes], waiting: set[str], most_bytes: int, keep: Callable[[bytes], object]
) -> None:
    """Keeps the lines that answer requests of `waiting`, and takes these out; ends when there can be none left.

    `most_bytes` bounds a line. Reads no more than that for each request, and one line more.
    """
    dropped = 0
    async for line in _lines(_first(parts, (len(waiting) + 1) * (most_bytes + 1)), most_bytes):
        request_id, stored_line = _kept(line, most_bytes)
        if request_id in waiting:
            waiting.discard(request_id)
            keep(stored_line + b"\n")
        else:
            dropped += bool(line)
    if dropped:
        LOG.warning(
            "%d lines of a batch's files were no first answer to one of its requests; they are dropped", dropped
        )


def custom_id(line: bytes) -> str:
    """The request that a line of a batch's files is about, "" if it names none."""
    try:
        request_id = json.loads(line)["custom_id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return request_id if isinstance(request_id, str) else ""


async def _first(parts: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[bytes]:
    async for part in parts:
        yield part[:most_bytes]
        most_bytes -= len(part)
        if most_bytes <= 0:
            return


async def _lines(parts: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[bytes]:
    """The lines; of one that is longer than `most_bytes`, one byte more than that."""
    line = bytearray()
    async for part in parts:
        *ended, begun = part.split(b"\n")
        for piece in ended:
            yield bytes(line + piece[: most_bytes + 1 - len(line)])
            line.clear()
        line += begun[: most_bytes + 1 - len(line)]
    if line:
        yield bytes(line)


def _kept(line: bytes, most_bytes: int) -> tuple[str, bytes]:
    """The request that a line answers, and the line as it is stored."""
    if len(line) > most_bytes:
        match = _ID.search(line[:_HEAD_BYTES])
        request_id = match[1].decode() if match else ""
        message = f"the batch answered with more than {most_bytes:,} bytes (most_reply_bytes); raise it"
        return request_id, _dump({"custom_id": request_id, "error": {"code": OVERSIZE, "message": message}})
    request_id = custom_id(line)
    return request_id, _dump(json.loads(line)) if request_id else b""


def _dump(value: Any) -> bytes:
    return scrub(json.dumps(value)).encode()
