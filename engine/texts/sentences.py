"""Where sentences end: every rule of it, from the loosest to the strictest.

No rule fits all. To count or compare sentences, any stop before white space will do; to cut a text, or to say that it
has one sentence, an abbreviation must not pass for an end. The rules decide rows, so none changes for another's sake.
"""

import re

SENTENCE_GAP = re.compile(r"(?<=[.!?])\s+")
"""White space after a stop: what `split` parts sentences by."""

CUTTING_PLACE = re.compile(r"[.!?][\"'”)]?\s+|\n\n+")
"""A stop with its white space, or a blank line: where a text that is too long may be cut."""

SENTENCE_END = re.compile(r"[.!?][\"')\]”]*\s+(?=[\"'(\[“]?[A-Z])|\s\.\s+(?=\w)|[。！？](?=\s*\S)")
"""A stop before a capital, one that stands alone, or one of Chinese and Japanese; an abbreviation may stand before."""

PROSE_END = re.compile(r"[.!?][\"')\]”]*(\s+)(?=[A-Z0-9\"'(\[“•])|(?<=\s)\.(\s+)(?=\w)")
"""A stop before a capital, a figure or a bullet, or one that stands alone. Its groups are the white space."""

DOCSTRING_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z\"'(\[`*]|[a-z_]+[.(_])")
"""White space after a stop in documentation, where a sentence may begin with a name of code."""
