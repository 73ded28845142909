"""Objects have their public names, documentation and source, and no package is run."""

import builtins
import itertools
import math
import os
import subprocess
import sys
from functools import partial

import pytest

from engine.seeds.python_docs.compiled_objects import read_compiled
from engine.seeds.python_docs.objects import read_objects
from tests.support.paths import REPO


def test_objects_have_their_public_names_and_nothing_is_run(packages):
    names = {item.name: item.kind for item in read_objects("tinyarrays") if item.doc}
    assert names == {
        "tinyarrays": "module",
        "tinyarrays.inverse": "function",
        "tinyarrays.Frame": "class",
        "tinyarrays.Frame.drop": "method",
        "tinyarrays.Frame.text.upper": "method",
        "tinyarrays.shuffle": "function",
    }
    assert "tinyarrays" not in sys.modules


def test_a_docstring_attached_by_a_call_is_found_with_its_shared_parts(packages):
    objects = {item.name: item for item in read_objects("tinytensors")}
    assert "out (Tensor): where the result goes." in objects["tinytensors.roll"].doc


def test_source_comes_without_docstring(packages):
    source = {item.name: item.source for item in read_objects("tinyarrays")}["tinyarrays.inverse"]
    assert source.startswith("def inverse(a):\n    rows = len(a)\n")
    assert "Sentence" not in source


@pytest.mark.slow
def test_what_a_process_has_replaced_is_read_as_it_is_installed(monkeypatch):
    before = read_objects("stdlib")
    monkeypatch.setattr(builtins, "print", partial(print))
    monkeypatch.setattr(itertools, "chain", lambda *_: None)
    monkeypatch.setattr(math, "of_a_test", math.sqrt, raising=False)
    assert read_objects("stdlib") == before


def test_the_seeds_do_not_depend_on_the_hash_of_strings():
    code = "from engine.seeds.python_docs.objects import read_objects; import hashlib; "
    code += "print(hashlib.sha256(repr(read_objects('pyarrow')).encode()).hexdigest())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, cwd=REPO,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(digests) == 1


def test_a_module_that_does_not_import_is_told():
    with pytest.raises(RuntimeError, match=r"no_such_module cannot be read: exit code 1: .*ModuleNotFoundError"):
        read_compiled(["no_such_module"])
