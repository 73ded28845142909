"""The demands of an instruction as short questions, by which judges decide it (see validators.judges.demands).

    {"demands": ["What does it cost?"], "bans": ["Who sells it?"]}      JSON in `Intent.attributes["demands"]`

A relevant passage answers each demand and no ban.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from foil.engine.ids import canonical_json
from foil.engine.topic import Intent

ATTRIBUTE = "demands"


class Demands(NamedTuple):
    """Questions that a relevant passage answers, and questions that it must not answer."""

    demands: tuple[str, ...] = ()
    bans: tuple[str, ...] = ()


def dump_demands(demands: Sequence[str], bans: Sequence[str] = ()) -> str:
    """The JSON kept in an intent's attributes."""
    return canonical_json({"demands": list(demands), "bans": list(bans)})


def demands_of(intent: Intent) -> Demands:
    """The intent's demands and bans; neither where its writer gave none.

    >>> demands_of(Intent("i", "instructed", "Tell me the price.", "boots", {"demands": dump_demands(["How much?"])}))
    Demands(demands=('How much?',), bans=())
    """
    stored = json.loads(intent.attributes.get(ATTRIBUTE, "{}"))
    return Demands(tuple(stored.get("demands", ())), tuple(stored.get("bans", ())))
