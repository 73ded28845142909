"""What tests share: where private real data lies, if it is here at all."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.paths import REPO
from tests.support.storage import servers

os.environ["PYTHONPATH"] = str(REPO)  # for the programs that tests start
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several tests run at a time

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of private real data (`FOIL_SHARED_DATA`, or `shared/data` beside the checkout); skips without it."""
    folder = Path(os.environ.get("FOIL_SHARED_DATA", REPO.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"private data folder {folder} is absent; set FOIL_SHARED_DATA to run this test")
    return folder


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder where a sync costs nothing, for drills that need many of them; `tmp_path` where there is none."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The URL of an S3 server for all tests of this process, its objects in memory where there is such a folder."""
    if servers.program("localbucket") is None:
        pytest.skip("localbucket is not installed")
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, servers.localbucket(Path(folder) / "bucket") as url:
        yield url


@pytest.fixture
def bucket_url(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL below which this test has the server's bucket for itself, and programs that it starts too."""
    monkeypatch.setenv("FOIL_CACHE", str(tmp_path / "cache"))
    for name, value in servers.environment(s3_server).items():
        monkeypatch.setenv(name, value)
    return f"s3://{servers.BUCKET}/{tmp_path.name}-{os.getpid()}"


@pytest.fixture(scope="session")
def ray_home() -> Iterator[Path]:
    """What every test that starts a Ray takes: a short private folder and a token of our own, for this whole process.

    Ray reads its token once a process, and turns token mode on by itself where it finds one. A test starts it with
    `ray.init(address="local", ...)`, ends it with `ray.shutdown()`, and never runs `ray stop`.
    """
    home = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    (home / "token").touch(mode=0o600)  # Ray leaves token mode on, and `foil doctor` looks at it
    (home / "token").write_text(secrets.token_hex(32))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_MODE"):
            patch.delenv(name, raising=False)
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(home / "token"))
        patch.setenv("RAY_TMPDIR", str(home))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # else a busy machine starves the workers, and a test times out
        yield home
    shutil.rmtree(home, ignore_errors=True)
