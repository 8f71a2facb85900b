"""A little of the Common Expression Language: what match conditions of webhooks are written in.

Understood: `in`, `==`, `!=`, `<` and the like, `!`, `&&`, `||`, parentheses, strings, integers, true and
false, `has(...)`, `size(...)`, `.orValue(...)`, `[?...]` and fields with dots or ['names']. Anything else
raises a ValueError.
"""

import operator
import re
from collections.abc import Callable
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:'[^']*'|\"[^\"]*\"|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|&&|\|\||==|!=|<=|>=|\[\?|\.\?|\{\}|[<>!()\[\].,])"
)
_MISSING = object()
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "in": lambda value, other: value in other,
}


def evaluate(text: str, values: dict[str, Any]) -> bool:
    """Return whether an expression holds; a missing field makes it an error, which counts as false."""
    reader = _Reader(text, values)
    result = reader.either()
    if reader.at < len(reader.tokens):
        raise ValueError(f"cannot read {text!r} from {reader.tokens[reader.at]!r} on")
    return result is True


class _Reader:
    def __init__(self, text: str, values: dict[str, Any]) -> None:
        self.values = values
        self.tokens: list[str] = []
        self.at = 0
        text, end = text.strip(), 0
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None:
                raise ValueError(f"cannot read {text!r} from {text[end:]!r} on")
            self.tokens.append(found.group().strip())
            end = found.end()

    def _take(self, *signs: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at] in signs:
            self.at += 1
            return self.tokens[self.at - 1]
        return ""

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise ValueError(f"expected {sign!r} in {' '.join(self.tokens)!r}")

    def either(self) -> Any:
        value = self._both()
        while self._take("||"):
            other = self._both()
            value = value is True or other is True
        return value

    def _both(self) -> Any:
        value = self._compared()
        while self._take("&&"):
            other = self._compared()
            value = value is True and other is True
        return value

    def _compared(self) -> Any:
        value = self._unary()
        sign = self._take(*_COMPARISONS)
        if not sign:
            return value
        other = self._unary()
        if value is _MISSING or other is _MISSING:
            return _MISSING
        return _COMPARISONS[sign](value, other)

    def _unary(self) -> Any:
        if self._take("!"):
            value = self._unary()
            return _MISSING if value is _MISSING else value is not True
        return self._postfix(self._primary())

    def _primary(self) -> Any:
        if self._take("("):
            value = self.either()
            self._need(")")
            return value
        if self.at >= len(self.tokens):
            raise ValueError("the expression ends too early")
        token = self.tokens[self.at]
        self.at += 1
        if token[0] in "'\"":
            return token[1:-1]
        if token in {"true", "false", "{}"}:
            return {} if token == "{}" else token == "true"
        if token.isdigit():
            return int(token)
        if token in {"has", "size"}:
            self._need("(")
            value = self.either()
            self._need(")")
            if token == "has":
                return value is not _MISSING
            return _MISSING if value is _MISSING else len(value)
        if token not in self.values:
            raise ValueError(f"unknown name {token!r}")
        return self.values[token]

    def _postfix(self, value: Any) -> Any:
        while sign := self._take(".", ".?", "[", "[?"):
            if sign in {"[", "[?"}:
                value = _field(value, self.either())
                self._need("]")
                continue
            name = self.tokens[self.at]
            self.at += 1
            if name == "orValue":
                self._need("(")
                default = self.either() if self.tokens[self.at] != ")" else ""
                self._need(")")
                value = default if value is _MISSING else value
            else:
                value = _field(value, name)
        return value


def _field(value: Any, name: Any) -> Any:
    return value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
