"""Each layout is read as it was published, and a broken file is named."""

import doctest
import json
import shutil
from dataclasses import replace

import pytest

from foil.engine.errors import UsageError
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.evaluate.benchmarks.catalog import KINDS, benchmarks_of, parts_of, read_benchmark
from foil.trainer.evaluate.benchmarks.making.made import write_benchmark as write_made
from foil.trainer.evaluate.benchmarks.readers import instructir, trec
from foil.trainer.evaluate.benchmarks.readers.mair import DOMAINS
from foil.trainer.evaluate.benchmarks.readers.rank_llm import read_hits
from foil.trainer.evaluate.systems.model_free import Bm25
from foil.trainer.evaluate.systems.system import Bm25Settings, ranking_of
from tests.trainer.evaluate.benchmarks.tiny_benchmarks import LAYOUTS, lines, write_benchmark

FILES = [(kind, name) for kind, files in LAYOUTS.items() for name in files]


def read(kind, folder):
    return {benchmark.name: benchmark for benchmark in benchmarks_of(write_benchmark(kind, folder))}


def queries_of(benchmark):
    return [(query.id, query.query, query.instruction, query.core, query.mode) for query in benchmark.queries]


def test_every_kind_has_a_tiny_benchmark_and_the_examples_hold():
    assert set(LAYOUTS) == set(KINDS) - {"mteb"}
    assert [doctest.testmod(module).failed for module in (instructir, trec)] == [0, 0]


def test_beir_reads_its_judged_queries(tmp_path):
    [(name, benchmark)] = read("beir", tmp_path).items()
    assert (name, queries_of(benchmark)) == (
        f"beir/{tmp_path.name}/test",
        [("q1", "ferry price", "", "q1", "original")],
    )
    assert benchmark.documents["d1"][0] == "Ferry"
    assert benchmark.qrels == {"q1": {"d1": 2}}


def test_made_has_the_instruction_and_the_mode_of_each_query(tmp_path):
    benchmark = read("made", tmp_path)[f"made/{tmp_path.name}"]
    assert queries_of(benchmark) == [
        ("t-0_0", "ferry price", "", "t-0", "original"),
        ("t-0_1", "ferry price", "Only for children.", "t-0", "instructed"),
    ]
    assert (benchmark.measures, benchmark.revision) == (("p-MRR", "nDCG@10"), benchmark.digest)
    assert benchmark.qrels["t-0_1"] == {"d1": 0, "d2": 1}


def test_trec_takes_titles_and_its_part_narrative_the_narratives(tmp_path):
    source = write_benchmark("trec", tmp_path)
    assert queries_of(read_benchmark(source, "")) == [("301", "ferry price", "", "301", "original")]
    [query] = read_benchmark(source, "narrative").queries
    assert (query.instruction, query.mode) == ("Only dollars count.", "instructed")
    assert read_benchmark(source, "").documents["D2"] == ("", "A ferry at noon.")


def test_trec_reads_the_tables_of_ms_marco_too(tmp_path):
    (tmp_path / "msmarco-test2019-queries.tsv").write_text("301\tferry price\n9\tnobody judged it\n")
    (tmp_path / "2019qrels-pass.txt").write_text("301 0 D1 2\n")
    (tmp_path / "collection.tsv").write_text("D1\tThe ferry costs 4 dollars.\nD2\t\n")
    source = BenchmarkSource(kind="trec", path=tmp_path)
    benchmark = read_benchmark(source, "")
    assert queries_of(benchmark) == [("301", "ferry price", "", "301", "original")]
    assert benchmark.documents == {"D1": ("", "The ferry costs 4 dollars."), "D2": ("", "")}
    (tmp_path / "collection.tsv").write_text("D1\thttps://a.example\tFerries\tFour dollars.\n")
    assert read_benchmark(source, "").documents == {"D1": ("Ferries", "Four dollars.")}
    (tmp_path / "collection.tsv").write_text("D1\tFerries\tFour dollars.\n")
    with pytest.raises(UsageError, match=r"collection.tsv:1: expected 2 or 4 fields between tabs"):
        read_benchmark(source, "")


def test_a_query_without_a_list_of_candidates_is_told(tmp_path, caplog):
    source = write_benchmark("followir", tmp_path)
    lists = tmp_path / "News21" / "top_ranked.jsonl"
    lists.write_text(lists.read_text().splitlines()[0] + "\n")
    read_benchmark(source, "News21")
    assert "1 of 2 queries have no list of candidates and count 0, e.g. q1-changed" in caplog.text


def test_a_document_that_is_judged_twice_keeps_its_higher_grade_in_every_layout(tmp_path):
    written = write_benchmark("beir", tmp_path / "tsv")
    (tmp_path / "tsv/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td1\t0\n")
    rows = write_benchmark("beir", tmp_path / "jsonl")
    (tmp_path / "jsonl/qrels/test.tsv").unlink()
    twice = [{"query-id": "q1", "corpus-id": "d1", "score": score} for score in (2, 0)]
    (tmp_path / "jsonl/qrels/test.jsonl").write_text(lines(*twice))
    assert read_benchmark(written, "test").qrels == read_benchmark(rows, "test").qrels == {"q1": {"d1": 2}}
    mair = write_benchmark("mair", tmp_path / "mair")
    labels = [{"id": "d1", "score": 2}, {"id": "d1", "score": 1}]
    (tmp_path / "mair/MAIR-Queries/LitSearch/queries.jsonl").write_text(
        lines({"qid": "q1", "instruction": "Find papers.", "query": "ferries", "labels": labels})
    )
    assert read_benchmark(mair, "LitSearch").qrels == {"q1": {"d1": 2}}


def test_a_list_with_two_texts_of_one_document_is_refused(tmp_path):
    source = write_benchmark("rank_llm", tmp_path)
    hits = [{"qid": 7, "docid": "d1", "content": text} for text in ("One.", "One.", "Two.")]
    (tmp_path / "hits.json").write_text(json.dumps([{"query": "ferry", "hits": hits[:2]}]))
    assert read_benchmark(source, "").candidates == {"7": ("d1",)}
    (tmp_path / "hits.json").write_text(json.dumps([{"query": "ferry", "hits": hits}]))
    with pytest.raises(UsageError, match="'d1' stands twice, with two texts"):
        read_benchmark(source, "")


def test_candidate_lists_are_what_is_ranked(tmp_path):
    benchmark = read("rank_llm", tmp_path)[f"rank_llm/{tmp_path.name}"]
    assert benchmark.candidates == {"7": ("d1", "d2")}
    assert benchmark.documents["d1"] == ("", "The ferry costs four dollars.")


def test_followir_is_read_as_published_and_as_in_mteb(tmp_path):
    found = read("followir", tmp_path)
    core, news = found["followir/Core17"], found["followir/News21"]
    assert queries_of(core) == [
        ("q1-og", "ferry to Saltmarsh", "", "q1", "original"),
        ("q1-changed", "ferry to Saltmarsh", "Only prices in dollars.", "q1", "changed"),
    ]
    assert [query.instruction for query in news.queries] == ["All.", "Only prices."]
    assert core.qrels == news.qrels == {"q1-og": {"d1": 1, "d2": 1}, "q1-changed": {"d1": 1, "d2": 0}}
    assert core.candidates == {"q1-og": ("d1", "d2"), "q1-changed": ("d1", "d2")}
    assert news.candidates == {"q1-og": ("d1", "d2"), "q1-changed": ("d2", "d1")}
    assert (core.measures, news.measures) == (("p-MRR", "AP@1000"), ("p-MRR", "nDCG@5"))


def test_mfollowir_is_read_by_language_and_says_where_its_list_of_changes_is_another(tmp_path, caplog):
    source = write_benchmark("mfollowir", tmp_path)
    [(name, found)] = {benchmark.name: benchmark for benchmark in benchmarks_of(source)}.items()
    assert (name, found.measures) == ("mfollowir/fas", ("p-MRR", "nDCG@20"))
    assert [(query.core, query.mode, query.instruction) for query in found.queries] == [
        ("q1", "original", "All."), ("q1", "changed", "Only prices."),
    ]  # fmt: skip
    assert (found.qrels["q1-changed"], found.candidates["q1-changed"]) == ({"d1": 1, "d2": 0}, ("d2", "d1"))
    assert "other documents" not in caplog.text
    (tmp_path / "qrel_diff-fas/qrel_diff.jsonl").write_text(lines({"query-id": "q1", "corpus-ids": ["d1", "d2"]}))
    read_benchmark(source, "fas")
    assert "names other documents than the qrels change for 1 of 1 queries, e.g. q1" in caplog.text


def test_bright_has_a_collection_a_domain_and_documents_that_no_ranking_holds(tmp_path):
    [(name, found)] = read("bright", tmp_path).items()
    assert (name, sorted(found.documents)) == ("bright/pony", ["d1", "d2", "d3"])
    assert (found.qrels, found.excluded) == ({"0": {"d1": 1}, "1": {"d2": 1}}, {"0": {"d2"}})
    assert {query.domain for query in found.queries} == {"pony"}
    ranked = ranking_of(Bm25(Bm25Settings()), found, 10)
    assert {query: sorted(scores) for query, scores in ranked.items()} == {"0": ["d1"], "1": ["d1", "d2"]}
    source = BenchmarkSource(kind="bright", path=tmp_path)
    assert read_benchmark(source, "pony/long").qrels == {"0": {"p1": 1}, "1": {"p1": 1}}
    assert replace(found, excluded={}).digest != found.digest
    with (tmp_path / "documents/pony-00001-of-00002.jsonl").open("a") as file:
        file.write(lines({"id": "d1", "content": "Another text of the same id."}))
    with pytest.raises(UsageError, match=r"00001.*:3: expected one document of the id 'd1', as at .*00000"):
        read_benchmark(source, "pony")
    with pytest.raises(UsageError, match="no part 'pony/short'"):
        read_benchmark(source, "pony/short")
    with pytest.raises(UsageError, match=r"0 of 1 files robotics-\*.parquet are in"):
        read_benchmark(source, "robotics")


@pytest.mark.parametrize("kind", ["bright", "mfollowir"])
def test_a_folder_without_a_collection_is_refused(tmp_path, kind):
    (tmp_path / "documents").mkdir()
    with pytest.raises(UsageError, match=f"no collection of {kind} lies in .*; `foil benchmarks show {kind}`"):
        parts_of(BenchmarkSource(kind=kind, path=tmp_path))


def test_a_made_benchmark_keeps_what_is_excluded(tmp_path):
    [found] = read("bright", tmp_path / "bright").values()
    write_made(tmp_path / "made", found, {})
    made = read_benchmark(BenchmarkSource(kind="made", path=tmp_path / "made"), "")
    assert (made.excluded, made.digest) == (found.excluded, found.digest)


def test_infosearch_has_three_modes_a_query_and_a_dimension_a_folder(tmp_path):
    found = read("infosearch", tmp_path)
    assert [query.mode for query in found["infosearch/Audience-v1"].queries] == ["original", "instructed", "reversed"]
    assert {query.dimension for benchmark in found.values() for query in benchmark.queries} == {"audience", "keyword"}
    assert found["infosearch/Audience-v1"].qrels["q1-reversed"] == {"d1": 0, "d2": 1}


def test_instructir_groups_instructions_by_query_in_each_of_its_forms(tmp_path):
    (tmp_path / "parts").mkdir()
    source = write_benchmark("instructir", tmp_path)
    expected = [
        ("9_1", "ferry price", "I pay in dollars.", "9", "variant"),
        ("9_2", "ferry price", "I am a child.", "9", "variant"),
    ]
    assert queries_of(read_benchmark(source, "")) == expected
    (tmp_path / "queries.jsonl").write_text(
        lines({"_id": "9_1", "text": "ferry price"}, {"_id": "9_2", "text": "ferry price"})
    )
    told = [{"query-id": name, "instruction": text} for name, _, text, *_ in expected]
    (tmp_path / "instruction.jsonl").write_text(lines(*told))
    assert queries_of(read_benchmark(source, "")) == expected
    (tmp_path / "queries.jsonl").unlink()
    (tmp_path / "only_queries.jsonl").write_text(lines({"_id": "9", "text": "ferry price"}))
    told = [{"_id": name, "text": text, "metadata": {}} for name, _, text, *_ in expected]
    (tmp_path / "only_instruction_queries.jsonl").write_text(lines(*told))
    assert queries_of(read_benchmark(source, "")) == expected


def test_mair_has_a_collection_a_task_and_a_domain_a_query(tmp_path):
    found = read("mair", tmp_path)
    assert {name: [query.domain for query in b.queries] for name, b in found.items()} == {
        "mair/LitSearch": ["Academic"], "mair/Quora/a": ["Web"],
    }  # fmt: skip
    assert queries_of(found["mair/LitSearch"]) == [("q1", "ferries", "Find papers.", "q1", "instructed")]
    assert found["mair/LitSearch"].qrels == {"q1": {"d1": 2}}
    assert (len(DOMAINS), len(set(DOMAINS.values()))) == (126, 6)


def test_pir_asks_for_both_perspectives_and_for_none(tmp_path):
    benchmark = read("pir", tmp_path)["pir/ours"]
    assert [(query.id, query.query) for query in benchmark.queries] == [
        ("ours-0-original", "ferries"),
        ("ours-0-instructed", "who praises ferries"),
        ("ours-0-reversed", "who blames ferries"),
    ]
    assert benchmark.qrels["ours-0-original"] == {"0": 1, "1": 1}
    assert benchmark.qrels["ours-0-reversed"] == {"1": 1}
    assert not benchmark.ledger["views_alike"]
    alike = tmp_path / "pairs.jsonl"
    alike.write_text(alike.read_text().replace("blames", "praises"))
    [benchmark] = benchmarks_of(BenchmarkSource(kind="pir", path=tmp_path))
    assert (benchmark.ledger["views_alike"], benchmark.ledger.entries()["views_alike"].first) == (1, "'ours-0'")


@pytest.mark.parametrize(("kind", "name"), FILES, ids=str)
@pytest.mark.parametrize("damage", ["garbage", "gone", "other keys"])
def test_a_broken_file_is_named_or_what_is_wrong_with_the_whole(tmp_path, kind, name, damage):
    source = write_benchmark(kind, tmp_path)
    path = tmp_path / name
    match damage:
        case "garbage":
            path.write_text("\x01 <<< {no such\nformat\n")
        case "gone":
            path.unlink()
        case "other keys":
            path.write_text(json.dumps({"un": "known"}) + "\n")
    part = name.partition("/")[0] if kind in {"followir", "infosearch"} else ""
    part = "pony/long" if name.startswith("long_") else part
    if damage == "gone" and name.endswith(("top_ranked.jsonl", "qrel_diff.jsonl")):
        path.parent.rmdir() if kind == "mfollowir" else None
        assert (read_benchmark(source, part or "fas").candidates is None) == name.endswith("top_ranked.jsonl")
        return
    with pytest.raises(UsageError) as caught:
        [read_benchmark(source, each) for each in ([part] if part else parts_of(source))]
    assert str(tmp_path) in str(caught.value) or source.kind in str(caught.value)


def test_an_error_names_file_line_and_what_was_expected(tmp_path):
    source = write_benchmark("infosearch", tmp_path)
    with (tmp_path / "Audience-v1" / "queries.jsonl").open("a") as file:
        file.write(lines({"_id": "q2", "text": "bread", "instruction_og": ""}))
    with pytest.raises(UsageError, match=r"queries.jsonl:2: expected a text under 'instruction_changed'"):
        read_benchmark(source, "Audience-v1")


def test_parts_that_do_not_belong_together_are_refused(tmp_path):
    source = write_benchmark("beir", tmp_path)
    (tmp_path / "qrels" / "test.tsv").write_text("q1\tother\t1\n")
    with pytest.raises(UsageError, match="no document is relevant to any query"):
        read_benchmark(source, "test")
    source = write_benchmark("followir", tmp_path / "lists")
    (tmp_path / "lists" / "Core17" / "top_ranked.jsonl").write_text(lines({"qid": "q1", "pid": "d9"}))
    with pytest.raises(UsageError, match="candidate 'd9' of query 'q1-og' is no document"):
        read_benchmark(source, "Core17")
    with pytest.raises(UsageError, match="no benchmark 'nosuch'; choose one of beir, trec"):
        read_benchmark(BenchmarkSource(kind="nosuch", path=tmp_path), "")


def test_a_digest_follows_from_the_content_in_any_order(tmp_path):
    source = write_benchmark("beir", tmp_path)
    before = read_benchmark(source, "test").digest
    text = (tmp_path / "corpus.jsonl").read_text().splitlines()
    (tmp_path / "corpus.jsonl").write_text("\n".join(reversed(text)))
    again = source.model_copy(update={"name": "other", "revision": "2"})
    assert read_benchmark(again, "test").digest == before
    (tmp_path / "corpus.jsonl").write_text("\n".join(text).replace("noon", "dawn"))
    assert read_benchmark(source, "test").digest != before


def test_real_collections_have_their_published_sizes(shared_data):
    sizes = {}
    for source in (
        BenchmarkSource(kind="pir", path=shared_data / "pir"),
        BenchmarkSource(kind="trec", path=shared_data / "trec_sgml" / "cacm"),
        BenchmarkSource(kind="trec", path=shared_data / "trec_sgml" / "cranfield"),
        BenchmarkSource(kind="beir", path=shared_data / "msmarco" / "instructir_filtered"),
    ):
        for benchmark in benchmarks_of(source):
            sizes[benchmark.name] = len(benchmark.documents), len(benchmark.queries)
            assert benchmark.ledger["views_alike"] == (32 if benchmark.name == "pir/perspectrum" else 0)
    assert sizes == {
        "pir/perspectrum": (500, 210), "pir/ambigqa": (500, 234), "trec/cacm": (3204, 52),
        "trec/cranfield": (1400, 225),
        "beir/instructir_filtered/test": (1743, 1743),
    }  # fmt: skip


def test_the_published_queries_of_instructir_have_their_cores(shared_data, tmp_path):
    shutil.copytree(shared_data / "instructir", tmp_path / "ir", copy_function=shutil.copyfile)
    (tmp_path / "ir").chmod(0o755)
    with pytest.raises(UsageError, match="no corpus"):
        read_benchmark(BenchmarkSource(kind="instructir", path=tmp_path / "ir"), "")
    passages = {line.split("\t")[1] for line in (tmp_path / "ir/qrels/test.tsv").read_text().splitlines()[1:]}
    (tmp_path / "ir" / "corpus.jsonl").write_text(lines(*({"_id": p, "title": "", "text": "t"} for p in passages)))
    benchmark = read_benchmark(BenchmarkSource(kind="instructir", path=tmp_path / "ir"), "")
    assert (len(benchmark.queries), len({query.core for query in benchmark.queries})) == (9906, 1267)


def test_candidate_lists_read_as_queries_and_texts(tmp_path):
    path = tmp_path / "hits.json"
    hits = [{"qid": 7, "docid": "d1", "content": "one"}, {"qid": 7, "docid": "d2", "content": "two"}]
    path.write_text(json.dumps([{"query": "what", "hits": hits}]))
    assert read_hits(path) == ({"7": "what"}, {"7": {"d1": "one", "d2": "two"}})
    path.write_text(json.dumps([{"query": "what", "hits": [*hits, {"qid": 8, "docid": "d3", "content": "x"}]}]))
    with pytest.raises(UsageError, match=r"hits.json, list 0: expected .* with one qid"):
        read_hits(path)
    path.write_text(json.dumps([{"query": "what", "hits": [{"qid": 7, "docid": "d1"}]}]))
    with pytest.raises(UsageError, match=r"list 0: expected .*KeyError\('content'\)"):
        read_hits(path)
