"""The folder of this machine that stands for a bucket's URL, and keeps copies of what lies there.

$FOIL_CACHE/runs/bucket-<hash>/.store.json     of which URL it is the mirror
$FOIL_CACHE/objects/                           copies, by digest, of all runs
"""

import json
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from foil.engine.atomic_files import put_json
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import sha256_hex
from foil.engine.storage.local_store import ABSENT
from foil.engine.storage.store import check_key

MARKER = ".store.json"
SCHEMES = ("s3", "gs", "az", "abfss")

_URL = re.compile("([A-Za-z][A-Za-z0-9+.-]+):/")
_MIRROR = re.compile("bucket-[0-9a-f]{32}")


def mirror_of(url: str) -> Path:
    """The folder of this machine for a bucket's URL, made if need be; of a plain path, the path.

    Raises UsageError for a URL of another kind, and for one that holds a key or a password.
    """
    if not _URL.match(url):
        return Path(url)
    url = check_url(url)
    folder = cache_folder() / "runs" / f"bucket-{sha256_hex(url)[:32]}"
    if not (folder / MARKER).is_file():
        put_json(folder / MARKER, {"url": url})
    return folder


def cache_folder() -> Path:
    """Where this machine keeps copies of what lies in buckets: $FOIL_CACHE, or ~/.cache/foil."""
    return Path(os.environ.get("FOIL_CACHE") or Path("~/.cache/foil").expanduser())


def check_url(url: str) -> str:
    """The URL in its one spelling. Raises UsageError as `mirror_of` does."""
    parts = urlsplit(url)
    place = re.fullmatch(r"(\w+)://([^/?#]+)(?:/([^?#]*))?", url)
    if "?" in url or parts.password is not None or (parts.username is not None and parts.scheme != "abfss"):
        raise UsageError(
            f"the URL of {parts.scheme}://{parts.hostname}/... holds a key or an option; leave both out, and let the "
            "cloud's own variables, profile or role say who you are (docs/storage.md)"
        )
    if place is None or place[1] not in SCHEMES:
        schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise UsageError(f"{url} is no place for a run; give a folder, or BUCKET/NAME behind one of {schemes}")
    name = (place[3] or "").strip("/")
    try:
        return f"{place[1]}://{place[2]}/{check_key(name)}" if name else f"{place[1]}://{place[2]}"
    except ValueError as error:
        raise UsageError(f"{url} is no place for a run: {error}") from error


def mirrored_url(folder: Path) -> str:
    """The URL that a folder is the mirror of; "" if it is a run itself."""
    marker = folder / MARKER
    try:
        return check_url(json.loads(marker.read_text(encoding="utf-8"))["url"])
    except OSError as error:
        if error.errno not in ABSENT:
            raise CorruptDataError(f"{marker} does not read ({error}); name the bucket's URL again") from error
        if _MIRROR.fullmatch(folder.name):
            raise CorruptDataError(
                f"{folder} is the copy of a bucket, and {MARKER} is missing, which says of which one; "
                "name the bucket's URL again in place of this folder"
            ) from None
        return ""
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDataError(f"{marker} does not read ({error}); remove it, and name the bucket's URL") from error
