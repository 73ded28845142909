"""How many of a job's prompts are paid for, in other runs and its own, by its first seeds: said before it sends."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from foil.cluster.build import build_run
from foil.cluster.job import Job
from foil.cluster.planning.tries import has_run
from foil.engine.planning.replay import replay_seed

_SEEDS = 50


def paid_line(job: Job, reuse: Sequence[Path]) -> str:
    """A sentence for who starts the run. Price: the recipe and the checks of 50 seeds; nothing is sent."""
    return asyncio.run(_paid_line(job, [*reuse, *([job.out] if has_run(job.out) else [])]))


async def _paid_line(job: Job, reuse: Sequence[Path]) -> str:
    spec = build_run(job, reuse)
    parts = spec.worker.build_parts()
    assert parts.paid
    request_ids, paid_ids, ended = set[str](), set[str](), list[bool]()
    try:
        for seed in islice(spec.reader, min(_SEEDS, job.limits.seeds or _SEEDS)):
            _, stored = await replay_seed(parts, seed, parts.paid.get)
            request_ids |= stored.requests.keys()
            paid_ids |= stored.replies.keys()
            ended.append(stored.unanswered is None)
    finally:
        for model in parts.models.values():
            await model.close()
    share = len(paid_ids) / max(1, len(request_ids))
    prompts = f"{len(paid_ids):,} of {len(request_ids):,} prompts ({share:.0%}) are paid already"
    return f"reuse: in the first {len(ended):,} seeds {prompts}; {sum(ended):,} of these seeds need no new reply"
