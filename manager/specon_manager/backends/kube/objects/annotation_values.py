"""What the values of annotations may be: each reader takes a text and returns what it says. Pure.

A reader raises ValueError with the mistake, to follow upon the key and the value. Anybody may write them,
so the length and the form of a pattern are looked at before anything that could take long.
"""

import re
from collections.abc import Callable
from typing import Final

from specon_manager.backends.kube.objects.annotation_keys import STDOUT
from specon_manager.backends.kube.objects.quantities import quantity
from specon_sidecar import parse
from specon_sidecar.parse import CheckpointMode

LONGEST_PATTERN: Final = 512
MOST_GROUPS: Final = 10
"""Opening parentheses of a pattern."""
MOST_OPERATORS: Final = 96
"""Signs of a pattern that are not taken literally."""
_OPERATORS: Final = re.compile(r"[\[*+?{\\^$|]")
_LONGEST_KIND: Final = 253
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smh]?)")
_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LEAST_MEMORY: Final = 2.0**20
_MOST_MEMORY: Final = 2.0**50
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def read_duration(least: float, most: float) -> Callable[[str], float]:
    """Return a reader of durations from `least` to `most` seconds: `90`, `90s`, `1.5m` or `2h`."""

    def read(given: str) -> float:
        found = _DURATION.fullmatch(given)
        if found is None:
            raise ValueError("is not a duration such as 90, 90s, 1.5m or 2h")
        seconds = float(found[1]) * _SECONDS[found[2]]
        if not least <= seconds <= most:
            raise ValueError(f"is not between {least:g} and {most:g} seconds")
        return seconds

    return read


def read_memory(given: str) -> float:
    """Read an amount of memory as Kubernetes writes it, bytes."""
    try:
        amount = quantity(given)
    except ValueError:
        amount = 0.0
    if not _LEAST_MEMORY <= amount <= _MOST_MEMORY:
        raise ValueError("is not an amount of memory from 1Mi to 1Pi, such as 20Gi")
    return amount


def read_dns_label(given: str) -> str:
    """Read the name of a container or of a queue."""
    if not _DNS_LABEL.fullmatch(given):
        raise ValueError("is not 1 to 63 lower-case letters, digits or -")
    return given


def read_container_path(given: str) -> str:
    """Read a path as it stands in a container, without steps out of the volume that holds it."""
    if "$(" in parse.absolute_path(given) or {".", ".."} & set(given.split("/")):
        raise ValueError("has a part . or .., or a $(variable), which nobody would fill in")
    return given


def read_log_path(given: str) -> str:
    """Read a path, or `stdout`."""
    return given if given == STDOUT else read_container_path(given)


def read_one_line(given: str) -> str:
    """Read a text that can be printed on one line."""
    if not parse.text(given).isprintable():
        raise ValueError("has a line break or another character that cannot be printed")
    return given


def read_kind_name(given: str) -> str:
    """Read the name of what a job trains."""
    if len(read_one_line(given)) > _LONGEST_KIND:
        raise ValueError(f"is longer than {_LONGEST_KIND} characters")
    return given


def read_pattern(given: str) -> str:
    """Read a regular expression of a size at which finding out what it may cost is cheap.

    Whether it is one, and safe to search lines with, is judged with the format, whose reader is made for it.
    """
    if len(given) > LONGEST_PATTERN:
        raise ValueError(f"is longer than {LONGEST_PATTERN} characters")
    if given.count("(") > MOST_GROUPS:
        raise ValueError(f"has more than {MOST_GROUPS} opening parentheses")
    if sum(1 for _ in _OPERATORS.finditer(given)) > MOST_OPERATORS:
        raise ValueError(f"has more than {MOST_OPERATORS} of the signs [ * + ? {{ \\ ^ $ |")
    return parse.text(given)


def read_checkpoint_mode(given: str) -> CheckpointMode:
    """Read how the trainer is asked to save; a file is named by a path in its container."""
    mode = parse.checkpoint_mode(given)
    if mode.kind == "file":
        read_container_path(mode.target)
    return mode
