"""Downloads a published benchmark from the Hugging Face hub, at one revision, into the folder that its reader takes.

    HUB[kind] -> hub_files: what the hub lists at the revision -> engine.seeds.files.download.fetch -> folder/PART/FILE

The first fetch takes the newest revision unless one is named, and records it with every file's sha256 in
`fetched.json`; a later fetch asks for the same. The hub is that of HF_ENDPOINT. Foil fetches what its owners publish
for everybody; what is gated, or not on the hub, says `foil benchmarks show` how to bring.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError

from engine.errors import FoilError, UsageError
from engine.seeds.files.download import LOCK, PublicCorpus, RemoteFile
from trainer.benchmarks.catalog import kind_named

HUB: Mapping[str, Mapping[str, str]] = {
    "followir": {
        "Robust04": "jhu-clsp/robust04-instructions",
        "News21": "jhu-clsp/news21-instructions",
        "Core17": "jhu-clsp/core17-instructions",
    },
    "infosearch": {
        f"{name}-v1": f"jianqunZ/{name}-v1"
        for name in ("Audience", "Clarity", "Format", "Language", "Length", "Source")
    },
    "mfollowir": {
        "mFollowIR": "jhu-clsp/mFollowIR-parquet-mteb",
        "mFollowIR-cross-lingual": "jhu-clsp/mFollowIR-cross-lingual-parquet-mteb",
    },
    "bright": {"BRIGHT": "xlangai/BRIGHT"},
    "mair": {"MAIR-Queries": "MAIR-Bench/MAIR-Queries", "MAIR-Docs": "MAIR-Bench/MAIR-Docs"},
}
"""Subfolder -> data set of the hub, of each benchmark that can be fetched."""
_UNREAD = {".gitattributes"}
_REVISION = re.compile(r"/resolve/([0-9a-f]{40})/")


def benchmark_files(kind: str, folder: Path, only: str = "*", revision: str = "") -> PublicCorpus:
    """The files of a benchmark whose path below its folder matches `only`, each at a pinned address.

    Raises UsageError where the benchmark is not on the hub or nothing matches, FoilError where the hub does not answer.
    """
    if kind not in HUB:
        known = kind_named(kind)
        raise UsageError(f"{kind} cannot be fetched (there are {', '.join(HUB)}); bring {known.bring}: {known.origin}")
    files = [
        file
        for part, repository in HUB[kind].items()
        for file in _hub_files(part, repository, revision or _recorded(folder, part))
        if fnmatch(file.name, only)
    ]
    if not files:
        raise UsageError(f"no file of {kind} matches {only!r}; its folders are {', '.join(HUB[kind])}")
    return PublicCorpus(kind, kind_named(kind).licence, tuple(files))


def _hub_files(part: str, repository: str, revision: str) -> Iterator[RemoteFile]:
    try:
        found = HfApi().dataset_info(repository, revision=revision or None)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise FoilError(
            f"the hub does not list {repository} ({error}); look whether it is reachable (HF_ENDPOINT, HTTPS_PROXY) "
            "and the revision exists, or bring the files by hand"
        ) from error
    for file in found.siblings or ():
        if file.rfilename not in _UNREAD:
            url = hf_hub_url(repository, file.rfilename, repo_type="dataset", revision=found.sha)
            yield RemoteFile(f"{part}/{file.rfilename}", url)


def _recorded(folder: Path, part: str) -> str:
    """The revision at which an earlier fetch took a part; "" where there was none."""
    lock = folder / LOCK
    try:
        urls = [entry["url"] for name, entry in json.loads(lock.read_text("utf-8")).items() if name.startswith(part)]
    except (OSError, ValueError, AttributeError, LookupError, TypeError):
        return ""
    found = next(filter(None, map(_REVISION.search, urls)), None)
    return found[1] if found else ""
