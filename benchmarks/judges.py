"""Judges measured against truth: what they accept when they err in known ways, and what shuffle, swap and fences undo.

Topics: the recipe `verifiable` over `python_docs`, those that have all of InF-IR's rows; three in ten are spoilt, each
fault equally often: the two passages swapped, a negative that obeys the instruction after all, one that does not answer
the query. A program says of every label whether it is true. Judges: such as know the truth, corrupted at known rates
(tests/support/models/corrupt_judge.py). With GSM8K's labelled model solutions, kappa of each judge setting.

    python -m benchmarks.judges [--quick] [--json] [--topics N] [--gsm8k FILE]
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from foil.engine.errors import Rejected
from foil.engine.flow.ask import SeedAsk
from foil.engine.protocols import JudgeCheck
from foil.engine.seeds.catalog import READERS
from foil.engine.topic import Intent, Passage, Topic
from foil.prompts.parse import parse_reply
from foil.prompts.passages.answer_evidence import dump_evidence
from foil.prompts.recipes.verifiable import Verifiable, VerifiableSettings
from foil.validators.judges.agreement import measure_agreement
from foil.validators.judges.panel import JudgePanel, PanelSettings
from foil.validators.judges.polarity import JudgePolarity, JudgePolaritySettings
from foil.validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings
from foil.validators.judges.scenarios import JudgeScenarios, JudgeScenariosSettings
from tests.support.models.corrupt_judge import (
    Acceptance,
    CorruptJudge,
    First,
    Flips,
    Gullible,
    Honest,
    is_true,
    measure_acceptance,
    mix_faults,
    replies_in,
    with_attack,
    without_fences,
)

SPOILT = 0.3
VOTES = (1, 3, 5)
JUDGES: Mapping[str, Callable[[], CorruptJudge]] = {
    "honest": lambda: Honest("honest"),
    "10 % flips": lambda: Flips("flips", 0.1),
    "30 % takes the first": lambda: First("biased", 0.3),
    "always takes the first": lambda: First("first"),
}
UNWATCHED = {"canaries": {"share": 0}}
GSM8K = Path(os.environ.get("FOIL_SHARED_DATA", "../shared/data")) / "gsm8k" / "example_model_solutions.jsonl"


RULES: Mapping[str, Callable[[int], JudgeCheck]] = {
    "one scenario": lambda votes: JudgeScenarios(
        JudgeScenariosSettings(votes=votes, roles=("instructed",), **UNWATCHED)
    ),
    "three scenarios": lambda votes: JudgeScenarios(JudgeScenariosSettings(votes=votes, **UNWATCHED)),
    "relevance": lambda votes: JudgeRelevance(JudgeRelevanceSettings(votes=votes, **UNWATCHED)),
    "polarity": lambda votes: JudgePolarity(JudgePolaritySettings(votes=votes, **UNWATCHED)),
}


async def topics_of(count: int) -> list[Topic]:
    """The first topics that have InF-IR's rows and a seed negative besides."""
    settings, reader = READERS["python_docs"]
    recipe, topics = Verifiable(VerifiableSettings()), list[Topic]()
    nobody: Any = None
    for seed in reader(settings.model_validate({"kind": "python_docs"})):
        try:
            [topic] = await recipe(seed, nobody)
        except Rejected:
            continue
        roles = {i.role for i in topic.intents} | {p.role for p in topic.passages}
        if {"poisoned_query", "seed_negative"} <= roles:
            topics.append(topic)
        if len(topics) == count:
            break
    return topics


async def put(validator: JudgeCheck, topics: Sequence[Topic], judge: CorruptJudge) -> Acceptance:
    with tempfile.TemporaryDirectory() as folder:
        return await measure_acceptance(validator, topics, judge, Path(folder))


async def votes_table(topics: Sequence[Topic]) -> list[dict[str, Any]]:
    """Precision and recall of what each rule accepts, for each judge and number of votes."""
    return [
        {"judge": name, "rule": rule, "votes": votes, **asdict(await put(build(votes), topics, judge()))}
        for name, judge in JUDGES.items()
        for rule, build in RULES.items()
        for votes in VOTES
    ]


async def position_table(topics: Sequence[Topic]) -> list[dict[str, Any]]:
    """The same judges without and with what is there against position bias: the order drawn, the pair also swapped."""
    once = patch.object(JudgePanel, "compare_pair", lambda self, i, ps, slot: self.compare_once(i, tuple(ps), slot))
    as_made = patch("foil.validators.judges.panel.shuffle_passages", lambda passages, *_: list(passages))
    rows = []
    for name in ("30 % takes the first", "always takes the first"):
        for rule, order, unguarded in (("one scenario", "shuffled", as_made), ("polarity", "in both orders", once)):
            with unguarded:
                in_order = await put(RULES[rule](1), topics, JUDGES[name]())
            guarded = await put(RULES[rule](1), topics, JUDGES[name]())
            for label, measured in (("as made, the wanted passage first", in_order), (order, guarded)):
                rows.append({"judge": name, "question": rule, "order": label, **asdict(measured)})
    return rows


async def injection_table(topics: Sequence[Topic]) -> list[dict[str, Any]]:
    """A judge that obeys every command outside of the fences, and a command in every topic's negative."""
    hostile = [with_attack(topic) for topic in topics]
    plain = patch("foil.validators.judges.panel.inert", lambda text, _: text)
    renderings: Mapping[str, tuple[Any, ...]] = {
        "labels alone": (plain, patch("foil.validators.judges.panel.load", without_fences)),
        "fences that can be guessed": (plain, patch("foil.validators.judges.panel.nonce", lambda *_: "data")),
        "fences with a code, inert text": (),
    }
    rows = []
    for name, patches in renderings.items():
        for rule in ("three scenarios", "relevance", "polarity"):
            judge = Gullible("gullible")
            with ExitStack() as stack:
                for replacement in patches:
                    stack.enter_context(replacement)
                measured = await put(RULES[rule](1), hostile, judge)
            rows.append(
                {"rendering": name, "rule": rule, "obeyed": judge.obeyed / len(judge.requests), **asdict(measured)}
            )
    return rows


def solutions(path: Path, count: int | None) -> Iterator[tuple[Intent, Passage, int]]:
    """A question with what answers it, a model's solution, and whether it is labelled right."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(islice(lines, count)):
            row = json.loads(line)
            answer = row["ground_truth"].rpartition("\n")[2]
            evidence = {"evidence": dump_evidence([[answer]])}
            intent = Intent(f"q{number}", "original", "", row["question"], evidence)
            for solution in row.values():
                if isinstance(solution, dict):
                    yield intent, Passage(solution["solution"], "distractor"), 1 if solution["is_correct"] else -1


async def kappa_table(path: Path, count: int | None) -> list[dict[str, Any]]:
    """Agreement of each judge setting with the labels; a judge is told the answer."""
    labelled = list(solutions(path, count))
    panels = {name: [judge()] for name, judge in JUDGES.items()}
    panels["three that flip 10 %"] = [Flips(f"flips{n}", 0.1) for n in range(3)]
    rows = []
    for name, judges in panels.items():
        for votes in VOTES if len(judges) == 1 else (1,):
            roles = {f"judge{n}": judge for n, judge in enumerate(judges)}
            settings = PanelSettings.model_validate({"judges": list(roles), "votes": votes, **UNWATCHED})
            labels = await rated(labelled, settings, roles)
            rows.append({"judge": name, "votes": votes, **asdict(measure_agreement(name, "labels", labels))})
    return rows


async def rated(
    labelled: Sequence[tuple[Intent, Passage, int]], settings: PanelSettings, roles: Mapping[str, CorruptJudge]
) -> list[tuple[int, int]]:
    """What the panel decides of each solution, beside its label."""
    labels = []
    with tempfile.TemporaryDirectory() as folder:
        replies = replies_in(Path(folder))
        for intent, passage, label in labelled:
            name = f"{intent.id} {passage.id}"
            topic = Topic(name, intent.id, "gsm8k", "none", intent.query, (intent,), (passage,))
            for judge in roles.values():
                judge.learn(topic)
            ask = SeedAsk(replies, roles, parse_reply, corrections=1, seed_id=name)
            panel = JudgePanel("judge_relevance", settings, topic, ask)
            count = await panel.collect_votes(panel.rate_passage, intent, [passage])
            labels.append((1 if count.decision == passage.id else -1, label))
    return labels


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table in Markdown."""
    print(f"\n{title}\n\n| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(f'{v:.3f}' if isinstance(v, float) else str(v) for v in row.values())} |")


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    topics = mix_faults(await topics_of(options.topics), SPOILT)
    print(f"{len(topics):,} topics, {sum(map(is_true, topics)):,} of them true in every label")
    tables = {
        "votes": await votes_table(topics),
        "position": await position_table(topics),
        "injection": await injection_table(topics),
    }
    if options.gsm8k.is_file():
        tables["gsm8k"] = await kappa_table(options.gsm8k, 100 if options.quick else None)
    else:
        print(f"{options.gsm8k} is absent: no kappa on GSM8K; give GSM8K's example_model_solutions.jsonl as --gsm8k")
    return {"topics": len(topics), "true": sum(map(is_true, topics)), **tables}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="150 topics, 100 questions; about a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--topics", type=int, help="default 2,000, with --quick 150")
    parser.add_argument("--gsm8k", type=Path, default=GSM8K, help="example_model_solutions.jsonl of GSM8K")
    options = parser.parse_args()
    options.topics = options.topics or (150 if options.quick else 2000)
    started = time.process_time()
    results = asyncio.run(measure(options))
    for title in ("votes", "position", "injection", "gsm8k"):
        if title in results:
            show(title, results[title])
    print(f"\n{time.process_time() - started:.0f} CPU seconds")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
