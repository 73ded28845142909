"""Sections are packed into chunks of bounded length without losing a line."""

from hypothesis import given
from hypothesis import strategies as st

from foil.engine.seeds.python_docs.docstrings import Section
from foil.engine.seeds.python_docs.reader import pack_sections

words = st.lists(st.sampled_from(["alpha", "beta", "gamma"]), min_size=1, max_size=9).map(" ".join)
sections_of_lines = st.lists(
    st.builds(Section, st.sampled_from(["", "Notes", "Returns"]), st.lists(words, min_size=1, max_size=12).map(tuple)),
    max_size=6,
).map(tuple)


@given(sections_of_lines, st.integers(20, 60))
def test_cutting_loses_no_line_and_keeps_to_the_limit(sections, limit):
    chunks = pack_sections(sections, limit)
    chunk_lines = [line for chunk in chunks for line in chunk.text.splitlines() if not line.endswith(":")]
    assert chunk_lines == [line for section in sections for line in section.lines]
    for chunk in chunks:
        assert chunk.words <= limit + len(chunk.headings)


def test_a_long_section_begins_a_new_chunk_and_a_cut_one_does_not():
    first_section = Section("", ("word " * 15,))
    long_section = Section("Parameters", tuple(f"p{n} : int " + "x " * 8 for n in range(6)))
    chunks = pack_sections((first_section, long_section), 30)
    assert [chunk.headings for chunk in chunks] == [(), *[("Parameters",)] * 3]
    assert [chunk.starts_section for chunk in chunks] == [True, True, False, False]
