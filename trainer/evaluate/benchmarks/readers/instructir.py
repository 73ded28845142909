"""InstructIR: 9,906 instructions to 1,267 queries of MS MARCO, in BEIR's layout with ids QUERY_NUMBER.

    queries {_id, text: "instruction [SEP] query"}; or only_instruction_queries and only_queries, both {_id, text};
    or mteb's form: queries {_id, text}, instruction {query-id, instruction}
    corpus {_id, title, text}, qrels/test {qid, pid, score}

Queries and qrels were tried as published (kaistAI/InstructIR at 58162a0); corpus and queries.jsonl were not at hand.
"""

from collections.abc import Iterator
from pathlib import Path

from foil.engine.seeds.beir import find_table, row_id
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.seeds.files.rows import SourceRow
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.files import judgments, present, read_documents, rows
from foil.trainer.evaluate.benchmarks.readers.beir import judged
from foil.trainer.evaluate.benchmarks.readers.variants import QRELS

MARK = "[SEP]"


def read_instructir(source: BenchmarkSource, part: str, ledger: Ledger) -> Benchmark:
    """Every instruction is a query; the instructions of one query share its core."""
    folder = source.path / part
    qrels = judgments(folder, ledger, *QRELS)
    queries = judged([
        EvaluationQuery(name, query.strip(), instruction.strip(), core_of(name), "variant")
        for name, instruction, query in _parts(folder)
    ], qrels)  # fmt: skip
    measures = ("nDCG@10", "Robustness@10")
    return Benchmark(source.name, source.revision, read_documents(folder, ledger), queries, qrels, None, measures)


def core_of(name: str) -> str:
    """The query of an instruction.

    >>> core_of("1078446_6"), core_of("7_a_2")
    ('1078446', '7_a')
    """
    return name.rpartition("_")[0] or name


def _parts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Name, instruction and query."""
    if find_table(folder, "queries") is None:
        texts = {row_id(row): row.text("text") for row in rows(folder, "only_queries")}
        for row in rows(folder, "only_instruction_queries"):
            if core_of(row_id(row)) not in texts:
                raise row.format_error("an instruction to a query of only_queries", row_id(row))
            yield row_id(row), row.text("text"), texts[core_of(row_id(row))]
    elif find_table(folder, "instruction") is not None:
        by_query = {row.name("query-id"): present(row, "instruction") for row in rows(folder, "instruction")}
        yield from ((row_id(row), by_query.get(row_id(row), ""), row.text("text")) for row in rows(folder, "queries"))
    else:
        yield from map(_marked, rows(folder, "queries"))


def _marked(row: SourceRow) -> tuple[str, str, str]:
    instruction, mark, query = row.text("text").partition(MARK)
    if not mark:
        raise row.format_error(f"`instruction {MARK} query` under 'text'", row.text("text"))
    return row_id(row), instruction, query
