"""The table of reasons has an entry for every reason that the code can give, and no other."""

from typing import get_args

from foil.engine.reasons import reason_entries
from foil.prompts.writing.checks import Reason
from tests.support.reason_codes import given_reasons


def test_every_reason_that_the_source_can_give_has_an_entry_and_no_entry_is_dead():
    given, unclear = given_reasons()
    assert not unclear, "these places give a reason that the test cannot read: name it as a literal"
    given |= set(get_args(Reason))
    entries = set(reason_entries())
    assert not sorted(given - entries), "write their entries in engine/reasons.yaml"
    assert not sorted(entries - given), "nothing gives these any more: take them out of engine/reasons.yaml"


def test_every_entry_says_all_in_plain_sentences():
    for name, entry in reason_entries().items():
        assert entry.meaning.endswith("."), name
        assert len(entry.meaning.split()) <= 28, name
        assert min(map(len, (entry.who, entry.mend, entry.example))) > 5, name
    assert len({entry.meaning for entry in reason_entries().values()}) == len(reason_entries())
