"""The number by which texts are compared: the same for texts that differ in blanks or case only."""

import hashlib


def text_key(text: str, *, kind: str = "") -> int:
    """64 bits of a text, and of its kind where keys of several kinds are kept together; 0 for no text of no kind."""
    normal = " ".join(text.split()).casefold()
    keyed = f"{kind}\x1f{normal}" if kind else normal
    digest = hashlib.blake2b(keyed.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) if keyed else 0
