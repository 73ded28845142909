"""InF-IR's check (section 4.1): under each instruction and query of a topic the judge must name the right passage.

    (I+,Q+), (I-,Q+), (I+,Q-), each with P+, P1-, P2- and distractors -> the most relevant -> judged +1 there?

The paper's distractors are drawn at random from MS MARCO: name a file of the collection as `passages`. Without one
only the seed's own negatives are shown, which are of the same subject. If there are more passages than a judge can
name, those that are right in the scenario come first.

Promise: a topic passes only if every scenario does. A scenario that fails ends the topic; the others are not asked.
Price: one to `votes` calls a judge and scenario.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of, sha256_hex
from foil.engine.protocols import Ask, Cost
from foil.engine.topic import Intent, IntentRole, Passage, Topic, Verdict
from foil.prompts.judge_answers import LABELS
from foil.validators.judges.canaries import CanaryMonitor
from foil.validators.judges.panel import JudgePanel, PanelSettings, panel_fingerprint, shuffle_passages
from foil.validators.verdicts import reject_verdict

_DISTRACTOR_ROLES = ("seed_negative", "mined_negative", "distractor")


class JudgeScenariosSettings(PanelSettings):
    """Which scenarios a topic must pass."""

    kind: Literal["judge_scenarios"] = "judge_scenarios"
    roles: tuple[IntentRole, ...] = Field(
        ("instructed", "poisoned_instruction", "poisoned_query"),
        min_length=1,
        description="roles of the intents that are scenarios",
    )
    missing: Literal["reject", "skip"] = Field(
        "reject", description="what becomes of a topic without an intent of one of the roles"
    )
    distractors: int = Field(2, ge=0, le=8, description="other negatives of the seed shown in every scenario")
    passages: Path | None = Field(
        None, description="a collection's passages (.jsonl, .tsv or a text a line), of which random ones are shown"
    )
    random: int = Field(2, ge=1, le=8, description="how many of them, where `passages` is given")


class JudgeScenarios:
    """Rejects with `no_scenario`, or the reason of the first failed scenario: `other_passage_named`,
    `no_passage_named`, `no_majority`, `unreadable_judge`."""

    name = "judge_scenarios"
    cost: Final = Cost.MODEL

    def __init__(self, settings: JudgeScenariosSettings) -> None:
        self._settings, self._monitor = settings, CanaryMonitor(settings.canaries, self.name)
        self._random = RandomPassages(settings.passages) if settings.passages else None
        apart = settings.model_copy(update={"passages": None})
        drawn_from = self._random.digest if self._random else ""
        self.fingerprint = panel_fingerprint(apart, "judges/scenario", version=2) + drawn_from

    async def __call__(self, topic: Topic, ask: Ask) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, with a verdict for each scenario asked."""
        scenarios = [intent for role in self._settings.roles for intent in topic.intents if intent.role == role]
        missing = [role for role in self._settings.roles if all(intent.role != role for intent in scenarios)]
        if not scenarios or (missing and self._settings.missing == "reject"):
            needed = f"{missing[0]} intent" if self._settings.missing == "reject" else "intent of the roles"
            return topic, [reject_verdict(self.name, "topic", "no_scenario", f"the topic has no {needed}")]
        panel = JudgePanel(self.name, self._settings, topic, ask)
        passages = self._candidates(topic, scenarios)
        verdicts: list[Verdict] = []
        for intent in scenarios:
            verdicts.append(await _judge_scenario(panel, topic, intent, passages))
            if verdicts[-1].outcome == "reject":
                break
        canaries = await panel.ask_canaries(panel.choose_best, self._monitor, min(len(passages), len(LABELS)))
        return topic, [*verdicts, *canaries]

    def _candidates(self, topic: Topic, scenarios: Sequence[Intent]) -> list[Passage]:
        """The passages judged in any scenario, a few other negatives of the seed, none the original of an edit, and a
        few random ones."""
        scenario_ids = {intent.id for intent in scenarios}
        judged_ids = {judgment.passage_id for judgment in topic.judgments if judgment.intent_id in scenario_ids}
        judged = [passage for passage in topic.passages if passage.id in judged_ids]
        excluded = judged_ids | {passage.edited_from for passage in judged}
        distractors = [p for p in topic.passages if p.id not in excluded and p.role in _DISTRACTOR_ROLES]
        chosen = shuffle_passages(distractors, topic.id, "distractors")[: self._settings.distractors]
        random = self._random.draw(self._settings.random, topic.id, topic.passages) if self._random else []
        return [*judged, *chosen, *random]


async def _judge_scenario(panel: JudgePanel, topic: Topic, intent: Intent, passages: Sequence[Passage]) -> Verdict:
    relevant_ids = {j.passage_id for j in topic.judgments if j.intent_id == intent.id and j.relevance > 0}
    candidates = sorted(passages, key=lambda passage: passage.id not in relevant_ids)[: len(LABELS)]
    count = await panel.collect_votes(panel.choose_best, intent, candidates)
    if count.decision in relevant_ids:
        return panel.verdict(count, intent.id)
    return panel.verdict(count, intent.id, "reject", count.failure_reason(relevant_ids))


_TRIES = 8
"""Lines looked at for each passage wanted, of which some may be empty or excluded."""
_SAMPLES, _SAMPLE_BYTES = 64, 4_096
_KEYS = ("text", "contents", "passage")


class RandomPassages:
    """Passages drawn at random from a file, each read where it lies: no index, whatever the file's size.

    One passage a line: `.jsonl` with text (or contents, passage) and perhaps title, `.tsv` with the text in the last
    column, or plain text. A line is drawn as often as the line before it is long, which is near enough to evenly.
    `digest` follows from the file's size and 64 samples of its bytes. Raises UsageError where it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._size = path.stat().st_size
            samples = [self._bytes_at(number * self._size // _SAMPLES) for number in range(_SAMPLES)]
        except OSError as error:
            raise UsageError(f"the passages {path} cannot be read: {error}; give a .jsonl, .tsv or .txt file") from None
        self.digest = sha256_hex(f"{self._size}" + b"".join(samples).hex())

    def draw(self, count: int, key: str, exclude: Sequence[Passage] = ()) -> list[Passage]:
        """Up to `count` distinct passages that follow from the key; none of the excluded. Raises UsageError for a line
        that is no passage."""
        passages: dict[str, Passage] = {}
        excluded = {passage.id for passage in exclude}
        for number in range(count * _TRIES):
            if len(passages) == count:
                break
            for passage in self._at(int(fraction_of("random passage", key, str(number)) * self._size)):
                if passage.id not in excluded:
                    passages.setdefault(passage.id, passage)
        return list(passages.values())

    def _at(self, offset: int) -> Iterator[Passage]:
        """The passage of the first line that begins after the offset; of the first line of all behind the last."""
        with self._path.open("rb") as file:
            file.seek(offset)
            file.readline()
            line = file.readline()
            if not line:
                file.seek(0)
                line = file.readline()
        text = line.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if text:
            passage = self._passage(text, offset)
            if passage.text.strip():
                yield passage

    def _passage(self, line: str, offset: int) -> Passage:
        if self._path.suffix == ".tsv":
            return Passage(line.rsplit("\t", maxsplit=1)[-1], "distractor")
        if self._path.suffix != ".jsonl":
            return Passage(line, "distractor")
        try:
            row = json.loads(line)
            text = next(row[key] for key in _KEYS if key in row)
            return Passage(str(text), "distractor", str(row.get("title") or ""))
        except (ValueError, TypeError, StopIteration, AttributeError):
            raise UsageError(
                f"{self._path}, the line after byte {offset}: no JSON object with one of {', '.join(_KEYS)}; mend it"
            ) from None

    def _bytes_at(self, offset: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(_SAMPLE_BYTES)
