"""Texts of settings to values. Pure; each reader raises ValueError naming the mistake in the text."""

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, cast, get_args
from urllib.parse import urlsplit

import msgspec

from specon_sidecar.formats.safe_pattern import compile_safely
from specon_sidecar.wire import Identifier, ReplicaName

CheckpointKind = Literal["periodic", "hook", "file", "http", "signal", "sigterm", "none"]
_SIGNALS: Final = ("USR1", "USR2", "HUP", "INT", "ALRM", "WINCH")
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_TEXT: Final = 4096
_MAX_SOCKET: Final = 107  # the kernel has 108 bytes, and the last one ends the path


class CheckpointMode(NamedTuple):
    """How the trainer is asked for a checkpoint; `target` is the path, the URL or the signal's name."""

    kind: CheckpointKind
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind


class Verification(NamedTuple):
    """How much of a checkpoint is read: all of it, or after so many seconds a sample of a large one."""

    whole: bool = False
    seconds: float = 10.0

    def __str__(self) -> str:
        return "whole" if self.whole else f"sampled:{self.seconds:g}"


def verification(given: str) -> Verification:
    """Read `whole`, `sampled` or `sampled:SECONDS`."""
    kind, colon, seconds = given.partition(":")
    if kind == "whole" and not colon:
        return Verification(whole=True)
    if kind == "sampled":
        return Verification(seconds=number(1, 3600)(seconds)) if colon else Verification()
    raise ValueError("is neither whole, sampled nor sampled:SECONDS")


def text(given: str) -> str:
    """Read a text that is neither empty nor endless."""
    if not given.strip():
        raise ValueError("is empty")
    if len(given) > _MAX_TEXT or "\0" in given:
        raise ValueError(f"is longer than {_MAX_TEXT} characters or holds a NUL")
    return given


def number(least: float, most: float) -> Callable[[str], float]:
    """Return a reader of numbers from `least` to `most`."""

    def read(given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            raise ValueError("is not a number") from None
        if not least <= value <= most:
            raise ValueError(f"is not between {least:g} and {most:g}")
        return value

    return read


def integer(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` to `most`."""

    def read(given: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", given):
            raise ValueError("is not a whole number")
        if not least <= int(given) <= most:
            raise ValueError(f"is not between {least} and {most}")
        return int(given)

    return read


def size_or_now(given: str) -> int | None:
    """Read a size in bytes, or `now`, which is None."""
    return None if given == "now" else integer(0, 2**62)(given)


def process_or_auto(given: str) -> int | Literal["auto"]:
    """Read a process id, or `auto`."""
    return "auto" if given == "auto" else integer(2, 2**22)(given)


def choice(*names: str) -> Callable[[str], str]:
    """Return a reader that takes one of `names`."""

    def read(given: str) -> str:
        if given not in names:
            raise ValueError(f"is not one of {', '.join(names)}")
        return given

    return read


def boolean(given: str) -> bool:
    """Read true or false."""
    return choice("true", "false")(given) == "true"


def absolute_path(given: str) -> str:
    """Read a path; it must be absolute, for nobody knows the working directory of a container."""
    if not text(given).startswith("/"):
        raise ValueError("is not an absolute path")
    return given


def volumes(given: str) -> tuple[str, ...]:
    """Read absolute paths with a NUL between two, which no path has; `none` is no path."""
    return tuple(absolute_path(each) for each in given.split("\0") if each != "none")


def socket_path(given: str) -> str:
    """Read where a Unix socket is to be: an absolute path that its address has room for."""
    if len(absolute_path(given).encode()) > _MAX_SOCKET:
        raise ValueError(f"is longer than {_MAX_SOCKET} bytes, the most that a Unix socket has room for")
    return given


def url(given: str) -> str:
    """Read an http or https URL with a host, without user, query or fragment; the last slash is dropped."""
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("is not an http or https URL")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("has a user, a query or a fragment")
    _ = parts.port  # raises ValueError where it is none
    return given.rstrip("/")


def pattern(given: str) -> str:
    """Read a regular expression to search lines with; see `compile_safely`, which bounds what that costs."""
    compile_safely(text(given))
    return given


def replica(given: str) -> str:
    """Read the identity of a replica."""
    return _conform(given, ReplicaName, "is not of the form namespace/job/worker/0")


def identifier(given: str) -> str:
    """Read an identifier as the wire allows it."""
    return _conform(given, Identifier, "is not 1 to 128 letters, digits or ._:/-")


def _conform(given: str, kind: object, otherwise: str) -> str:
    try:
        return cast("str", msgspec.convert(given, kind))
    except msgspec.ValidationError:
        raise ValueError(otherwise) from None


def marker(given: str) -> str:
    """Read the name of a completion marker, perhaps with `{name}` for that of the checkpoint."""
    if "/" in text(given) or given in {".", "..", "{name}"}:
        raise ValueError("is not a file name such as _SUCCESS or {name}.done")
    return given


def checkpoint_mode(given: str) -> CheckpointMode:
    """Read `periodic`, `hook`, `file:PATH`, `http:URL` or a URL, `signal:NAME`, `sigterm` or `none`."""
    name, _, target = given.partition(":")
    if name in {"http", "https"}:
        return CheckpointMode("http", _trainer_url(given if target.startswith("//") else target))
    if name not in get_args(CheckpointKind):
        raise ValueError("is not periodic, hook, file:PATH, http:URL, signal:NAME, sigterm or none")
    kind = cast("CheckpointKind", name)
    if kind == "file":
        return CheckpointMode(kind, absolute_path(target))
    if kind == "signal":
        return CheckpointMode(kind, choice(*_SIGNALS)(target.removeprefix("SIG")))
    if target:
        raise ValueError(f"takes nothing after {kind}")
    return CheckpointMode(kind)


def _trainer_url(given: str) -> str:
    """Read the trainer's own URL: in the same pod or on the same machine, for it is called unasked."""
    if urlsplit(url(given)).hostname not in _LOCAL:
        raise ValueError("is not on localhost, where the trainer is")
    return given
