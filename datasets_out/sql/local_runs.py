"""Runs of buckets as folders of this machine, for a process that may hold no key and reach no network.

    bucket: run.json, commits, versions, snapshots ─┐
    copies by digest of the files that a query reads ┴─> links in a folder of its own -> the query's process

A run in a folder is handed out as it is. Only the tables that a query may read are fetched, each copy once a machine,
and no filters of ids.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from foil.datasets_out.commits.schema import TABLES
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.sql.evaluations import PROMPTS, RESULTS
from foil.datasets_out.sql.views import DERIVED_SQL
from foil.engine.storage.local_store import LocalStore
from foil.engine.storage.mirrors import cache_folder
from foil.engine.storage.opening import open_store

_DOCUMENTS = ("run.json", "plan.json", "sources.json", "growth-{:08d}.json", "plan-{:08d}.json")
_FOLDERS = ("commits", "versions", "snapshots")
_OF_THIS_MACHINE = ("audits", "desk", RESULTS, PROMPTS)
_FETCHES = 16
_DYNAMIC = re.compile(r"\b(query|query_table|show|summarize|information_schema)\b|duckdb_", re.IGNORECASE)
"""What may read a table that the text of a query does not name."""


@contextmanager
def local_runs(runs: Mapping[str, Path], snapshot: str | None, sql: str) -> Iterator[dict[str, str]]:
    """The folders of runs by name, those of buckets for as long as the context lasts."""
    places = {name: Path(folder).resolve() for name, folder in runs.items()}
    mirrored = [name for name, folder in places.items() if not isinstance(open_store(folder), LocalStore)]
    if not mirrored:
        yield {name: str(folder) for name, folder in places.items()}
        return
    folder = cache_folder() / "queries"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name in mirrored:
            copy = Path(scratch, str(len(list(Path(scratch).iterdir()))))
            _copy_run(places[name], copy, snapshot, tables_of(sql))
            places[name] = copy
        yield {name: str(folder) for name, folder in places.items()}


def tables_of(sql: str) -> set[str]:
    """The stored tables that a query may read: those that it names, or that a view which it names reads."""
    if _DYNAMIC.search(sql):
        return set(TABLES)
    bodies = {body.split(None, 1)[0]: body for body in DERIVED_SQL.split("CREATE VIEW ")[1:]}
    words = _words(sql)
    for view, body in bodies.items():
        words |= _words(body) if view in words else set()
    return words & set(TABLES)


def _words(sql: str) -> set[str]:
    return set(re.findall(r"\w+", sql.lower()))


def _copy_run(out: Path, folder: Path, snapshot: str | None, tables: set[str]) -> None:
    store, copy = open_store(out), LocalStore(folder)
    documents = [each.key for name in _FOLDERS for each in store.list_objects(name) if not each.key.endswith(".bloom")]
    chosen = load_snapshot(out, snapshot)
    keys = {span.file.path: span.file.sha256 for table in tables for span in chosen.spans(table)}

    def take(key: str) -> None:
        if key in keys:
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.hardlink_to(store.fetch(key, keys[key]))
        elif (data := store.get(key)) is not None:
            copy.put(key, data, durable=False)

    growths = 0
    while store.get(_DOCUMENTS[3].format(growths + 1)) is not None:
        growths += 1
    documents += [name.format(number) for name in _DOCUMENTS for number in range(growths + 1)]
    with ThreadPoolExecutor(_FETCHES) as threads:
        list(threads.map(take, [*dict.fromkeys(documents), *keys]))
    for name in _OF_THIS_MACHINE:
        if (out / name).is_dir():
            shutil.copytree(out / name, folder / name)
        elif (out / name).exists():
            shutil.copyfile(out / name, folder / name)
