"""Settings of every part: each number has bounds, and no value is read as another type."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import Field, ValidationError

import foil
from foil.engine.settings import Settings


def settings_classes() -> dict[str, type[Settings]]:
    for module in pkgutil.walk_packages(foil.__path__, "foil."):
        if module.name.endswith(("settings", "specs", "catalog", "limits", "traits", "params", "endpoints")):
            importlib.import_module(module.name)

    def below(parent: type[Settings]) -> Iterator[type[Settings]]:
        for child in parent.__subclasses__():
            yield child
            yield from below(child)

    return {c.__name__: c for c in below(Settings) if c.__module__.startswith("foil.")}


def numbers(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number") and "enum" not in schema and "const" not in schema:
            yield place, schema
        for key, part in schema.items():
            if key != "default":
                yield from numbers(part, f"{place}.{key}")
    elif isinstance(schema, list):
        for index, part in enumerate(schema):
            yield from numbers(part, f"{place}.{index}")


def test_every_number_of_every_settings_class_has_a_lower_and_an_upper_bound():
    classes = settings_classes()
    assert len(classes) > 40
    for name, settings in classes.items():
        for place, schema in numbers(settings.model_json_schema(), name):
            assert schema.keys() & {"minimum", "exclusiveMinimum"}, place
            assert schema.keys() & {"maximum", "exclusiveMaximum"}, place


class StrictSettings(Settings):
    whole: int = Field(1, ge=0, le=9)
    real: float = Field(1.0, ge=0, le=9)
    flag: bool = True
    text: str = ""
    texts: tuple[str, ...] = ()
    reals: Mapping[str, float | None] = Field({})
    type: str = "int"


@pytest.mark.parametrize(
    "values",
    [
        {"whole": "1"},
        {"whole": True},
        {"whole": 1.0},
        {"real": "1"},
        {"real": False},
        {"real": float("inf")},
        {"real": float("nan")},
        {"flag": "yes"},
        {"flag": 1},
        {"text": 7},
        {"text": b"a"},
        {"texts": ["a", 1]},
        {"reals": {"a": "1"}},
        {"reals": {"a": True}},
        {"whole": 10**30},
        {"flag": None},
    ],
)
def test_no_value_is_read_as_another_type(values):
    with pytest.raises(ValidationError):
        StrictSettings.model_validate(values)


def test_a_whole_number_is_a_number_and_a_list_a_tuple():
    read = StrictSettings.model_validate({"real": 2, "texts": ["a"], "reals": {"a": None, "b": 3}})
    assert (read.real, read.texts, read.reals) == (2.0, ("a",), {"a": None, "b": 3.0})
