"""Another query for the rule writer: a negative answers it, the positive does not, and the instruction stays.

Only titles, known queries and distinctive phrases become queries: no rule here interprets prose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from engine.topic import Passage
from prompts.constraints.constraint import Constraint, full_text, surely_hold
from prompts.constraints.detectors import fold_text
from prompts.constraints.families import FAMILIES
from prompts.constraints.instructions import pick
from prompts.passages.answer_evidence import Evidence, evidence_of_view
from prompts.passages.blocks import SourcePassage, stems
from prompts.passages.reply_types import View
from prompts.rule_writer.view_pairs import VISIBLE, WHOLE, ViewPair, ViewPairFinder

_ONE_PHRASE = (
    "what is known about {a}",
    "what should I know about {a}",
    "where can I read about {a}",
    "what is there to say on {a}",
)
_TWO_PHRASES = (
    "what does {a} have to do with {b}", "how are {a} and {b} connected", "what is the connection between {a} and {b}",
    "how is {a} related to {b}", "where do {a} and {b} come together",
)  # fmt: skip


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
        """The first negative that obeys the constraints, and a query that it answers."""
        own = fold_text(self._query)
        for source in (n for n in self._negatives if n.whole or n.kind not in WHOLE):
            view = self._pairs.view(source, source.free_blocks)
            passage = self._pairs.blocks.passage(view, "query_negative")
            if surely_hold(constraints, passage):
                query = self._query_for(passage, source, pair.d_plus)
                if fold_text(query) not in ("", own) and fold_text(query) not in fold_text(full_text(pair.d_plus)):
                    return OtherQueryMatch(query, view, passage, evidence_of_view(source, view.blocks))
        return None

    def _query_for(self, passage: Passage, source: SourcePassage, d_plus: Passage) -> str:
        """A query for the negative alone: its own query if known, its title, or phrases of prose that d+ lacks."""
        own_query = source.passage.attributes.get("query", "")
        if own_query:
            return own_query
        title = " ".join(source.passage.title.split())
        if title and title.lower() not in full_text(d_plus).lower():
            return f"where can I read about {title}" if " " in title else f"what is {title} for"
        phrases = self._phrases(passage.text[:VISIBLE], full_text(d_plus))
        if source.kind != "text" or not phrases:
            return ""
        frame = pick(self._rng, _ONE_PHRASE if len(phrases) < 2 else _TWO_PHRASES)
        return frame.replace("{a}", phrases[0]).replace("{b}", phrases[-1])

    def _phrases(self, text: str, other: str) -> list[str]:
        """Up to two names or subjects of the text, none of whose words the other text has; a single noun is neither."""
        other_stems = stems(other)
        offered = FAMILIES["mentions"].detector.offer(text, {})
        distinctive = [
            p for p in offered
            if stems(p) and not stems(p) & other_stems and not (" " not in p and p.islower())
            and self._pairs.is_topical(p, text)
        ]  # fmt: skip
        chosen: list[str] = []
        for phrase in sorted(self._pairs.shuffled(distinctive), key=lambda p: " " not in p):
            if len(chosen) < 2 and not any(stems(phrase) & stems(c) for c in chosen):
                chosen.append(phrase)
        return chosen
