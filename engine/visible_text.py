"""Text of others on its way to a person: what could steer a terminal is shown instead of obeyed.

Texts of corpora, replies of models and errors of providers hold any character: escape sequences that move the cursor or
fill the clipboard, marks that turn the order of letters around, spaces without width. Price: one look at each text.
"""

import logging
import unicodedata

from foil.engine.keys import scrub


def visible(text: str) -> str:
    r"""The text with each character that is no sign of its own as `\x1b` or `\u202e`; lines and tabs stay."""
    return text if text.isprintable() else "".join(map(_shown, text))


class VisibleFormatter(logging.Formatter):
    """Log lines, and the errors in them, as visible text without keys."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(scrub(super().format(record)))


def log_visibly() -> None:
    """Sends warnings of this process to stderr as visible text, unless it has a handler for logs already."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)  # some libraries set their own loggers to DEBUG
    handler.setFormatter(VisibleFormatter())
    logging.basicConfig(handlers=[handler])


def _shown(char: str) -> str:
    if char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode()
