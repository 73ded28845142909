"""docs/architecture.md: what it names exists; its table of additions names exactly the files that each one takes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from foil.prompts.recipes.verifiable import VERSION
from tests.support.paths import PACKAGES, REPO

PAGE = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
NEW = "new"  # an edit that writes a new file has no anchor
SINGING = "\nsinging:\n  affirm: speak of singing\n  deny: be silent on singing\n  why: I sing.\n  spare: I hum.\n"

ADDITIONS: dict[str, dict[str, list[tuple[str, str]]]] = {
    "seed corpus": {
        "engine/seeds/tiny.py": [(NEW, '''
import json
from typing import Literal
from urllib.request import urlopen
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.settings import Settings
from foil.engine.topic import Passage, Seed

class TinySettings(Settings):
    kind: Literal["tiny"] = "tiny"
    url: str

class TinyReader:
    def __init__(self, settings): self._url, self.ledger = settings.url, Ledger()
    def __iter__(self):
        with urlopen(self._url) as page: rows = json.load(page)
        for row in rows:
            yield Seed(row["id"], "tiny", row["query"], (Passage(row["text"], "seed_positive"),))
''')],
        "engine/seeds/catalog.py": [
            ("\nREADERS:", "from foil.engine.seeds.tiny import TinyReader, TinySettings\n\nREADERS:"),
            ('    "table": (', '    "tiny": (TinySettings, TinyReader),\n    "table": ('),
        ],
    },
    "recipe": {
        "prompts/recipes/tiny.py": [(NEW, '''
from typing import Literal
from foil.engine.settings import Settings
from foil.engine.topic import Intent, Topic, intent_id, topic_id
from foil.prompts.render import load

class TinyRecipeSettings(Settings):
    kind: Literal["tiny"] = "tiny"

class Tiny:
    name = "tiny"
    def __init__(self, settings): self.fingerprint = load("tiny/ask").digest
    async def __call__(self, seed, ask):
        topic = topic_id("tiny", seed)
        intent = Intent(intent_id(topic, "", seed.query), "original", "", seed.query)
        passages = tuple(seed.positives)
        return [Topic(topic, seed.id, seed.corpus, "tiny", seed.query, (intent,), passages)]
''')],
        "prompts/templates/tiny/ask.j2": [(NEW, "=== user ===\nSay something about {{ query }}.\n")],
        "prompts/recipes/catalog.py": [
            ("\nRECIPES:", "from foil.prompts.recipes.tiny import Tiny, TinyRecipeSettings\n\nRECIPES:"),
            ('    "infir": (', '    "tiny": (TinyRecipeSettings, Tiny),\n    "infir": ('),
        ],
    },
    "constraint family": {
        "prompts/constraints/text_detectors.py": [(NEW, '\nSINGING = by_pattern(r"\\bsings?\\b", "sing")\n')],
        "prompts/constraints/families.py": [
            ('    _family("mentions"', '    _family("singing", text.SINGING, 1.0, TEXT),\n    _family("mentions"'),
        ],
        "prompts/recipes/verifiable.py": [(f'VERSION = "{VERSION}"', 'VERSION = "next"')],
        "prompts/constraints/wordings.yaml": [
            (NEW, SINGING),
        ],
    },
    "check": {
        "validators/checks/tiny.py": [(NEW, '''
from typing import Literal
from foil.engine.settings import Settings
from foil.validators.verdicts import TopicCheck
from foil.validators.verdicts import pass_verdicts

class TinyCheckSettings(Settings):
    kind: Literal["tiny"] = "tiny"

class TinyCheck(TopicCheck[TinyCheckSettings]):
    name = "tiny"
    def __call__(self, topic): return topic, pass_verdicts(self.name)
''')],
        "validators/catalog.py": [
            ("\nVALIDATORS:", "from foil.validators.checks.tiny import TinyCheck, TinyCheckSettings\n\nVALIDATORS:"),
            ('    "leak": (', '    "tiny": (TinyCheckSettings, TinyCheck),\n    "leak": ('),
        ],
    },
    "judge": {
        "validators/judges/tiny.py": [(NEW, '''
from typing import Literal
from foil.engine.protocols import Cost
from foil.prompts.parse import StructuredReply
from foil.validators.judges.panel import JudgePanel, PanelSettings, panel_fingerprint
from foil.validators.judges.votes import NONE

class Answered(StructuredReply):
    answered: bool

class JudgeTinySettings(PanelSettings):
    kind: Literal["judge_tiny"] = "judge_tiny"

class JudgeTiny:
    name, cost = "judge_tiny", Cost.MODEL
    def __init__(self, settings):
        self._settings, self.fingerprint = settings, panel_fingerprint(settings, "judges/tiny", version=1)
    async def __call__(self, topic, ask):
        panel = JudgePanel(self.name, self._settings, topic, ask)
        intent, passage = topic.intents[0], topic.passages[0]
        async def vote(intent, passages, slot):
            means = lambda answer: passage.id if answer.answered else NONE
            return await panel.ask_once("judges/tiny", Answered, means, intent, passages, slot=slot)
        count = await panel.collect_votes(vote, intent, [passage])
        return topic, [panel.verdict(count, passage.id, "pass" if count.decision == passage.id else "reject")]
''')],
        "prompts/templates/judges/tiny.j2": [(NEW, """=== system ===
Data of {{ code }} is a {{ kind }}.{% if rationale %} Give a reason.{% endif %}
=== user ===
Does <{{ code }}>{{ shown[0].text }}</{{ code }}> answer {{ query }}? {{ instruction }}
""")],
        "validators/catalog.py": [
            ("\nVALIDATORS:", "from foil.validators.judges.tiny import JudgeTiny, JudgeTinySettings\n\nVALIDATORS:"),
            ('    "pii": (', '    "judge_tiny": (JudgeTinySettings, JudgeTiny),\n    "pii": ('),
        ],
    },
    "model": {
        "engine/models/tiny.py": [(NEW, '''
from typing import Literal
from foil.engine.model_traits import ModelTraits
from foil.engine.protocols import Model
from foil.engine.requests import Reply
from foil.engine.settings import Settings

class TinyModelSettings(Settings):
    kind: Literal["tiny"] = "tiny"

class TinyModel(Model):
    name, traits = "tiny", ModelTraits()
    async def complete(self, request): return Reply(request.id, '{"answered": true}', self.name)
''')],
        "cluster/catalog.py": [
            ("\nFactory = ", "from foil.engine.models.tiny import TinyModel, TinyModelSettings\n\nFactory = "),
            ('    "hosted": (', '    "tiny": (TinyModelSettings, lambda *_: TinyModel()),\n    "hosted": ('),
        ],
    },
    "loss": {
        "trainer/train/loss/losses.py": [
            ("\nCOMBINATIONS:", "def _tiny(positive, negatives, _):\n    return -positive\n\n\nCOMBINATIONS:"),
            ('    "sum": ', '    "tiny": _tiny,\n    "sum": '),
        ],
        "trainer/settings.py": [('Literal["multivariate", "sum"]', 'Literal["multivariate", "sum", "tiny"]')],
    },
    "measure": {
        "trainer/evaluate/measures/tiny.py": [(NEW, '''
from dataclasses import dataclass
from foil.trainer.evaluate.measures.ranking import RankingMeasure

@dataclass(frozen=True, slots=True)
class TinyMeasure(RankingMeasure):
    name = "tiny"
    def value(self, found): return float(found.ranks.min() == 2)
''')],
        "trainer/evaluate/measures/catalog.py": [
            (
                "\n\nclass Measure(",
                "from foil.trainer.evaluate.measures.tiny import TinyMeasure\n\n\nclass Measure(",
            ),
            ('    "nDCG@k": (', '    "tiny": (r"tiny", TinyMeasure),\n    "nDCG@k": ('),
        ],
    },
    "benchmark": {
        "trainer/evaluate/benchmarks/readers/tiny.py": [(NEW, '''
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery

def read_tiny(source, part, ledger):
    return Benchmark(source.name, "", {"d": ("", "a text")}, (EvaluationQuery("q", "a query"),), {"q": {"d": 1}})
''')],
        "trainer/evaluate/benchmarks/catalog.py": [
            ("\n\n@dataclass(", "from foil.trainer.evaluate.benchmarks.readers.tiny import read_tiny\n\n\n@dataclass("),
            ('    "beir": ', '    "tiny": BenchmarkKind("", "", "", "", read_tiny, _always("")),\n    "beir": '),
        ],
    },
    "format of a release": {
        "datasets_out/release/formats/tiny.py": [(NEW, '''
from foil.datasets_out.release.formats.release_format import ReleaseFormat
from foil.datasets_out.release.row_files import OutputRow

TINY = ReleaseFormat("tiny", lambda released, layout: iter([OutputRow("rows.jsonl", {})]), "open it")
''')],
        "datasets_out/release/formats/catalog.py": [
            ("\n\nFORMATS", "\nfrom foil.datasets_out.release.formats.tiny import TINY\n\nFORMATS"),
            ("        HUGGING_FACE, ", "        TINY, HUGGING_FACE, "),
        ],
        "cluster/commands/releases/export.py": [('    HF = "hf"', '    TINY = "tiny"\n    HF = "hf"')],
    },
    "default temperature": {
        "prompts/sampling.py": [("WRITING_TEMPERATURE = 0.8", "WRITING_TEMPERATURE = 0.6")],
    },
    "column of topics": {
        "engine/topic.py": [
            ("\n\n\ndef topic_id(", "\n    mood: str = 'calm'\n\n\ndef topic_id("),
        ],
        "datasets_out/commits/schema.py": [
            ('"redistributable": pa.bool_(), "attributes": _MAP,\n',
             '"redistributable": pa.bool_(), "attributes": _MAP, "mood": _TEXT,\n'),
            ("_LATER_COLUMNS = {", '_LATER_COLUMNS = {"mood": "calm", '),
        ],
        "datasets_out/sql/schema_words.yaml": [
            ("  corpus: the corpus", "  mood: the mood\n  corpus: the corpus"),
        ],
    },
}  # fmt: skip

PROOF = """
import json, sys, threading, pyarrow as pa, pyarrow.parquet as pq, torch, yaml
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from foil.cluster.commands.releases.export import Format
from foil.cluster.job import load_job
from foil.cluster.run_job import run_job
from foil.datasets_out.commits.schema import TABLES, from_tables
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.release.formats.catalog import FORMATS
from foil.datasets_out.sql.query import run_sql
from foil.prompts.constraints.families import FAMILIES, NAMES_BY_KIND
from foil.prompts.render import load
from foil.prompts.sampling import writing
from foil.trainer.evaluate.benchmarks.catalog import benchmarks_of
from foil.trainer.benchmark_source import BenchmarkSource
from foil.trainer.train.loss.losses import row_losses
from foil.trainer.evaluate.measures.catalog import measure_named
from foil.trainer.evaluate.measures.judged import single_queries
from foil.trainer.settings import LossSettings

class Page(BaseHTTPRequestHandler):
    def log_message(self, *_): ...
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([{"id": "s1", "query": "a query", "text": "a text"}]).encode())

server = HTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
folder = Path(sys.argv[1])
seeds = {"kind": "tiny", "url": f"http://127.0.0.1:{server.server_port}/"}
job = {"seeds": seeds, "recipe": {"kind": "tiny"}, "out": str(folder / "out"),
       "models": {"writer": {"kind": "tiny"}, "judge": {"kind": "tiny"}},
       "validators": [{"kind": "tiny"}, {"kind": "judge_tiny"}]}
(folder / "job.yaml").write_text(yaml.safe_dump(job))
summary = run_job(load_job(folder / "job.yaml"))
assert summary.counts.plain()["validators"] == {"tiny pass": 1, "judge_tiny pass": 1}, summary
assert run_sql(folder / "out", "SELECT mood, query FROM topics").to_pylist() == [{"mood": "calm", "query": "a query"}]
snapshot = load_snapshot(folder / "out", None)
tables = {table: pa.concat_tables(map(pq.read_table, snapshot.files(table))) for table in TABLES}
assert from_tables({**tables, "topics": tables["topics"].drop_columns(["mood"])})[0].mood == "calm"
assert writing(load("tiny/ask").render(query="q"), 5).sampling["temperature"] == 0.6
assert FAMILIES["singing"].detector.find("She sings.", {}, "") == 4 and "singing" in NAMES_BY_KIND["text"]
block = torch.zeros(2, 3), torch.ones(2, 3, dtype=bool)
settings = LossSettings(combine="tiny", blocks=("P",))
assert row_losses(torch.ones(2), {"P": block}, settings).tolist() == [-1, -1]
assert [each.name for each in benchmarks_of(BenchmarkSource(kind="tiny", path=folder))] == ["tiny"]
assert FORMATS[Format("tiny").value].usage == "open it"
qrels, run = {"q": {"a": 1}}, {"q": {"a": 1.0, "b": 2.0}}
assert measure_named("tiny").values(single_queries(qrels), qrels, run) == {"q": 1.0}
"""


def table_after(heading: str, page: str = PAGE) -> list[list[str]]:
    """The cells of the table under a heading, its head aside."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_each_addition_takes_exactly_the_files_that_the_table_names():
    named = {row[0]: set(re.findall(r"`([^`]+)`", row[1])) for row in table_after("To add something")}
    taken = {kind: {re.sub(r"\btiny\b", "NAME", file) for file in edits} for kind, edits in ADDITIONS.items()}
    assert named == taken
    assert not [file for files in named.values() for file in files if "NAME" not in file and not (REPO / file).exists()]


WALKS = {
    "a reader of a JSON API": "seed corpus",
    "a judge": "judge",
    "the default temperature": "default temperature",
    "a column of topics": "column of topics",
    "a reader of a benchmark": "benchmark",
}


def test_a_newcomer_reads_four_files_and_writes_three_at_most():
    page = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walks = {row[0]: [re.findall(r"`([^`]+)`", cell) for cell in row[1:3]] for row in table_after("Five walks", page)}
    assert walks.keys() == WALKS.keys()
    for walk, (read, written) in walks.items():
        assert len(read) in range(1, 5), walk
        assert len(written) in range(1, 4), walk
        assert not [file for file in read if not (REPO / file).exists()], walk
        assert set(written) == {re.sub(r"\btiny\b", "NAME", file) for file in ADDITIONS[WALKS[walk]]}, walk


@pytest.mark.slow
def test_what_is_added_so_is_found_by_its_catalog(tmp_path):
    for folder in ("foil", *PACKAGES):
        shutil.copytree(
            REPO / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("part-*", "__pycache__")
        )
    for edits in ADDITIONS.values():
        for file, changes in edits.items():
            path = tmp_path / file
            for anchor, text in changes:
                path.parent.mkdir(parents=True, exist_ok=True)
                before = path.read_text(encoding="utf-8") if path.exists() else ""
                assert anchor == NEW or anchor in before, (file, anchor)
                path.write_text(before + text if anchor == NEW else before.replace(anchor, text, 1), encoding="utf-8")
    command = [sys.executable, "-c", PROOF, str(tmp_path)]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("heading", ["The life of a seed", "The life of a training batch"])
def test_each_step_names_a_function_of_its_file(heading):
    rows = table_after(heading)
    assert len(rows) > 8
    for _, functions, file in rows:
        source = (REPO / file.strip("`")).read_text(encoding="utf-8")
        for function in re.findall(r"`([^`]+)`", functions):
            name = function.rpartition(".")[2]
            assert re.search(rf"(?:def|class) {name}\b", source), f"{file} has no {function}"


def test_every_path_that_the_page_names_exists():
    paths = [Path(path) for path in re.findall(r"`((?:\w+/)+[\w.]*)`", PAGE)]
    assert len(paths) > 40
    assert not [path for path in paths if "NAME" not in str(path) and not (REPO / path).exists()]
