"""The pages say what the code does."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from foil.cluster.catalog import open_seeds
from foil.cluster.commands.app import COMMANDS, app
from foil.cluster.endings import run_command
from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from tests.support.models.character import Character
from tests.support.models.fault_server import default_answer, serving
from tests.support.paths import REPO
from tests.support.small_parts import topics
from tests.support.topics.trades import trade_rows

PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", *(REPO / "docs").rglob("*.md"), *(REPO / "lab").glob("*.md")]


def test_the_settings_pages_are_what_the_settings_say():
    written = runpy.run_path(str(REPO / "scripts" / "jobs_page.py"), run_name="page")["pages"]()
    shown = {"jobs.md", *(f"jobs/{path.name}" for path in (REPO / "docs" / "jobs").iterdir())}
    assert shown == written.keys()
    for place, text in written.items():
        assert (REPO / "docs" / place).read_text() == text, "run `python scripts/jobs_page.py`"


def test_the_page_of_reasons_is_what_the_table_says():
    page = runpy.run_path(str(REPO / "scripts" / "reasons_page.py"), run_name="page")["page"]()
    assert (REPO / "docs" / "reasons.md").read_text() == page, "run `python scripts/reasons_page.py`"


def test_every_link_between_pages_leads_somewhere():
    dead = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if "://" not in target and not _leads_somewhere(page, target)
    ]
    assert not dead


def _leads_somewhere(page: Path, target: str) -> bool:
    place, _, anchor = target.partition("#")
    goal = page.parent / place if place else page
    if not goal.exists() or not anchor:
        return goal.exists()
    titles = re.findall(r"^#+ (.*)$", goal.read_text(), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_no_page_is_longer_than_its_reader_has_time():
    lengths = {page: len(page.read_text().splitlines()) for page in [*PAGES, REPO / "CHANGELOG.md"]}
    short = {REPO / "README.md", REPO / "CHANGELOG.md"}
    assert not [page for page, lines in lengths.items() if page in short and lines > 150]
    assert not [page for page, lines in lengths.items() if page.is_relative_to(REPO / "docs") and lines > 300]


def test_every_foil_command_in_the_pages_exists():
    used = {
        match for page in PAGES for match in re.findall(r"(?:^|`|bin/)foil ([a-z]+)", page.read_text(), re.MULTILINE)
    }
    assert used
    assert used <= {*COMMANDS, "seeds", "benchmarks"}


@pytest.mark.slow
def test_every_benchmark_in_the_pages_exists_and_can_be_loaded():
    modules = {path.stem for path in (REPO / "benchmarks").glob("[a-z]*.py")}
    pages = [*PAGES, *(REPO / "benchmarks").glob("*.py")]
    used = {name for page in pages for name in re.findall(r"python -m benchmarks\.([a-z_]+)", page.read_text())}
    assert used == modules
    command = [sys.executable, "-c", "".join(f"import benchmarks.{name}\n" for name in sorted(modules))]
    assert subprocess.run(command, cwd=REPO, check=False).returncode == 0


@pytest.mark.slow
def test_the_first_ten_minutes_of_a_curator_end_in_a_release(tmp_path, monkeypatch):
    path = (REPO / "docs" / "curators.md").read_text().partition("```sh\n")[2].partition("```")[0]
    commands = [shlex.split(line, comments=True)[1:] for line in path.splitlines()]
    walked = [command for command in commands if command[0] not in {"view", "label"}]  # these wait for a person
    assert {"run", "report", "show", "filter", "diff", "snapshot", "export", "verify"} == {each[0] for each in walked}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(REPO / "examples", target_is_directory=True)
    for command in walked:
        assert run_command(app, [*command, *(["--set", "limits.seeds=120"] if command[0] == "run" else [])]) == 0
    assert (tmp_path / "out" / "quickstart" / "report.html").exists()
    assert "load_dataset" in (tmp_path / "out" / "release" / "README.md").read_text()


def test_the_job_of_the_readme_is_accepted(tmp_path, monkeypatch):
    [job] = re.findall(r"```yaml\n(.*?)```", (REPO / "README.md").read_text(), re.DOTALL)
    (tmp_path / "job.yaml").write_text(job)
    (tmp_path / "questions.jsonl").write_text('{"question": "why", "answers": ["because", "so"]}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXAMPLE_API_KEY", "not-a-key")
    [seed] = open_seeds(load_job(Path("job.yaml")).seeds)
    assert [passage.text for passage in seed.positives] == ["because", "so"]


def test_the_list_of_pages_for_models_has_every_page():
    text = (REPO / "llms.txt").read_text()
    written = runpy.run_path(str(REPO / "scripts" / "llms_page.py"), run_name="page")["page"]()
    assert text == written, "run `python scripts/llms_page.py`"
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S", text, re.MULTILINE)
    assert {place for place in listed if place.startswith("docs/")} == {
        str(page.relative_to(REPO)) for page in (REPO / "docs").rglob("*.md")
    }
    assert not [place for place in listed if not (REPO / place).is_file()]


@pytest.mark.slow
def test_the_commands_of_the_skill_are_followed_in_their_order(tmp_path):
    text = (REPO / "docs" / "skill" / "SKILL.md").read_text()
    assert re.match(r"---\nname: foil\ndescription: [^\n]{80,1000}\n---\n", text)
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in trade_rows()[:12]))
    with serving(answer=character_and_doctor) as server:
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        env = own | {"PYTHONPATH": str(REPO), "MODEL": f"in-character@{server.url}"}
        for command in "".join(blocks).splitlines():
            line = f"{shlex.quote(sys.executable)} -m {command}"
            done = subprocess.run(line, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            assert json.loads(done.stdout) is not None
    assert json.loads((tmp_path / "out" / "release" / "release.json").read_text())


def character_and_doctor(request, choice):
    """The scripted model, which also answers what a doctor asks."""
    try:
        return Character()(request, choice)
    except LookupError:
        return default_answer(request, choice)


def test_the_topic_of_the_readme_is_what_its_job_makes(tmp_path, monkeypatch):
    monkeypatch.chdir(REPO)
    job = load_job(Path("examples/jobs/first_topic.yaml"), out=tmp_path / "out")
    assert run_job(job).complete
    [ferry] = [topic for topic in topics(tmp_path / "out") if "ferry" in topic.query]
    quoted = " ".join((REPO / "README.md").read_text().replace("\n>", "\n").split())
    for role in ("instructed", "dual"):
        [instruction] = [intent.instruction for intent in ferry.intents if intent.role == role]
        assert instruction in quoted
    assert all(passage.text.partition(".")[0] in quoted for passage in ferry.passages[:2])


def test_the_page_of_the_library_says_what_python_does(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (REPO / "docs" / "library.md").read_text(), re.DOTALL)
    (tmp_path / "examples").symlink_to(REPO / "examples", target_is_directory=True)
    (tmp_path / "page.py").write_text("".join(blocks))
    command = [sys.executable, "page.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(REPO)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "True 2"
    assert lines[-2] == "2"
    assert "out/none" in lines[-1]
