"""The one reader of text files that a person writes: prompts, templates, sheets, lists of ids, settings."""

from pathlib import Path

from foil.engine.errors import UsageError


def read_text(path: Path, give: str) -> str:
    """The text of a file in UTF-8, without the byte order mark that some editors put before it.

    Raises UsageError that says what to `give`: "a text file with one id a line".
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} does not read ({why}); give {give}, in UTF-8") from None
