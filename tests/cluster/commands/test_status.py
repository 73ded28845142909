"""`foil status --verdict`: what stands out in a run, where someone asks how far it is."""

import json

from tests.support.commands import foil
from tests.support.topics.voted_run import good, make


def test_a_healthy_run_is_called_so_and_without_the_option_nothing_is_said(tmp_path):
    make(tmp_path / "run", good(30))
    asked, plain = foil("status", tmp_path / "run", "--verdict"), foil("status", tmp_path / "run", "--json")
    assert asked.returncode == 0, asked.stderr
    assert "30 of 30 topics accepted (100.0%), and nothing stands out: the run looks healthy." in asked.stdout
    assert "verdict" not in json.loads(plain.stdout)


def test_a_judge_at_chance_is_named(tmp_path):
    make(tmp_path / "run", good(60, right=False))
    said = json.loads(foil("status", tmp_path / "run", "--verdict", "--json").stdout)["verdict"]
    [cause] = said["findings"]
    assert (said["kind"], cause["rule"]) == ("amiss", "judge")
    assert "kappa -1.0000 with the labels" in cause["sentence"]
