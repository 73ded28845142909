"""The nouns: what flows from a seed corpus to a training batch. TREC's words where TREC has one.

    Seed --recipe--> Topic = intents x passages, with a partial matrix of judgments
                     Topic --validators--> the same topic, marked with verdicts

One schema serves every method (InF-IR's three rows, Dual-View's two, Promptriever's four negatives, InfoSearch's
modes): only the roles differ. All nouns are immutable values; a change makes a new one (`dataclasses.replace`).
Mappings are plain dicts of strings by convention never mutated after construction.
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from foil.engine.ids import canonical_json, content_id, sha256_hex, unpickled

IntentRole = Literal["original", "instructed", "poisoned_instruction", "poisoned_query", "reversed", "dual"]
PassageRole = Literal[
    "seed_positive", "seed_negative", "generated_positive", "instruction_negative", "query_negative", "distractor",
    "mined_negative",
]  # fmt: skip
Outcome = Literal["pass", "edit", "reject"]
Status = Literal["accepted", "rejected", "failed"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that may be retrieved. `id` follows from the text, so equal texts are one passage.

    `source_id` is its id in the corpus that it came from (a docid, an object's name), or "" where it was written here.
    `edited_from` is the id of the passage of which this is an edit, or "" for an unedited text.
    `attributes` are facts known besides the text, e.g. {"language": "python", "library": "numpy"}.
    """

    text: str
    role: PassageRole
    title: str = ""
    source_id: str = ""
    edited_from: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", passage_id(self.title, self.text))


def passage_id(title: str, text: str) -> str:
    """The id of a passage: a hash of its title and text, nothing else."""
    return content_id("passage", title, text)


@dataclass(frozen=True, slots=True)
class Seed:
    """One query of a corpus with what is known about it. `id` is unique within the corpus and stable across runs.

    `attributes` carry what a recipe may use: tags, difficulty, answer, narrative, language.
    """

    id: str
    corpus: str
    query: str
    positives: tuple[Passage, ...]
    negatives: tuple[Passage, ...] = ()
    licence: str = ""
    redistributable: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


def seed_digest(seed: Seed) -> str:
    """The sha256 of everything that a seed says, as hex."""
    passages = [
        [p.text, p.role, p.title, p.source_id, p.edited_from, p.attributes] for p in (*seed.positives, *seed.negatives)
    ]
    facts = [seed.id, seed.corpus, seed.query, passages, seed.licence, seed.redistributable, seed.attributes]
    return sha256_hex(canonical_json(facts))


@dataclass(frozen=True, slots=True)
class PackedSeed:
    """A seed as the bytes of its pickle, for who only passes it on. Pickled itself, it comes out as the seed.

    `sketches`: what each screen that decides by a sketch (engine.protocols.SketchingScreen) wants to know, in order.
    """

    id: str
    corpus: str
    digest: str
    data: bytes
    sketches: tuple[Any, ...] = ()

    def unpack(self) -> Seed:
        seed: Seed = unpickled(self.data)
        return seed

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.data,)


@dataclass(frozen=True, slots=True)
class Intent:
    """An (instruction, query) pair asked of the retriever; `instruction` is "" for the original intent.

    `attributes`: e.g. {"constraints": <canonical JSON>, "style": "negation", "length_format": "short"}.
    """

    id: str
    role: IntentRole
    instruction: str
    query: str
    attributes: Mapping[str, str] = field(default_factory=dict)


def intent_id(topic_id: str, instruction: str, query: str) -> str:
    """The id of an intent within its topic."""
    return content_id("intent", topic_id, instruction, query)


@dataclass(frozen=True, slots=True)
class Judgment:
    """Whether the passage is relevant to the intent (+1 or -1), and who says so.

    `judge` is `seed`, `construction`, `rule`, `mined`, or `judge:MODEL`; `votes` are the single votes behind it.
    """

    intent_id: str
    passage_id: str
    relevance: int
    judge: str
    votes: tuple[int, ...] = ()


ACCEPTED = "accepted"
"""The reason of the verdict by which a person or a filter accepted a rejected topic."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a validator said of a topic, or of one part of it.

    `scope` is `topic`, or the id of the intent or passage meant. `reason` is a short code (`leak`, `contaminated`);
    `evidence` is what a reader needs to agree (the span, the item, the two texts). Costs are in US dollars.
    """

    validator: str
    scope: str
    outcome: Outcome
    reason: str = ""
    evidence: str = ""
    score: float | None = None
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request that a topic was made with, as it stands in the shard: what it asked, of whom, for how much.

    Latency stays in the journal: it differs between runs, and shards do not. `reused` replies were paid by another run.
    `fault` is why the reply was not taken as it is, `REASON: DETAIL`, "" where it was; `salvaged` names the fields of
    the answer that were mended without asking again. `turn` is "" for the first request of a prompt, `correction` for a
    further turn of it, `candidates` where it was drawn anew.
    """

    request_id: str
    task: str
    model: str
    template: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    finish_reason: str
    reply_text: str
    reused: bool = False
    fault: str = ""
    salvaged: str = ""
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a recipe makes of one seed: intents x passages with a partial judgment matrix; unlabelled pairs are absent.

    A rejected or failed topic is a Topic too: `status` and `reason` say so, `detail` says why.
    """

    id: str
    seed_id: str
    corpus: str
    recipe: str
    query: str
    intents: tuple[Intent, ...] = ()
    passages: tuple[Passage, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    calls: tuple[Call, ...] = ()
    status: Status = "accepted"
    reason: str = ""
    detail: str = ""
    licence: str = ""
    redistributable: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


def topic_id(recipe: str, seed: Seed, index: int = 0) -> str:
    """The id of a seed's `index`-th topic under a recipe."""
    return content_id("topic", recipe, seed.corpus, seed.id, str(index))
