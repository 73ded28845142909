"""Rejects topics with a passage of prose that cannot be used as it stands: cut off, a menu, markup, noise, repeated.

Recipes leave such passages of the corpus out by themselves (`prompts.passages.readable`). This check looks at all that
stands in a topic, written passages and mined negatives too.
"""

from collections.abc import Sequence
from typing import Literal

from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict
from foil.prompts.passages.readable import flaw_of
from foil.validators.checks.topic_check import TopicCheck
from foil.validators.verdicts import pass_verdicts, reject_verdict


class ReadableSettings(Settings):
    """No options: what counts as a flaw is what no reader accepts."""

    kind: Literal["readable"] = "readable"


class ReadableCheck(TopicCheck[ReadableSettings]):
    """Rejects with `unreadable`; scope and evidence say which passage, and its flaw."""

    name = "readable"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it is, and its verdicts."""
        flaws = {passage.id: flaw for passage in topic.passages if (flaw := flaw_of(passage))}
        verdicts = [reject_verdict(self.name, scope, "unreadable", flaw) for scope, flaw in flaws.items()]
        return topic, verdicts or pass_verdicts(self.name)
