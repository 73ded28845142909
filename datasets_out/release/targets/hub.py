"""A data set or a model on a Hugging Face hub (`HF_ENDPOINT`, `HF_TOKEN`), by huggingface_hub."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from foil.datasets_out.release.targets.target import ReleaseFile
from foil.engine.errors import CommitError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile

_FILES_A_COMMIT = 50


class HubRepository:
    """The data set or model `name` (ORG/NAME), made if it is not there, private unless it is asked to be public."""

    def __init__(self, name: str, *, public: bool, kind: Literal["dataset", "model"] = "dataset") -> None:
        from huggingface_hub import HfApi
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()
        self._name, self._kind = name, kind
        self._api: HfApi = HfApi()
        with _told(name):
            self._api.create_repo(name, repo_type=kind, private=not public, exist_ok=True)

    def present(self, files: Sequence[ReleaseFile]) -> set[str]:
        from huggingface_hub.hf_api import RepoFile

        with _told(self._name):
            tree = list(self._api.list_repo_tree(self._name, repo_type=self._kind, recursive=True))
        there = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
        return {file.name for file in files if file.name in there and _is_same(file, there[file.name])}

    def send(self, files: Sequence[ReleaseFile]) -> None:
        from huggingface_hub import CommitOperationAdd

        for begin in range(0, len(files), _FILES_A_COMMIT):
            part = files[begin : begin + _FILES_A_COMMIT]
            operations = [CommitOperationAdd(file.name, str(file.path)) for file in part]
            with _told(self._name):
                self._api.create_commit(
                    self._name, operations, repo_type=self._kind, commit_message=f"foil push: {len(part)} files"
                )


def _is_same(file: ReleaseFile, entry: "RepoFile") -> bool:
    """By sha256 for large files, by git's own hash for the others."""
    if entry.lfs is not None:
        return bool(entry.lfs.sha256 == file.sha256)
    if entry.size != file.bytes:
        return False
    digest = hashlib.sha1(f"blob {file.bytes}\0".encode(), usedforsecurity=False)
    digest.update(file.path.read_bytes())
    return bool(digest.hexdigest() == entry.blob_id)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Turns what the hub's library raises into an error that says what to do."""
    from httpx2 import HTTPError

    try:
        yield
    except (HTTPError, OSError) as error:  # HfHubHTTPError is one of them
        raise CommitError(
            f"the hub refused {name} ({error}); look at HF_ENDPOINT and HF_TOKEN, and push again: what is there is not "
            "sent again"
        ) from error
