"""The requests behind a run's calls: its seeds once more, answered from its journal and its rows alone.

Promise: nothing is sent, paid or written. Price: the seeds are read up to the last wanted one.
"""

from collections.abc import Collection

from foil.cluster.build import build_parts
from foil.cluster.catalog import open_seeds
from foil.cluster.job import Job
from foil.datasets_out.curation.reply_archive import ReplyArchive
from foil.engine.planning.replay import replay_seed
from foil.engine.requests import Request


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
        for model in parts.models.values():
            await model.close()
    return requests
