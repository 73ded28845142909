"""What the checks share that look at one topic alone: settings, cost and fingerprint."""

from typing import Final, Generic, TypeVar

from foil.engine.protocols import Cost
from foil.engine.settings import Settings
from foil.validators.verdicts import fingerprint

S = TypeVar("S", bound=Settings)


class TopicCheck(Generic[S]):
    """An engine.protocols.Check. A subclass raises `version` when it would judge the same topic otherwise."""

    cost: Final = Cost.TOPIC
    version = 1

    def __init__(self, settings: S) -> None:
        self._settings = settings
        self.fingerprint = fingerprint(settings, self.version)
