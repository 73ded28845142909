"""Did the writer answer instead of writing? Refusals, talk about being a model or about the task, and small talk.

Looks only at generated texts: a passage of the corpus may quote a chatbot. What is looked for stands in
`prompts.writing.small_talk`: a writer whose reply is checked was corrected before.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict
from foil.prompts.writing.small_talk import small_talk
from foil.validators.checks.topic_check import TopicCheck
from foil.validators.findings import Finding, excerpt, texts_of, verdicts_of


class RefusalSettings(Settings):
    """What becomes of a topic with such a text."""

    kind: Literal["refusal"] = "refusal"
    reject: bool = Field(default=True, description="reject such topics; false marks them")


class RefusalCheck(TopicCheck[RefusalSettings]):
    """Rejects, or passes, with `refusal`, `speaks_as_model`, `speaks_of_task`, `chatter`."""

    name = "refusal"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a finding for each generated text that is none of the data asked for."""
        findings = [
            Finding(reason, text.scope, f"{text.field}: {excerpt(text.text, *span)}")
            for text in texts_of(topic)
            if text.generated
            for reason, span in small_talk(text.text)
        ]
        return topic, verdicts_of(self.name, findings, reject=self._settings.reject)
