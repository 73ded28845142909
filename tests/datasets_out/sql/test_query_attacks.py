"""Queries that try to write, to read elsewhere, or to never end: each is refused or stopped, and no byte changes."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from foil.datasets_out.sql.query import QueryLimits, run_sql
from foil.engine.errors import QueryStoppedError, SqlRefusedError, UsageError
from tests.support.drills.query_drill import READS, SECRET, SETTINGS, WRITES, state
from tests.support.paths import REPO
from tests.support.sample_run import make

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def outcomes(out: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of each attack of the drill, and under "requests" what a web server was asked meanwhile."""
    bait, folder = tmp_path_factory.mktemp("bait"), tmp_path_factory.mktemp("folder")
    (bait / "secret.csv").write_text(f"word\n{SECRET}\n")
    (bait / "secret.json").write_text(f'[{{"word": "{SECRET}"}}]')
    requests: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        placeholders = {
            "bait": str(bait), "bait_name": bait.name, "data": str(out / "data"),
            "shard": str(out / "data/topics/part-00000000.parquet"), "address": f"127.0.0.1:{server.server_port}",
        }  # fmt: skip
        limits = {"timeout_s": 20, "memory_bytes": 1 << 30}
        request = {"runs": {"run": str(out)}, "snapshot": None, "placeholders": placeholders, **limits}
        done = subprocess.run(
            [sys.executable, str(REPO / "tests" / "support" / "drills" / "query_drill.py"), json.dumps(request)],
            capture_output=True, text=True, check=True, cwd=folder,
            env={"PYTHONPATH": str(REPO), "FOIL_BAIT": SECRET},
        )  # fmt: skip
        server.shutdown()
    return dict(json.loads(line) for line in done.stdout.splitlines()) | {"requests": requests}


@pytest.mark.parametrize("attack", WRITES + READS + SETTINGS)
def test_an_attack_is_refused(outcomes, attack):
    assert not outcomes[attack]["checked"]["ran"], outcomes[attack]["checked"]["output"]


@pytest.mark.parametrize("attack", WRITES + READS + SETTINGS)
def test_an_attack_reads_nothing_and_changes_nothing_even_past_the_check_of_statements(outcomes, attack):
    assert not outcomes[attack]["changed"]
    assert SECRET not in str(outcomes[attack])
    assert "root:" not in str(outcomes[attack])


@pytest.mark.parametrize("attack", [a for a in READS if "secret" in a or "shard" in a or "data}" in a])
def test_nothing_but_the_views_can_be_read_even_past_the_check_of_statements(outcomes, attack):
    assert not outcomes[attack]["unchecked"]["ran"], outcomes[attack]["unchecked"]["output"]


def test_no_attack_asks_the_network(outcomes):
    assert outcomes["requests"] == []


FORBIDDEN = [
    WRITES[0],
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{shard}'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "FROM read_text('/proc/self/environ')",
    "SELECT 1; SELECT 2",
    "ATTACH ':memory:' AS a",
    "SET enable_external_access = true",
    "INSERT INTO topics FROM topics",
]


@pytest.mark.parametrize("attack", FORBIDDEN)
def test_the_whole_way_says_that_a_query_only_reads(out, attack):
    before = state(out)
    with pytest.raises(SqlRefusedError, match=r"SELECT, WITH|reads the views"):
        run_sql(out, attack.format(shard=out / "data/topics/part-00000000.parquet"))
    assert state(out) == before


def test_the_file_names_of_an_in_memory_database_are_not_left_on_its_allow_list(out):
    sql = "SELECT name, value FROM duckdb_settings() WHERE name IN ('allowed_paths', 'allowed_directories')"
    assert {row["value"] for row in run_sql(out, sql).to_pylist()} == {"[]"}


def test_no_environment_variable_reaches_the_process_that_asks(out, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    seen = {}
    start = subprocess.Popen

    def watched(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        seen.update(options["env"])
        return start(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", watched)
    run_sql(out, "SELECT 1")
    assert SECRET not in seen.values()


WRITE_ATTEMPTS = """
import os, sys
from pathlib import Path
from foil.datasets_out.sql.query_process import forbid_writes
enforced = forbid_writes()
path = Path(sys.argv[1])
tries = {
    "append": lambda: path.open("ab").write(b"x"),
    "overwrite": lambda: path.open("wb"),
    "truncate": lambda: os.truncate(path, 0),
    "delete": path.unlink,
    "rename": lambda: path.rename(path.with_suffix(".gone")),
    "link": lambda: path.with_suffix(".twin").hardlink_to(path),
    "symlink": lambda: path.with_suffix(".twin").symlink_to(path),
    "create": lambda: path.with_suffix(".new").touch(),
    "folder": lambda: path.with_suffix(".folder").mkdir(),
    "fork": lambda: os.execv("/bin/sh", ["sh", "-c", f"echo x > {path}"]) if os.fork() == 0 else os.wait(),
}
done = []
for name, attempt in tries.items():
    try:
        attempt()
        done.append(name)
    except OSError:
        pass
print(enforced, path.read_text(), done)
"""


def test_the_kernel_refuses_every_write_of_the_asking_process_whatever_duckdb_lets_through(tmp_path):
    victim = tmp_path / "shard"
    victim.write_text("as committed")
    done = subprocess.run(
        [sys.executable, "-c", WRITE_ATTEMPTS, str(victim)],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(REPO)},
    )  # fmt: skip
    if done.stdout.startswith("False"):
        pytest.skip("this kernel has no Landlock; DuckDB's own locks protect alone")
    assert done.stdout.strip() == "True as committed ['fork']", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shard"]
    assert victim.read_text() == "as committed"


UNBOUNDED_TIME = [
    "SELECT count(*) FROM range(300000000) a, range(300000000) b WHERE a.range % 7 = b.range % 11",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i % 7 FROM r) SELECT count(*) FROM r",
    "SELECT sum(sin(i)) FROM range(100000000000) t(i)",
    "SELECT max(md5(t.query || i)) FROM topics AS t, range(10000000000) r(i)",
    "SELECT i FROM range(100000000000) t(i) WHERE md5(i::VARCHAR) = 'x'",
    "EXPLAIN ANALYZE SELECT sum(sin(i)) FROM range(100000000000) t(i)",
]

UNBOUNDED_MEMORY = [
    "SELECT length(repeat('x', 2000000000))",
    "SELECT repeat('x', 200000000) FROM range(1000)",
    "SELECT list(i) FROM range(3000000000) t(i)",
    "SELECT list_sum(range(1000000000))",
    "SELECT count(DISTINCT md5(i::VARCHAR)) FROM range(3000000000) t(i)",
    "SELECT md5(i::VARCHAR) AS m FROM range(3000000000) t(i) ORDER BY m",
    "SELECT string_agg(repeat('x', 1000), '') FROM range(100000000)",
    "WITH RECURSIVE r AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r",
    "SELECT * FROM range(100000000000)",
    "SELECT a.* FROM range(100000) a, range(100000) b",
    "SELECT array_to_string(list_transform(range(100000000), lambda i: 'xxxxxxxxxxxxxxxxxxxxxxxxxx'), '')",
]


@pytest.mark.parametrize("sql", UNBOUNDED_TIME)
def test_a_query_without_end_ends_by_its_time_limit(out, sql):
    with pytest.raises(QueryStoppedError, match=r"after 0.4 s, its time limit; narrow it|memory limit"):
        run_sql(out, sql, QueryLimits(0.4))


@pytest.mark.parametrize("sql", UNBOUNDED_MEMORY)
def test_a_query_without_bounds_ends_by_its_memory_limit(out, sql):
    with pytest.raises(QueryStoppedError, match=r"memory limit of 268,435,456 bytes; (narrow it|add a LIMIT)"):
        run_sql(out, sql, QueryLimits(200, 256 << 20))


def test_a_query_that_duckdb_cannot_interrupt_is_killed(out, monkeypatch):
    sql = "SELECT sum(length(repeat('x', i::INT))) FROM range(300000, 300000000) t(i)"
    with pytest.raises(QueryStoppedError, match="time limit"):
        run_sql(out, sql, QueryLimits(0.3))


def test_very_deep_sql_is_refused_or_stops_but_never_hangs(out):
    for deep in ("(" * 100_000 + "1" + ")" * 100_000, "1" + " + 1" * 100_000, "[" * 20_000 + "1" + "]" * 20_000):
        with pytest.raises((UsageError, QueryStoppedError)):
            run_sql(out, f"SELECT {deep}", QueryLimits(10))


def test_stopping_leaves_no_process_behind(out):
    with pytest.raises(QueryStoppedError):
        run_sql(out, "SELECT sum(sin(i)) FROM range(100000000000) t(i)", QueryLimits(0.2))
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    assert not children.is_file() or "foil.datasets_out.sql.query_process" not in "".join(
        Path(f"/proc/{child}/cmdline").read_text() for child in children.read_text().split()
    )


def test_limits_that_make_no_sense_are_refused(out):
    for limits in (QueryLimits(0), QueryLimits(float("nan")), QueryLimits(memory_bytes=0)):
        with pytest.raises(UsageError, match="must be"):
            run_sql(out, "SELECT 1", limits)
