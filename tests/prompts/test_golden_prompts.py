"""Prompts and reply schemas stay as they are: both are part of every request id."""

import pytest

from foil.prompts.render import TEMPLATES
from tests.support.topics.golden_prompts import CASES, PROMPTS, recorded


@pytest.mark.parametrize("case", CASES)
def test_prompts_are_what_they_were(case):
    assert "\n".join(recorded(case).pages.values()) == (PROMPTS / f"{case}.txt").read_text(encoding="utf-8")


def test_every_template_is_among_them():
    names = {path.relative_to(TEMPLATES).with_suffix("").as_posix() for path in TEMPLATES.rglob("*.j2")}
    assert set.union(*(recorded(case).templates for case in CASES)) == names
