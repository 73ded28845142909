"""Only objects that do the same count as the same thing."""

import pytest

from engine.seeds.python_docs.same_things import DocumentedObject, is_same_thing
from engine.seeds.python_docs.words import content_words


def documented_object(name: str, summary: str, kind: str = "function") -> DocumentedObject:
    top = name.split(".", maxsplit=1)[0]
    library = top if top in {"numpy", "scipy", "torch", "pyarrow"} else "stdlib"
    return DocumentedObject(name, library, kind, summary, content_words(summary), ())


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (
            ("numpy.sqrt", "Return the non-negative square-root of an array"),
            ("torch.sqrt", "Square-root of input"),
            True,
        ),
        (("shutil.copy", "Copy data and mode bits"), ("numpy.copy", "Return an array copy of the given object"), False),
        (("gzip.open", "Open a gzip-compressed file"), ("lzma.open", "Open an LZMA-compressed file"), False),
        (("numpy.vstack", "Stack arrays vertically"), ("scipy.sparse.vstack", "Stack sparse arrays vertically"), False),
        (("numpy.load", "Load arrays from .npy files"), ("torch.load", "Loads an object from a file"), False),
    ],
)
def test_only_the_same_thing_passes_as_the_same_thing(first, second, same):
    assert is_same_thing(documented_object(*first), documented_object(*second)) is same
    assert is_same_thing(documented_object(*second), documented_object(*first)) is same


def test_a_method_needs_more_agreement_than_a_function():
    method = documented_object("pyarrow.Schema.append", "Append a field at the end of the schema", "method")
    function = documented_object("numpy.append", "Append values to the end of an array")
    assert not is_same_thing(method, function)
