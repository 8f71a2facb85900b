"""When a waiting job is expected to start."""

from msgspec import Struct


class ExpectedStart(Struct, frozen=True, kw_only=True):
    """When a waiting job is expected to start; seconds from the moment that it is told of.

    Possible worlds are drawn from what is known and played forward under the present policy.
    """

    in_seconds: float | None = None
    """In half of the worlds it starts before; None where it is not known."""
    earliest_seconds: float | None = None
    latest_seconds: float | None = None
    """Between these two it starts in 90 of 100 worlds; None where `in_seconds` is."""
    worlds: int = 0
    """How many were played."""
    why: str = ""
    """Why it is not known."""
    assumptions: tuple[str, ...] = ()
    """What is taken for granted, in words, and on what the remaining times of jobs rest."""

    def after(self, seconds: float) -> "ExpectedStart":
        """Return the same, told so many seconds later: what is over by then counts as now."""
        if self.in_seconds is None or self.earliest_seconds is None or self.latest_seconds is None:
            return self
        return ExpectedStart(
            in_seconds=max(0.0, self.in_seconds - seconds),
            earliest_seconds=max(0.0, self.earliest_seconds - seconds),
            latest_seconds=max(0.0, self.latest_seconds - seconds),
            worlds=self.worlds,
            assumptions=self.assumptions,
        )
