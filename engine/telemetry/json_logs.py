"""Logs as JSON: one line an event, with the run, partition, seed and stage in which it happened.

    time, level, logger, process, message, and where known run, partition, seed, stage, exception

Promise: no text of a corpus, prompt or reply is added; ids are cut at 200 characters. Price: one small dictionary a
seed and stage.
"""

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from foil.engine.keys import scrub
from foil.engine.visible_text import log_visibly

_FACTS: ContextVar[Mapping[str, str | int] | None] = ContextVar("log_facts", default=None)
_ID_CHARACTERS = 200


def add_log_facts(**facts: str | int) -> None:
    """What every later line of this task, and of the tasks and threads that it starts, says of its place."""
    _FACTS.set({**(_FACTS.get() or {}), **facts})


class JsonFormatter(logging.Formatter):
    """One JSON object a record, in ASCII."""

    def __init__(self, run: str) -> None:
        super().__init__()
        self._run = run

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts = {k: v[:_ID_CHARACTERS] if isinstance(v, str) else v for k, v in (_FACTS.get() or {}).items()}
        line = {"time": time, "level": record.levelname.lower(), "logger": record.name, "process": record.process}
        line |= {"run": self._run, **facts, "message": scrub(record.getMessage())}
        if record.exc_info:
            line["exception"] = scrub(self.formatException(record.exc_info))
        return json.dumps(line)


def begin_logs(log_format: Literal["text", "json"], run: str) -> None:
    """Sends the log of this process to stderr: warnings as visible text, or with Foil's own events as JSON lines."""
    if log_format == "text":
        log_visibly()
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(run))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    handler.addFilter(_is_shown)
    logging.getLogger("foil").setLevel(logging.INFO)


def _is_shown(record: logging.LogRecord) -> bool:
    """Of other libraries, warnings alone: some set their own loggers to DEBUG, and quote data."""
    return record.levelno >= logging.WARNING or record.name.startswith("foil.")
