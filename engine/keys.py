"""Keys: where they are, who may see them, and what is done with a text that repeats one.

    ${NAME} or file:PATH -> read_key -> the Authorization header, and nowhere else
    every reply, answer, error, log and batch line -> scrub -> without the keys that this process knows

Promise: a settings object holds the place of a key, never the key. A process knows each key that its models name from
the moment they are built (`know_key`), so that no provider can repeat another's, in whatever spelling
(`engine.texts.key_spellings`). Price: a search or two of each text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foil.engine.errors import UsageError
from foil.engine.texts.key_spellings import cut_keys

if TYPE_CHECKING:  # `foil --help` reads this file, and no answer
    from pydantic import BaseModel

    from foil.engine.requests import Reply

Answer = TypeVar("Answer", bound="BaseModel")
SHORTEST_KEY = 8
"""A shorter key (`none`, `EMPTY`, `test`) guards nothing, and may be a word of any reply: it is not cut out."""
_LONGEST_KEY = 16_384
_SECRET_NAME = re.compile(
    r"^key$|^token$|^auth$|^bearer$|(api|access|auth|private|secret|subscription|account|session)key$"
    r"|(api|access|auth|bearer|refresh|session|hf)token$|secret|passw|authorization|credential|cookie"
)
_SECRET_VALUE = re.compile(r"\b(sk|hf|gsk|ghp|xai|pk)[-_][A-Za-z0-9_-]{12,}|^bearer\s", re.IGNORECASE)
_KEY_IN_FILE = re.compile(
    rb"(?<![A-Za-z0-9_-])(?:(?:sk|rk|pk|gsk|xai|nvapi|glpat|r8|tgp)[-_](?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}"
    rb"|(?:hf|gh[oprsu]|github_pat)_[A-Za-z0-9_]{20,}|xox[abprs]-[A-Za-z0-9-]{16,}|AKIA[0-9A-Z]{16}|AIza[\w-]{35})"
    rb"|-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"
)

_known: set[str] = set()


def read_key(source: str) -> str:
    """The key at this source, "" for none; from now on this process knows it. Raises UsageError with the source."""
    if not source:
        return ""
    key = _read_file(source) if source.startswith("file:") else _read_variable(source[2:-1])
    if not key or len(key) > _LONGEST_KEY or not re.fullmatch(r"[!-~]+", key):
        raise UsageError(
            f"what {source} holds is not a key: expected printable ASCII without blanks, at most {_LONGEST_KEY:,} "
            "characters; write the key alone there"
        )
    if len(key) >= SHORTEST_KEY:
        _known.add(key)
    return key


def know_key(source: str) -> None:
    """Makes the key known, if it can be read by now; who needs it reads it later, or learns that there is none."""
    with suppress(UsageError):
        read_key(source)


def scrub(text: str) -> str:
    """The text with *** for every key that this process knows, however it is spelled."""
    return cut_keys(text, frozenset(_known)) if _known else text


def scrub_reply(reply: Reply) -> Reply:
    """The reply without keys; where one was, without logprobs, whose tokens spell it too."""
    other_choices = tuple((scrub(text), scrub(reason)) for text, reason in reply.others)
    scrubbed = replace(
        reply,
        text=scrub(reply.text),
        model=scrub(reply.model),
        finish_reason=scrub(reply.finish_reason),
        revision=scrub(reply.revision),
        others=other_choices,
    )
    logprobs_text = "" if reply.logprobs is None else str(reply.logprobs)
    if scrubbed == reply and scrub(logprobs_text) == logprobs_text:
        return reply
    return replace(scrubbed, logprobs=None)


def scrub_answer(answer: Answer) -> Answer:
    """The answer that was read from a reply, with no key in any of its texts: reading joins what stood apart."""
    scrubbed = {name: _scrub_texts(value) for name, value in answer} if _known else {}
    changed = {name: value for name, value in scrubbed.items() if value != getattr(answer, name)}
    return answer.model_copy(update=changed) if changed else answer


def _scrub_texts(value: Any) -> Any:
    if isinstance(value, str):
        return scrub(value)
    return type(value)(map(_scrub_texts, value)) if type(value) in {list, tuple} else value


def find_secret(value: Any) -> str:
    """The dotted name of the first value in nested settings that looks like a secret, by its name or itself, or ""."""
    return next(_secret_names(value, ()), "")


def _secret_names(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if _SECRET_NAME.search(re.sub(r"[^a-z0-9]", "", str(name).lower())):
                yield ".".join((*path, str(name)))
            yield from _secret_names(each, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _secret_names(each, (*path, str(number)))
    elif isinstance(value, str) and looks_like_key(value):
        yield ".".join(path)


def looks_like_key(text: str) -> bool:
    """Whether a text has the form of a known provider's key, or of an Authorization header."""
    return bool(_SECRET_VALUE.search(text))


def holds_key(path: Path) -> bool:
    """Whether a file holds a key that this process knows, or what has the form of one."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            holds_known = any(content.find(key.encode()) >= 0 for key in _known)
            return holds_known or _KEY_IN_FILE.search(content) is not None


def _read_file(source: str) -> str:
    try:
        with Path(source.removeprefix("file:")).expanduser().open("rb") as file:
            return file.read(_LONGEST_KEY + 2).decode("utf-8", "replace").strip()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no home folder behind ~
        problem = getattr(error, "strerror", None) or type(error).__name__
        raise UsageError(f"the key file {source} cannot be read: {problem}; mount it on every node") from None


def _read_variable(name: str) -> str:
    if not os.environ.get(name):
        raise UsageError(f"the environment variable {name} is empty on this machine; set it to the API key")
    return os.environ[name].strip()
