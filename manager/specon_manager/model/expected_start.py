"""When a waiting job is expected to start."""

import msgspec
from msgspec import Struct


class ExpectedStart(Struct, frozen=True, kw_only=True):
    """When a waiting job is expected to start; seconds from the moment that it is told of.

    Possible worlds are drawn from the present knowledge and played forward under the present policy.
    """

    in_seconds: float | None = None
    """In half of the worlds it starts before; None where it is not known."""
    earliest_seconds: float | None = None
    """At most 5 of 100 worlds let it start before; known alone where the worlds were played no further."""
    latest_seconds: float | None = None
    """Between these two it starts in 90 of 100 worlds; None where `in_seconds` is."""
    worlds: int = 0
    """How many were played."""
    why: str = ""
    """Why it is not known."""
    assumptions: tuple[str, ...] = ()
    """The assumptions, in words, and the basis of the remaining times of jobs."""

    def after(self, seconds: float) -> "ExpectedStart":
        """Return the same, told so many seconds later: a moment that is past by then counts as now."""
        if self.earliest_seconds is None:
            return self
        return msgspec.structs.replace(
            self,
            in_seconds=_later(self.in_seconds, seconds),
            earliest_seconds=_later(self.earliest_seconds, seconds),
            latest_seconds=_later(self.latest_seconds, seconds),
        )


def _later(told: float | None, seconds: float) -> float | None:
    return None if told is None else max(0.0, told - seconds)
