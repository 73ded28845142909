"""The shape of a format: a topic of a release in, rows of files out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from foil.datasets_out.release.released_topic import ReleasedTopic
from foil.datasets_out.release.row_files import OutputRow
from foil.datasets_out.training.training_view import Split
from foil.engine.topic import Intent, Passage


class TextForm(Protocol):
    """How a model reads a pair of instruction and query, and a passage: a template of the trainer."""

    @property
    def name(self) -> str: ...
    def format_pair(self, instruction: str, query: str) -> str: ...
    def format_passage(self, title: str, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """What a format may ask besides the topic: the template, whether several splits share the folder, and the places
    of topics on a map, by id."""

    form: TextForm
    several_splits: bool = False
    coordinates: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def folder(self, split: Split) -> str:
        """Where a split's corpus lies: apart from those of others, or a trainer could draw negatives from them."""
        return f"{split}/" if self.several_splits else ""

    def query(self, intent: Intent) -> str:
        """Instruction and query as the model reads them."""
        return self.form.format_pair(intent.instruction, intent.query)

    def passage(self, passage: Passage) -> str:
        """Title and text as the model reads them."""
        return self.form.format_passage(passage.title, passage.text)


@dataclass(frozen=True, slots=True)
class ReleaseFormat:
    """`rows` of one topic; the schemas of Parquet tables by name; how a user loads the folder, for the card.

    `task`: what the Hugging Face hub calls the task. `scores`: where a judge's P(relevant) stands, as a sentence.
    """

    name: str
    rows: Callable[[ReleasedTopic, Layout], Iterator[OutputRow]]
    usage: str
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    task: str = "text-retrieval"
    scores: str = "This format has no place for it."


def columns(**kinds: pa.DataType) -> pa.Schema:
    """A schema of these columns."""
    return pa.schema(list(kinds.items()))


TEXT = pa.string()
PROBABILITY = "It is `probability` of `judgments`, and empty where the judge gave none."
BENCHMARK_SPLITS: Mapping[Split, str] = {"train": "train", "dev": "dev", "heldout": "test"}
"""What loaders of BEIR and mteb call the splits."""
