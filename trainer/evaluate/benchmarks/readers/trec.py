"""TREC collections: topics, qrels and documents, in a folder or named one by one.

In a folder, the topics' file has `topics`, `qry` or `queries` in its name, that of the judgments `qrel`; all else is
documents. Both may be MS MARCO's tables: `id text` a topic, `pid text` or `docid url title body` a document, by tabs.
The query is the title, or the description where there is none; the part `narrative` adds the narrative as instruction.
Where the qrels judge numbers that the topics do not have, these are the topics' places from 1 (Cranfield).
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from foil.engine.errors import UsageError
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.streams import Line, open_streams, read_lines
from foil.engine.seeds.judged import Query, read_qrels
from foil.engine.seeds.trec import read_document_topics, read_documents, read_topics
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.files import MOST_BYTES, good, unique
from foil.trainer.evaluate.benchmarks.readers.beir import judged
from foil.trainer.evaluate.measures.judged import Qrels


def read_trec(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """The topics that are judged."""
    topics_file = source.topics or only_file(source.path, "topics", "qry", "queries")
    qrels_file = source.qrels or only_file(source.path, "qrel")
    used = (topics_file, qrels_file)
    paths = [source.documents] if source.documents else [path for path in _files(source.path) if path not in used]
    documents = unique("document", chain.from_iterable(map(_documents, paths)), ledger)
    topics, qrels = _topics(topics_file), read_qrels([qrels_file], MOST_BYTES, ledger)
    names = _numbers(topics, qrels)
    named = (
        (name, _query(topic, name, part), topic.path, topic.line) for topic, name in zip(topics, names, strict=True)
    )
    queries = list(unique("query", named, ledger).values())
    return Benchmark(source.name, source.revision, documents, judged(queries, qrels), qrels)


def _topics(path: Path) -> list[Query]:
    """Topics as <top> blocks, or as <DOC> blocks or lines of a table where there is none."""
    blocks = list(good(read_topics(path, MOST_BYTES))) or list(good(read_document_topics(path, MOST_BYTES)))
    return blocks or [_topic(path, number, *fields) for number, fields in _lines(path, 2)]


def _topic(path: Path, number: int, name: str, text: str) -> Query:
    if not text:
        raise UsageError(f"{path}:{number}: expected a query that is not blank, found {name!r}; mend the line")
    return Query(name, text, str(path), number, {"title": text})


def _documents(path: Path) -> Iterator[tuple[str, tuple[str, str], str, int]]:
    """The id, title and text of each document of a file, and where it stands."""
    if path.name.removesuffix(".gz").endswith(".tsv"):
        for number, (name, *rest) in _lines(path, 2, 4):
            yield name, (rest[-2] if len(rest) > 1 else "", rest[-1]), str(path), number
    else:
        for passage, file, line in good(read_documents(path, MOST_BYTES)):
            yield passage.source_id, (passage.title, passage.text), file, line


def _lines(path: Path, *columns: int) -> Iterator[tuple[int, list[str]]]:
    """The number and fields of each line, as many as one of `columns`; UsageError names the line otherwise."""
    for stream in open_streams(path):
        for line in read_lines(stream, MOST_BYTES):
            fields = _fields(line)
            if fields is None or (fields != [""] and (len(fields) not in columns or not fields[0])):
                found = (line.content or b"a longer line")[:120].decode("utf-8", "replace")
                raise UsageError(f"{line.name}:{line.number}: expected {' or '.join(map(str, columns))} fields between "
                                 f"tabs in UTF-8, found {found!r}; give topics and documents in TREC's form or MS "
                                 "MARCO's tables")  # fmt: skip
            if fields != [""]:
                yield line.number, fields


def _fields(line: Line) -> list[str] | None:
    """The fields of a line between tabs, [""] for a blank one; None for a line that is too long or no UTF-8."""
    try:
        return None if line.content is None else [field.strip() for field in line.content.decode("utf-8").split("\t")]
    except UnicodeDecodeError:
        return None


def _numbers(topics: Sequence[Query], qrels: Qrels) -> list[str]:
    """The names under which the qrels judge the topics.

    >>> topics = [Query(name, "", "", 1) for name in ("1", "2", "4")]
    >>> _numbers(topics, {"3": {}}), _numbers(topics, {"4": {}})
    (['1', '2', '3'], ['1', '2', '4'])
    """
    places = list(map(str, range(1, len(topics) + 1)))
    own = [topic.id for topic in topics]
    return own if qrels.keys() <= set(own) or not qrels.keys() <= set(places) else places


def _query(topic: Query, name: str, part: str) -> EvaluationQuery:
    text = topic.attributes.get("title") or topic.attributes["description"]
    instruction = topic.attributes.get("narrative", "") if part == "narrative" else ""
    return EvaluationQuery(name, text, instruction, mode="instructed" if instruction else "original")


def only_file(folder: Path, *words: str) -> Path:
    """The one file of a folder with one of these words in its name."""
    matches = [path for path in _files(folder) if any(word in path.name.lower() for word in words)]
    if len(matches) != 1:
        raise UsageError(f"{folder} has {len(matches)} files with {' or '.join(words)} in their names; name topics, "
                         "documents and qrels one by one in a YAML file")  # fmt: skip
    return matches[0]


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give one with topics, qrels and documents")
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
