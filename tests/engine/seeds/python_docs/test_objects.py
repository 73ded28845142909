"""Objects have their public names, documentation and source, and no package is run."""

import sys

from engine.seeds.python_docs.objects import read_objects


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
