"""Settings as they are written on a command line: `key=value,key=value`."""

from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

Settings = TypeVar("Settings", bound=Struct)


def parameters_of(text: str, kind: type[Settings]) -> Settings:
    """Return the settings with the values that the text gives; a list is written 1/2/3, nothing `none`.

    Raises ValueError that names the key and the value.
    """
    types = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in types:
            raise ValueError(f"{key!r} is not one of {', '.join(types)}")
        if not equals:
            raise ValueError(f"{key} needs a value, {key}=...")
        if types[key].name in values:
            raise ValueError(f"{key} is given twice")
        values[types[key].name] = _value(key, value, types[key].type)
    return kind(**values)


def _value(key: str, value: str, wanted: Any) -> Any:
    """Return the value as the setting's type has it."""
    text = "null" if value.lower() == "none" else value
    # A setting takes a list where its type has no place for one text: that is tried second.
    attempts: tuple[object, ...] = (text, text.split("/"))
    for attempt in attempts:
        try:
            return msgspec.convert(attempt, wanted, strict=False)
        except msgspec.ValidationError as error:
            problem = str(error)
            if "array" not in problem:
                break
    raise ValueError(f"{key}: {mismatch(problem, wanted)}, not {value!r}")


def mismatch(problem: str, wanted: Any) -> str:
    """Return msgspec's words for a value that is not of the type that is wanted, in words for its writer."""
    if choices := get_args(wanted) if get_origin(wanted) is Literal else ():
        return f"expected one of {', '.join(map(str, choices))}"
    if "regex" in problem:
        return "expected lower case letters, digits, '-' and '.'"
    text = problem.replace(", got `str`", "").partition(" - at ")[0]
    return text[:1].lower() + text[1:]
