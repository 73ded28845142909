"""A prefix of an S3 bucket, by obstore; AWS's own variables say where and who (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from datasets_out.release.targets.target import ReleaseFile
from engine.errors import CommitError

if TYPE_CHECKING:
    from obstore.store import S3Store

_SHA256 = "sha256"


class Bucket:
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
            sizes = {entry["path"]: entry["size"] for page in obstore.list(self._store) for entry in page}
            return {file.name for file in files if sizes.get(file.name) == file.bytes and self._is_same(file)}
        except obstore.exceptions.BaseError as error:
            raise self._failure(error) from error

    def send(self, files: Sequence[ReleaseFile]) -> None:
        import obstore

        for file in files:
            try:
                obstore.put(self._store, file.name, file.path, attributes={_SHA256: file.sha256})
            except obstore.exceptions.BaseError as error:
                raise self._failure(error) from error

    def _is_same(self, file: ReleaseFile) -> bool:
        import obstore

        attributes = obstore.get(self._store, file.name, options={"head": True}).attributes
        return bool(attributes.get(_SHA256) == file.sha256)

    def _failure(self, error: Exception) -> CommitError:
        first = str(error).partition("\n")[0]
        return CommitError(
            f"{self._url} cannot be used ({first}); look at AWS_ENDPOINT_URL and the keys, and push again: what is "
            "there is not sent again"
        )
