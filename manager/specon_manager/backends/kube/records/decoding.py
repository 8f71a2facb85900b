"""Fields that anybody may have edited: what can be read is read, the rest becomes words. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

_SHOWN: Final = 80
_LATEST: Final = 253_000_000_000.0  # in the year 9987: a later one is no date
T = TypeVar("T", bound=Struct)


class Problem(Struct, frozen=True, kw_only=True):
    """A field of an object that is not what it must be."""

    kind: str
    namespace: str
    name: str
    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}: {self.field}: {self.text}"


def read_fields(kind: type[T], value: object, *, at: str) -> tuple[T, dict[str, str]]:
    """Return the record in `value` without the fields that cannot be read, and why not by field.

    Every field of `kind` has a default. `at` is where the value stands, such as `status`.
    """
    if value is None:
        return kind(), {}
    if not isinstance(value, Mapping):
        return kind(), {at: f"{_show(value)} is no object"}
    try:
        return msgspec.convert(value, kind), {}
    except (msgspec.ValidationError, OverflowError):
        pass  # field by field, which takes much longer
    read: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in _fields(kind):
        given = value.get(field.encode_name)
        if given is None:
            continue
        try:
            read[field.name] = msgspec.convert(given, field.type)
        except (msgspec.ValidationError, OverflowError) as error:
            wrong[f"{at}.{field.encode_name}"] = f"{_show(given)}: {error}"
    return kind(**read), wrong


@lru_cache(maxsize=32)
def _fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def moment(seconds: float | None) -> datetime | None:
    """Return the time as the API writes it; None and 0 are no time."""
    if not seconds:
        return None
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LATEST), tz=UTC)


def seconds_of(at: datetime | None) -> float | None:
    """Return seconds since the epoch; a time without a zone is UTC."""
    if at is None:
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def round_to_six(value: float | None) -> float | None:
    """Return the value with six significant digits: it is for people and for averages."""
    return None if value is None else float(f"{value:.6g}")


def cut_text(text: str, longest: int = 1024) -> str | None:
    """Return the text, cut where it is too long; None where there is none."""
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return text or None
