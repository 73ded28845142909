"""The card of a release names every run behind it, and how the judges did; texts of others do no harm there."""

import json
import re

import pytest
import yaml

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.curation.origins import put_sources
from foil.datasets_out.release.ancestry import read_ancestors
from foil.datasets_out.sql.audits import AUDITS, put_rows
from foil.datasets_out.sql.query import run_sql
from tests.support.commands import hosted_job
from tests.support.models.character import Character
from tests.support.models.fault_server import serving
from tests.support.trainer_world import commit, topic

HOSTILE = "x\n\n```\n\n# Owned\n\n<script>alert(1)</script> \u202e /home/ann/mine/keys.txt ~/.ssh/id https://u:pw@h/x"
FENCED = re.compile(r"^(`{3,})yaml\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def run(*words, code=0):
    assert run_command(app, [*map(str, words)]) == code, words


def run_with_judge(folder):
    """A run of a hosted writer and a judge who is asked a canary with every topic."""
    with serving(answer=Character()) as server:
        job = hosted_job(folder, server.url, 12)
        judge = f"{{kind: hosted, model: other/judge, url: '{server.url}', price: {{prompt: 1.0, completion: 1.0}}}}"
        text = job.read_text().replace("models: {writer:", f"models: {{judge: {judge}, writer:")
        judges = "[{kind: shape}, {kind: judge_scenarios, canaries: {share: 0.5}}]"
        job.write_text(text.replace("[{kind: shape}]", judges))
        run("run", job)
    return folder / "out"


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A run, accepted and filtered, of which a topic is dropped, merged with a mined one, and its release."""
    folder = tmp_path_factory.mktemp("chain")
    out, world = run_with_judge(folder), commit(folder / "world", [topic(n) for n in range(40)])
    run("accept", out, folder / "accepted", "--where", "true", "--reason", "the judge erred", "--by", "ann")
    run("filter", folder / "accepted", folder / "filtered", "--where", "query NOT LIKE '%/home/ann/%'")
    [first, *_] = run_sql(folder / "filtered", "SELECT topic_id FROM topics WHERE status = 'accepted'").to_pylist()
    run("drop", folder / "filtered", folder / "dropped", first["topic_id"], "--reason", HOSTILE)
    run("mine", world, folder / "mined")
    run("merge", folder / "dropped", folder / "mined", folder / "merged")
    run("export", folder / "merged", "--format", "hf", "--into", folder / "release")
    return folder


def blocks(card):
    return [yaml.safe_load(found[2]) for found in FENCED.finditer(card)]


def test_a_card_lists_every_run_behind_a_merged_one(chain):
    card = (chain / "release" / "README.md").read_text()
    assert [next(iter(block)) for block in blocks(card)] == [
        "merge",
        "drop",
        "mine",
        "filter",
        "seeds",
        "accept",
        "seeds",
    ]
    shown = {next(iter(block)): block for block in blocks(card)}
    assert shown["drop"]["drop"]["topics"] == 1
    assert (shown["accept"]["accept"]["reason"], shown["accept"]["accept"]["by"]) == ("the judge erred", "ann")
    assert "Owned" in shown["drop"]["drop"]["reason"]
    assert shown["filter"]["filter"]["where"] == "query NOT LIKE '%%'"
    whole = [block for block in blocks(card) if block.get("recipe", {}).get("kind") == "infir"]
    assert [block["models"] for block in whole] == [{"judge": "other/judge", "writer": "m"}]
    assert [each["kind"] for each in whole[0]["validators"]] == ["shape", "judge_scenarios"]
    for name in ("out", "world", "accepted", "filtered", "dropped", "mined"):
        assert CommitLog(chain / name).fingerprint() in card


def test_nothing_of_an_ancestor_breaks_the_card_or_names_a_folder(chain):
    for name in ("README.md", "croissant.json"):
        text = (chain / "release" / name).read_text()
        if name == "README.md":
            assert not re.search(r"^ {0,3}# Owned|(?<!\\)<script", FENCED.sub("", text), re.MULTILINE)
        for words in ("\u202e", "/home/ann", "~/.ssh", "u:pw", str(chain)):
            assert words not in text, words
    assert "rai:dataPreprocessingProtocol" in text


def test_the_judges_stand_in_the_card_by_their_canaries(chain):
    from foil.cluster.releases.ordering import judge_rows_of

    card = (chain / "release" / "README.md").read_text()
    right, of = run_sql(
        chain / "merged", "SELECT count(*) FILTER (reason = 'canary_right') AS n, count(*) AS of FROM verdicts "
        "WHERE reason IN ('canary_right', 'canary_wrong')"
    ).to_pylist()[0].values()  # fmt: skip
    assert of > 0
    assert f"| judge_scenarios by judge | canaries right | {right} of {of} (95 %: " in card
    assert not [row for row in judge_rows_of(chain / "merged", "merged") if "kappa" in row.measure]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_kappa_with_people_stands_in_the_card_with_its_interval(tmp_path):
    out = commit(tmp_path / "out", [topic(n) for n in range(20)])
    labels = run_sql(out, "SELECT * FROM judgments ORDER BY topic_id, intent_id, passage_id").to_pylist()
    marks = [
        dict.fromkeys(AUDITS.names)
        | {name: row[name] for name in ("topic_id", "intent_id", "passage_id")}
        | {"reader": "ann", "audit": "first", "item": number,
           "label": row["relevance"], "mark": row["relevance"] * (1 if number % 6 else -1),
           "recipe": "test", "corpus": "world", "contrast": "", "family": "", "edited": False, "answers": True,
           "usable": True, "natural": True, "gives_away": False, "seed_id": row["topic_id"], "remark": ""}
        for number, row in enumerate(labels)
    ]  # fmt: skip
    put_rows(out, "first", "ann", marks)
    run("export", out, "--format", "hf", "--into", tmp_path / "release")
    card = (tmp_path / "release" / "README.md").read_text()
    found = re.search(r"\| labels of the topics / reader ann \| Cohen's kappa over 180 pairs \| (.*) \|", card)
    kappa, low, high = map(float, re.findall(r"\d\.\d\d", found[1]))
    assert low < kappa < high
    facts = json.loads((tmp_path / "release" / "croissant.json").read_text())
    assert any("Cohen's kappa" in fact for fact in facts["rai:dataAnnotationAnalysis"])
    mlcroissant = pytest.importorskip("mlcroissant")
    assert not mlcroissant.Dataset(jsonld=str(tmp_path / "release" / "croissant.json")).metadata.ctx.issues.errors


def test_a_source_that_is_gone_or_another_run_by_now_is_listed_by_its_fingerprint(tmp_path):
    made = [commit(tmp_path / name, [topic(n)]) for n, name in enumerate(("first", "second"))]
    into = commit(tmp_path / "into", [topic(3)])
    put_sources(CommitLog(into), [load_snapshot(each, None) for each in made])
    fingerprint = CommitLog(made[0]).fingerprint()
    made[0].rename(tmp_path / "moved")
    gone, there = read_ancestors(into)
    assert (gone.fingerprint, gone.job, there.job) == (fingerprint, {}, {"seeds": {"kind": "world"}})
    CommitLog(made[0]).open("other", {"seeds": {"kind": "other"}})
    assert not any(each.job for each in read_ancestors(into)[:1])
