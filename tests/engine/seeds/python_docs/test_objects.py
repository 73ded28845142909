"""Objects have their public names, documentation and source, and no package is run."""

import builtins
import itertools
import math
import os
import subprocess
import sys
from functools import partial

import pytest

from foil.engine.seeds.python_docs.compiled_objects import read_compiled
from foil.engine.seeds.python_docs.objects import read_objects
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
    doc = {item.name: item for item in read_objects("tinytensors")}["tinytensors.roll"].doc
    assert "out (Tensor): where the result goes.\n" in doc
    assert "dtype (type): what is meant,\n        and no less.\n" in doc  # the other dict has this name too
    assert "The set {out} and {nothing} stay." in doc
    assert "Slow on a CPU alone." in doc


@pytest.mark.slow
def test_attached_docstrings_of_torch_are_those_that_torch_has():
    """All texts that `add_docstr` gives to functions, word by word."""
    import torch

    docs = {item.name: item.doc for item in read_objects("torch")}
    names = [
        name for name in dir(torch) if isinstance(getattr(torch, name), type(torch.add)) and f"torch.{name}" in docs
    ]
    differ = [name for name in names if docs[f"torch.{name}"].split() != getattr(torch, name).__doc__.split()]
    assert len(names) > 200
    assert differ == []


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
    code = "from foil.engine.seeds.python_docs.objects import read_objects; import hashlib; "
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
