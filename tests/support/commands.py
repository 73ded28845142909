"""`foil` as its users type it: real processes over a small job with real files."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import commands_at_once
from tests.support.models.character import ASPECTS
from tests.support.paths import REPO

COLOURS = ["red", "blue", "green", "amber", "violet", "black", "white", "brown"]

TABLE = (
    "{{kind: table, corpus: {name}, path: {path}, columns: {{query: query, positives: good, id: id, negatives: bad}}}}"
)
"""Seeds of rows that `write_seeds` wrote; a corpus and a path are put in."""


def foil(
    *arguments: object, env: Mapping[str, str] | None = None, folder: Path = REPO
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, run in `folder`; `env` is added to the environment."""
    words = [*map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPO), **(env or {})}
    if all(name.startswith("FOIL_") or name == "COLUMNS" for name in env or ()):  # others may be read by an import
        return subprocess.CompletedProcess(words, *commands_at_once.run(words, folder, environment))
    command = [sys.executable, "-m", "foil", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, env=environment)


STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What no text may bring to a terminal."""


def on_a_terminal(*arguments: object) -> bytes:
    """What `foil` writes to a terminal, where stdout and stderr are one."""
    own_end, terminal = pty.openpty()
    command = [sys.executable, "-m", "foil", *map(str, arguments)]
    process = subprocess.Popen(
        command,
        cwd=REPO,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={"PAGER": "cat", **os.environ, "TERM": "xterm"},
    )
    os.close(terminal)
    written, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline and select.select([own_end], [], [], 60)[0]:
        try:
            written += os.read(own_end, 1 << 16)
        except OSError:  # nobody holds the other end any more
            break
    os.close(own_end)
    assert process.wait(60) == 0
    return written


def write_seeds(path: Path, count: int) -> None:
    rows = [
        {
            "id": f"s{n}",
            "query": f"How is the {colour} kite number {n} built?",
            "good": f"The {colour} kite number {n} is built from two spars and a sail. It first flew in {1900 + n}. "
            f"Its spars weigh {n + 3} grams each. The sail is cut from one paper sheet. A tail of {n + 2} metres keeps "
            f"it steady in wind. Builders note its {told}, for example in Harbour Town {n}.",
            "bad": [
                f"The {colour} boat number {n} has a keel of oak.",
                f"A paper lamp number {n} burns for {n} hours.",
            ],
        }
        for n in range(count)
        for colour, told in [(COLOURS[n % len(COLOURS)], [*ASPECTS][n // len(COLOURS) % len(ASPECTS)])]
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_job(folder: Path, seeds: int, window: int = 8) -> Path:
    write_seeds(folder / "seeds.jsonl", seeds)
    job = folder / "job.yaml"
    job.write_text(
        f"seeds: {{kind: table, corpus: kites, path: {folder / 'seeds.jsonl'}, "
        "columns: {query: query, positives: good, id: id, negatives: bad}}\n"
        "recipe: {kind: verifiable}\n"
        f"out: {folder / 'out'}\nlimits: {{partition_seeds: 10}}\nruntime: {{window: {window}}}\n"
        "validators: [{kind: shape}, {kind: leak}, {kind: constraint_check}]\n"
    )
    return job


def hosted_job(folder: Path, url: str, seeds: int, more: str = "") -> Path:
    """A job over a hosted model at this URL; `more` goes behind `limits.partition_seeds`."""
    job = write_job(folder, seeds)
    model = f"{{kind: hosted, model: m, url: '{url}', price: {{prompt: 100.0, completion: 100.0}}}}"
    text = job.read_text().replace("{kind: verifiable}", f"{{kind: infir}}\nmodels: {{writer: {model}}}")
    text = text.replace("[{kind: shape}, {kind: leak}, {kind: constraint_check}]", "[{kind: shape}]")
    job.write_text(text.replace("partition_seeds: 10", "partition_seeds: 64" + more))
    return job


def calls_sent(server: Any) -> int:
    """How many requests a fault server has answered or is answering."""
    return int(server.report()["admitted"])
