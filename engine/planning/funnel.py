"""The funnel of a run: what each stage asked and got, why topics ended where they did, and what accepted ones cost.

    topics as committed --> prompts (a first request and its further turns) by task --> stages in the order of the flow
                        --> endings: whole? accepted? else by which reason, after which stage

Promise: every number is counted from rows and their calls, and sent = valid + corrected + drawn + given up. A seed's
calls count once, however many topics it has. Price: one pass over the topics.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from foil.engine.topic import Call, Topic

BEFORE = "before any call"
"""Where a seed ended that nothing was asked for."""


@dataclass(frozen=True, slots=True)
class SeedStage:
    """What one seed asked of one stage: prompts, the requests that they took, and their tokens."""

    prompts: int
    calls: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(slots=True)
class StageCounts:
    """One task. A prompt was `valid` at its first reply, `corrected` in a further turn, `drawn` anew, or `given_up`.

    `salvaged` prompts are among the first three: fields of the answer were mended without asking. `seeds` has one entry
    a seed that came here. `most` are the most prompt and completion tokens of one call.
    """

    task: str
    models: Counter[str] = field(default_factory=Counter)
    templates: Counter[str] = field(default_factory=Counter)
    valid: int = 0
    salvaged: int = 0
    corrected: int = 0
    drawn: int = 0
    given_up: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    seeds: list[SeedStage] = field(default_factory=list)
    most: tuple[int, int] = (0, 0)
    usd: float = 0.0
    request_ids: list[str] = field(default_factory=list)

    @property
    def sent(self) -> int:
        """Prompts."""
        return self.valid + self.corrected + self.drawn + self.given_up

    @property
    def calls(self) -> int:
        """Requests, further turns among them."""
        return sum(seed.calls for seed in self.seeds)

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens of all calls."""
        return sum(seed.tokens for seed in self.seeds)


@dataclass(frozen=True, slots=True)
class Example:
    """One topic that ended by a reason: its detail, and the call behind it, if one is."""

    seed_id: str
    query: str
    detail: str
    call: Call | None


@dataclass(slots=True)
class Ending:
    """Topics that ended by one reason. `place` is the task or the validator after which they did."""

    reason: str
    status: str
    place: str
    topics: int
    example: Example


@dataclass(frozen=True, slots=True)
class Change:
    """What it would bring if a reason ended no topic any more: accepted topics more, and tokens for each accepted.

    `before` is None where nothing is accepted yet. `measured` says that other topics got past that place, so that the
    share of them that was accepted is known; else every topic is taken to be accepted then.
    """

    ending: Ending
    accepted: float
    before: float | None
    after: float
    measured: bool


@dataclass(slots=True)
class Funnel:
    """All of it. `whole` topics have intents and judgments, whatever a validator said of them then.

    `asked` seeds have a call. `paid_tokens` are those that no other run had paid for. `validators` are those that spoke
    of a whole topic, in the order in which they did.
    """

    seeds: int = 0
    asked: int = 0
    topics: Counter[str] = field(default_factory=Counter)
    whole: int = 0
    stages: dict[str, StageCounts] = field(default_factory=dict)
    endings: list[Ending] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)
    validators: dict[str, None] = field(default_factory=dict)
    tokens: int = 0
    paid_tokens: int = 0
    usd: float = 0.0
    trails: list["Trail"] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        return self.topics["accepted"]

    def per_accepted(self, amount: float) -> float | None:
        """An amount over all seeds for each accepted topic; None where there is none."""
        return amount / self.accepted if self.accepted else None

    def changes(self) -> list[Change]:
        """What each reason costs, the dearest first."""
        changes = [self._change(ending) for ending in self.endings]
        return sorted(changes, key=lambda change: (change.after, -change.ending.topics))

    def _change(self, ending: Ending) -> Change:
        place = self._places().index(ending.place)
        passed = [trail for trail in self.trails if trail.place is None or self._places().index(trail.place) > place]
        share = sum(trail.place is None for trail in passed) / len(passed) if passed else 1.0
        later = set(self._places()[place + 1 :])
        costs = [sum(tokens for task, tokens in trail.tokens if task in later) for trail in passed]
        more = ending.topics * share
        tokens = self.tokens + ending.topics * (sum(costs) / len(costs) if costs else 0.0)
        after = tokens / (self.accepted + more) if self.accepted + more else float("inf")
        return Change(ending, more, self.per_accepted(self.tokens), after, bool(passed))

    def _places(self) -> list[str]:
        """Where a topic can end, in the order of the flow."""
        recipe, judged = _parted(self.stages, "judges.")
        checks, judges = _parted(self.validators, "judge_")
        return [BEFORE, *recipe, *checks, *judged, *judges]


@dataclass(frozen=True, slots=True)
class Trail:
    """How far a topic came: where it ended, None if it was accepted, and its tokens by task."""

    place: str | None
    tokens: tuple[tuple[str, int], ...]


def funnel_of(topics: Iterable[Topic]) -> Funnel:
    """Counts topics in their committed order."""
    funnel = Funnel()
    for _, of_seed in groupby(topics, key=lambda topic: (topic.corpus, topic.seed_id)):
        _count_seed(funnel, list(of_seed))
    return funnel


def prompts_of(calls: Iterable[Call]) -> Iterator[list[Call]]:
    """The calls of each prompt: its first request, and its further turns."""
    prompt: list[Call] = []
    for call in calls:
        if prompt and not (call.turn and call.task == prompt[0].task):
            yield prompt
            prompt = []
        prompt.append(call)
    if prompt:
        yield prompt


def _parted(names: Iterable[str], beginning: str) -> tuple[list[str], list[str]]:
    """Names without this beginning, and those with it."""
    with_it = [name for name in names if name.startswith(beginning)]
    return [name for name in names if name not in with_it], with_it


def _count_seed(funnel: Funnel, topics: Sequence[Topic]) -> None:
    calls: dict[str, Call] = {}
    for topic in topics:
        calls.update({call.request_id: call for call in topic.calls if call.request_id not in calls})
    funnel.seeds += 1
    funnel.asked += bool(calls)
    for call in calls.values():
        tokens = call.prompt_tokens + call.completion_tokens
        funnel.tokens += tokens
        funnel.paid_tokens += 0 if call.reused else tokens
        funnel.usd += call.cost_usd
    _count_prompts(funnel, list(prompts_of(calls.values())))
    for topic in topics:
        _count_topic(funnel, topic)


def _count_prompts(funnel: Funnel, prompts: Sequence[Sequence[Call]]) -> None:
    _place_stages(funnel, [prompt[0].task for prompt in prompts])
    by_task: dict[str, list[Sequence[Call]]] = {}
    for prompt in prompts:
        by_task.setdefault(prompt[0].task, []).append(prompt)
    for task, of_task in by_task.items():
        stage, calls = funnel.stages[task], [call for prompt in of_task for call in prompt]
        for prompt in of_task:
            _count_prompt(stage, prompt)
        sums = sum(call.prompt_tokens for call in calls), sum(call.completion_tokens for call in calls)
        stage.seeds.append(SeedStage(len(of_task), len(calls), *sums))


def _place_stages(funnel: Funnel, tasks: Sequence[str]) -> None:
    """Gives a new task its place, behind the one that this seed was asked before."""
    before = ""
    for task in dict.fromkeys(tasks):
        if task not in funnel.stages:
            order = list(funnel.stages)
            order.insert(order.index(before) + 1 if before else 0, task)
            funnel.stages = {name: funnel.stages.get(name) or StageCounts(name) for name in order}
        before = task


def _count_prompt(stage: StageCounts, prompt: Sequence[Call]) -> None:
    last = prompt[-1]
    if last.fault:
        stage.given_up += 1
    elif not last.turn:
        stage.valid += 1
    elif last.turn == "correction":
        stage.corrected += 1
    else:
        stage.drawn += 1
    stage.salvaged += bool(last.salvaged)
    for call in prompt:
        stage.models[call.model] += 1
        stage.templates[call.template] += 1
        stage.usd += call.cost_usd
        stage.most = max(stage.most[0], call.prompt_tokens), max(stage.most[1], call.completion_tokens)
        stage.request_ids.append(call.request_id)
        if call.fault:
            stage.faults[call.fault.partition(":")[0]] += 1


def _count_topic(funnel: Funnel, topic: Topic) -> None:
    funnel.topics[topic.status] += 1
    funnel.whole += is_whole(topic)
    funnel.marks.update(filter(None, topic.attributes.get("marks", "").split(", ")))
    if is_whole(topic):
        funnel.validators |= dict.fromkeys(verdict.validator for verdict in topic.verdicts)
    place = None if topic.status == "accepted" else _place(funnel, topic)
    tokens = tuple((call.task, call.prompt_tokens + call.completion_tokens) for call in topic.calls)
    funnel.trails.append(Trail(place, tokens))
    if place is None:
        return
    key = (topic.reason, topic.status, place)
    standing = next((e for e in funnel.endings if (e.reason, e.status, e.place) == key), None)
    if standing:
        standing.topics += 1
        return
    example = Example(topic.seed_id, topic.query, topic.detail, _call_behind(topic, place))
    funnel.endings.append(Ending(topic.reason, topic.status, place, 1, example))


def is_whole(topic: Topic) -> bool:
    """Whether a recipe made a topic of the seed, whatever became of it."""
    return bool(topic.intents and topic.judgments)


def _place(funnel: Funnel, topic: Topic) -> str:
    """The validator that rejected the topic, or the task that was asked last."""
    for verdict in topic.verdicts:
        if verdict.outcome == "reject" and is_whole(topic):
            return verdict.validator
    if is_whole(topic):  # a validator failed; `detail` begins with its name
        name = topic.detail.removeprefix("validator ").partition(":")[0]
        funnel.validators |= {name: None}
        return name
    return topic.calls[-1].task if topic.calls else BEFORE


def _call_behind(topic: Topic, place: str) -> Call | None:
    """The call that shows why: one refused for that reason, else the last of a judge or, for a check, of the recipe."""
    refused = [call for call in topic.calls if call.fault.partition(":")[0] == topic.reason]
    written = [call for call in topic.calls if not call.task.startswith("judges.")]
    candidates = refused or (topic.calls if place.startswith("judge") else written)
    return candidates[-1] if candidates else None
