"""The replies that stand in the table `calls` of a run, where its journal has them no more (`foil gc`).

A row has the text of one choice and no logprobs, so a request that asks for more than that is not answered from it.
Price: the calls are read once, at the first question; then about 500 bytes of memory a reply kept.
"""

from pathlib import Path

import pyarrow.compute as pc

from foil.datasets_out.commits.snapshot import load_snapshot
from foil.engine.requests import Reply, Request

_COLUMNS = (
    "request_id", "model", "finish_reason", "prompt_tokens", "completion_tokens", "cost_usd", "reply_text",
)  # fmt: skip


class CallReplies:
    """Implements `engine.protocols.PaidReplies` over the calls whose task begins with `tasks`."""

    def __init__(self, out: Path, snapshot: str | None, tasks: str) -> None:
        self._out, self._snapshot, self._tasks = out, snapshot, tasks
        self._replies: dict[str, Reply] | None = None

    def get(self, request: Request) -> Reply | None:
        """The reply, marked as reused; None if no row has it, or not all that the request asks for."""
        if request.params.get("n", 1) != 1 or request.params.get("logprobs"):
            return None
        if self._replies is None:
            self._replies = self._read()
        return self._replies.get(request.id)

    def _read(self) -> dict[str, Reply]:
        replies: dict[str, Reply] = {}
        for part in load_snapshot(self._out, self._snapshot).parts("calls"):
            rows = part.read([*_COLUMNS, "task"])
            matches = rows.filter(pc.starts_with(rows.column("task"), self._tasks)).select(_COLUMNS)
            for row in matches.to_pylist():
                text, request_id = row.pop("reply_text"), row["request_id"]
                replies.setdefault(request_id, Reply(**row, text=text, reused=True))
        return replies
