"""Downloads a published benchmark from the Hugging Face hub, at one revision, into the folder that its reader takes.

    HUB[kind] -> cluster.seeds.hub_files: what the hub lists -> engine.seeds.files.download.fetch -> folder/PART/FILE

Foil fetches what its owners publish for everybody; what is gated, or not on the hub, says `foil benchmarks show` how to
bring.
"""

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

from foil.cluster.seeds.hub_files import list_files
from foil.engine.errors import UsageError
from foil.engine.seeds.files.download import PublicCorpus
from foil.trainer.evaluate.benchmarks.catalog import kind_named

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


def benchmark_files(kind: str, folder: Path, only: str = "*", revision: str = "") -> PublicCorpus:
    """The files of a benchmark whose path below its folder matches `only`, each at a pinned address.

    Raises UsageError where the benchmark is not on the hub or nothing matches, FoilError where the hub does not answer.
    """
    if kind not in HUB:
        entry = kind_named(kind)
        raise UsageError(f"{kind} cannot be fetched (there are {', '.join(HUB)}); bring {entry.bring}: {entry.origin}")
    files = [
        file
        for part, repository in HUB[kind].items()
        for file in list_files(repository, folder, revision, f"{part}/")
        if fnmatch(file.name, only)
    ]
    if not files:
        raise UsageError(f"no file of {kind} matches {only!r}; its folders are {', '.join(HUB[kind])}")
    return PublicCorpus(kind, kind_named(kind).licence, tuple(files))
