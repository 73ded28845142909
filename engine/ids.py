"""Names that follow from content: the same thing has the same id on every machine, in every run."""

import hashlib
import json
import pickle
from typing import Any

ID_HEX = 24
"""Hex digits of an id: 96 bits, so that 10^9 passages collide with probability under 10^-10."""
HELDOUT_SHARE, DEV_SHARE = 0.1, 0.05
"""Where nobody says otherwise: the share of seeds that are held out, and of the others the share that is `dev`."""
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """One spelling per value: sorted keys, no spaces, no NaN, text kept as it is."""
    return _CANONICAL.encode(value)


def sha256_hex(data: str | bytes) -> str:
    """The full sha256 of text (as UTF-8, lone surrogates kept) or bytes."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.sha256(raw).hexdigest()


def content_id(*parts: str) -> str:
    """An id from the parts, joined so that ("ab", "c") and ("a", "bc") differ."""
    return sha256_hex("\x1f".join(parts))[:ID_HEX]


def fraction_of(*parts: str) -> float:
    """A number in [0, 1) that follows from the parts alone: for splits, samples and coin tosses."""
    return int(sha256_hex("\x1f".join(parts))[:13], 16) / float(1 << 52)


def unpickled(data: bytes) -> Any:
    """What our own process, or one that it started, has pickled."""
    return pickle.loads(data)  # noqa: S301 - the bytes are never those of others


def split_of(seed_id: str, heldout_share: float) -> str:
    """`heldout` for a fixed share of all seeds, else `train`; the same in every run."""
    return "heldout" if fraction_of("split", seed_id) < heldout_share else "train"
