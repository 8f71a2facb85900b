"""Lengths of a training in other units than steps and epochs: `num_episodes: 500`, `Training for 500 rounds`.

They are totals only of the lines that count in the same unit: `Episode 3`, `[Round 12]`.
"""

import re
from typing import Final

from specon_sidecar.formats.number import to_step

COUNT: Final = rb"(\d{1,3}(?:,\d{3})++(?!\d)|\d{1,15}+)(?![\w%]|\.(?!0(?!\d))\d)"
OF: Final = (
    rb"[\"']?(?: / [\x80-\xff\w]{1,64}+)?+\s{0,16}+(?:\[\w{1,8}\])?"
    rb"(?:[:=]|is\b|->|\||\.{2,80}+)?\s{0,16}+[\"']?"
)
WAITS: Final = re.compile(rb"(?i:improv|patience|stop|warm|every|each|last|freez|after|already|trained)")
_UNITS: Final = rb"(timesteps?|episodes?|rounds?|updates?|games?|generations?)\b"
_IN_UNITS: Final = re.compile(
    rb"(?i:(?<![\w/.%])(?:--)?(?:num(?:ber)?(?:[ _]of)?|nb?|max(?:imum)?|total)[ _-]{1,2}"
    rb"(?:train(?:ing)?[ _-])?" + _UNITS + rb")" + OF + COUNT
)
_FOR_UNITS: Final = re.compile(
    rb"(?i:\b(?:train|run|learn)\w{0,4}+(?: [a-z]{1,12}+){0,3}? (?:for )?)"
    + COUNT
    + rb" (?i:"
    + _UNITS
    + rb")"
)
_NAMES: Final = ("timestep", "episode", "round", "update", "game", "generation")


class LengthsInUnits:
    """The lengths that a log has stated. One that is stated anew tells how many there were so far."""

    def __init__(self) -> None:
        self._stated: dict[str, tuple[int, str]] = {}
        self._counted: dict[str, re.Pattern[bytes]] = {}
        self._restated: set[str] = set()
        self.known = False
        """Whether any was stated."""

    def source(self, total: int | None) -> str | None:
        """Return the line that says a total, for people; None where none does."""
        return next((source for count, source in self._stated.values() if count == total), None)

    def total(self, step: int, line: bytes) -> int | None:
        """Return the length in the unit that a line counts in."""
        for unit, (count, _) in self._stated.items():
            counted = self._counted[unit].search(line) if step <= count else None
            if counted is not None and int(counted[1]) == step:
                return count
        return None

    def take(self, text: bytes, lowered: str) -> bool:
        """Take a line that may state a length; return whether any did. `lowered` is its lower-cased text."""
        if not any(map(lowered.__contains__, _NAMES)):
            return False
        stated, said = _IN_UNITS.search(text), _FOR_UNITS.search(text)
        if stated is not None:
            self._state(stated[1], to_step(stated[2]), text)
        elif said is not None and not WAITS.search(text, 0, said.end()):
            self._state(said[2], to_step(said[1]), text)
        return self.known

    def _state(self, unit: bytes, count: int | None, text: bytes) -> None:
        name = unit.decode("ascii").lower().rstrip("s")
        before = self._stated.get(name)
        if before is not None and before[0] != count:
            del self._stated[name]
            self._restated.add(name)
        elif count and name not in self._restated:
            self.known = True
            self._stated[name] = count, describe(b"the line ", text)
            self._counted[name] = re.compile(rb"(?i:\b%b)[s\W]{1,4}(\d{1,15}+)" % name.encode("ascii"))


def describe(what: bytes, text: bytes) -> str:
    """Return what says a total, for people."""
    shown = b" ".join(text[:60].split())
    return (what + b"'" + shown + b"'").decode("utf-8", "replace")
