"""`train_embedder.py` of a release: a first training on its triplets with sentence-transformers, without Foil.

It is not called train.py: `datasets` refuses a folder in which a script bears the folder's own name.
"""

from pathlib import Path
from string import Template

from foil.datasets_out.release.formats.release_format import TextForm

SCRIPT = "train_embedder.py"
_TEXT = Template(Path(__file__).with_name("train_embedder.txt").read_text(encoding="utf-8"))


def training_script(form: TextForm) -> str:
    """The script, with the texts joined by this template."""
    return _TEXT.substitute(
        pair=repr(form.format_pair("{instruction}", "{query}")),
        query=repr(form.format_pair("", "{query}")),
        passage=repr(form.format_passage("{title}", "{text}")),
        text=repr(form.format_passage("", "{text}")),
    )
