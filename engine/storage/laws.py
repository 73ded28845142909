"""What a run relies on, tried on a store before anything is paid for: `foil doctor --out`, and a run's start."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from foil.engine.errors import NotReadyError
from foil.engine.storage.store import Store

_FOLDER = "foil-check"
_RACERS, _RACES = 8, 5
_DISABLED = "two runs could both commit there: use a store, or a version or setting of it, that honours If-None-Match"
_STALE = "use a store that shows at once what was put; no cache or mirror may stand between"


def check_store(store: Store) -> None:
    """Raises NotReadyError that names the first law of `try_laws` that does not hold, and says what to do."""
    if broken := next((f"{law}: {why}" for law, why in try_laws(store).items() if why), ""):
        raise NotReadyError(f"{store.url} is no place for a run: it does not {broken}")


def try_laws(store: Store) -> dict[str, str]:
    """Each law -> why it does not hold, "" if it does. Where the storage fails, the laws after that are not tried.

    Takes about a hundred small requests, and leaves nothing behind under `foil-check/`.
    """
    place = f"{_FOLDER}/{uuid.uuid4().hex}"
    laws: dict[str, Callable[[], str]] = {
        "create a key": lambda: _create(store, f"{place}/key"),
        "refuse to create a key twice": lambda: _create_again(store, f"{place}/key"),
        "let exactly one of eight threads create a key": lambda: _race(store, f"{place}/race"),
        "show at once what was put": lambda: _show(store, f"{place}/shown"),
        "read a part of an object": lambda: _read_part(store, f"{place}/part"),
        "keep a stream": lambda: _stream(store, f"{place}/stream"),
        "delete a key": lambda: _delete(store, place),
    }
    faults = {}
    for law, holds in laws.items():
        try:
            faults[law] = holds()
        except OSError as error:
            faults[law] = error.strerror or str(error)
            break
    return faults


def _create(store: Store, key: str) -> str:
    standing = store.put_if_absent(key, b"first")
    if standing is not None or store.get(key) != b"first":
        return f"{key} holds other bytes than were put. {_STALE}"
    return ""


def _create_again(store: Store, key: str) -> str:
    """Three times: a create that fails of itself proves nothing."""
    for again in (b"second", b"third", b"fourth"):
        answer = store.put_if_absent(key, again)
        if (standing := store.get(key)) != b"first":
            return f"a second create replaced the first ({standing!r} stands). {_DISABLED}"
        if answer != b"first":
            return f"a second create found that {answer!r} stands. {_DISABLED}"
    return ""


def _race(store: Store, place: str) -> str:
    for race in range(_RACES):
        key, bodies = f"{place}/{race}", [b"%d" % racer for racer in range(_RACERS)]
        with ThreadPoolExecutor(_RACERS) as racers:
            answers = list(racers.map(lambda data, key=key: store.put_if_absent(key, data), bodies))
        winners = [data for data, standing in zip(bodies, answers, strict=True) if standing is None]
        if winners != [standing := store.get(key)]:
            return f"{len(winners)} of {_RACERS} threads created {key}, and {standing!r} stands. {_DISABLED}"
    return ""


def _show(store: Store, place: str) -> str:
    for i in range(_RACES):
        key, data = f"{place}/{i}", b"%d" % i
        store.put(key, b"before")
        store.put(key, data)
        if store.get(key) != data or [stored.key for stored in store.list_objects(place)][-1:] != [key]:
            return f"{key} was put, and is not read or not listed. {_STALE}"
    return ""


def _read_part(store: Store, key: str) -> str:
    store.put(key, b"0123456789")
    part = store.get_range(key, 3, 4)
    return "" if part == b"3456" else f"of the bytes 3 to 6 it sent {part!r}; use a store that honours Range"


def _stream(store: Store, key: str) -> str:
    stream = store.append(key)
    for data in (b"one ", b"two"):
        stream.write(data)
        stream.sync()
    stream.close()
    data = store.read_stream(key)
    return "" if data == b"one two" else f"of two groups {data!r} was read. {_STALE}"


def _delete(store: Store, place: str) -> str:
    store.delete([stored.key for stored in store.list_objects(place)])
    remaining = [stored.key for stored in store.list_objects(place)]
    return f"{remaining[0]} is still listed. {_STALE}" if remaining else ""
