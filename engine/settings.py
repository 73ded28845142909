"""The base of every settings class: frozen, and an unknown key is an error."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Read from the job file; each part's own settings stand beside that part."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def identity(self) -> dict[str, Any]:
        """What decides the rows of a run, as JSON; a class whose settings do not all do so says which."""
        return self.model_dump(mode="json")

    def asks(self) -> tuple[str, ...]:
        """The roles of the models that this part asks, besides the writer."""
        return ()
