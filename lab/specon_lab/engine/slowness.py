"""Why a job trains for longer than alone at the size that its owner asked for: seconds, by reason."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Slowness(NamedTuple):
    """Seconds of training beyond those that were needed; below 0 where something made it quicker.

    Their sum, with the training that was done again, is how much longer a job trained than alone.
    """

    smaller: float = 0.0
    """By fewer workers than its owner asked for."""
    apart: float = 0.0
    """By workers on other nodes than their servers, or on nodes of a slower model."""
    crowded: float = 0.0
    """By others on its nodes that share processors, if all shared them alike."""
    outweighed: float = 0.0
    """By a weight below theirs."""


class Rates(NamedTuple):
    """What a job's speed is made of: size x network x hold is its progress in solo seconds per second."""

    size: float
    network: float
    even: float
    """What `hold` would be with equal weights."""
    hold: float
    """The part that others on its nodes leave it."""


@dataclass(slots=True, eq=False)
class Slowing:
    """Adds up the slowness of one job over the time that it trains."""

    total: Slowness = field(default_factory=Slowness)
    rates: Rates | None = None
    """None while it does not train."""
    since: float = 0.0

    def go_on(self, now: float, rates: Rates | None) -> None:
        """Train with these factors from now on; None: not at all."""
        if self.rates is not None and now > self.since:
            self.total = _add(self.total, self.rates, now - self.since)
        self.rates, self.since = rates, now


def _add(total: Slowness, rates: Rates, seconds: float) -> Slowness:
    """Take each factor from what the ones before it left of the time."""
    size, network, even, hold = rates
    speed = size * network
    return Slowness(
        smaller=total.smaller + seconds * (1 - size),
        apart=total.apart + seconds * (size - speed),
        crowded=total.crowded + seconds * speed * (1 - even),
        outweighed=total.outweighed + seconds * speed * (even - hold),
    )
