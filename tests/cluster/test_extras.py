"""What works with the base install alone, what a command says where an extra is missing, and what `doctor` shows."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires

import pytest
from typer.testing import CliRunner

from foil.cluster.commands.app import app
from foil.cluster.extras import libraries, need
from foil.engine.errors import UsageError
from tests.support.commands import foil, write_job
from tests.support.paths import PACKAGES, REPO

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())
SCRIPT = """
import json, sys
from importlib.machinery import PathFinder
absent, commands = map(json.loads, sys.argv[1:])
class BaseInstall(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        return None if name.partition(".")[0] in absent else super().find_spec(name, *rest)
sys.meta_path[:] = [BaseInstall if finder is PathFinder else finder for finder in sys.meta_path]
from foil.cluster.commands.app import app
for command in commands:
    app(command, standalone_mode=False)
"""


def normal_name(requirement):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def modules_of_extras():
    """The modules here that a base install would not bring."""
    base = todo = {normal_name(requirement) for requirement in PROJECT["project"]["dependencies"]}
    installed = {name for names in packages_distributions().values() for name in map(normal_name, names)}
    while todo:
        needs = [line for name in todo & installed for line in requires(name) or [] if "extra ==" not in line]
        todo = set(map(normal_name, needs)) - base
        base = base | todo
    owners = {module: set(map(normal_name, names)) for module, names in packages_distributions().items()}
    return sorted(module for module, names in owners.items() if not names & (base | {"foil-ir"}))


def run_without_extras(*commands):
    absent = modules_of_extras()
    assert {"torch", "transformers", "ray", "sentence_transformers", "sklearn", "pandas"} <= set(absent)
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        json.dumps(absent),
        json.dumps([list(map(str, arguments)) for arguments in commands]),
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=False)


@pytest.mark.slow
def test_operators_and_curators_need_no_extra(tmp_path):
    job, out = write_job(tmp_path, 20), tmp_path / "out"
    process = run_without_extras(
        ["plan", job],
        ["run", job],
        ["status", out],
        ["verify", out],
        ["sql", out, "SELECT count(*) AS topics FROM topics"],
        ["why", out, "s1"],
        ["agreement", out],
        ["snapshot", out, "now"],
        ["mine", out, tmp_path / "mined"],
        ["snapshot", "list", out],
        ["filter", out, tmp_path / "filtered", "--where", "true"],
        ["merge", out, tmp_path / "mined", tmp_path / "merged", "--near-duplicates", "0.8"],
        ["compact", out],
        ["gc", out, "--dry-run"],
        ["export", out, "--format", "hf", "--split", "all", "--into", tmp_path / "release"],
        ["verify", tmp_path / "release"],
    )
    assert process.returncode == 0, process.stderr
    assert "planned 20 seeds" in process.stdout


@pytest.mark.slow
def test_hosted_models_need_no_extra(tmp_path):
    job = write_job(tmp_path, 3)
    job.write_text(job.read_text() + "models: {writer: {kind: hosted, model: m, url: 'http://[::1]:9/v1'}}\n")
    process = run_without_extras(["plan", job])
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "library", "extra"), [("train", "sentence_transformers", "train"), ("submit", "ray", "ray")]
)
def test_a_command_names_the_extra_that_it_needs(command, library, extra, tmp_path):
    process = run_without_extras([command, write_job(tmp_path, 3)])
    assert f"UsageError: this command needs {library}, which is not installed" in process.stderr
    assert f"pip install 'foil-ir[{extra}]'" in process.stderr


def test_a_missing_library_is_a_mistake_of_usage():
    need("json", extra="ray")
    with pytest.raises(UsageError, match=r"needs no_such_library.*pip install 'foil-ir\[ray\]'"):
        need("no_such_library", extra="ray")


def test_doctor_shows_libraries_hardware_and_what_the_file_system_can_do(tmp_path):
    facts = json.loads(foil("doctor", "--out", tmp_path / "later", "--json").stdout)
    assert facts["libraries"] == libraries()
    assert set(facts["file_system"].values()) == {""}
    assert facts["out"] == str(tmp_path)
    assert min(facts["memory_bytes"], facts["disk_free_bytes"], facts["cpus"]) > 0
    assert not list(tmp_path.iterdir())
    plain = foil("doctor", "--out", tmp_path)
    assert (plain.returncode == 0) == facts["ok"]
    assert "link a file" in plain.stdout


def test_doctor_names_what_a_folder_lacks_to_hold_commits(monkeypatch, tmp_path):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    result = CliRunner().invoke(app, ["doctor", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 1
    steps = json.loads(result.stdout)["file_system"]
    assert steps["link a file"] == "no links here"
    assert steps["sync a folder"] == ""


def test_version_names_the_program():
    assert foil("--version").stdout.startswith("foil-ir ")


def test_every_data_file_is_packaged():
    packaged = {
        path
        for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (REPO / package.removeprefix("foil.")).glob(pattern)
    }
    listed = subprocess.run(["git", "ls-files", *PACKAGES], capture_output=True, text=True, cwd=REPO, check=True).stdout
    assert {REPO / name for name in listed.splitlines() if not name.endswith(".py")} <= packaged
