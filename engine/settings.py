"""The base of every settings class: frozen, an unknown key is an error, and no value is read as another type."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError

_SCALARS = frozenset({"bool", "int", "float", "str"})


def _scalars(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str) and schema["type"] in _SCALARS:
            yield schema
        for key, part in schema.items():
            if key not in {"default", "metadata", "serialization"}:
                yield from _scalars(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from _scalars(part)


class Settings(BaseModel):
    """Read from the job file; each part's own settings stand with that part. Every number has its bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Scalars are strict (`"1"` and `true` are no numbers); a list still becomes a tuple, a text a path."""
        schema = handler(source)
        for scalar in _scalars(schema):
            scalar["strict"] = True
        return schema

    def identity(self) -> dict[str, Any]:
        """What decides the rows of a run, as JSON; a class whose settings do not all do so says which."""
        return self.model_dump(mode="json")

    def asks(self) -> tuple[str, ...]:
        """The roles of the models that this part names."""
        return ()


def _check_source(text: str) -> str:
    if text and not (text.startswith("${") and text.endswith("}") and len(text) > 3) and not text.startswith("file:"):
        raise secret_in_job("a key does not belong in a job file")
    return text


def secret_in_job(problem: str) -> PydanticCustomError:
    """The error of a settings class that was given a key itself; the job loader shows it without the value."""
    return PydanticCustomError(
        "secret_in_job", f"{problem}; write ${{NAME}} for an environment variable, or file:PATH, as `api_key`"
    )


SecretSource = Annotated[str, AfterValidator(_check_source)]
"""Where a key is: `${NAME}` or `file:PATH`. The key itself is in no settings object, so that nothing can print it."""
