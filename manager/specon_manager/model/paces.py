"""How fast jobs of one kind train, by how they are set up: the measurements, and how sure they are."""

import math
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from specon_sidecar.counts import format_count

NEWS: Final = 0.2
"""What one more measurement counts against all before; of the first ones the plain mean is kept."""
ENOUGH: Final = 10
"""From so many measurements on a pace is compared with another. A running mean of this weight never rests on
more than (2 - NEWS) / NEWS = 9 of them, so it does not become any surer; and what the first one said, while
caches and pages were cold, counts for less than a fifteenth then."""
_ERRORS: Final = 2.0  # standard errors that a mean is taken to be wrong by at most


_Count = Annotated[int, Meta(ge=0)]
_Seconds = Annotated[float, Meta(ge=0, le=1e15)]


class Setup(Struct, frozen=True, kw_only=True, gc=False):
    """What the pace of a job is measured under: only paces of the same kind of job are compared."""

    workers: _Count
    nodes: _Count
    """How many its replicas run on."""
    accelerator: str = ""
    """The model of what all workers run on; empty where that is not known, not one, or they ask for none."""

    def may_beat(self, other: "Setup") -> bool:
        """Whether it is worth comparing: as many workers on fewer nodes of the same model, or on another.

        Of models that are not known nothing is said but that they are the same where all are: a job is
        compared with itself on fewer nodes then, and with no known model.
        """
        if self.workers != other.workers:
            return False
        if self.accelerator == other.accelerator:
            return self.nodes < other.nodes
        return bool(self.accelerator and other.accelerator)

    def __str__(self) -> str:
        on = format_count(self.nodes, "node")
        return f"{on} with {self.accelerator}" if self.accelerator else on


class Pace(Struct, frozen=True, kw_only=True, gc=False):
    """Seconds per step as they were measured: a running mean."""

    setup: Setup
    seconds: _Seconds = 0.0
    variance: Annotated[float, Meta(ge=0, le=1e30)] = 0.0
    """Of single measurements."""
    samples: _Count = 0

    def with_sample(self, seconds: float) -> "Pace":
        """Return the pace with one more measurement."""
        weight = max(NEWS, 1 / (self.samples + 1))
        apart = seconds - self.seconds
        return msgspec.structs.replace(
            self,
            seconds=self.seconds + weight * apart,
            variance=(1 - weight) * (self.variance + weight * apart * apart),
            samples=self.samples + 1,
        )

    @property
    def error(self) -> float:
        """By how much the mean may be wrong, seconds."""
        return _ERRORS * math.sqrt(self.variance * NEWS / (2 - NEWS))


class KindPaces(Struct, frozen=True, kw_only=True):
    """The measured paces of the jobs of one kind."""

    paces: tuple[Pace, ...] = ()
    """One for each setup."""
    jobs: Mapping[str, Setup] = field(default_factory=dict)
    """Those that run, as each was set up when it was measured last."""

    def with_sample(self, job: str, setup: Setup, seconds: float, *, most: int) -> "KindPaces":
        """Return the paces after one more measurement of a job; of so many setups at most."""
        jobs = self.jobs if self.jobs.get(job) == setup else {**self.jobs, job: setup}
        known = self.of(setup)
        if known is None:
            new = () if len(self.paces) >= most else (Pace(setup=setup).with_sample(seconds),)
            return KindPaces(paces=(*self.paces, *new), jobs=jobs)
        sample = known.with_sample(seconds)
        return KindPaces(paces=tuple(sample if each is known else each for each in self.paces), jobs=jobs)

    def of(self, setup: Setup) -> Pace | None:
        """Return the pace that was measured under a setup."""
        return next((pace for pace in self.paces if pace.setup == setup), None)


class Tried(Struct, frozen=True, kw_only=True):
    """A job that was moved to a setup that was faster, and whether that brought the expected gain."""

    setup: Setup
    """As it was to be set up."""
    before: Annotated[float, Meta(gt=0, le=1e15)]
    """Its pace until then, seconds per step."""
    least: float
    """Which part of its time it has to save for the move to have been worth its price."""
    seen: Pace
    """Its own pace since."""
    saved: float | None = None
    """Which part of its time it saves, as measured; None: not known yet."""


def saving(slow: Pace, quick: Pace) -> float:
    """Return which part of its time a job saves at least, by measurement; 0 where none is sure.

    Both means are taken to be wrong by twice their standard errors, to the disadvantage of a move.
    """
    if min(slow.samples, quick.samples) < ENOUGH:
        return 0.0
    slowest, quickest = quick.seconds + quick.error, slow.seconds - slow.error
    return 1 - slowest / quickest if slowest < quickest else 0.0
