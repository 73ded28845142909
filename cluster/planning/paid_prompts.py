"""How many of a job's prompts other runs have paid for, by its first seeds: said before anything is sent."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from foil.cluster.build import build_run
from foil.cluster.job import Job
from foil.engine.planning.replay import replay_seed

_SEEDS = 50


def paid_line(job: Job, reuse: Sequence[Path]) -> str:
    """A sentence for who starts the run. Price: the recipe and the checks of 50 seeds; nothing is sent."""
    return asyncio.run(_paid_line(job, reuse))


async def _paid_line(job: Job, reuse: Sequence[Path]) -> str:
    spec = build_run(job, reuse)
    parts = spec.worker.build_parts()
    assert parts.paid
    asked, paid, ended = set[str](), set[str](), list[bool]()
    try:
        for seed in islice(spec.reader, min(_SEEDS, job.limits.seeds or _SEEDS)):
            _, stored = await replay_seed(parts, seed, parts.paid.get)
            asked |= stored.requests.keys()
            paid |= stored.replies.keys()
            ended.append(stored.unanswered is None)
    finally:
        for model in parts.models.values():
            await model.close()
    share = f"{len(paid):,} of {len(asked):,} prompts ({len(paid) / max(1, len(asked)):.0%}) are paid already"
    return f"reuse: in the first {len(ended):,} seeds {share}; {sum(ended):,} of these seeds need no new reply"
