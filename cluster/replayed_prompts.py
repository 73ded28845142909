"""What a job asks, found by its seeds once more: they are answered from journals and rows alone.

Promise: nothing is sent, paid or written. Price: the recipe and the checks of the seeds, which are read from the first.
"""

import asyncio
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from foil.cluster.build import build_parts, build_run
from foil.cluster.catalog import open_seeds
from foil.cluster.job import Job
from foil.cluster.tries import has_run
from foil.datasets_out.curation.reply_archive import ReplyArchive
from foil.engine.planning.replay import replay_seed
from foil.engine.requests import Request

_SEEDS = 50


async def requests_of(job: Job, seed_ids: Collection[str]) -> dict[str, Request]:
    """What was asked for these seeds of the job's run, by the id of the request."""
    if not seed_ids:
        return {}
    parts, archive = build_parts(job), ReplyArchive([job.out])
    requests: dict[str, Request] = {}
    unseen = set(seed_ids)
    try:
        for seed in open_seeds(job.seeds):
            if seed.id in unseen:
                _, stored = await replay_seed(parts, seed, archive.get)
                requests |= {name: request for name, (_, request) in stored.requests.items()}
                unseen.remove(seed.id)
            if not unseen:
                break
    finally:
        await parts.close()
    return requests


def paid_line(job: Job, reuse: Sequence[Path]) -> str:
    """How many prompts of the first 50 seeds are paid in other runs and its own: a sentence for who starts the run."""
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
        await parts.close()
    share = len(paid_ids) / max(1, len(request_ids))
    prompts = f"{len(paid_ids):,} of {len(request_ids):,} prompts ({share:.0%}) are paid already"
    return f"reuse: in the first {len(ended):,} seeds {prompts}; {sum(ended):,} of these seeds need no new reply"
