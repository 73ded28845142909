"""Where things lie: this repository, the golden files of the tests, and private real corpora."""

from pathlib import Path

REPO = Path(__file__).resolve().parent.parent.parent
GOLDEN = REPO / "tests" / "golden"
PACKAGES = ("engine", "prompts", "validators", "datasets_out", "trainer", "cluster")
