"""The few shapes that the machine is built from. The machine knows these, and nothing of the work behind them.

    seeds: SeedReader -> recipe: Recipe(seed, ask) -> topics -> validators -> commit

A recipe or validator gets a callable, `ask`; it never sees a client, a retry, a rate limit, a journal or Ray.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict

from foil.engine.model_traits import ModelTraits
from foil.engine.rates.client import AskForRates
from foil.engine.requests import Message, Reply, Request
from foil.engine.seeds.files.ledger import Ledger
from foil.engine.topic import Call, Seed, Topic, Verdict

Answer = TypeVar("Answer", bound=BaseModel)
Named = TypeVar("Named")


SAMPLING: Mapping[str, Any] = {"temperature": 0.0, "max_tokens": 1024}
"""How a model answers a prompt whose task says nothing. What the tasks of Foil say is in prompts/sampling.py."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt: `task` names what is asked, `template` is `name@hash`.

    `params` go over the model's own (e.g. {"n": 3, "temperature": 1.0} for three votes). `sampling` is what the task
    needs (`temperature`, `max_tokens`) where the model's own say nothing.
    """

    task: str
    template: str
    messages: tuple[Message, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=lambda: SAMPLING)


class PlainAnswer(BaseModel):
    """Base of answers that are the reply's text as it stands: the request asks for no JSON, and carries no schema."""

    model_config = ConfigDict(frozen=True)
    text: str


class WordReply(BaseModel):
    """Base of the replies that are a word and no JSON. Their requests carry no schema, and a reply that was cut at its
    limit of tokens is read all the same."""

    model_config = ConfigDict(frozen=True)
    READS_CUT: ClassVar[bool] = True
    """Whether a reply that was cut at its limit of tokens is read all the same. Any answer type may say so."""

    @classmethod
    def read(cls, text: str) -> Self:
        """The answer in a reply. Raises engine.errors.UnreadableReplyError where it holds none."""
        raise NotImplementedError


ReplyCheck = Callable[[Answer], Answer]
"""Takes an answer and gives it back, mended where a program can. Raises engine.errors.FaultyReply for one that its
writer has to mend, Rejected for one that ends the seed."""


class Ask(Protocol):
    """Sends one prompt to the model that the job names `role`, and returns its typed reply.

    A reply that cannot be read, or that `check` refuses, is corrected in further turns of the conversation, and then
    drawn anew, as often as the run allows. Raises UnreadableReplyError or FaultyReply after that, RefusedRequestError
    for a refused request, BudgetSpentError when the budget is used up. `votes` returns every choice of an `n > 1`
    prompt that can be read, the first corrected where it must be. `scored` returns the answer with the provider's
    logprobs of it, None where there are none. `calls` are those answered so far, for this seed or topic.
    """

    @property
    def calls(self) -> Sequence[Call]: ...

    def __call__(
        self, prompt: Prompt, answer: type[Answer], *, role: str = "writer", check: ReplyCheck[Answer] | None = None
    ) -> Awaitable[Answer]: ...
    def votes(self, prompt: Prompt, answer: type[Answer], *, role: str = "writer") -> Awaitable[list[Answer]]: ...
    def scored(
        self, prompt: Prompt, answer: type[Answer], *, role: str = "writer"
    ) -> Awaitable[tuple[Answer, Any]]: ...


class Model(Protocol):
    """Answers one request in one attempt; `ask` decides whether to send it again after a TransientModelError.

    `name` enters the request's id. A class that derives from Model inherits default traits, and a `lease_rates`, a
    `heard` and a `close` that do nothing. `lease_rates` is called before the first request where several processes
    share a quota; `heard` learns of each reply that should be JSON whether it could be read; `unasked_replies` hands
    over the paid replies to prompts of the model's own, each once; `close` is awaited when the run ends.
    """

    name: str
    traits: ModelTraits = ModelTraits()

    async def complete(self, request: Request) -> Reply: ...

    def lease_rates(self, _ask: AskForRates, /) -> None:
        return

    def unasked_replies(self) -> list[Reply]:
        return []

    def heard(self, *, readable: bool) -> None:  # noqa: ARG002 - most models ask for JSON in one way
        return

    async def close(self) -> None:
        return


class SeedReader(Protocol):
    """Streams the seeds of a corpus in a fixed order: the same files give the same seeds in the same order.

    `ledger` counts the bad records passed over so far (only under `on_error: skip`), and what else is not as it stands.
    """

    @property
    def ledger(self) -> Ledger: ...

    def __iter__(self) -> Iterator[Seed]: ...


Sketch = Callable[[Seed], Any]


@runtime_checkable
class DivisibleReader(SeedReader, Protocol):
    """A SeedReader that can have other processes do its work."""

    def in_parallel(self, processes: int, sketches: Sequence[Sketch]) -> SeedReader:
        """A reader of the same seeds in the same order, some or all as engine.topic.PackedSeed, with these sketches."""
        ...


class Recipe(Protocol):
    """One seed in, its topics out. Raises engine.errors.Rejected(reason, detail) where the seed allows none.

    `fingerprint` changes when the same seed would give other topics (settings, templates, code version).
    """

    name: str
    fingerprint: str

    def __call__(self, seed: Seed, ask: Ask, /) -> Awaitable[Sequence[Topic]]: ...


class RecipeChoice(ABC):
    """The base of a Recipe that gives each seed to one of several. It is asked for every seed: no Protocol."""

    @abstractmethod
    def recipe_for(self, seed: Seed) -> Recipe:
        """The recipe that makes the topics of this seed."""


def recipe_for(recipe: Recipe, seed: Seed) -> Recipe:
    """The recipe itself, or the one that it chooses for this seed."""
    return recipe.recipe_for(seed) if isinstance(recipe, RecipeChoice) else recipe


class Cost(IntEnum):
    """What a validator needs besides the topic. Cheap validators run first; after a rejection no model is asked."""

    TOPIC = 0
    INDEX = 1
    MODEL = 2


class Check(Protocol):
    """Judges one topic without a model: returns it, edited where the verdicts say `edit`, with at least one verdict.

    It sets neither `status` nor `verdicts` of the topic; the flow does. `fingerprint` (settings and index digests)
    enters the job's fingerprint and every commit entry.
    """

    name: str
    fingerprint: str

    @property
    def cost(self) -> Literal[Cost.TOPIC, Cost.INDEX]: ...
    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]: ...


class JudgeCheck(Protocol):
    """A check that asks a model."""

    name: str
    fingerprint: str

    @property
    def cost(self) -> Literal[Cost.MODEL]: ...
    def __call__(self, topic: Topic, ask: Ask) -> Awaitable[tuple[Topic, Sequence[Verdict]]]: ...


Validator = Check | JudgeCheck


class Screen(Protocol):
    """Sees every seed once, in stream order, in one process, before any request is paid.

    A returned verdict with outcome `reject` rejects the seed. The one place for decisions that depend on what came
    before (duplicates across partitions), so that concurrency cannot change them.
    """

    name: str
    fingerprint: str

    def __call__(self, seed: Seed) -> Verdict | None: ...


@runtime_checkable
class SketchingScreen(Screen, Protocol):
    """A Screen that decides by a sketch of the seed, which needs no other seed: `sketch` goes to other processes."""

    sketch: Sketch

    def decide(self, seed_id: str, sketch: Any) -> Verdict | None:
        """What calling the screen with the seed gives."""
        ...


@dataclass(frozen=True, slots=True)
class Partition:
    """A fixed run of seeds: the unit of work, commit and resume. `screened`: rejecting verdicts by seed id.

    `digests`: 8 hex digits a seed; `stream`: a digest of all seeds of the run up to the end of this partition.
    """

    index: int
    seeds: tuple[Seed, ...]
    screened: Mapping[str, Verdict] = field(default_factory=dict)
    digests: str = ""
    stream: str = ""

    @property
    def size(self) -> int:
        """How many seeds it has."""
        return len(self.seeds)

    async def load(self) -> "Partition":
        """The partition itself: its seeds are here."""
        return self


class PendingPartition(Protocol):
    """A partition on its way to a worker, who loads its seeds. `stream` as in Partition."""

    @property
    def index(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def stream(self) -> str: ...
    async def load(self) -> Partition: ...


class CommitStore(Protocol):
    """Where partitions are committed; each exactly once (design, guarantees 1 and 2).

    `committed` gives each entry, with its `counts` under the names of engine.flow.progress.Counts; an entry may be read
    only as it is asked for. `totals` gives `partitions`, how many there are, the sums of all `counts`, and `reopened`,
    the partitions whose failed rows were asked again.
    `commit` returns True if this call's entry stands, False if an equal entry of another writer already stood.
    It raises CommitLostError if a *different* entry stood. `facts` (digests of indexes, counts) go into the entry.
    `plan` is what is known once the seed stream has ended: {"seeds": N, "partitions": K, "stream": digest}; None until
    then. The digest is absent where it is not known.
    `asked_again` gives by seed the requests of a partition whose replies failed a row that is asked again: they count
    no more. `replaced_calls` gives what was paid for rows of a partition before, and for none that stand now.
    `short_partitions` gives the sizes of partitions that an earlier, smaller limit cut short, once the run's limits
    have grown; None where they never grew.
    """

    def committed(self) -> Mapping[int, Mapping[str, Any]]: ...
    def totals(self) -> Mapping[str, Any]: ...
    def commit(self, partition: int, topics: Sequence[Topic], facts: Mapping[str, Any]) -> bool: ...
    def plan(self) -> Mapping[str, Any] | None: ...
    def put_plan(self, plan: Mapping[str, Any]) -> None: ...
    def short_partitions(self) -> Mapping[int, int] | None: ...
    def asked_again(self, partition: int) -> Mapping[str, Collection[str]]: ...
    def replaced_calls(self, partition: int) -> Iterable[Call]: ...


class PaidReplies(Protocol):
    """The replies that other runs have paid for; None where no run has one."""

    def get(self, request: Request) -> Reply | None: ...


JUDGE = "judge"
STAGES = frozenset({"instruction_writer", "passage_writer", JUDGE})
"""Roles that recipes and judges ask by default; one that the job does not name has what the role `writer` has."""


def for_role(by_role: Mapping[str, Named], role: str) -> Named | None:
    """What a role has among those that a job names; None where it names nothing for it."""
    return by_role.get(role) or (by_role.get("writer") if role in STAGES else None)


@dataclass(frozen=True, slots=True)
class Parts:
    """The concrete parts of one run, built once in each worker process by `cluster.build`.

    `paid` holds replies that other runs have paid for. A faulty reply is corrected in up to `corrections` further
    turns; after them `candidates` new ones are drawn by one request, and the first that passes is taken.
    """

    recipe: Recipe
    validators: tuple[Validator, ...]
    models: Mapping[str, Model]
    parse: Callable[[str, type[Any]], Any]
    store: CommitStore
    out: str
    corrections: int = 2
    candidates: int = 0
    paid: PaidReplies | None = None

    async def close(self) -> None:
        """Ends what the models hold: connections, an engine, a server."""
        for model in self.models.values():
            await model.close()
