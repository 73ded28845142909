"""The Dockerfile, read line by line: what it copies, installs and runs is there. A long test builds the CPU image."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.support.paths import PACKAGES, REPO

DEPLOY = REPO / "cluster" / "deploy"
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
VENV = "/opt/venv"
SECRET = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)
HEAD = "export RAY_ADDRESS=127.0.0.1:6379 && ray start --head --num-cpus=2 --dashboard-host=0.0.0.0"
PACKAGE_OF = {"bash": "bash", "pkill": "procps", "wget": "wget"}


def instructions(text: str) -> list[tuple[str, str]]:
    """(instruction, arguments) of each line, once comments are gone and continued lines are one."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    whole = [line.strip() for line in lines.replace("\\\n", " ").splitlines()]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in whole if line]


ALL = instructions((DEPLOY / "Dockerfile").read_text())
IGNORED = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
Stage = list[tuple[str, str]]


def stages() -> dict[str, Stage]:
    """The instructions of each stage by its name, after those of the stage that it builds on."""
    named: dict[str, Stage] = {}
    for word, arguments in ALL:
        if word == "FROM":
            base, _, name = arguments.split()
            named[name] = list(named.get(base, []))
        named[name].append((word, arguments))
    return named


STAGES = stages()
IMAGES = {"cpu": "constraints-hashed.txt", "gpu": "constraints-cuda.txt"}
by_image = pytest.mark.parametrize("image", IMAGES)


def told(stage: Stage, word: str) -> list[str]:
    return [arguments for instruction, arguments in stage if instruction == word]


def settings(stage: Stage, word: str) -> dict[str, str]:
    return dict(each.split("=", 1) for arguments in told(stage, word) for each in shlex.split(arguments) if "=" in each)


def is_ignored(path: str) -> bool:
    """Whether Docker leaves the path, or a folder above it, out of what it sends to the build."""
    above = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
    return any(
        fnmatch(each.rpartition("/")[2], pattern[3:]) if pattern.startswith("**/") else fnmatch(each, pattern)
        for each in above
        for pattern in IGNORED
    )


def installs(image: str) -> list[str]:
    return re.findall(
        rf"{VENV}/bin/(pip install .*?)(?: &&|$)", "\n".join(told(STAGES[f"build-{image}"], "RUN")), re.MULTILINE
    )


def test_what_is_copied_is_there_and_is_not_left_out():
    sources = {each for copy in told(ALL, "COPY") if "--from=" not in copy
               for each in copy.split()[:-1] if not each.startswith("--")}  # fmt: skip
    assert sources == {".", "examples", "scripts/gpu_smoke.py"}
    needed = [
        *sources - {"."},
        "pyproject.toml",
        PROJECT["readme"],
        *PROJECT["license-files"],
        *PACKAGES,
        *IMAGES.values(),
    ]
    for path in needed:
        assert (REPO / path).exists(), path
        assert not is_ignored(path), path
    for secret in (
        ".git/config",
        ".mypy_cache/x",
        "build/lib",
        "examples/.env",
        "cluster/server.key",
        "datasets_out/data/demo",
        ".venv/bin/python",
    ):
        assert is_ignored(secret), secret


def test_the_pins_are_installed_under_the_python_that_they_were_tested_with():
    versions = {found[1] for each in told(ALL, "FROM") if (found := re.match(r"python:(\d+\.\d+)-", each))}
    [version] = versions
    assert SpecifierSet(PROJECT["requires-python"]).contains(version)
    assert f"command -v python{version}" in (REPO / "scripts" / "setup").read_text()
    assert f"python{version}/" in settings(STAGES["gpu"], "ENV")["CUDA_HOME"]
    assert ALL[-1] == STAGES["cpu"][-1], "what is built without --target"


@by_image
def test_an_image_installs_its_own_pins_and_then_foil(image):
    pins, *torch, foil = installs(image)
    assert pins.split()[-2:] == ["-r", IMAGES[image]]
    assert foil.split()[-1] == "."
    assert all("--no-deps" in each for each in (pins, *torch, foil))


def test_the_cpu_image_takes_what_runs_need_and_torch_for_cpus(tmp_path):
    """The lines before `pip install`, run for real: they cut what tests need, and torch that wants CUDA."""
    command = told(STAGES["build-cpu"], "RUN")[-1]
    cut = command.partition(f"&& {VENV}/bin/pip")[0]
    shutil.copy(REPO / IMAGES["cpu"], tmp_path)
    done = subprocess.run(
        ["sh", "-ec", f'{cut}; echo "$torch"'], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    pins = set(re.findall(r"^(\S+)==", (tmp_path / IMAGES["cpu"]).read_text(), re.MULTILINE))
    assert (
        done.stdout.strip()
        == re.search(r"^torch==.*", (REPO / "constraints.txt").read_text(), re.MULTILINE)[0] + "+cpu"
    )
    assert {"ray", "sentence-transformers", "tqdm", "triton"} - pins == {"triton"}, "those around torch's stay"
    assert not {"torch", "pytest", "playwright", "mypy"} & pins
    assert told(STAGES["build-cpu"], "ARG") == ["PIP_EXTRA_INDEX_URL"], "where that build is"


def test_the_gpu_image_can_compile_kernels():
    image = STAGES["gpu"]
    assert "g++" in " ".join(told(image, "RUN")).split(), "Triton runs gcc, FlashInfer g++"
    pinned = (REPO / IMAGES["gpu"]).read_text()
    for compiler in ("triton", "ninja", "nvidia-cuda-nvcc", "nvidia-nvvm"):
        assert re.search(rf"^{compiler}==", pinned, re.MULTILINE), compiler
    home = settings(image, "ENV")["CUDA_HOME"]
    assert any(f"cd {home} " in each for each in told(STAGES["build-gpu"], "RUN")), "the links lie there"


@by_image
def test_the_image_runs_as_nobody_special_and_holds_no_key(image):
    assert told(STAGES[image], "USER")[-1] not in {"root", "0"}
    for word in ("ARG", "ENV"):
        assert not [name for name in settings(ALL, word) if SECRET.search(name)]
    assert SECRET.search("RAY_AUTH_TOKEN")


def test_what_is_run_is_read_by_a_shell():
    for line in told(ALL, "RUN"):
        assert subprocess.run(["sh", "-nc", line], capture_output=True, check=False).returncode == 0, line
    assert {word for word, _ in ALL} <= {"FROM", "ARG", "RUN", "COPY", "ENV", "WORKDIR", "USER"}


def commands() -> list[str]:
    """The programs that the manifests run by name: entrypoints, and the words of a preStop."""
    found = []
    for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
        for document in filter(None, yaml.safe_load_all(path.read_text())):
            found += _commands(document)
    return found


def _commands(node: object) -> list[str]:
    if isinstance(node, list):
        return [each for item in node for each in _commands(item)]
    if not isinstance(node, dict):
        return []
    own = [node["entrypoint"].split()[0]] if "entrypoint" in node else []
    if isinstance(command := node.get("command"), list):
        own += [command[0], command[-1].split()[0]]
    return own + [each for item in node.values() for each in _commands(item)]


@by_image
def test_what_the_manifests_run_is_in_the_image(image):
    stage = STAGES[image]
    assert settings(stage, "ENV")["PATH"].split(":")[0] == f"{VENV}/bin"
    assert f"--from=build-{image} {VENV} {VENV}" in told(stage, "COPY")
    pinned = (REPO / IMAGES[image]).read_text()
    assert "foil" in PROJECT["scripts"]
    assert re.search(r"^ray==", pinned, re.MULTILINE), "KubeRay starts `ray` by name"
    installed = told(stage, "RUN")[0].split()
    assert {"foil", "bash", "pkill"} == set(commands())
    assert all(PACKAGE_OF[each] in installed for each in {*commands(), "wget"} - {"foil"})


def test_a_job_that_a_manifest_names_lies_in_the_image():
    [job] = yaml.safe_load_all((DEPLOY / "kubernetes" / "job" / "rayjob.yaml").read_text())
    [path] = re.findall(r"foil run (\S+)", job["spec"]["entrypoint"])
    assert path.startswith("examples/")
    assert (REPO / path).is_file()
    assert "--chown=1000:1000 examples /opt/foil/examples" in told(STAGES["cpu"], "COPY")
    assert told(STAGES["cpu"], "WORKDIR")[-1] == "/opt/foil"


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Iterator[Callable[[str], str]]:
    """Runs a command in the CPU image, which is built for it: read-only, as user 1000, without a network."""
    lacking = [each for each in ("buildah", "mmdebstrap", "unshare", "chroot", "ip") if not shutil.which(each)]
    if os.geteuid() or lacking:
        pytest.skip(f"the image is built by root alone, with buildah and mmdebstrap; lacking: {lacking}")
    store, folder = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("pod")
    folder.chmod(0o755)

    def steps(action: str, *words: object) -> str:
        command = [REPO / "scripts" / "image-steps", action, store, *words]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    try:
        steps("build", "cpu")
        yield lambda command: steps("run", folder, command)
    finally:
        steps("remove")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_cpu_image_looks_around_and_makes_topics(image):
    """What a pod does: `foil doctor`, the manifest's job without its cluster, and a run on Ray's head."""
    loads = "python -c 'import torch, sentence_transformers; print(torch.__version__)'"
    assert "+cpu" in image(f"id -u | grep -qx 1000 && ! touch /etc/x && foil doctor --out /runs >/dev/null && {loads}")
    [job] = yaml.safe_load_all((DEPLOY / "kubernetes" / "job" / "rayjob.yaml").read_text())
    local = re.sub("--set runtime[^ ]* ", "", job["spec"]["entrypoint"])
    image(f"{local} && foil verify /runs/quickstart")
    on_ray = "foil run examples/jobs/first_topic.yaml --set runtime.kind=ray --set runtime.workers=1 --out /runs/first"
    image(f"{HEAD} && {on_ray} && foil verify /runs/first && ray stop")
