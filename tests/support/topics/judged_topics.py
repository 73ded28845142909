"""Topics that every label of is known, a scripted judge, and a run of judged topics; for the tests of the judges."""

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from foil.datasets_out.commits.log import CommitLog
from foil.engine.flow.limits import Limits, RuntimeSettings
from foil.engine.model_traits import ModelTraits
from foil.engine.protocols import Model, Parts
from foil.engine.requests import Reply
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.topic import Intent, Judgment, Passage, Topic, intent_id
from foil.prompts.constraints.constraint import Constraint, dump_constraints
from foil.prompts.parse import parse_reply
from foil.prompts.passages.answer_evidence import dump_evidence
from foil.prompts.recipes.verifiable import Verifiable, VerifiableSettings
from foil.validators.checks.shape import ShapeCheck, ShapeSettings
from foil.validators.judges.polarity import JudgePolarity, JudgePolaritySettings
from foil.validators.judges.relevance import JudgeRelevance, JudgeRelevanceSettings
from foil.validators.judges.scenarios import JudgeScenarios, JudgeScenariosSettings
from tests.support.models.corrupt_judge import CorruptJudge, Honest, asker
from tests.support.small_parts import opened, run_parts
from tests.support.topics.zoo import HIPPO, ZEBRA, seed

QUERY = "how do lighthouses turn their lamp"
ANSWER = "The lamp of a lighthouse floats on mercury and is turned by a clockwork."
SEA = Constraint("mentions", "Red Sea")
GAS = Constraint("mentions", "gas")
PLUS = Passage(f"{ANSWER} One such lamp stands at the Red Sea.", "seed_positive", source_id="d1")
SPARE = Passage(f"{ANSWER} Ships on the Red Sea steer by it.", "generated_positive")
N1 = Passage(f"{ANSWER} It burns gas.", "instruction_negative")
N2 = Passage(f"{ANSWER} Keepers burn gas and wind it up each night.", "instruction_negative")
N3 = Passage(f"{ANSWER} The gas comes in bottles.", "instruction_negative")
N4 = Passage(f"{ANSWER} Whoever smells gas must leave.", "instruction_negative")
OBEYS = Passage(f"{ANSWER} It burns gas by the Red Sea.", "instruction_negative")
OFF_TOPIC = Passage("A gas lamp hung in our kitchen.", "instruction_negative")
FAR = Passage("Trains stop at every village.", "seed_negative", source_id="d9")
ELSEWHERE = Passage("Coral of the Red Sea grows in shallow water.", "query_negative")


def intent(role: str, instruction: str, *constraints: Constraint, query: str = QUERY, answer: str = ANSWER) -> Intent:
    facts = {"evidence": dump_evidence([[answer]])}
    if constraints:
        facts["constraints"] = dump_constraints(constraints)
    return Intent(intent_id("t", instruction, query), role, instruction, query, facts)


BARE = intent("original", "")
ASKED = intent("instructed", "Find a passage that mentions the Red Sea.", SEA)
TURNED = intent("dual", "Find a passage that mentions gas and not the Red Sea.", GAS, SEA.negate())
POISONED = replace(TURNED, role="poisoned_instruction")
OTHER_QUERY = intent(
    "poisoned_query", ASKED.instruction, SEA, query="where does coral grow", answer="grows in shallow water"
)


def topic(*rows, who: str = "construction") -> Topic:
    passages = {p.id: p for _, row in rows for p, _ in row}
    labels = tuple(
        Judgment(i.id, p.id, sign, "seed" if i is BARE and p.source_id else who) for i, row in rows for p, sign in row
    )
    return Topic("t", "s", "c", "r", QUERY, tuple(i for i, _ in rows), tuple(passages.values()), labels)


def promptriever(*negatives: Passage, plus: Passage = PLUS, spare: Passage | None = None, who="construction") -> Topic:
    """Promptriever's matrix."""
    more = [(spare, 1)] if spare else []
    return topic(
        (BARE, [(plus, 1), *more, *((n, 1) for n in negatives), (FAR, -1)]),
        (ASKED, [(plus, 1), *more, *((n, -1) for n in negatives)]),
        who=who,
    )


INF_IR = topic(
    (BARE, [(PLUS, 1), (N1, 1), (FAR, -1)]),
    (ASKED, [(PLUS, 1), (N1, -1)]),
    (POISONED, [(PLUS, -1), (N1, 1)]),
    (OTHER_QUERY, [(PLUS, -1), (ELSEWHERE, 1)]),
)
DUAL = topic((BARE, [(PLUS, 1), (N1, 1)]), (ASKED, [(PLUS, 1), (N1, -1)]), (TURNED, [(PLUS, -1), (N1, 1)]))


class Script(Model):
    """A hosted model: answers from a script (the last answer again and again), keeps its requests."""

    name = "script"
    traits = ModelTraits(samples=True)

    def __init__(self, *script: str | Exception, logprobs=None, cost_usd: float = 0.001) -> None:
        self.script, self.logprobs, self.cost_usd = list(script), logprobs, cost_usd
        self.sent = []

    async def complete(self, request):
        self.sent.append(request)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return Reply(request.id, answer, cost_usd=self.cost_usd, logprobs=self.logprobs)


def judged(validator, one: Topic, folder: Path, **models):
    """The topic after the validator, its verdicts, and its calls, none answered from an earlier journal."""
    ask = asker(Path(mkdtemp(dir=folder)), one, **(models or {"judge": Honest("honest")}))
    after, verdicts = asyncio.run(validator(one, ask))
    assert verdicts
    return after, verdicts, ask.calls


def reasons(verdicts, *outcomes: str) -> list[str]:
    return [v.reason for v in verdicts if v.outcome in (outcomes or ("reject",))]


def scenarios(**options) -> JudgeScenarios:
    return JudgeScenarios(JudgeScenariosSettings(canaries={"share": 0}, **options))


def relevance(**options) -> JudgeRelevance:
    return JudgeRelevance(JudgeRelevanceSettings(canaries={"share": 0}, **options))


def polarity(**options) -> JudgePolarity:
    return JudgePolarity(JudgePolaritySettings(canaries={"share": 0}, **options))


def sound(one: Topic) -> bool:
    return reasons(ShapeCheck(ShapeSettings())(one)[1]) == []


YES, NO = '{"relevant": true}', '{"relevant": false}'
ONE = topic((ASKED, [(PLUS, 1)]))


def turned_round(one: Topic, which: Intent) -> Topic:
    """The topic with the labels of one intent exchanged."""
    labels = (replace(j, relevance=-j.relevance) if j.intent_id == which.id else j for j in one.judgments)
    return replace(one, judgments=tuple(labels))


ANIMALS = ("rhino", "hippo", "zebra", "otter", "stork", "gecko", "bison", "camel", "eland", "lemur")
PLACES = ("Kenya", "Namibia", "Botswana", "Uganda", "Malawi", "Angola", "Zambia", "Gabon", "Ghana", "Benin")


BUFFALO = (
    "The buffalo is a heavy animal that drinks every day. In 1905, for example, wardens from Uganda counted 900 of "
    "them. They rest for five hours because the sun is strong."
)


def animal_seeds(count: int) -> list:
    """Seeds that differ: an animal, a place, a year, and what else is known of it."""
    made = []
    for number in range(count):
        animal, place = ANIMALS[number % 10], PLACES[number // 10 % 10]
        year, herds = 1800 + number % 200, 20 + number
        positive = (
            f"The {animal} of {place} is an animal of the plains. A keeper counted {herds} of them in {year}. "
            f"Lions hunt its young, for example. Rangers from {PLACES[(number + 3) % 10]} guard the herds by night. "
            f"It may sleep for {2 + number % 9} hours because the days are hot."
        )
        made.append(
            seed(
                f"s{number}",
                positives=(positive,),
                negatives=(HIPPO, ZEBRA, BUFFALO),
                query=f"what is the {animal} of {place}",
            )
        )
    return made


def unproven(topic: Topic) -> Topic:
    """The topic as a hosted writer leaves it: nobody knows what answers its query."""
    return replace(topic, intents=tuple(replace(intent, attributes={}) for intent in topic.intents))


def parts(out: Path, judge, **canaries) -> Parts:
    validator = JudgePolarity(JudgePolaritySettings(canaries=canaries))
    recipe = Taught(VerifiableSettings(), judge)
    return Parts(recipe, (validator,), {"judge": judge}, parse_reply, CommitLog(out), str(out))


class Taught(Verifiable):
    """The recipe, which tells a judge the truth about each topic."""

    def __init__(self, settings: VerifiableSettings, judge: CorruptJudge) -> None:
        super().__init__(settings)
        self._judge = judge

    async def __call__(self, seed, ask):
        topics = await super().__call__(seed, ask)
        self._judge.learn(*topics)
        return topics


class Seeds:
    """The zoo as a corpus."""

    ledger = Ledger()

    def __iter__(self):
        return iter(animal_seeds(80))


def finish(out: Path, judge, **canaries):
    limits, runtime = Limits(partition_seeds=10), RuntimeSettings(window=4)
    return run_parts(Seeds(), lambda: parts(opened(out), judge, **canaries), limits, runtime)
