"""localbucket without three waits that tell nothing of a bucket; started as a program.

A body waits 40 ms for the client's acknowledgement of its head, whoever connects beside five others waits a second, and
a listing walks the whole bucket, also where it asks for one folder of it.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import localbucket

_asked = threading.local()
_list_entries, _walk = localbucket.S3Handler._list_entries, os.walk


def list_entries(handler: Any, bucket: Path, prefix: str, *args: Any) -> Any:
    _asked.folder = bucket / prefix.rpartition("/")[0]
    try:
        return _list_entries(handler, bucket, prefix, *args)
    finally:
        del _asked.folder


def walk(top: Path, *args: Any, **options: Any) -> Iterator[Any]:
    return _walk(getattr(_asked, "folder", top), *args, **options)


if __name__ == "__main__":
    localbucket.S3Handler.disable_nagle_algorithm = True
    localbucket.ThreadingHTTPServer.request_queue_size = 100
    localbucket.S3Handler._list_entries = list_entries
    os.walk = walk
    localbucket.main()
