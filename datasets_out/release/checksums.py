"""The checksums of a release, their Ed25519 signature, and who may rely on what.

    FOLDER/checksums.sha256       sha256 of every other file, as `sha256sum --check` reads it
    FOLDER/checksums.sha256.sig   signature of that file, the public key that checks it, both in base64, as JSON

Promise: `check_release` finds every changed, missing or added file. A signature alone says that the folder is as the
holder of its key left it; that the key is one that you trust must be said (`trusted`).
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from foil.engine.atomic_files import put_text
from foil.engine.errors import CorruptDataError, UsageError
from foil.engine.ids import sha256_hex

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

CHECKSUMS = "checksums.sha256"
SIGNATURE = "checksums.sha256.sig"


def file_sha256(path: Path) -> str:
    """The sha256 of a file, as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_checksums(folder: Path) -> str:
    """Writes the checksums of all files of a folder, by name; returns the sha256 of the list: the release's digest."""
    text = "".join(f"{file_sha256(folder / name)}  {name}\n" for name in _names(folder))
    put_text(folder / CHECKSUMS, text)
    return sha256_hex(text)


def read_checksums(folder: Path) -> dict[str, str]:
    """File -> sha256. Raises UsageError where the folder is no release, CorruptDataError where the list is broken."""
    path = folder / CHECKSUMS
    if not path.is_file():
        raise UsageError(f"{folder} is no release: it has no {CHECKSUMS}; `foil export` writes one")
    lines = [line.partition("  ") for line in path.read_text(encoding="utf-8").splitlines()]
    if not all(len(digest) == 64 and name and _is_inside(name) for digest, _, name in lines):
        raise CorruptDataError(f"{path} holds a line that is no checksum of a file; get the release again")
    return {name: digest for digest, _, name in lines}


def check_release(folder: Path) -> list[str]:
    """What of a release is not as it was written, in words; an empty list is an unchanged one."""
    listed = read_checksums(folder)
    present = set(_names(folder))
    missing = [f"{name} is missing" for name in sorted(listed.keys() - present)]
    changed = [f"{name} has changed" for name in sorted(listed.keys() & present)
               if file_sha256(folder / name) != listed[name]]  # fmt: skip
    return [*missing, *changed, *(f"{name} was added" for name in sorted(present - listed.keys()))]


def sign(folder: Path, key_file: Path) -> str:
    """Signs the checksums with an Ed25519 key (PEM or OpenSSH, without a passphrase); returns the key's fingerprint."""
    key = _private_key(key_file)
    raw = _raw(key.public_key())
    signature = key.sign((folder / CHECKSUMS).read_bytes())
    facts = {"algorithm": "ed25519", "public_key": _text(raw), "signature": _text(signature)}
    put_text(folder / SIGNATURE, json.dumps(facts, indent=2) + "\n")
    return fingerprint(raw)


def check_signature(folder: Path, trusted: Path | None = None) -> str:
    """The fingerprint of the key that signed; "" where nobody did, unless a key was demanded.

    `trusted`: a file with the public key (PEM or OpenSSH) that it must be. Raises CorruptDataError where it is not, or
    where the signature is of other checksums.
    """
    path = folder / SIGNATURE
    if not path.is_file():
        if trusted:
            raise CorruptDataError(f"{folder} is not signed, and {trusted} was demanded; ask whoever released it")
        return ""
    from cryptography.exceptions import InvalidSignature  # an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        raw, signature = (base64.b64decode(facts[name], validate=True) for name in ("public_key", "signature"))
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, (folder / CHECKSUMS).read_bytes())
    except (InvalidSignature, OSError, LookupError, TypeError, ValueError) as error:
        raise CorruptDataError(f"{path} does not sign {CHECKSUMS} ({error!r}); get the release again") from error
    if trusted and _raw(_public_key(trusted)) != raw:
        raise CorruptDataError(f"{folder} is signed by {fingerprint(raw)}, which is not the key of {trusted}")
    return fingerprint(raw)


def fingerprint(raw: bytes) -> str:
    """How a public key is named to people: the sha256 of its 32 bytes.

    >>> fingerprint(bytes(32))[:14]
    'sha256:66687aa'
    """
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def _private_key(path: Path) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    raw = _read(path)
    load = serialization.load_ssh_private_key if b"OPENSSH" in raw[:80] else serialization.load_pem_private_key
    try:
        key = load(raw, password=None)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is no private key that reads without a passphrase ({error}); "
            "`openssl genpkey -algorithm ed25519` or `ssh-keygen -t ed25519` makes one"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path} is a {type(key).__name__}; releases are signed with Ed25519 keys")
    return key


def _public_key(path: Path) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _read(path)
    load = serialization.load_ssh_public_key if raw.startswith(b"ssh-") else serialization.load_pem_public_key
    try:
        key = load(raw)
    except ValueError as error:
        raise UsageError(f"{path} is no public key in PEM or OpenSSH form ({error})") from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{path} is a {type(key).__name__}; releases are signed with Ed25519 keys")
    return key


def _raw(key: "Ed25519PublicKey") -> bytes:
    raw: bytes = key.public_bytes_raw()
    return raw


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}") from None


def _names(folder: Path) -> Iterator[str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in paths)
    return (name for name in names if name not in (CHECKSUMS, SIGNATURE))


def _is_inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
