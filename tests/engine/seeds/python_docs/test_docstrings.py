"""Docstrings of every style lose their markup and keep their sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.seeds.python_docs.docstrings import parse_docstring, split_sentences, strip_markup

NUMPYDOC = """\
inverse(a, /)

Invert a square :term:`matrix`.  The input is left alone.

.. versionadded:: 1.4
   Works on stacks too.

Given ``a``, find the matrix that
:func:`~tiny.linalg.dot` turns into the identity [1]_.

.. note:: Singular matrices raise.

Parameters
----------
a : array_like
    What to invert,
    row by row.
fast, safe : bool

See Also
--------
pseudo : Something else entirely.

Notes
-----
It costs :math:`\\mathcal{O}(n^3)`.

Examples
--------
>>> inverse([[2]])  # doctest: +SKIP
array([[0.5]])

And once more::

    inverse(b)

References
----------
.. [1] A book.
"""


def test_a_numpydoc_docstring_loses_its_markup_and_keeps_its_sections():
    document = parse_docstring(NUMPYDOC)
    assert document.summary == "Invert a square matrix."
    assert [section.heading for section in document.sections] == ["", "Parameters", "Notes", "Examples"]
    lead, parameters, notes, examples = (section.lines for section in document.sections)
    assert lead == (
        "The input is left alone.",
        "Given a, find the matrix that dot turns into the identity.",
        "Note: Singular matrices raise.",
    )
    assert parameters == ("a : array_like", "    What to invert, row by row.", "fast, safe : bool")
    assert notes == ("It costs O(n^3).",)
    assert examples == (">>> inverse([[2]])", "array([[0.5]])", "And once more:", "    inverse(b)")


def test_a_google_docstring_is_read_alike():
    document = parse_docstring(
        """Joins the parts of a path.

        Args:
            first (str): where to
                begin.
            rest: what follows.

        Returns:
            The whole path.

        Example::

            >>> join("a", "b")
            'a/b'
        """
    )
    assert [(section.heading, section.lines) for section in document.sections] == [
        ("Parameters", ("first (str): where to begin.", "rest: what follows.")),
        ("Returns", ("The whole path.",)),
        ("Examples", ('>>> join("a", "b")', "'a/b'")),
    ]


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("use :meth:`~a.b.close` or `open`_", "use close or open"),
        ("see `the guide <https://example.org>`_", "see the guide"),
        ("``x`` is **not** *y*", "x is not y"),
        ("use the `~tides.Sum.add` method, not ``~x.y`` or `~`", "use the tides.Sum.add method, not ~x.y or ~"),
        (r"out is :math:`\frac{1}{n} \sum_{i} x_i`", "out is (1) / (n) sum _i x_i"),
        (r"sum of :math:`\frac{(x_i - x_{i-1})}{2}`", "sum of ((x_i - x_(i-1))) / (2)"),
        ("2 * 3 * 4 and **kwargs", "2 * 3 * 4 and **kwargs"),
    ],
)
def test_inline_markup_is_unwrapped(marked, plain):
    assert strip_markup(marked) == plain


@pytest.mark.parametrize(
    "text",
    [
        "Deprecated since 3.1, use other().",
        "Count things.\n\nDeprecated since version 2.",
        "Count things.\n\n.. deprecated:: 2.0\n   Gone soon.",
    ],
)
def test_deprecated_objects_say_so(text):
    assert parse_docstring(text).deprecated


def test_a_deprecated_parameter_does_not_deprecate_its_function():
    text = "Count things.\n\nParameters\n----------\nn : int\n\n    .. deprecated:: 2.0\n"
    assert not parse_docstring(text).deprecated


def test_tables_and_lists_keep_their_lines():
    text = "Open a file.\n\n=== ====\n'r' read\n'w' write\n=== ====\n\nModes:\n\n- one,\n  still one\n- two\n"
    lines = parse_docstring(text).sections[0].lines
    assert lines == ("'r' read", "'w' write", "Modes:", "- one, still one", "- two")


def test_sentences_do_not_end_at_abbreviations():
    text = "Works on streams, e.g. Files. It is lazy (i.e. Slow). Done"
    assert split_sentences(text) == ["Works on streams, e.g. Files.", "It is lazy (i.e. Slow).", "Done"]


@given(st.text(alphabet=st.sampled_from(list("ab .:`-=*>[]\n \\{}_")), max_size=300))
def test_any_text_can_be_read_and_its_sentences_are_parts_of_it(text):
    document = parse_docstring(text)
    assert "\n" not in document.summary
    for section in document.sections:
        assert section.lines
        assert not any("\n" in line for line in section.lines)
    line = " ".join(text.split())
    assert " ".join(split_sentences(line)).split() == line.split()


def test_what_is_no_part_of_the_text_is_left_out():
    doc = parse_docstring("Join pipes (functional name:\n``concat``).\n\nOf any kind.\n${LIKE}\n\nCosts ${x} a day.")
    assert doc.summary == "Join pipes."
    assert [line for section in doc.sections for line in section.lines] == ["Of any kind.", "Costs ${x} a day."]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Refer to `tides.sum` for full documentation.", []),
        ("It is fast. See :class:`~tides.Sum` for more details.", ["It is fast."]),
        ("Read more in the User Guide.", []),
        (
            "See tides.sum for details on the order of its terms.",
            ["See tides.sum for details on the order of its terms."],
        ),
    ],
)
def test_a_sentence_that_only_points_elsewhere_is_left_out(text, left):
    doc = parse_docstring(f"Add it up.\n\n{text}")
    assert [line for section in doc.sections for line in section.lines] == left
