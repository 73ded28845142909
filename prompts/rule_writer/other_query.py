"""Another query for the rule writer: what a negative answers and the positive does not, under the same instruction.

Only titles, known queries and telling phrases become queries, so no prose is understood and none is misread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from engine.topic import Passage
from prompts.constraints.constraint import Constraint, all_hold, full_text
from prompts.constraints.detectors import fold_text
from prompts.constraints.families import FAMILIES
from prompts.constraints.instructions import pick
from prompts.passages.answer_evidence import Evidence, answering
from prompts.passages.blocks import Cut, stems
from prompts.passages.views import View
from prompts.rule_writer.view_pairs import NO_LOANS, VISIBLE, Pair, PairFinder

_ONE_PHRASE = ("information about {a}", "{a}", "facts on {a}", "{a} explained")
_TWO_PHRASES = ("{a} and {b}", "{a}, {b}", "{a} in connection with {b}", "information about {a} and {b}")


@dataclass(frozen=True, slots=True)
class Found:
    """A query, the view of a negative that answers it, and the sentences by which it does."""

    query: str
    view: View
    passage: Passage
    evidence: Evidence


class Elsewhere:
    """Looks among a seed's negatives. `query` is the seed's own."""

    def __init__(self, query: str, negatives: Sequence[Cut], finder: PairFinder, rng: Random) -> None:
        self._query, self._negatives, self._finder, self._rng = query, negatives, finder, rng

    def find(self, pair: Pair, constraints: Sequence[Constraint]) -> Found | None:
        """A negative that obeys the constraints, as it is or with the blocks that make it obey, and what it answers."""
        kept = [self._finder.blocks.block(label) for label in pair.first.blocks]
        added = [b for b in kept if not b.core]
        for loan in ([], added):
            for cut in self._negatives:
                if loan and (cut.kind != pair.kinds[0] or cut.kind in NO_LOANS):
                    continue
                view = self._finder.view(cut, [b for b in cut.blocks if not b.core], loan)
                passage = self._finder.blocks.passage(view, "query_negative")
                if all_hold(constraints, passage):
                    query = self._query_for(passage, cut, pair.d_plus)
                    known = fold_text(query) in ("", fold_text(self._query)) or fold_text(query) in fold_text(
                        full_text(pair.d_plus)
                    )
                    if not known:
                        return Found(query, view, passage, answering(cut, view))
        return None

    def _query_for(self, passage: Passage, cut: Cut, d_plus: Passage) -> str:
        """What the negative answers and d+ does not: its own query if known, its title, or what it speaks of."""
        known = cut.passage.attributes.get("query", "")
        if known:
            return known
        title = " ".join(cut.passage.title.split())
        if title and title.lower() not in full_text(d_plus).lower():
            return title if " " in title else f"what is {title} for"
        phrases = self._phrases(passage.text[:VISIBLE], full_text(d_plus))
        if not phrases:
            return ""
        frame = pick(self._rng, _ONE_PHRASE if len(phrases) < 2 else _TWO_PHRASES)
        return frame.replace("{a}", phrases[0]).replace("{b}", phrases[-1])

    def _phrases(self, text: str, known: str) -> list[str]:
        """Up to two telling phrases of the text, none of whose words the known text has."""
        seen = stems(known)
        offered = FAMILIES["mentions"].offer(text, {})
        news = [p for p in offered if stems(p) and not stems(p) & seen]
        chosen: list[str] = []
        for phrase in sorted(self._finder.shuffled(news), key=lambda p: " " not in p):
            if len(chosen) < 2 and not any(stems(phrase) & stems(c) for c in chosen):
                chosen.append(phrase)
        return chosen
