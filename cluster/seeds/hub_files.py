"""The files of a data set on the Hugging Face hub, at one revision, as `engine.seeds.files.download.fetch` takes them.

The first fetch takes the newest revision unless one is named, and records it with every file's sha256 in
`fetched.json`; a later fetch asks for the same. The hub is that of HF_ENDPOINT.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError

from foil.engine.errors import FoilError, UsageError
from foil.engine.seeds.files.download import LOCK, PublicCorpus, RemoteFile

_UNREAD = {".gitattributes"}
_REVISION = re.compile(r"/resolve/([0-9a-f]{40})/")


def list_files(repository: str, folder: Path, revision: str = "", prefix: str = "") -> Iterator[RemoteFile]:
    """Each file that the hub lists, named `prefix` and its path, to be put below `folder`.

    Without a revision it is the one that an earlier fetch recorded in the folder, or else the newest. Raises FoilError
    where the hub does not answer.
    """
    try:
        dataset = HfApi().dataset_info(repository, revision=revision or _recorded(folder, prefix) or None)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise FoilError(
            f"the hub does not list {repository} ({error}); look whether it is reachable (HF_ENDPOINT, HTTPS_PROXY) "
            "and the revision exists, or bring the files by hand"
        ) from error
    for file in dataset.siblings or ():
        if file.rfilename not in _UNREAD:
            url = hf_hub_url(repository, file.rfilename, repo_type="dataset", revision=dataset.sha)
            yield RemoteFile(f"{prefix}{file.rfilename}", url)


def listed_corpus(corpus: PublicCorpus, folder: Path, revision: str = "") -> PublicCorpus:
    """The corpus with the files that it takes of its data set. Raises UsageError where there is none."""
    files = [file for file in list_files(corpus.hub, folder, revision) if fnmatch(file.name, corpus.hub_files)]
    if not files:
        raise UsageError(f"{corpus.hub} has no file {corpus.hub_files} at this revision; name another with --revision")
    return replace(corpus, files=tuple(files))


def _recorded(folder: Path, prefix: str) -> str:
    """The revision at which an earlier fetch took these files; "" where there was none."""
    lock = folder / LOCK
    try:
        urls = [entry["url"] for name, entry in json.loads(lock.read_text("utf-8")).items() if name.startswith(prefix)]
    except (OSError, ValueError, AttributeError, LookupError, TypeError):
        return ""
    match = next(filter(None, map(_REVISION.search, urls)), None)
    return match[1] if match else ""
