"""Only objects that do the same count as the same thing."""

from dataclasses import replace

import pytest

from foil.engine.seeds.python_docs.same_things import DocumentedObject, ObjectIndex, is_same_thing
from foil.engine.seeds.python_docs.words import content_words, shared_phrase
from foil.engine.topic import Passage


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


@pytest.mark.parametrize(
    ("summary", "other", "phrase"),
    [
        ("Return the last day of the month", "Tell the first day of the month", "day of the month"),
        ("Perform the two-sample Mises test for fit", "Perform the one-sample Mises test for fit",
         "Perform the Mises test for fit"),
        ("Solve a banded linear system", "Solve a banded linear system in place", "Solve a banded linear system"),
        ("Return evenly spaced numbers over an interval", "Return evenly spaced dates over an interval", ""),
        ("Transform of real or complex sequences", "Transform of real sequences", ""),
        ("Test if the end of each text matches", "Test if the begin of each line matches", ""),
        ("Give a shape to a sparse row without changing data", "Give a shape to a column without changing data", ""),
        ("Return the indices that sort each row of a table", "Sort each row of a table", ""),
        ("Whether the rows of a table are kept", "The rows of a table are kept", ""),
        ("Make a table of given shape, filled with ones", "Make a table of given shape, filled with twos",
         "Make a table of given shape"),
        ("Keep a list of options for reading files", "Keep a list of options for writing files", ""),
        ("Return the least of a row or column along a line", "Return the least of a column along a line", ""),
    ],
)  # fmt: skip
def test_what_two_summaries_share_is_a_phrase_or_nothing(summary, other, phrase):
    assert shared_phrase(summary, content_words(summary) & content_words(other)) == phrase


def test_kin_are_relevant_to_what_they_share_and_nothing_near_it_is_a_negative():
    objects = [
        described("scipy.mises_two", "Perform the two-sample Mises test for goodness of fit", "compares two samples"),
        described("scipy.mises_one", "Perform the one-sample Mises test for goodness of fit", "takes a distribution"),
        described("scipy.other_fit", "Measure goodness of fit by a test", "is no kin"),
        described("scipy.far", "Close a file after the test", "nothing about goodness here"),
    ]
    index = ObjectIndex(objects)
    (nearest,) = index.nearest([0], 3)
    kin = index.kin(0, nearest)
    assert kin.query == "Perform the Mises test for goodness of fit"
    assert [passage.title for passage in kin.passages] == ["scipy.mises_one"]
    titles = [passage.title for passage in index.negatives(0, nearest, 3, kin)]
    assert titles == ["scipy.far"]  # the second has half of the words that are asked for


@pytest.mark.parametrize(
    ("summary", "other"),
    [
        ("Convert a Hermite series to a plain polynomial", "Convert a plain polynomial to a Hermite series"),
        ("Compute the roots of a Legendre series", "Build a Legendre series with the given roots"),
        ("Find the least value of each masked pixel row", "Bracket the least value of each masked pixel row"),
        ("Tell whether a row has a missing value", "Tell whether a row has not a missing value"),
        ("Return the sum of the masked pixel rows", "Return the cumulative sum of the masked pixel rows"),
    ],
)
def test_what_turns_the_words_of_a_summary_round_is_no_kin_of_it(summary, other):
    first = described("scipy.a", summary, f"can {summary.lower()} with care")
    second = described("scipy.b", other, f"will, for whoever asks it nicely, {other.lower()}")
    far = described("scipy.c", summary, f"knows another way to {summary.lower()}, and is quick")
    index = ObjectIndex([first, second, far])
    (nearest,) = index.nearest([0], 3)
    assert [passage.title for passage in index.kin(0, nearest).passages] == ["scipy.c"]


def described(name: str, summary: str, text: str) -> DocumentedObject:
    passage = Passage(f"The Mises page of {name} {text}.", "seed_positive", title=name, source_id=name)
    return DocumentedObject(name, "scipy", "function", summary, content_words(summary), (passage,))


@pytest.mark.parametrize(
    ("summary", "other", "text"),
    [
        (
            "Create a Tensor from a numpy array",
            "Create a Tensor from a numpy.ndarray",
            "Both share one block of memory.",
        ),
        (
            "Distance of two 1-D rows",
            "Tell the city block distance of two rows, each a 1-D run of numbers",
            "As walked.",
        ),
        ("Probability density function", "A normal random variable", "Its probability density function is a bell."),
    ],
)
def test_what_says_all_that_is_asked_for_is_no_negative(summary, other, text):
    first, second, third = (
        replace(documented_object(name, about), passages=(Passage(body, "seed_positive", title=name),))
        for name, about, body in (
            ("pyarrow.one", summary, f"{summary}, as asked."),
            ("torch.two", other, f"{text} {summary.split()[-1]}"),
            ("scipy.three", "Read a file of sounds", f"Opens what was recorded: {summary.split()[-1]}."),
        )
    )
    index = ObjectIndex([first, second, third])
    (nearest,) = index.nearest([0], 3)
    assert {passage.title for passage in index.negatives(0, nearest, 3)} <= {"scipy.three"}


def test_an_object_of_the_same_name_is_no_negative_whatever_its_summary_says():
    first, second, third = (
        replace(documented_object(name, about), passages=(Passage(body, "seed_positive", title=name),))
        for name, about, body in (
            ("pyarrow.Array.any", "Return whether any element is truthy", "True where an entry is truthy."),
            ("numpy.any", "Test along an axis", "A scalar: whether an entry is True along an axis."),
            ("scipy.roll", "Shift entries along a line", "Moves each entry along an axis, round the end."),
        )
    )
    index = ObjectIndex([first, second, third])
    assert [passage.title for passage in index.negatives(0, [1, 2], 3)] == ["scipy.roll"]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Moves each entry, as in torch.shift(x).", False),
        (">>> ops.shift(x)", False),
        ("See also torch.ops.shift.", False),
        ("A shift (to the left) is made.", True),
        ("Calls downshift(x).", True),
    ],
)
def test_a_text_that_calls_the_object_or_names_it_in_full_is_no_negative(said, kept):
    first, second = (
        replace(documented_object(name, about), passages=(Passage(text, "seed_positive", title=name),))
        for name, about, text in (
            ("torch.ops.shift", "Move the bits of an entry", "Moves bits."),
            ("torch.roll", "Let entries wander along a line", said),
        )
    )
    assert bool(ObjectIndex([first, second]).negatives(0, [1], 3)) is kept
