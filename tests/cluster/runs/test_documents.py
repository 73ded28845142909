"""A folder of documents, end to end: passages, queries that a model writes, topics; what is left out is counted."""

import json
import re
from collections import Counter
from itertools import islice
from random import Random

import pytest

from foil.cluster.job import load_job
from foil.cluster.seeds.documents import DocumentsReader, DocumentsSettings
from foil.engine.errors import SeedFormatError, UsageError
from tests.support.commands import foil
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.small_parts import topics
from tests.support.topics.trades import trade_rows

pytest.importorskip("markdownify")
pytest.importorskip("pypdf")

JOB = """\
seeds: {{kind: documents, corpus: handbook, path: {path}, passage_words: 150}}
recipe: {recipe}
models: {{writer: {{kind: hosted, model: in-character, url: "{url}"}}}}
validators: [{{kind: shape}}]
out: {out}
"""
PAGE = """<html><head><title>Trades</title></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/trades">All of the trades</a></li></ul></nav>
<h1>{heading}</h1><p>{first}</p><h2>More of it</h2><p>{second}</p>
<footer>Printed by the guild of the valley, who keep all rights to these pages.</footer></body></html>"""
SHELF = re.findall(
    r"\w+",
    "anvil basket candle drum envelope feather gimlet hammer inkpot jar kettle ladle mirror needle oar pencil quilt "
    "razor saddle teapot umbrella vase whistle yoke zither almanac bellows compass dial easel flask goblet",
)
NAVIGATION = "<html><body><ul>{}</ul></body></html>".format(
    "".join(f"<li><a href='/{n}'>Page number {n} of this site</a></li>" for n in range(20))
)


def pdf_of(text):
    """A small PDF of one page, a line for eight words."""
    words = text.split()
    lines = [" ".join(words[at : at + 8]).replace("(", "").replace(")", "") for at in range(0, len(words), 8)]
    content = "BT /F1 12 Tf 14 TL 50 750 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 5 0 R/Resources << /Font << /F1 4 0 R >> >> >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
    ]
    pdf, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(pdf))
        pdf += f"{number} 0 obj\n{part}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(pdf)}\n%%EOF\n"
    return pdf + end.encode()


def write_folder(folder):
    """Fifty files: 44 of four kinds, and one each that is empty, binary, in Latin-1, navigation alone, damaged, and
    nearly another one."""
    (folder / "sub").mkdir(parents=True)
    rows = [*trade_rows(), *trade_rows()[:4]]
    for number, row in enumerate(rows):
        heading = row["positives"][0]["title"]
        first, second = (
            f"{passage['text']} On the shelf: {', '.join(Random(f'{number} {part}').sample(SHELF, 16))}."
            for part, passage in enumerate(row["positives"])
        )
        path = folder / ("sub" if number % 3 else "") / f"{number:02}"
        match number % 4:
            case 0:
                path.with_suffix(".txt").write_text(f"{first}\n\n{second}\n")
            case 1:
                path.with_suffix(".md").write_text(f"# {heading}\n\n{first}\n\n## More of *it*\n\n{second}\n")
            case 2:
                path.with_suffix(".html").write_text(PAGE.format(heading=heading, first=first, second=second))
            case _:
                path.with_suffix(".pdf").write_bytes(pdf_of(f"{first} {second}"))
    (folder / "empty.txt").write_text("")
    (folder / "binary.dat").write_bytes(bytes(range(256)) * 40)
    (folder / "damaged.pdf").write_bytes(b"%PDF-1.4\n" + bytes(range(256)))
    (folder / "navigation.html").write_text(NAVIGATION)
    words = " ".join(f"Der Müller {n} fährt schöne Säcke über die Brücke." for n in range(6))
    (folder / "latin.txt").write_bytes(words.encode("latin-1"))
    near = (folder / "sub" / "01.md").read_text().replace("by hand", "by hands")
    (folder / "sub" / "99-again.md").write_text(near)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("recipe", ["{kind: infir}", "{kind: promptriever}"], ids=["infir", "promptriever"])
def test_fifty_files_become_topics(tmp_path, recipe):
    folder, out = write_folder(tmp_path / "files"), tmp_path / "out"
    assert sum(path.is_file() for path in folder.rglob("*")) == 50
    with serving(answer=Character()) as server:
        job = tmp_path / "job.yaml"
        job.write_text(JOB.format(path=folder, recipe=recipe, url=server.url, out=out))
        done = foil("run", job)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = topics(out)
    read = {kind: (entry["count"], entry["first"]) for kind, entry in status(out)["read"].items() if kind != "seeds"}
    files = {row.seed_id.partition("#")[0] for row in rows}
    assert read["files"][0] == len(files | {"sub/99-again.md"}) == 46
    assert read["other_files"] == (1, str(folder / "binary.dat"))
    assert read["blank_files"][0] == 2
    assert read["reencoded_files"] == (1, str(folder / "latin.txt"))
    assert read["unreadable_files"][0] == 1
    assert read["unreadable_files"][1].startswith(f"{folder / 'damaged.pdf'}: ")
    assert read["near_duplicates"][0] == 2
    assert "nearly repeat an earlier one" in done.stdout
    accepted = [row for row in rows if row.status == "accepted"]
    assert len(accepted) >= 0.9 * len(rows)
    assert {row.attributes["query_for"] for row in accepted} == {"passage", "passages", "documents"}
    assert all([call.task for call in row.calls].count("writing.query") == 1 for row in rows)
    assert not {j.judge for row in accepted for j in row.judgments} & {"seed"}
    assert not [
        p for row in rows for p in row.passages if "guild of the valley" in p.text or "All of the trades" in p.text
    ]
    why = foil("why", out, accepted[0].id).stdout
    assert "writing.query" in why


def status(out):
    return json.loads(foil("status", out, "--json").stdout)


def test_each_purpose_has_its_passages_and_negatives_come_from_elsewhere(tmp_path):
    folder = write_folder(tmp_path / "files")
    seeds = [*DocumentsReader(DocumentsSettings(corpus="c", path=folder, passage_words=150))]
    files = {
        purpose: [
            [passage.source_id.partition("#")[0] for passage in seed.positives]
            for seed in seeds
            if seed.attributes["query_for"] == purpose
        ]
        for purpose in ("passage", "passages", "documents")
    }
    assert all(len(each) == 1 for each in files["passage"])
    assert all(len(each) == 2 and len({*each}) == 1 for each in files["passages"])
    assert all(len(each) == 2 == len({*each}) for each in files["documents"])
    assert not any(seed.query for seed in seeds)
    for seed in seeds:
        own = {passage.source_id.partition("#")[0] for passage in seed.positives}
        assert len(seed.negatives) == (0 if own == {"latin.txt"} else 5), "no other file has a word of German"
        assert not own & {passage.source_id.partition("#")[0] for passage in seed.negatives}


def test_shares_are_kept_and_one_purpose_alone_is_one(tmp_path):
    folder = write_folder(tmp_path / "files")
    for shares in ({"passage": 1, "passages": 0, "documents": 0}, {"passage": 0, "passages": 0, "documents": 1}):
        settings = DocumentsSettings.model_validate({"corpus": "c", "path": folder, "queries": shares})
        purposes = Counter(seed.attributes["query_for"] for seed in DocumentsReader(settings))
        [wanted] = [name for name, share in shares.items() if share]
        assert purposes[wanted] >= purposes.total() - 1, "no other document has a word of German"


def test_a_passage_crosses_no_heading_and_code_and_tables_stay_whole(tmp_path):
    prose = " ".join(f"Sentence number {n} tells how the kiln is heated." for n in range(40))
    code = "```python\n" + "\n".join(f"kiln.heat({n})  # one step more" for n in range(8)) + "\n```"
    table = "| cone | degrees |\n|---|---|\n" + "\n".join(f"| {n} | {n}00 |" for n in range(9))
    page = f"---\ntags: x\n---\n# Kiln\n\n{prose}\n\n## Steps\n\nAs a program, in [short](http://x):\n\n{code}\n\n{table}\n"
    (tmp_path / "kiln.md").write_text(page)
    settings = DocumentsSettings(corpus="c", path=tmp_path, passage_words=50, least_words=1)
    passages = [seed.positives[0] for seed in DocumentsReader(settings)]
    assert {passage.title for passage in passages} == {"Kiln", "Kiln: Steps"}
    assert [
        passage.text.count(code) + passage.text.count(table)
        for passage in passages
        if "|" in passage.text or "```" in passage.text
    ]
    told = [passage for passage in passages if passage.title == "Kiln"]
    assert " ".join(passage.text for passage in told) == prose
    assert all(passage.text.endswith(".") and 25 <= len(passage.text.split()) <= 66 for passage in told)
    below = "\n".join(passage.text for passage in passages if passage.title == "Kiln: Steps")
    assert code in below
    assert table in below
    assert "http://x" not in below
    assert "tags: x" not in "".join(passage.text for passage in passages)


def test_a_faulty_query_is_corrected(tmp_path):
    folder, out = write_folder(tmp_path / "files"), tmp_path / "out"
    with serving(answer=(model := Character(said=0.2))) as server:
        job = tmp_path / "job.yaml"
        job.write_text(JOB.format(path=folder, recipe="{kind: plain}", url=server.url, out=out))
        done = foil("run", job, "--set", "limits.seeds=40")
    assert done.returncode == 0, done.stdout + done.stderr
    faults = {name: fault for name, fault in model.ledger.items() if fault.task == "writing.query"}
    calls = [call for row in topics(out) for call in row.calls]
    assert faults
    assert {call.request_id for call in calls if call.fault} == faults.keys()
    assert any(call.turn == "correction" for call in calls)
    for row in topics(out):
        assert row.status != "accepted" or not re.search(r"sorry|requested", row.query)


def test_a_job_without_a_model_is_refused_and_on_error_ends_a_run(tmp_path):
    folder, job = write_folder(tmp_path / "files"), tmp_path / "job.yaml"
    text = JOB.format(path=folder, recipe="{kind: plain}", url="http://127.0.0.1:9", out=tmp_path / "out")
    job.write_text("\n".join(line for line in text.splitlines() if not line.startswith("models")))
    with pytest.raises(UsageError, match="seeds: asks a model of the role 'instruction_writer'"):
        load_job(job)
    settings = DocumentsSettings(corpus="c", path=folder, on_error="refuse")
    with pytest.raises(SeedFormatError, match=r"damaged\.pdf"):
        list(islice(DocumentsReader(settings), 1))
    with pytest.raises(UsageError, match="does not exist"):
        list(DocumentsReader(DocumentsSettings(corpus="c", path=tmp_path / "nowhere")))
