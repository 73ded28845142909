"""What lies beside the rows of a release: card, Croissant document, checksums, signature."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from foil.cluster.commands.app import app
from foil.cluster.endings import run_command
from foil.datasets_out.commits.snapshot import load_snapshot, snapshot_names
from foil.datasets_out.release.checksums import sign, write_checksums
from tests.support.topics.releases import SHARES


@pytest.fixture
def copy(release, tmp_path) -> Path:
    return Path(shutil.copytree(release("sentence-transformers"), tmp_path / "copy"))


def front_matter(folder: Path) -> dict:
    return yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])


def test_the_card_tells_where_the_rows_come_from(out, release):
    folder = release("hf", "all")
    head = front_matter(folder)
    assert head["license"] == "bsd-3-clause"
    assert head["language"] == ["en"]
    assert head["task_categories"] == ["text-retrieval"]
    assert head["size_categories"] == ["n<1K"]
    assert head["source_datasets"] == ["python_docs"]
    assert {each["config_name"] for each in head["configs"]} >= {"topics", "intents", "passages", "triplets"}
    text = (folder / "README.md").read_text()
    assert "Cut the query" in text
    snapshot = load_snapshot(out, None)
    for words in (snapshot.digest, "kind: verifiable", "passages removed", "| seeds planned | 160 |",
                  "--set split.heldout_share=0.2", "checked no evaluation set", "No careful reader"):  # fmt: skip
        assert words in text, words
    assert any(name.startswith("export-") for name in snapshot_names(out))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("form", ["hf", "sentence-transformers", "mteb", "tevatron", "beir"])
def test_the_croissant_document_is_valid_and_reads_every_record(release, form):
    mlcroissant = pytest.importorskip("mlcroissant")
    folder = release(form)
    dataset = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors
    rows = {file["name"]: file["rows"] for file in json.loads((folder / "release.json").read_text())["files"]}
    assert {each.id for each in dataset.metadata.distribution} == set(rows)
    if form in ("tevatron", "beir"):
        return  # their rows nest others, which the library's reader of JSON lines does not take
    for each in dataset.metadata.record_sets:
        name = next(name for name in rows if name.rpartition(".")[0].replace("/", "-") == each.id)
        assert sum(1 for _ in dataset.records(each.id)) == rows[name]


def test_the_same_release_has_the_same_bytes_and_sha256sum_agrees(out, release, tmp_path):
    folder = release("sentence-transformers")
    again = tmp_path / folder.name
    assert run_command(
        app, ["export", str(out), "--format", "sentence-transformers", "--into", str(again), *SHARES]
    ) == 0  # fmt: skip
    names = [path.relative_to(folder) for path in folder.rglob("*.parquet")]
    assert names
    assert all((again / name).read_bytes() == (folder / name).read_bytes() for name in names)
    checked = subprocess.run(["sha256sum", "--check", "--quiet", "checksums.sha256"], cwd=folder, check=False)
    assert checked.returncode == 0


@pytest.mark.parametrize("keys", ["all", "out and train alone"])
def test_a_job_gives_the_split_of_its_training(out, release, tmp_path, keys):
    job = out.parent / "job.yaml"
    if keys != "all":
        page = yaml.safe_load(job.read_text())
        job = tmp_path / "train.yaml"
        job.write_text(yaml.safe_dump({key: page[key] for key in ("out", "train")}))
    told = ["export", str(out), "--format", "sentence-transformers", "--job", str(job)]
    assert run_command(app, [*told, "--into", str(tmp_path / "by-job")]) == 0
    for name in ("triplets/train-00000.parquet", "pairs/train-00000.parquet"):
        assert (tmp_path / "by-job" / name).read_bytes() == (release("sentence-transformers") / name).read_bytes()
    assert str(tmp_path) not in (tmp_path / "by-job" / "README.md").read_text()


def test_verify_names_what_was_changed_taken_and_added(copy, capsys):
    assert run_command(app, ["verify", str(copy)]) == 0
    assert "not signed" in capsys.readouterr().err
    changed, gone = sorted(copy.rglob("*.parquet"))[:2]
    changed.write_bytes(changed.read_bytes()[:-1] + b"x")
    gone.unlink()
    (copy / "more.txt").write_text("more")
    assert run_command(app, ["verify", str(copy)]) == 6
    told = capsys.readouterr().err
    assert f"{changed.relative_to(copy)} has changed" in told
    assert f"{gone.relative_to(copy)} is missing" in told
    assert "more.txt was added" in told


@pytest.mark.parametrize("form", ["pem", "openssh"])
def test_a_signed_release_is_known_by_its_key(out, tmp_path, capsys, form):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, other = (Ed25519PrivateKey.generate() for _ in range(2))
    kinds = {"pem": (serialization.PrivateFormat.PKCS8, serialization.PublicFormat.SubjectPublicKeyInfo),
             "openssh": (serialization.PrivateFormat.OpenSSH, serialization.PublicFormat.OpenSSH)}  # fmt: skip
    private, public = kinds[form]
    encoding = serialization.Encoding.OpenSSH if form == "openssh" else serialization.Encoding.PEM
    (tmp_path / "key").write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    for name, each in (("mine.pub", key), ("other.pub", other)):
        (tmp_path / name).write_bytes(each.public_key().public_bytes(encoding, public))
    folder = tmp_path / "signed"
    told = ["export", str(out), "--format", "jsonl", "--into", str(folder), "--sign", str(tmp_path / "key"), *SHARES]
    assert run_command(app, told) == 0
    assert run_command(app, ["verify", str(folder), "--key", str(tmp_path / "mine.pub")]) == 0
    assert "signed by the key sha256:" in capsys.readouterr().err
    assert run_command(app, ["verify", str(folder), "--key", str(tmp_path / "other.pub")]) == 6
    (folder / "checksums.sha256").write_text((folder / "checksums.sha256").read_text().replace("0", "1", 1))
    assert run_command(app, ["verify", str(folder)]) == 6
    assert "does not sign" in capsys.readouterr().err


def test_what_is_no_key_or_no_signature_is_told(copy, tmp_path, capsys):
    from foil.engine.errors import UsageError

    (tmp_path / "key").write_text("no key")
    with pytest.raises(UsageError, match="no private key"):
        sign(copy, tmp_path / "key")
    with pytest.raises(UsageError, match="cannot be read"):
        sign(copy, tmp_path / "absent")
    (tmp_path / "pub").write_text("ssh-ed25519 AAAA")
    assert run_command(app, ["verify", str(copy), "--key", str(tmp_path / "pub")]) == 6
    assert "is not signed" in capsys.readouterr().err


@pytest.mark.parametrize("change", [{"format": "other"}, {"files": [{"name": "../../stolen.jsonl", "rows": 1}]}])
def test_a_manifest_of_others_leads_out_of_no_folder(copy, tmp_path, change, capsys):
    path = copy / "release.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change | {"withheld_texts": {"corpus": 1}}))
    write_checksums(copy)
    (tmp_path / "seeds.yaml").write_text("{kind: table, corpus: c, path: x.jsonl, columns: {query: q, positives: p}}")
    (tmp_path / "stolen.jsonl").write_text("{}\n")
    told = ["restore", str(copy), "--seeds", str(tmp_path / "seeds.yaml"), "--into", str(tmp_path / "a" / "b")]
    assert run_command(app, told) == 2
    assert "none that this Foil wrote" in capsys.readouterr().err
    (copy / "checksums.sha256").write_text(f"{'0' * 64}  ../out\n")
    assert run_command(app, ["verify", str(copy)]) == 6


def test_wrong_orders_are_refused_in_words(out, copy, tmp_path, capsys):
    for told, words in (
        (["export", str(out)], "say as what it is exported"),
        (["export", str(out), "--format", "hf"], "--into FOLDER"),
        (["export", str(out), "--format", "hf", "--into", str(copy)], "exists"),
        (["export", str(tmp_path), "--format", "hf", "--into", str(tmp_path / "x")], "holds no run"),
        (["export", str(out), "--format", "hf", "--into", str(tmp_path / "x"), "--set", "template=own"], "template"),
        (["restore", str(copy), "--seeds", str(copy / "release.json")], "the seeds were refused"),
    ):
        assert run_command(app, told) == 2, told
        assert words in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
