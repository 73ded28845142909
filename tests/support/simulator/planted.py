"""Faults planted in a copy of the code, one at a time: the simulator must find each within a few hundred seeds.

    python -m tests.support.simulator.planted [NAME ...]

To add one: a line in PLANTED with its part, its name, the file, the old text (which must stand there once) and the new.
"""

# ruff: noqa: E501 - the texts stand as in the code
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import REPO

SEEDS = 300
_ROOMS = ("cluster", "datasets_out", "engine", "foil", "prompts", "tests", "trainer", "validators", "pyproject.toml")
_FOUND = re.compile(r"^seed (\d+): ([^:]+):")

LOG = "datasets_out/commits/log.py"
LOG_READER = "datasets_out/commits/log_reader.py"
RUN_DOCUMENTS = "datasets_out/commits/run_documents.py"
VERIFY = "datasets_out/commits/verify.py"
ATOMIC = "engine/atomic_files.py"
JOURNAL = "engine/flow/journal.py"
RECORDS = "engine/flow/journal_records.py"
LEASE = "engine/storage/lease.py"
LOCAL = "engine/storage/local_store.py"
OBJECTS = "engine/storage/object_store.py"
CLIENT = "engine/storage/bucket_client.py"
REPLIES = "engine/flow/reply_service.py"
FLOW = "engine/flow/partition_flow.py"
PROGRESS = "engine/flow/progress.py"
BUDGET = "engine/flow/budget.py"
SESSION = "engine/runtime/session.py"
QUEUE = "engine/runtime/partition_queue.py"
STREAM = "engine/runtime/seed_stream.py"
CHECKPOINT = "trainer/model/checkpoint.py"
MINED = "datasets_out/training/mined_negatives.py"
EXPORT = "datasets_out/sql/output_formats.py"


@dataclass(frozen=True)
class Planted:
    """`bucket`: it is looked for in runs that lie in one."""

    part: str
    name: str
    file: str
    old: str
    new: str
    bucket: bool = False


@dataclass(frozen=True)
class Found:
    """The first seed that finds a fault, and by which kind of violation; -1 if none does."""

    planted: Planted
    seed: int
    violation: str


PLANTED = (
    Planted(
        "commit", "entry before its files", LOG,
        "        if self.files.disk:\n            files = {table: self._put_file(",
        "        self.files.put(entry_name(attempt.partition), seal(attempt.plain()), CommitUnknownError)\n"
        "        if self.files.disk:\n            files = {table: self._put_file(",
    ),
    Planted(
        "commit", "no fsync of a file", ATOMIC,
        "            if durable:\n                file_system.fsync(fd)\n", "            pass\n",
    ),
    Planted(
        "commit", "no fsync of a folder", ATOMIC,
        '    sync(path.parent, file_system)\n    crash_point("put.durable")\n', '    crash_point("put.durable")\n',
    ),
    Planted("commit", "a short write is forgotten", ATOMIC, "            while unwritten:\n", "            if unwritten:\n"),
    Planted(
        "commit", "a draft is put in place, taken or not", ATOMIC,
        "        file_system.link(draft, path)\n        ours = True\n", "        file_system.replace(draft, path)\n        ours = True\n",
    ),
    Planted(
        "commit", "an orphan of other content is taken for ours", LOCAL,
        "                    return None if standing == data else standing\n", "                    return None\n",
    ),
    Planted(
        "commit", "the sweep takes live files", LOG,
        "        for name in sorted(set(names) - live):\n", "        for name in sorted(set(names)):\n",
    ),
    Planted("commit", "another job's run is continued", RUN_DOCUMENTS, "        if same_schema and (standing", "        if True or (standing"),
    Planted(
        "commit", "another job's entry is read", LOG_READER,
        "        if entry.fingerprint != self.documents.fingerprint():\n", "        if False:\n",
    ),
    Planted("verify", "a table is skipped", VERIFY, "for entry in unpacked for file in entry.files.values()]", "for entry in unpacked for file in list(entry.files.values())[1:]]"),
    Planted("verify", "snapshots are skipped", VERIFY, "    findings += _check_snapshots(log, entries, files)\n", ""),
    Planted(
        "verify", "files that a snapshot alone names are skipped", VERIFY,
        "        yield from reader.check(read, f\"the snapshot {name!r} names it\")\n", "",
    ),
    Planted("verify", "an unfinished run is complete", VERIFY, "set(range(plan[\"partitions\"]))", "set(range(0))"),
    Planted(
        "journal", "no fsync of replies", JOURNAL,
        "    segment.appender.sync()\n    segment.syncs += 1\n", "    segment.syncs += 1\n",
    ),
    Planted(
        "journal", "no fsync of the folder", LOCAL,
        "            if not self._folder_synced:\n", "            if False:\n",
    ),
    Planted(
        "journal", "a reply is put after its use", REPLIES,
        "        await self._journal.put(reply)\n        if await lost",
        "        asyncio.get_running_loop().call_later(30, lambda: asyncio.ensure_future(self._journal.put(reply)))\n"
        "        if await lost",
    ),
    Planted(
        "journal", "a question is not noted", JOURNAL,
        '        self._append({"asked": request_id})\n', "",
    ),
    Planted(
        "journal", "replies of earlier attempts are not read", JOURNAL,
        "self._index.replies(partition, but_of=own_session, anew=anew))\n", "{})\n",
    ),
    Planted(
        "journal", "a torn or damaged record is read", RECORDS,
        '    if not data.endswith(b"\\n") or crc != b"%08x" % zlib.crc32(data[:-1]):\n', '    if not data.endswith(b"\\n"):\n',
    ),
    Planted(
        "journal", "a short write is forgotten", LOCAL,
        "            while unwritten:\n", "            if unwritten:\n",
    ),
    Planted(
        "requests", "the id leaves out the last message", "engine/requests.py",
        "for m in request.messages]", "for m in request.messages[:1]]",
    ),
    Planted(
        "models", "an answered request is sent again", "engine/models/retry.py",
        "    try:\n        return await model.complete(request)\n",
        "    try:\n        await model.complete(request)\n        return await model.complete(request)\n",
    ),
    Planted(
        "models", "a lost reply is not retried", "engine/models/retry.py",
        "retry_if_exception_type(RETRYABLE)", "retry_if_exception_type(())",
    ),
    Planted(
        "models", "usage is taken as told", "engine/models/reading.py",
        "    if not (is_count(prompt) and is_count(completion) and is_count(cached) and cached <= prompt):\n"
        "        return guess\n",
        "    if True:\n        return Usage(prompt, completion, cached)\n",
    ),
    Planted(
        "flow", "the order of completion", FLOW,
        "        topics_of_seeds = await asyncio.gather(*open_partition.seeds)\n",
        "        topics_of_seeds = [await one for one in asyncio.as_completed(open_partition.seeds)]\n",
    ),
    Planted(
        "flow", "rejected rows are dropped", FLOW,
        "list(chain.from_iterable(topics_of_seeds))", 'list(t for t in chain.from_iterable(topics_of_seeds) if t.status != "rejected")',
    ),
    Planted(
        "flow", "failed rows are dropped", FLOW,
        "list(chain.from_iterable(topics_of_seeds))", 'list(t for t in chain.from_iterable(topics_of_seeds) if t.status != "failed")',
    ),
    Planted(
        "flow", "a validator is skipped", FLOW,
        "        for validator in self._validators:\n", "        for validator in self._validators[1:]:\n",
    ),
    Planted(
        "flow", "costs are counted twice", PROGRESS,
        "        if call.request_id not in requests and not call.reused:\n            requests.add(call.request_id)\n            yield call\n",
        "        if not call.reused:\n            yield call\n            yield call\n",
    ),
    Planted(
        "session", "a session file ends the run", PROGRESS,
        "        except OSError as error:\n", "        except ZeroDivisionError as error:\n",
    ),
    Planted(
        "session", "what was spent is forgotten", SESSION,
        "        return spent_before(self._parts)\n", "        return Spend()\n",
    ),
    Planted(
        "session", "the plan is put at the start", SESSION,
        "        if (plan := self._queue.plan()) is not None:\n",
        '        if plan := self._queue.plan() or {"seeds": self._counts().seeds.total(), "partitions": 1}:\n',
    ),
    Planted(
        "session", "one partition is enough", SESSION,
        'len(self._queue.committed()) >= self._plan["partitions"]', "len(self._queue.committed()) >= 1",
    ),
    Planted(
        "lease", "a process is known by the wall clock", LEASE,
        '        ticks = Path(f"/proc/{pid}/stat")', '        ticks = Path(f"/proc/{pid}/clock")',
    ),
    Planted(
        "lease", "a folder that was moved is not missed", LEASE,
        "        elif mark is None or mark != (self._mark or mark):\n", "        elif False:\n",
    ),
    Planted(
        "commit", "the folder of journals is made after its parent was synced", LOG,
        'names = ["commits", "journal", "snapshots"', 'names = ["commits", "snapshots"',
    ),
    Planted("verify", "the journal is skipped", VERIFY, "    findings += _check_journal(log)\n", ""),
    Planted(
        "stream", "changed seeds are taken", STREAM,
        "        if record.seeds and record.seeds != partition.digests:\n", "        if False:\n",
    ),
    Planted(
        "stream", "partitions are made before the past agrees", STREAM,
        "            if index >= self._last and not self._to_end:\n", "            if True:\n",
    ),
    Planted(
        "queue", "a resume skips a partition", QUEUE,
        "partition.index not in self._committed:\n", "partition.index not in self._committed and (not self._committed or partition.index != 1):\n",
    ),
    Planted(
        "training", "moments are not restored", CHECKPOINT,
        "        _put_moments(moments, model, optimiser)\n", "",
    ),
    Planted(
        "training", "a damaged checkpoint is read", CHECKPOINT,
        "        check_folder(checkpoint)\n", "",
    ),
    Planted(
        "training", "a resume makes the last step again", CHECKPOINT,
        "        return replace(state, fingerprint=fresh.fingerprint, made_of=fresh.made_of)\n",
        "        return TrainingState(state.step - 1, fresh.fingerprint, state.losses[:-1])\n",
    ),
    Planted(
        "publish", "a folder is written in its place", ATOMIC,
        '    draft = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")\n', "    draft = folder\n",
    ),
    Planted(
        "publish", "no fsync of a folder's files", ATOMIC,
        '        for path in (*draft.rglob("*"), draft):\n', "        for path in ():\n",
    ),
    Planted(
        "publish", "no fsync of a folder's name", ATOMIC,
        "            raise\n    finally:\n        shutil.rmtree(draft, ignore_errors=True)\n    sync(folder.parent)\n",
        "            raise\n    finally:\n        shutil.rmtree(draft, ignore_errors=True)\n",
    ),
    Planted(
        "publish", "a model that is there is not checked", "trainer/model/published_model.py",
        '    return PublishedModel(out / "model", check_model(out / "model"))', '    return PublishedModel(out / "model", read_facts(out / "model"))',
    ),
    Planted(
        "publish", "weights that are not finite are published", "trainer/train/run/publish.py",
        '    require_finite(result.encoder, f"with the share {share:g} of the trained weights")\n',
        '    next(result.encoder.parameters()).data.fill_(float("nan"))\n',
    ),
    Planted(
        "mining", "a resume skips a partition", MINED,
        "        if index not in committed:\n", "        if index not in committed and (not committed or index != 2):\n",
    ),
    Planted(
        "mining", "the version does not count", "trainer/train/mining/mined_run.py",
        '        "version": MINING_VERSION,\n', "",
    ),
    Planted(
        "export", "Parquet is written in its place", EXPORT,
        "        linked = link_if_absent(write_new(path.parent, f\".{path.name}\", memoryview(sink.getvalue())), path)\n",
        "        linked = bool(path.write_bytes(sink.getvalue()))\n",
    ),
    Planted(
        "export", "a file that is there is replaced", EXPORT,
        '        if path.exists():\n            raise FileExistsError(errno.EEXIST, "File exists")\n'
        "        linked = link_if_absent(write_new(path.parent, f\".{path.name}\", memoryview(sink.getvalue())), path)\n",
        "        linked = path.exists() or True\n"
        "        write_new(path.parent, f\".{path.name}\", memoryview(sink.getvalue())).replace(path)\n",
    ),
    Planted(
        "bucket", "an entry that was put, its answer lost, is lost", OBJECTS,
        "                return None if standing == data else standing\n", "                return standing\n", bucket=True,
    ),
    Planted(
        "bucket", "a key that stands is taken for one's own", OBJECTS,
        "                return None if standing == data else standing\n", "                return None\n", bucket=True,
    ),
    Planted(
        "bucket", "an object whose answer was lost is absent", CLIENT,
        "        return bytes(obstore.get(client, key).bytes())\n    except FileNotFoundError:\n",
        "        return bytes(obstore.get(client, key).bytes())\n    except Exception:\n", bucket=True,
    ),
    Planted(
        "bucket", "a small group of the journal is not put", OBJECTS,
        "            for start in range(0, len(waiting), GROUP_BYTES):\n",
        "            for start in range(0, len(waiting) if len(waiting) > 2000 else 0, GROUP_BYTES):\n", bucket=True,
    ),
    Planted(
        "bucket", "an entry before its files", LOG,
        "        else:  # a round trip each, so at once\n",
        "        else:\n            self.files.put(entry_name(attempt.partition), seal(attempt.plain()), CommitUnknownError)\n",
        bucket=True,
    ),
)  # fmt: skip


def search(planted: Planted, seeds: int = SEEDS) -> Found:
    """Plants the fault in a copy of the code and plays seeds there until one finds it."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for room in _ROOMS:
            source = REPO / room
            if source.is_dir():
                shutil.copytree(
                    source, copy / room, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "data")
                )
            else:
                shutil.copy(source, copy)
        path = copy / planted.file
        text = path.read_text()
        if text.count(planted.old) != 1:
            raise LookupError(f"{planted.name}: the old text stands {text.count(planted.old)} times in {planted.file}")
        path.write_text(text.replace(planted.old, planted.new))
        command = [sys.executable, "-m", "tests.support.simulator", "--seeds", f"0:{seeds}", "--stop"]
        command += ["--bucket"] if planted.bucket else []
        environment = {**os.environ, "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    found = next(filter(None, map(_FOUND.match, ended.stdout.splitlines())), None)
    if found:
        return Found(planted, int(found[1]), found[2])
    if ended.returncode:  # the undisturbed runs of the warm-up find it
        return Found(planted, 0, f"broken at once: {ended.stderr.strip().splitlines()[-1][:60]}")
    return Found(planted, -1, "")


def table(found: list[Found]) -> str:
    """Which seed found which fault, and by what."""
    rows = [f"{one.planted.part:<10} {one.planted.name:<45} {one.seed:>5}  {one.violation}" for one in found]
    return "\n".join([f"{'part':<10} {'planted fault':<45} {'seed':>5}  violation", *rows])


def main() -> None:
    names = sys.argv[1:]
    found = []
    for planted in PLANTED:
        if not names or any(name in planted.name for name in names):
            found.append(search(planted))
            print(table(found).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
