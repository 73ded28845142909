"""The base of every settings class: frozen, and an unknown key is an error."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Read from the job file; each part's own settings stand beside that part."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
