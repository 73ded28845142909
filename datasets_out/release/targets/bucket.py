"""A prefix of an S3 bucket, by obstore; AWS's own variables say where and who (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID)."""

import hashlib
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from foil.datasets_out.release.targets.target import ReleaseFile
from foil.engine.errors import CommitError

if TYPE_CHECKING:
    from obstore.store import S3Store

_SHA256 = "sha256"
_MD5 = re.compile('"?[0-9a-f]{32}"?')


def _md5() -> "hashlib._Hash":
    return hashlib.md5(usedforsecurity=False)


class S3Prefix:
    """`s3://BUCKET/PREFIX`. Each object carries its sha256 as metadata, by which the next push knows it."""

    def __init__(self, url: str) -> None:
        from obstore.store import from_url

        self._url = url
        retry: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
        options: Any = {"allow_http": True}  # the endpoint's scheme decides
        self._store: S3Store = from_url(url, client_options=options, retry_config=retry)  # type: ignore[assignment]

    def present(self, files: Sequence[ReleaseFile]) -> set[str]:
        import obstore

        try:
            there = {entry["path"]: entry for page in obstore.list(self._store) for entry in page}
            same_size = (file for file in files if file.name in there and there[file.name]["size"] == file.bytes)
            return {file.name for file in same_size if self._is_same(file, there[file.name]["e_tag"] or "")}
        except obstore.exceptions.BaseError as error:
            raise self._failure(error) from error

    def send(self, files: Sequence[ReleaseFile]) -> None:
        import obstore

        for file in files:
            try:
                obstore.put(self._store, file.name, file.path, attributes={_SHA256: file.sha256})
            except obstore.exceptions.BaseError as error:
                raise self._failure(error) from error

    def _is_same(self, file: ReleaseFile, tag: str) -> bool:
        """By the tag where it is the MD5 of an object that was sent in one part, else by the sha256 that we sent."""
        import obstore

        if _MD5.fullmatch(tag):
            with file.path.open("rb") as stream:
                return hashlib.file_digest(stream, _md5).hexdigest() == tag.strip('"')
        attributes = obstore.get(self._store, file.name, options={"head": True}).attributes
        return bool(attributes.get(_SHA256) == file.sha256)

    def _failure(self, error: Exception) -> CommitError:
        first = str(error).partition("\n")[0]
        return CommitError(
            f"{self._url} cannot be used ({first}); look at AWS_ENDPOINT_URL and the keys, and push again: what is "
            "there is not sent again"
        )
