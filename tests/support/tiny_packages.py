"""Two small Python packages for the readers of documentation, which fail if they are run."""

from pathlib import Path

TINY_PACKAGES = ("tinyarrays", "tinytensors")


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
        "like = parse_kwargs('''\n    dtype (type): that of the input.\n        Or another.\n''')\n"
        "common: dict[str, str] = merge_dicts(parse_kwargs('''\n    out (Tensor): where the result goes.\n"
        "    dtype (type): what is meant,\n        and no less.\n'''), {'note': '''Slow on {} alone.'''})\n"
        "def add_docstr(target, doc): ...\nadd_docstr(nothing)\n"
    )
    (tensors / "__init__.py").write_text(
        "raise RuntimeError('nobody may run this package')\n"
        'add_docstr(tinytensors.roll, r"""\nroll(input) -> Tensor\n\nRoll the rows along one axis.\n\n'
        f"{body('rolling a matrix')}\n\nArgs:\n    {{out}}\n    {{dtype}}\n\n"
        'The set {{out}} and {nothing} stay.\n"""'
        '.format(**common) + rf"""\n{common["note"].format("a CPU")}\n""")\n'
        + inverse.format(
            summary='"""Computes the inverse of a square matrix.\n', doc=body("tensors that get inverted", 6)
        )
        + "def copy_of_shuffle(x):\n"
        + documented("Mix the items of a list.", "shuffling")
    )
