"""Passages drawn at random from a file of a collection, each read where it lies: no index, whatever the file's size.

    RandomPassages(path).draw(2, topic_id)      the lines after two random bytes, the same ones for the same key

One passage a line: `.jsonl` with text (or contents, passage) and perhaps title, `.tsv` with the text in the last
column, or plain text. A line is drawn as often as the line before it is long, which is near enough to evenly.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of, sha256_hex
from foil.engine.topic import Passage

_TRIES = 8
"""Lines looked at for each passage wanted, of which some may be empty or excluded."""
_SAMPLES, _SAMPLE_BYTES = 64, 4_096
_KEYS = ("text", "contents", "passage")


class RandomPassages:
    """The passages of a file. `digest` follows from its size and 64 samples of its bytes. Raises UsageError for a file
    that cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._size = path.stat().st_size
            samples = [self._bytes_at(number * self._size // _SAMPLES) for number in range(_SAMPLES)]
        except OSError as error:
            raise UsageError(f"the passages {path} cannot be read: {error}; give a .jsonl, .tsv or .txt file") from None
        self.digest = sha256_hex(f"{self._size}" + b"".join(samples).hex())

    def draw(self, count: int, key: str, exclude: Sequence[Passage] = ()) -> list[Passage]:
        """Up to `count` distinct passages that follow from the key; none of the excluded. Raises UsageError for a line
        that is no passage."""
        passages: dict[str, Passage] = {}
        excluded = {passage.id for passage in exclude}
        for number in range(count * _TRIES):
            if len(passages) == count:
                break
            for passage in self._at(int(fraction_of("random passage", key, str(number)) * self._size)):
                if passage.id not in excluded:
                    passages.setdefault(passage.id, passage)
        return list(passages.values())

    def _at(self, offset: int) -> Iterator[Passage]:
        """The passage of the first line that begins after the offset; of the first line of all behind the last."""
        with self._path.open("rb") as file:
            file.seek(offset)
            file.readline()
            line = file.readline()
            if not line:
                file.seek(0)
                line = file.readline()
        text = line.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if text:
            passage = self._passage(text, offset)
            if passage.text.strip():
                yield passage

    def _passage(self, line: str, offset: int) -> Passage:
        if self._path.suffix == ".tsv":
            return Passage(line.rsplit("\t", maxsplit=1)[-1], "distractor")
        if self._path.suffix != ".jsonl":
            return Passage(line, "distractor")
        try:
            row = json.loads(line)
            text = next(row[key] for key in _KEYS if key in row)
            return Passage(str(text), "distractor", str(row.get("title") or ""))
        except (ValueError, TypeError, StopIteration, AttributeError):
            raise UsageError(
                f"{self._path}, the line after byte {offset}: no JSON object with one of {', '.join(_KEYS)}; mend it"
            ) from None

    def _bytes_at(self, offset: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(_SAMPLE_BYTES)
