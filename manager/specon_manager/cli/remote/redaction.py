"""Leaves secrets, and fields that may contain them, out of files that people send to others. Pure."""

import re
from collections.abc import Iterable
from typing import Any, Final

LEFT_OUT: Final = "(left out)"
_PARTS: Final = frozenset(
    {
        "args",
        "command",
        "data",
        "env",
        "envfrom",
        "environment",
        "lines",
        "kubectl.kubernetes.io/last-applied-configuration",
        "managedfields",
        "manifest",
        "stringdata",
        "template",
    }
)
"""Fields, in lower case, that may have a trainer's environment, command or files in them: whole ones go."""
_WORDS: Final = r"(?:token|passw(?:or)?d|passwd|secret|api[_-]?key|access[_-]?key|credential|authorization)"
_SECRET_FIELD: Final = re.compile(_WORDS, re.IGNORECASE)
_LEAST: Final = 8  # characters of a secret: a shorter one would take words with it
_PATTERNS: Final = (
    (re.compile(r"-----BEGIN [^-]+-----.*?(?:-----END [^-]+-----|\Z)", re.DOTALL), LEFT_OUT),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), LEFT_OUT),  # a JSON web token
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {LEFT_OUT}"),
    (re.compile(r"(://)[^/\s:@\"']+:[^/\s@\"']+@"), rf"\1{LEFT_OUT}@"),
    (
        re.compile(
            rf"([\w.-]*{_WORDS}[\w.-]*(?:\\?[\"'])?\s*[=:]\s*)"
            r"(\\?\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;}]+)",
            re.IGNORECASE,
        ),
        rf"\1{LEFT_OUT}",
    ),
)


def drop_secrets(value: Any) -> Any:
    """Return decoded JSON without the fields that are secrets or may have some in them."""
    if isinstance(value, dict):
        return {
            key: LEFT_OUT if _goes(str(key), inner) else drop_secrets(inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [drop_secrets(inner) for inner in value]
    return value


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without these secrets, and without whatever looks like a token, a key or a password."""
    for secret in secrets:
        if len(secret) >= _LEAST:
            text = text.replace(secret, LEFT_OUT)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _goes(key: str, value: Any) -> bool:
    if value in (None, "", [], {}) or isinstance(value, bool | int | float):
        return False
    return key.lower() in _PARTS or _SECRET_FIELD.search(key) is not None
