"""The benchmarks that can be read, by the layout of their files: what each is, and what the user brings."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from logging import getLogger
from pathlib import Path
from typing import Literal

from foil.engine.errors import SeedFormatError, UsageError
from foil.engine.seeds.files.ledger import Ledger, ledger_lines
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, checked
from foil.trainer.evaluate.benchmarks.files import collections_in
from foil.trainer.evaluate.benchmarks.making.made import read_made
from foil.trainer.evaluate.benchmarks.readers.beir import read_beir
from foil.trainer.evaluate.benchmarks.readers.bright import domains_in, read_bright
from foil.trainer.evaluate.benchmarks.readers.instructir import read_instructir
from foil.trainer.evaluate.benchmarks.readers.mair import read_mair
from foil.trainer.evaluate.benchmarks.readers.mair import tasks_in as mair_tasks
from foil.trainer.evaluate.benchmarks.readers.mteb_task import parts_of_task, read_mteb
from foil.trainer.evaluate.benchmarks.readers.pir import read_pir
from foil.trainer.evaluate.benchmarks.readers.pir import tasks_in as pir_tasks
from foil.trainer.evaluate.benchmarks.readers.rank_llm import read_rank_llm
from foil.trainer.evaluate.benchmarks.readers.trec import read_trec
from foil.trainer.evaluate.benchmarks.readers.variants import (
    languages_in,
    read_followir,
    read_infosearch,
    read_mfollowir,
)

LOG = getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BenchmarkKind:
    """One layout. `average`: over all queries, or over the means of the parts, as its authors report it.

    `place`: what stands behind its colon; a TASK is no path, and names the benchmark too. `many`: its folders hold
    different data sets, so the folder is named too.
    """

    about: str
    origin: str
    licence: str
    bring: str
    read: Callable[[BenchmarkSource, str, Ledger], Benchmark]
    parts: Callable[[Path], tuple[str, ...]]
    measures: str = "nDCG@10"
    average: Literal["queries", "parts"] = "parts"
    place: Literal["FOLDER", "TASK"] = "FOLDER"
    many: bool = False


def _always(part: str) -> Callable[[Path], tuple[str, ...]]:
    return lambda _: (part,)


KINDS: Mapping[str, BenchmarkKind] = {
    "beir": BenchmarkKind(
        "Plain queries of any data set in BEIR's layout", "https://github.com/beir-cellar/beir", "that of the data set",
        "a folder with corpus.jsonl, queries.jsonl, qrels/test.tsv; #dev takes another split",
        read_beir, _always("test"), many=True,
    ),
    "trec": BenchmarkKind(
        "TREC topics over a collection: Robust04, Core17, CACM, Cranfield", "https://trec.nist.gov",
        "topics and qrels are free, most documents are licensed by NIST or LDC",
        "a folder with topics, qrels and documents, in TREC's form or as MS MARCO's .tsv tables; #narrative makes "
        "narratives instructions", read_trec, _always(""),
        many=True,
    ),
    "rank_llm": BenchmarkKind(
        "Candidate lists to re-rank", "https://github.com/castorini/rank_llm",
        "that of the passages (MS MARCO: non-commercial research)",
        "a folder with one retrieve_results_*.json and its qrels", read_rank_llm, _always(""), many=True,
    ),
    "followir": BenchmarkKind(
        "Altered TREC narratives: does what they exclude fall? (arXiv 2403.15246)",
        "https://huggingface.co/datasets/jhu-clsp/{robust04,news21,core17}-instructions[-mteb]",
        "see the data set's card; the documents are TREC's",
        "a folder a collection (Robust04, News21, Core17), as downloaded",
        read_followir, collections_in, "p-MRR, and AP@1000 (News21: nDCG@5)",
    ),
    "mfollowir": BenchmarkKind(
        "FollowIR in Persian, Russian and Chinese (arXiv 2501.19264)",
        "https://huggingface.co/datasets/jhu-clsp/mFollowIR[-cross-lingual]-parquet-mteb", "ODC-BY",
        "the folder of one of the two, as downloaded", read_mfollowir, languages_in, "p-MRR, nDCG@20",
    ),
    "instructir": BenchmarkKind(
        "Instructions of one user each to a query (arXiv 2402.14334)", "https://github.com/kaistAI/InstructIR",
        "MIT; passages of MS MARCO: non-commercial research", "the folder INSTRUCTIR, as downloaded",
        read_instructir, collections_in, "nDCG@10, Robustness@10", "queries",
    ),
    "infosearch": BenchmarkKind(
        "Six attributes of documents, asked for and asked against (arXiv 2410.23841)",
        "https://huggingface.co/datasets/jianqunZ/{Audience,Clarity,Format,Language,Length,Source}-v1",
        "none stated", "a folder a dimension, as downloaded", read_infosearch, collections_in,
        "WISE(K=20), SICR, p-MRR, nDCG@10, Robustness@10 by mode",
    ),
    "mair": BenchmarkKind(
        "126 tasks of six domains with instructions (arXiv 2410.10127)",
        "https://huggingface.co/datasets/MAIR-Bench/MAIR-Queries and MAIR-Docs", "that of each task's data",
        "a folder with MAIR-Queries and MAIR-Docs, a subfolder a task", read_mair, mair_tasks, average="queries",
    ),
    "bright": BenchmarkKind(
        "Queries that take reasoning, of twelve domains (arXiv 2407.12883)",
        "https://huggingface.co/datasets/xlangai/BRIGHT", "CC-BY-4.0",
        "the folder, as downloaded: documents and examples; #DOMAIN/long has the long documents",
        read_bright, domains_in,
    ),
    "pir": BenchmarkKind(
        "One perspective of two on a root query", "https://github.com/colinzhaoust/pir", "Apache-2.0",
        "a folder with pir_two_tasks.json and pairs.jsonl", read_pir, pir_tasks,
        "both views, p-MRR, WISE(K=20), SICR, Robustness@10, nDCG@10",
    ),
    "mteb": BenchmarkKind(
        "A task of mteb by its name: retrieval, reranking, instructions", "https://github.com/embeddings-benchmark/mteb",
        "that of the task's data",
        "mteb installed, and the hub or the cache of `datasets`; #SUBSET/SPLIT takes one, of an aggregate "
        "#TASK/SUBSET/SPLIT",
        read_mteb, parts_of_task, "the task's main measure", place="TASK",
    ),
    "made": BenchmarkKind(
        "What `foil benchmarks make` wrote", "`foil benchmarks make`", "that of what it was made from",
        "the folder that was named with --into", read_made, collections_in,
        "what its benchmark.json names", many=True,
    ),
}  # fmt: skip


def kind_named(name: str) -> BenchmarkKind:
    """The layout of that name; UsageError with the known names otherwise."""
    if name not in KINDS:
        raise UsageError(f"there is no benchmark {name!r}; choose one of {', '.join(KINDS)}")
    return KINDS[name]


def name_of(source: BenchmarkSource) -> str:
    """What results call the benchmark."""
    kind = kind_named(source.kind)
    if source.name or kind.place == "TASK":
        return source.name or str(source.path)
    return f"{source.kind}/{source.path.resolve().name}" if kind.many else source.kind


def parts_of(source: BenchmarkSource) -> tuple[str, ...]:
    """The names of the collections of a benchmark, "" where it is one; UsageError where none lies there."""
    parts = (source.part,) if source.part else kind_named(source.kind).parts(source.path)
    if not parts:
        hint = f"`foil benchmarks show {source.kind}` says what to bring"
        raise UsageError(f"no collection of {source.kind} lies in {source.path}; {hint}")
    return parts


def read_benchmark(source: BenchmarkSource, part: str) -> Benchmark:
    """One collection, read and checked. Raises UsageError with file and line."""
    named_source, ledger = source.model_copy(update={"name": name_of(source)}), Ledger()
    with told_as_usage():
        collection = kind_named(source.kind).read(named_source, part, ledger)
    name = f"{collection.name}/{part}" if part else collection.name
    benchmark = checked(replace(collection, name=name, measures=source.measures or collection.measures, ledger=ledger))
    for line in ledger_lines(ledger.plain()):
        LOG.warning("%s: %s", name, line)
    return benchmark


@contextmanager
def told_as_usage() -> Iterator[None]:
    """Turns a bad record of a file into a UsageError with file, line, and what to do."""
    try:
        yield
    except SeedFormatError as error:
        excerpt = error.found if len(error.found) <= 120 else error.found[:117] + "..."
        place = f"{error.path}:{error.line}"
        raise UsageError(f"{place}: expected {error.expected}, found {excerpt!r}; bring the file again") from None


def benchmarks_of(source: BenchmarkSource) -> Iterator[Benchmark]:
    """The collections of a benchmark, each read when it is reached."""
    return (read_benchmark(source, part) for part in parts_of(source))
