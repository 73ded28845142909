"""A small corpus about animals, and topics that the recipe `verifiable` makes of it."""

import asyncio

from foil.engine.topic import Passage, Seed, Topic
from foil.prompts.recipes.verifiable import Verifiable, VerifiableSettings
from tests.support.topics.character_ask import CharacterAsk

RHINO = (
    "The black rhino is a large animal of southern Africa. It weighs about 1,400 kilograms. The scientist Carl "
    "Linnaeus named it in 1758. Poachers sell the horn, although 40 percent live in parks. Calves stay with "
    "mothers for three years because lions hunt them. In Namibia, wardens saw off the horns, for example."
)
OTHER_RHINO = (
    "Black rhinos are animals that browse on bushes. Their upper lip is hooked. Some 6,195 were counted in a recent "
    "survey. Oxpeckers sit on their backs and warn them of danger."
)
HIPPO = (
    "The hippo of Lake Victoria is a river animal. It spends days in water because the sun burns its skin. At night "
    "it grazes, for example on islands. The hippos of Lake Victoria were counted in 2019."
)
ZEBRA = (
    "The zebras of Amboseli Park live in herds. Their stripes confuse flies, as an experiment with painted horses in "
    "Amboseli Park suggests."
)


_QUERIES = {
    HIPPO: {"query": "how does the hippo of Lake Victoria live"},
    ZEBRA: {"query": "why do the zebras of Amboseli have stripes"},
}


def passage(text: str, role="seed_positive", **attributes: str) -> Passage:
    return Passage(text, role, attributes=attributes)


def seed(identity: str = "s1", positives=(RHINO,), negatives=(HIPPO, ZEBRA), **fields) -> Seed:
    fields = {"query": "what is a black rhino", "licence": "CC0-1.0", "redistributable": True} | fields
    return Seed(
        identity,
        "animals",
        positives=tuple(passage(p) if isinstance(p, str) else p for p in positives),
        negatives=tuple(
            passage(n, "seed_negative", **_QUERIES.get(n, {})) if isinstance(n, str) else n for n in negatives
        ),
        **fields,
    )


def topic_of(seed: Seed, **options) -> Topic:
    (topic,) = asyncio.run(Verifiable(VerifiableSettings(**options))(seed, CharacterAsk()))
    return topic
