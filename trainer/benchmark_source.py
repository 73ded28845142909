"""Where a benchmark lies, as the command line or a YAML file names it."""

from pathlib import Path

from pydantic import Field

from foil.engine.settings import Settings


class BenchmarkSource(Settings):
    """A benchmark's files: one folder, or with `trec` and `rank_llm` the files one by one."""

    kind: str = Field(min_length=1, description="The layout of the files; `foil benchmarks list` names all.")
    path: Path = Field(description="The folder or file; of `mteb` the task's name.")
    part: str = Field("", description="One collection of several; none = all.")
    name: str = Field("", description="What results call it; none = the kind.")
    revision: str = Field("", description="The published version, kept with every result.")
    measures: tuple[str, ...] = Field((), description="Instead of the kind's own.")
    topics: Path | None = Field(None, description="TREC topics.")
    documents: Path | None = Field(None, description="TREC documents: a file, folder or archive.")
    qrels: Path | None = Field(None, description="TREC judgments.")
