"""The parameters of a policy as its settings declare them: name, type, default and meaning."""

import ast
import inspect
import itertools
import textwrap
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec import inspect as types


class Parameter(Struct, frozen=True, kw_only=True):
    """One field of a policy's settings."""

    name: str
    type: str
    """In words, with its bounds."""
    default: Any
    meaning: str
    """The docstring below the field; empty where there is none or the source cannot be read."""


def parameters_of(settings: type[Struct]) -> tuple[Parameter, ...]:
    """Return the parameters in the order in which they are declared; raises TypeError for no Struct."""
    declared = types.type_info(settings)
    if not isinstance(declared, types.StructType):
        raise TypeError(f"settings: {settings!r} is not a Struct")
    meanings = _meanings(settings)
    return tuple(
        Parameter(
            name=field.encode_name,
            type=describe_type(field.type),
            default=_default(field),
            meaning=meanings.get(field.name, ""),
        )
        for field in declared.fields
    )


def describe_type(kind: types.Type) -> str:
    """Return what values a type takes, for instance `number, above 0, at most 10`."""
    match kind:
        case types.Metadata(type=inner):
            return describe_type(inner)
        case types.IntType() | types.FloatType():
            return ", ".join(["integer" if isinstance(kind, types.IntType) else "number", *_bounds(kind)])
        case types.BoolType():
            return "true or false"
        case types.StrType():
            return "text"
        case types.NoneType():
            return "null"
        case types.LiteralType(values=values):
            return " | ".join(str(value) for value in values)
        case types.EnumType(cls=members):
            return " | ".join(str(member.value) for member in members)
        case _:
            return _of_parts(kind)


def _of_parts(kind: types.Type) -> str:
    match kind:
        case types.UnionType(types=parts):
            return " or ".join(describe_type(part) for part in parts)
        case types.DictType(key_type=key, value_type=value):
            return f"object of {describe_type(key)}: {describe_type(value)}"
        case types.CollectionType(item_type=item):
            return f"list of {describe_type(item)}"
        case _:
            return type(kind).__name__.removesuffix("Type").lower()


def _bounds(kind: types.IntType | types.FloatType) -> list[str]:
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    return [
        f"{word} {bound:,g}" for name, word in words.items() if (bound := getattr(kind, name)) is not None
    ]


def _default(field: types.Field) -> Any:
    if field.default_factory is not NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return None if field.default is NODEFAULT else msgspec.to_builtins(field.default)


def _meanings(settings: type[Struct]) -> dict[str, str]:
    """Return the docstrings below the fields, own and inherited; the interpreter does not keep them."""
    found: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if not issubclass(base, Struct) or base is Struct:
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            continue
        definition = ast.parse(textwrap.dedent(source)).body[0]
        body = definition.body if isinstance(definition, ast.ClassDef) else []
        for one, below in itertools.pairwise(body):
            match one, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    found[name] = " ".join(text.split())
    return found
