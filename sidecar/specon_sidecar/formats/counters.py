"""Places that a log does not name: the bar beside the samples, and a counter at the head of their own lines.

As in `[021500/50000] WMS | loss 0.19`, `E 12/500 | Loss: 0.7` and `Snapshot 2000 saved, average loss: 70`.
"""

import re
from collections import deque
from typing import Final

import msgspec

from specon_sidecar.formats.laps import Laps
from specon_sidecar.formats.prefixes import strip
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.surroundings import Bar

# So often a counter must have grown between samples before it is believed to count them.
_GROWN: Final = 2
_KEPT: Final = 200
# Words that stand before what counts a training; `fold 3` and `gpu 3` do not.
_COUNTED: Final = (
    rb"(?:(?P<epochs>e)|snapshots?|checkpoints?|ckpt|gen(?:eration)?s?|rounds?|ticks?|cycles?|sweeps?|updates?"
    rb"|mini-?batch|after|at|no\.?|n|i|t)"
)
# What a number without a name before it counts: `[1000 eps]`, `after 2091 sentences`.
_UNITS: Final = (
    rb"(?:eps|episodes|games|steps|iterations|iters|its|updates|batches|samples|examples|sentences|words|tokens"
    rb"|images|frames)"
)
_OWN: Final = re.compile(
    rb"\W{0,8}+(?i:"
    # `[20 500/9000]`: the epoch before its step
    rb"(?:" + _COUNTED + rb"(?![a-z])\s{0,4}+|(?<=\[)\d{1,9}+[ ,]{1,3}+)?[\[(]?\s{0,8}+"
    rb"(?P<i>\d{1,12}+)\s{0,2}+/\s{0,8}+(?P<n>\d{1,12}+)(?:[\])]|(?=\s{0,2}[:|,]|\sin\s\d))"
    rb"|" + _COUNTED.replace(b"epochs", b"bare_epochs") + rb"\s{1,4}+(?P<bare>\d{1,12}+)(?=[\s:|,])"
    # `[1000] train_loss=2.1` of CLU
    rb"|(?<=[\[ ])(?P<alone>\d{1,12}+)\](?=\s)"
    rb"|(?P<of_unit>\d{1,12}+) " + _UNITS + rb"\b)"
)
_AFTER: Final = re.compile(rb"(?i:\bafter (?P<after>\d{1,12}+) " + _UNITS + rb"\b)")


class Counted(msgspec.Struct, frozen=True, gc=False):
    """The state of a counter: `i` of `n`, or of nobody knows how many where `n` is 0."""

    i: int
    n: int
    of_epochs: bool = False


def counter_of(line: bytes) -> Counted | None:
    """Return the counter at the head of a line, or the one that says after how many it was printed."""
    text = strip(line).text
    found = _OWN.match(text)
    if found is not None:
        of_epochs = found["epochs"] is not None or found["bare_epochs"] is not None
        count = found["i"] or found["bare"] or found["alone"] or found["of_unit"]
        return Counted(int(count), int(found["n"] or 0), of_epochs)
    found = _AFTER.search(text) if b"fter " in text else None
    return None if found is None else Counted(int(found["after"]), 0)


class Counters:
    """Takes the places of samples without any from a counter, once it is seen to count them.

    It counts them where it grew from sample to sample and its length stayed the same; it may begin again.
    """

    def __init__(self) -> None:
        self._seen: deque[Counted] = deque(maxlen=_KEPT)
        self._laps = Laps()
        self._grown = 0
        self._value: float | None = None
        self._refuted = False
        self.begun = False
        """Whether the sample before was the first one that was placed."""
        self.again = False
        """Whether the sample was that of the line before, which two loggers printed."""

    def complete(self, sample: Sample, counted: Bar | Counted) -> Sample:
        """Return the sample with the place and the total of the counter, if that is what it counts."""
        now = counted if isinstance(counted, Counted) else Counted(counted.i, counted.n)
        self.begun = False
        last = self._seen[-1] if self._seen else None
        self.again = not self._refuted and counted == last and sample.value == self._value
        self._value = sample.value
        if self.again:
            return sample
        if self._refuted or (last is not None and (now.n != last.n or now.i == last.i)):
            self._refuted = True
            return sample
        self._grown += last is not None and now.i > last.i
        self._seen.append(now)
        step, total = self._laps.through(now.i, now.n)
        if self._grown < _GROWN:
            return sample
        self.begun = self._grown == _GROWN
        if now.of_epochs:
            return placed(sample, now)
        return msgspec.structs.replace(sample, step=step, total_steps=total or None)

    def before(self) -> list[Counted]:
        """Return the states at the samples before the latest one."""
        return list(self._seen)[:-1]


def placed(sample: Sample, counted: Counted) -> Sample:
    """Return the sample where the counter stood."""
    if counted.of_epochs:
        return msgspec.structs.replace(sample, epoch=float(counted.i), total_epochs=counted.n or None)
    return msgspec.structs.replace(sample, step=counted.i, total_steps=counted.n or None)


class EpochBar:
    """Finds out whether a bar beside the samples counts the epochs that they name: then it knows how many."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._n = 0
        self._agreed = 0

    def epochs(self, epoch: float, bar: Bar) -> int | None:
        """Return how many epochs there are, once the bar went with them through a few."""
        if bar.n != self._n:
            self._n, self._agreed = bar.n, 0
        if epoch != self._last:
            self._last = epoch
            self._agreed = self._agreed + 1 if abs(bar.i - epoch) <= 1 else 0
        return self._n if self._agreed > _GROWN else None
