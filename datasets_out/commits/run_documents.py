"""The documents that say which run lies in a folder: its job, the growths of its limits, and its plan."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any

from foil.datasets_out.commits.run_files import RunFiles
from foil.datasets_out.commits.schema import SCHEMA_VERSION
from foil.engine.errors import CommitError, CorruptDataError, DifferentJobError, NoRunError
from foil.engine.ids import canonical_json, sha256_hex

_SHOWN = 80
_NUMBERED = re.compile(r"(?:growth|plan)-(?P<number>[0-9]{8})\.json")


class RunDocuments:
    """`run`: the fingerprint of the run that is committed for; then nothing is where another's lies by now."""

    def __init__(self, files: RunFiles, run: str = "") -> None:
        self._files, self._out, self._run = files, files.out, run
        self._fingerprint = ""  # of the run that lies here, once it was read

    def begin(self, fingerprint: str, job: Mapping[str, Any], sizes: Callable[[], Mapping[int, int]]) -> None:
        """Makes this the run of a job, or finds that it is; see `CommitLog.open`. `sizes`: seeds by partition."""
        new: dict[str, Any] = {"fingerprint": fingerprint, "job": job, "schema_version": SCHEMA_VERSION}
        self._files.put_sealed("run.json", {**new, "begun_with": _foil_here()})
        while not self._is_run_of(new):
            self._grow(new["job"]["limits"], sizes())

    def stands_for(self, fingerprint: str, job: Mapping[str, Any]) -> bool:
        """Whether this job's run is here, with these limits; then it is durable. Raises DifferentJobError as `open`."""
        if self._files.read_sealed("run.json") is None or self._is_unused(fingerprint):
            return False
        self._files.sync()
        return self._is_run_of({"fingerprint": fingerprint, "job": job, "schema_version": SCHEMA_VERSION})

    def _is_unused(self, fingerprint: str) -> bool:
        """Whether another job's run was opened here, and nothing was committed, asked or named in it."""
        run = self._files.read_sealed("run.json")
        if run is None or run["fingerprint"] == fingerprint or self._growths():
            return False
        return not any(map(self._files.holds, ("commits", "journal", "batches", "snapshots", "versions")))

    def discard_unused(self, fingerprint: str) -> None:
        """Makes way where another job's run was opened, and nothing was committed, asked or named in it."""
        if not self._is_unused(fingerprint):
            return
        with self._files.guard("", 0):
            for name in ("plan.json", "sources.json", "job.json", "run.json"):
                self._files.store.delete([name])

    def _is_run_of(self, new: Mapping[str, Any]) -> bool:
        """Whether the run that lies here is of this job; False where its limits must grow first."""
        run, growths = self.run(), self._growths()
        standing = {**run, "job": {**run["job"], "limits": growths[-1]["limits"]}} if growths else run
        same_schema = run["schema_version"] == new["schema_version"]
        if same_schema and (standing["job"] == new["job"] if growths else run["fingerprint"] == new["fingerprint"]):
            return True
        if same_schema and _may_grow(standing["job"], new["job"]):
            return False
        finding = f"{self._out} holds the run of another job{_begun_with(run)} ({_job_difference(standing, new)})"
        if "of" in new["job"]:
            raise DifferentJobError(f"{finding}; write this one into a folder that does not exist")
        raise DifferentJobError(
            f"{finding}; give this job another `out` with `--reuse {self._out}`, so that no reply that still fits is "
            "paid for again, or go on with the settings, templates and version of Foil that began it (of a run, "
            "limits.seeds, limits.accept and the budget may grow)"
        )

    def _grow(self, limits: Mapping[str, Any], sizes: Mapping[int, int]) -> None:
        """Puts the larger limits. From this one file on the plan of the smaller run counts no more."""
        growths = self._growths()
        short = {str(partition): seeds for partition, seeds in sizes.items() if seeds < limits["partition_seeds"]}
        earlier = growths[-1]["short"] if growths else {}
        self._put_own(_growth_name(len(growths) + 1), {"limits": limits, "short": {**earlier, **short}})

    def _growths(self) -> list[dict[str, Any]]:
        """Each growth of the limits, in order. Raises CorruptDataError where one is missing or of another run."""
        growths: list[dict[str, Any]] = []
        while (growth := self._read_own(_growth_name(len(growths) + 1))) is not None:
            growths.append(growth)
        if (later := self.last_growth()) > len(growths):
            raise CorruptDataError(
                f"{self._out / _growth_name(len(growths) + 1)} is missing, and the limits of this run grew {later} "
                "times; restore it from a copy"
            )
        return growths

    def last_growth(self) -> int:
        """How often the limits grew, as the names of growths and their plans tell."""
        last = 0
        with self._files.guard("", 0):
            for kind in ("growth-", "plan-"):
                for document in self._files.store.list_objects("", after=kind):
                    if not (match := _NUMBERED.fullmatch(document.key)):
                        break
                    last = max(last, int(match["number"]))
        return last

    def limits(self) -> Mapping[str, Any]:
        growths = self._growths()
        limits: Mapping[str, Any] = growths[-1]["limits"] if growths else self.run()["job"].get("limits", {})
        return limits

    def growth_names(self) -> list[str]:
        """The documents of the growths that should stand here, with their plans."""
        return [name(number) for number in range(1, self.last_growth() + 1) for name in (_growth_name, _plan_name)]

    def short_partitions(self) -> Mapping[int, int] | None:
        growths = self._growths()
        return {int(partition): seeds for partition, seeds in growths[-1]["short"].items()} if growths else None

    def run(self) -> Mapping[str, Any]:
        """The run's fingerprint, job and schema version. Raises NoRunError if no run was opened here."""
        body = self._files.read_sealed("run.json")
        if body is None:
            raise NoRunError(f"{self._out} holds no run (no run.json); start one there with `foil run`")
        return body

    def fingerprint(self) -> str:
        """The run's fingerprint, read once."""
        self._fingerprint = self._fingerprint or str(self.run()["fingerprint"])
        return self._fingerprint

    def checked_fingerprint(self) -> str:
        """The run's fingerprint, once it is sure that it is the run that we commit for, or one that grew into it."""
        if self._run and self._run != self.fingerprint():
            growths = self._growths()
            grown = {**self.run()["job"], "limits": growths[-1]["limits"]} if growths else {}
            if self._run != sha256_hex(canonical_json(grown))[: len(self._run)]:
                raise CommitError(
                    f"{self._out} has become the folder of another run; give one of them a folder of its own"
                )
            self._run = self.fingerprint()
        return self.fingerprint()

    def plan(self) -> Mapping[str, Any] | None:
        return self._read_own(_plan_name(len(self._growths())))

    def put_plan(self, plan: Mapping[str, Any]) -> None:
        """Raises DifferentJobError if another plan stands: the seeds changed under the same job."""
        self._put_own(_plan_name(len(self._growths())), plan)
        standing = self.plan() or {}
        if any(plan[key] != standing[key] for key in plan.keys() & standing.keys()):
            raise DifferentJobError(
                f"{self._out} was planned as {standing}, and now as {dict(plan)}: the seeds changed between runs; "
                "restore them, or give this job another `out`"
            )

    def _put_own(self, name: str, body: Mapping[str, Any]) -> None:
        self._files.put_sealed(name, {**body, "fingerprint": self.fingerprint()})

    def _read_own(self, name: str) -> dict[str, Any] | None:
        """A document of this run; None if there is none. Raises CorruptDataError for one of another run."""
        body = self._files.read_sealed(name)
        of_run = body.pop("fingerprint", None) if body else None
        if body is not None and of_run != self.fingerprint():
            whose = f"is of another run ({of_run})" if of_run else "names no run, as builds before 0.1.0 wrote it"
            raise CorruptDataError(f"{self._out / name} {whose}; restore this run's from a copy")
        return body


def _may_grow(standing: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two jobs are one but for larger `limits.seeds` and `limits.accept`; None is without limit."""
    old_limits, limits = standing.get("limits", {}), new.get("limits", {})
    if old_limits == limits or {**standing, "limits": limits} != new:
        return False
    growing = ("seeds", "accept")
    fixed = (old_limits.keys() | limits.keys()) - set(growing)
    return all(old_limits.get(key) == limits.get(key) for key in fixed) and all(
        (limits.get(key) or math.inf) >= (old_limits.get(key) or math.inf) for key in growing
    )


def _growth_name(number: int) -> str:
    return f"growth-{number:08d}.json"


def _plan_name(growths: int) -> str:
    return f"plan-{growths:08d}.json" if growths else "plan.json"


def _foil_here() -> str:
    """The installed version of Foil; "" where it runs from a folder."""
    try:
        return metadata.version("foil-ir")
    except metadata.PackageNotFoundError:
        return ""


def _begun_with(run: Mapping[str, Any]) -> str:
    """Which version of Foil began a run, and which one this is, where they are known to differ."""
    began, current = run.get("begun_with", ""), _foil_here()
    by = f"Foil {began}" if began else "an earlier version of Foil"
    return f", begun by {by}; this is {current or 'one without a version'}" if began != current else ""


def _job_difference(standing: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first settings in which two runs differ, as `key: standing -> other`."""
    before, after = (dict(_flatten({**run["job"], "schema_version": run["schema_version"]})) for run in (standing, new))
    keys = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    differences = ", ".join(f"{key}: {_shown(before.get(key))} -> {_shown(after.get(key))}" for key in keys[:8])
    more = f" and {len(keys) - 8} more" if len(keys) > 8 else ""
    return differences + more or "same settings, other code, templates or indexes"


def _shown(value: str | None) -> str:
    """A setting's value for an error: its beginning, where it is as long as a list of many ids."""
    if value is None:
        return "unset"
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}... ({len(value):,} characters)"


def _flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, canonical_json(value)
