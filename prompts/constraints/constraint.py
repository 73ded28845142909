"""Verifiable constraints: what an instruction demands of a passage, checked exactly and said in natural English.

    Constraint(family, value, negated)  --render--> a verb phrase;  --holds(passage)--> True or False, exactly

An instruction holds of a passage if and only if all its constraints do. `negate()` flips `holds` for every passage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foil.engine.errors import UsageError
from foil.engine.ids import canonical_json
from foil.engine.topic import Intent, Passage
from foil.prompts.constraints.families import FAMILIES
from foil.prompts.constraints.wordings import can_negate, negate_phrase


@dataclass(frozen=True, slots=True)
class Constraint:
    """One requirement. `value` is what the family is about (a term, a number, a language), or "" if it needs none."""

    family: str
    value: str = ""
    negated: bool = False

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise UsageError(f"unknown constraint family {self.family!r}; use one of {', '.join(FAMILIES)}")
        values = FAMILIES[self.family].wording.values
        if values and self.value not in values:
            raise UsageError(
                f"constraint {self.family!r} has the unknown value {self.value!r}; use one of {', '.join(values)}"
            )

    def find_witness(self, passage: Passage) -> int:
        """Offset near which the passage shows what the family looks for, or -1. Negation does not change it."""
        return FAMILIES[self.family].detector.find(full_text(passage), passage.attributes, self.value)

    def is_clear(self, passage: Passage) -> bool:
        """Whether every reader would say the same of this passage: it has a witness, or nothing like one."""
        detector = FAMILIES[self.family].detector
        if self.find_witness(passage) >= 0 and not detector.doubts_witness:
            return True
        return not detector.unsure(full_text(passage), passage.attributes, self.value)

    def holds(self, passage: Passage) -> bool:
        return (self.find_witness(passage) >= 0) is not self.negated

    def negate(self) -> Constraint:
        """The opposite demand."""
        return replace(self, negated=not self.negated)

    def render(self, variant: int = 0, *, plainly: bool = False) -> str:
        """A verb phrase in its base form ("mention X", "leave out X"); another variant, another wording.

        A denial is one of the family's own phrases, or "not" before one that affirms and has no negation of its own;
        `plainly`, only the latter where there are any.
        """
        wording = FAMILIES[self.family].wording
        phrases: Sequence[str] = wording.affirm
        if self.negated:
            plain = [negate_phrase(phrase) for phrase in wording.affirm if can_negate(phrase)]
            phrases = plain if plainly and plain else (*wording.deny, *plain)
        return self._filled(phrases[variant % len(phrases)])

    def reason(self, variant: int = 0) -> str:
        """A sentence that tells why somebody asks for it; another variant, another reason."""
        wording = FAMILIES[self.family].wording
        reasons = wording.spare if self.negated else wording.why
        reason = self._filled(reasons[variant % len(reasons)])
        return reason[0].upper() + reason[1:]

    def _filled(self, words: str) -> str:
        return words.replace("{x}", FAMILIES[self.family].describe_value(self.value))

    def to_json(self) -> Mapping[str, Any]:
        return {"family": self.family, "value": self.value, "negated": self.negated}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Constraint:
        return cls(str(fields["family"]), str(fields.get("value", "")), bool(fields.get("negated", False)))


def full_text(passage: Passage) -> str:
    """The text that constraints are about: the title, where there is one, and the text."""
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def dump_constraints(constraints: Sequence[Constraint]) -> str:
    """The canonical JSON kept in `Intent.attributes["constraints"]`."""
    return canonical_json([constraint.to_json() for constraint in constraints])


def constraints_of(intent: Intent) -> tuple[Constraint, ...]:
    """The constraints behind an intent's instruction; none for an original intent or a free-form instruction."""
    stored = intent.attributes.get("constraints", "")
    return tuple(Constraint.from_json(fields) for fields in json.loads(stored)) if stored else ()


def surely_hold(constraints: Sequence[Constraint], passage: Passage) -> bool:
    """Whether the passage satisfies every one of them, and every reader would say so."""
    return all(constraint.holds(passage) and constraint.is_clear(passage) for constraint in constraints)


def surely_broken(constraints: Sequence[Constraint], passage: Passage) -> bool:
    """Whether the passage breaks one of them, and every reader would say so."""
    return any(not constraint.holds(passage) and constraint.is_clear(passage) for constraint in constraints)


def all_hold(constraints: Sequence[Constraint], passage: Passage) -> bool:
    """Whether the passage satisfies every one of them."""
    return all(constraint.holds(passage) for constraint in constraints)
