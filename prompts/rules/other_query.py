"""Another query for a topic: a negative answers it, the positive does not, and the instruction stays.

Only known queries and titles become queries: no rule here interprets prose. A negative that BM25 mined carries the
query that it answers; `seeds.negatives` above what the rows of a corpus hold brings some.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from foil.engine.topic import Passage
from foil.prompts.constraints.constraint import Constraint, full_text, surely_hold
from foil.prompts.constraints.detectors import fold_text
from foil.prompts.passages.answer_evidence import Evidence, evidence_of_view
from foil.prompts.passages.answering import is_about, may_answer
from foil.prompts.passages.blocks import SourcePassage, View
from foil.prompts.rules.view_pairs import WHOLE, ViewPair, ViewPairFinder

MOST_QUERY = 4000
"""Characters of another query at most."""


@dataclass(frozen=True, slots=True)
class OtherQueryMatch:
    """A query, the view of a negative that answers it, and the sentences by which it does."""

    query: str
    view: View
    passage: Passage
    evidence: Evidence


class OtherQueryFinder:
    """Looks among a seed's negatives. `query` is the seed's own."""

    def __init__(self, query: str, negatives: Sequence[SourcePassage], pairs: ViewPairFinder) -> None:
        self._query, self._negatives, self._pairs = query, negatives, pairs

    def find(self, pair: ViewPair, constraints: Sequence[Constraint]) -> OtherQueryMatch | None:
        """The first negative that obeys the constraints, and a query that it answers.

        None where something is excluded by name: it belongs to the first query, and nobody excludes it under another.
        """
        if any(constraint.negated and constraint.value for constraint in constraints):
            return None
        own = fold_text(self._query)
        for source in (n for n in self._negatives if n.whole or n.kind not in WHOLE):
            view = self._pairs.view(source, source.free_blocks)
            passage = self._pairs.blocks.passage(view, "query_negative")
            answers_too = source.kind == "text" and may_answer(self._query, passage)
            if surely_hold(constraints, passage) and not answers_too:
                query = self._query_for(source, pair.d_plus)
                if fold_text(query) not in ("", own) and fold_text(query) not in fold_text(full_text(pair.d_plus)):
                    return OtherQueryMatch(query, view, passage, evidence_of_view(source, view.blocks))
        return None

    def _query_for(self, source: SourcePassage, d_plus: Passage) -> str:
        """A query for the negative alone: its own query if known, or its title; "" where there is neither."""
        own_query = source.passage.attributes.get("query", "")
        if own_query:
            fits = len(own_query) <= MOST_QUERY and is_about(own_query, source.passage)
            return own_query if fits else ""
        title = " ".join(source.passage.title.split())
        if not title or title.lower() in full_text(d_plus).lower():
            return ""
        return f"where can I read about {title}" if " " in title else f"what is {title} for"
