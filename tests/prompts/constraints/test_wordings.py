"""Wordings: enough phrases for every family, phrases that can be inflected, and the errors of the data file."""

import re

import pytest

from foil.engine.errors import UsageError
from foil.prompts.constraints.constraint import Constraint
from foil.prompts.constraints.wordings import WORDINGS, Wording, load_wordings, negate_phrase, plural, third_person


def test_every_family_has_several_phrases_and_reasons():
    for name, wording in WORDINGS.items():
        assert len(set(wording.affirm)) >= 2, name
        assert len(set(wording.why)) >= 3, name
        assert len(set(wording.spare)) >= 2, name
        value = next(iter(wording.values or {"7"}))
        assert len({Constraint(name, value, negated=True).render(variant) for variant in range(40)}) >= 2, name


def test_all_reasons_are_whole_sentences():
    for name, wording in WORDINGS.items():
        value = next(iter(wording.values or {"7"}))
        for negated in (False, True):
            for variant in range(5):
                reason = Constraint(name, value, negated=negated).reason(variant)
                assert reason[0] in '"`' or not reason[0].islower(), reason
                assert reason.endswith("."), reason
                assert "{" not in reason


def test_all_wordings_are_verb_phrases_that_can_be_inflected():
    for phrase in [phrase for wording in WORDINGS.values() for phrase in (*wording.affirm, *wording.deny)]:
        assert phrase[0].islower(), phrase
        assert phrase.split()[0].isalpha(), phrase
        assert not phrase.endswith((".", ";")), phrase
        assert third_person(phrase) != phrase
        assert third_person(f"not {phrase}").startswith(("does not ", "is not "))


def test_a_data_file_is_read_and_checked():
    text = "sings:\n  values: {loud: a loud song}\n  affirm: sing {x};\n    hum {x}\n  deny: leave out {x}\n"
    text += "  why: I like {x}.\n  spare: I need no {x}.\n"
    assert load_wordings(text) == {
        "sings": Wording(
            ("sing {x}", "hum {x}"), ("leave out {x}",), ("I like {x}.",), ("I need no {x}.",), {"loud": "a loud song"}
        )
    }
    for mistake, message in (
        (("deny", "refuse"), "wordings of 'sings': unknown part 'refuse'; use affirm, deny, why, spare, values"),
        (("hum {x}", "hum {y}"), "wordings of 'sings': unknown slot in 'hum {y}'; the only slot is {x}"),
        (("leave out {x}", ""), "wordings of 'sings': no phrases under `deny`"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            load_wordings(text.replace(*mistake))


def test_choices_of_a_sentence_are_as_likely_as_whole_sentences():
    text = "sings:\n  affirm: sing\n  deny: be silent\n  why: (My|Our) choir (needs|wants) it.; I like O(n).\n"
    text += "  spare: No."
    assert load_wordings(text)["sings"].why == (
        "My choir needs it.", "My choir wants it.", "Our choir needs it.", "Our choir wants it.", "I like O(n).",
    )  # fmt: skip


def test_phrases_are_inflected_as_english_wants_it():
    assert third_person("be short") == "is short"
    assert third_person("not be short") == "is not short"
    assert third_person("carry a note") == "carries a note"
    assert third_person("say why") == "says why"
    assert third_person("touch on it") == "touches on it"
    assert third_person("do without it") == "does without it"
    assert plural("be short") == "are short"
    assert plural("not be short") == "are not short"
    assert plural("not say why") == "do not say why"
    assert negate_phrase("say something about X") == "not say anything about X"
