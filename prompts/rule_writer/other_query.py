"""Another query for the rule writer: a negative answers it, the positive does not, and the instruction stays.

Only titles, known queries and distinctive phrases become queries: no rule here interprets prose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from engine.topic import Passage
from prompts.constraints.constraint import Constraint, all_hold, full_text
from prompts.constraints.detectors import fold_text
from prompts.constraints.families import FAMILIES
from prompts.constraints.instructions import pick
from prompts.passages.answer_evidence import Evidence, evidence_of_view
from prompts.passages.blocks import SourcePassage, stems
from prompts.passages.reply_types import View
from prompts.rule_writer.view_pairs import NO_BORROWING, VISIBLE, ViewPair, ViewPairFinder

_ONE_PHRASE = ("information about {a}", "{a}", "facts on {a}", "{a} explained")
_TWO_PHRASES = ("{a} and {b}", "{a}, {b}", "{a} in connection with {b}", "information about {a} and {b}")


@dataclass(frozen=True, slots=True)
class OtherQueryMatch:
    """A query, the view of a negative that answers it, and the sentences by which it does."""

    query: str
    view: View
    passage: Passage
    evidence: Evidence


class OtherQueryFinder:
    """Looks among a seed's negatives. `query` is the seed's own."""

    def __init__(self, query: str, negatives: Sequence[SourcePassage], pairs: ViewPairFinder, rng: Random) -> None:
        self._query, self._negatives, self._pairs, self._rng = query, negatives, pairs, rng

    def find(self, pair: ViewPair, constraints: Sequence[Constraint]) -> OtherQueryMatch | None:
        """The first negative that obeys the constraints, as it is or with borrowed blocks, and a query it answers."""
        blocks = [self._pairs.blocks.block(label) for label in pair.first.blocks]
        free = [b for b in blocks if not b.core]
        own = fold_text(self._query)
        for borrowed in ([], free):
            for source in self._negatives:
                if borrowed and (source.kind != pair.kinds[0] or source.kind in NO_BORROWING):
                    continue
                view = self._pairs.view(source, source.free_blocks, borrowed)
                passage = self._pairs.blocks.passage(view, "query_negative")
                if all_hold(constraints, passage):
                    query = self._query_for(passage, source, pair.d_plus)
                    if fold_text(query) not in ("", own) and fold_text(query) not in fold_text(full_text(pair.d_plus)):
                        return OtherQueryMatch(query, view, passage, evidence_of_view(source, view.blocks))
        return None

    def _query_for(self, passage: Passage, source: SourcePassage, d_plus: Passage) -> str:
        """A query for the negative alone: its own query if known, its title, or phrases that d+ does not have."""
        own_query = source.passage.attributes.get("query", "")
        if own_query:
            return own_query
        title = " ".join(source.passage.title.split())
        if title and title.lower() not in full_text(d_plus).lower():
            return title if " " in title else f"what is {title} for"
        phrases = self._phrases(passage.text[:VISIBLE], full_text(d_plus))
        if not phrases:
            return ""
        frame = pick(self._rng, _ONE_PHRASE if len(phrases) < 2 else _TWO_PHRASES)
        return frame.replace("{a}", phrases[0]).replace("{b}", phrases[-1])

    def _phrases(self, text: str, other: str) -> list[str]:
        """Up to two distinctive phrases of the text, none of whose words the other text has."""
        other_stems = stems(other)
        offered = FAMILIES["mentions"].offer(text, {})
        distinctive = [p for p in offered if stems(p) and not stems(p) & other_stems]
        chosen: list[str] = []
        for phrase in sorted(self._pairs.shuffled(distinctive), key=lambda p: " " not in p):
            if len(chosen) < 2 and not any(stems(phrase) & stems(c) for c in chosen):
                chosen.append(phrase)
        return chosen
