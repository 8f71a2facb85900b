"""Places that a log does not name: the bar beside the samples, and a counter at the head of their own lines.

As in `[021500/50000] WMS | loss 0.19`, `E 12/500 | Loss: 0.7`, `Snapshot 2000 saved, average loss: 70`,
`[3/25][100/1583] loss: 0.5` (epoch and step) and `#12 cost 0.3`.
"""

import re
from collections import deque
from typing import Final

import msgspec

from specon_sidecar.formats.bar_at_head import Bar
from specon_sidecar.formats.epochs import Epochs
from specon_sidecar.formats.laps import Laps
from specon_sidecar.formats.prefixes import strip
from specon_sidecar.formats.sample import Sample

# So often a counter must have grown between samples before it is believed to count them.
_GROWN: Final = 2
# The same of a bare number that nothing else tells to be a counter: it must never fall either.
_GROWN_BARE: Final = 5
_KEPT: Final = 200
_LATEST: Final = 10**9
# Words that stand before what counts a training; `fold 3` and `gpu 3` do not.
_COUNTED: Final = (
    rb"(?:(?P<epochs>e)|snapshots?|checkpoints?|ckpt|gen(?:eration)?s?|rounds?|ticks?|cycles?|sweeps?|updates?|games?"
    rb"|mini-?batch|progress:?|process|train(?:ing)?:?|after|at|no\.?|n|i|t)"
)
# What a number without a name before it counts: `[1000 eps]`, `after 2091 sentences`.
_UNITS: Final = (
    rb"(?:eps|episodes|games|steps|iterations|iters|its|updates|batches|samples|examples|sentences|words|tokens"
    rb"|images|frames)"
)
# What a number is no counter of: `12 s, loss 0.3`.
_NO_UNITS: Final = rb"(?!(?:m?s|secs?|seconds?|min\w{0,5}|hours?|h|d|days?|[kmg]i?b|[km]|gpus?|workers?)\b)"
_OWN: Final = re.compile(
    rb"\W{0,8}+(?i:"
    # `[3/25][100/1583]`, `Train: [3][100/1583]`: an epoch and its step
    rb"(?:train(?:ing)?:?\s?\[|(?<=\[))(?P<epoch>\d{1,9}+)(?:/(?P<of_epoch>\d{1,9}+))?+\],?\s?"
    rb"\[\s{0,8}+(?P<i_of>\d{1,12}+)/\s{0,8}+(?P<n_of>\d{1,12}+)\]"
    # `[20 500/9000]`: the epoch before its step
    rb"|(?:" + _COUNTED + rb"(?![a-z])\s{0,4}+|(?<=\[)\d{1,9}+[ ,]{1,3}+)?[\[(]?\s{0,8}+"
    rb"(?P<i>\d{1,12}+)\s{0,2}+/\s{0,8}+(?P<n>\d{1,12}+)(?:[\])]|(?=\s{0,2}[:|,(]|\sin\s\d))"
    rb"|" + _COUNTED.replace(b"epochs", b"bare_epochs") + rb"\s{1,4}+(?P<bare>\d{1,12}+)(?=[\s:|,])"
    # `E003 loss`, `[E3] loss`, `e:3 loss`, `3rd epoch, loss`, `3 epoch, loss`
    rb"|e(?:\s?[:=#]\s?)?+(?P<of_e>\d{1,6}+)(?=[\s:|,\]])"
    rb"|(?P<nth>\d{1,9}+)(?:st|nd|rd|th)? epoch\b"
    # `[1000] train_loss=2.1` of CLU, `[1000 | 12.5]` with the seconds, `[#1000] loss_A: 0.5`
    rb"|(?<=[\[ #])(?P<alone>\d{1,12}+)(?: \| \d{1,9}+\.\d{1,6}+)?+\](?=\s)"
    rb"|(?P<of_unit>\d{1,12}+) " + _UNITS + rb"\b"
    # `#12 cost 0.3`, `12) loss=0.5`, `12, loss: 0.5`
    rb"|(?P<plain>\d{1,12}+)(?=[\s:|,.)-]{1,4}+" + _NO_UNITS + rb"[a-z<]))"
)
# The count at the end of a line: `[====>....]  Loss: 0.5 | Acc: 30% (30/100)  9/391`, `loss: 0.5  [64/600]`.
_AT_END: Final = re.compile(
    rb"\s{0,4}+(?:\[[=>.]{8,200}+\] .{1,400}\s(?P<i>\d{1,12}+)/(?P<n>\d{1,12}+)"
    rb"|(?i:(?:train(?:ing)? )?loss)\W{1,3}+[\d.]{1,20}+(?:e[+-]?\d{1,3})?+\s{1,8}+"
    rb"\[\s{0,12}+(?P<i_of>\d{1,12}+)/\s{0,12}+(?P<n_of>\d{1,12}+)\])"
    rb"\s{0,4}+\Z"
)
# `0-epoch (99/44660): total loss 11.2`
_NTH_EPOCH: Final = re.compile(rb"\W{0,8}+(\d{1,9}+)-epoch \(\s{0,4}+(\d{1,12}+)/(\d{1,12}+)\)")
_AFTER: Final = re.compile(rb"(?i:\bafter (?P<after>\d{1,12}+) " + _UNITS + rb"\b)")


class Counted(msgspec.Struct, frozen=True, gc=False):
    """The state of a counter: `i` of `n`, or of nobody knows how many where `n` is 0.

    With an `epoch` it counts within that epoch, of `epochs`; `beside` it where the epoch stands elsewhere.
    A `weak` one is a bare number.
    """

    i: int
    n: int
    of_epochs: bool = False
    weak: bool = False
    epoch: int | None = None
    epochs: int = 0
    beside: bool = False


def counter_of(line: bytes) -> Counted | None:
    """Return the counter at the head of a line, or the one that says after how many it was printed."""
    text = strip(line).text
    at_end = _AT_END.match(text) if b"] " in text[:240] or text.rstrip()[-1:] == b"]" else None
    if at_end is not None:
        return Counted(int(at_end["i"] or at_end["i_of"]), int(at_end["n"] or at_end["n_of"]))
    nth = _NTH_EPOCH.match(text) if b"-epoch (" in text else None
    if nth is not None:
        return Counted(int(nth[2]), int(nth[3]), epoch=int(nth[1]))
    found = _OWN.match(text)
    if found is not None and found["epoch"] is not None:
        of_epoch = int(found["epoch"]), int(found["of_epoch"] or 0)
        return Counted(int(found["i_of"]), int(found["n_of"]), epoch=of_epoch[0], epochs=of_epoch[1])
    if found is not None and found["plain"] is None:
        by_epoch = found["of_e"] or found["nth"]
        of_epochs = by_epoch is not None or found["epochs"] is not None or found["bare_epochs"] is not None
        count = by_epoch or found["i"] or found["bare"] or found["alone"] or found["of_unit"]
        return Counted(int(count), int(found["n"] or 0), of_epochs)
    after = _AFTER.search(text) if b"fter " in text else None
    if after is not None:
        return Counted(int(after["after"]), 0)
    return None if found is None else Counted(int(found["plain"]), 0, weak=True)


class Counters:
    """Takes the places of samples without any from a counter, once it is seen to count them.

    It counts them where it grew from sample to sample and its length stayed the same; it may begin again.
    """

    def __init__(self) -> None:
        self._seen: deque[Counted] = deque(maxlen=_KEPT)
        self._last: Counted | None = None
        self._laps = Laps()
        self._epochs = Epochs()
        self._grown = 0
        self._value: float | None = None
        self._refuted = False
        self.begun = False
        """Whether the sample before was the first one that was placed."""
        self.aside = False
        """Whether the sample is none of the training: printed by two loggers, or of an evaluation's bar."""

    def complete(self, sample: Sample, counted: Bar | Counted) -> Sample:
        """Return the sample with the place and the total of the counter, if that is what it counts."""
        now = counted if isinstance(counted, Counted) else Counted(counted.i, counted.n)
        self.begun = False
        last = self._last
        again = counted == last and sample.value == self._value
        self.aside = not self._refuted and (again or (last is not None and _evaluates(last, now)))
        if self.aside:
            return sample
        self._last, self._value = now, sample.value
        if self._refuted or (last is not None and _refutes(last, now)):
            self._refuted = True
            return sample
        self._grown += last is not None and _has_grown(last, now)
        at = self._numbered_through(now)
        self._seen.append(at)
        wanted = _GROWN_BARE if now.weak else _GROWN
        if self._grown < wanted:
            return sample
        self.begun = self._grown == wanted
        return placed(sample, at)

    def before(self) -> list[Counted]:
        """Return the states at the samples before the latest one."""
        return list(self._seen)[:-1]

    def _numbered_through(self, now: Counted) -> Counted:
        if now.of_epochs:
            return now
        if now.epoch is None:
            step, total = self._laps.through(now.i, now.n)
        else:
            step, total = self._epochs.through(now.epoch, now.epochs, now.i, now.n)
        return msgspec.structs.replace(now, i=now.i if step is None else step, n=total or 0)


def counter_beside(sample: Sample, line: bytes) -> Counted | None:
    """Return the counter at the head of a line of a known epoch, where it may be that of its batches."""
    own = counter_of(line) if b"/" in line else None
    if (
        own is None
        or own.epoch is not None
        or own.of_epochs
        or sample.epoch is None
        or not 0 <= own.i <= own.n
    ):
        return None
    if not 0 <= sample.epoch < _LATEST or not sample.epoch.is_integer():
        return None
    return msgspec.structs.replace(own, epoch=int(sample.epoch), epochs=sample.total_epochs or 0, beside=True)


def _has_grown(last: Counted, now: Counted) -> bool:
    """Whether a counter went on; what grows with the epochs beside it alone may count epochs, too."""
    if now.beside:
        return now.epoch == last.epoch and now.i > last.i
    return (now.epoch or 0, now.i) > (last.epoch or 0, last.i)


def _refutes(last: Counted, now: Counted) -> bool:
    """Whether two states in a row show that this counts no samples."""
    if now.n != last.n or (now.i, now.epoch) == (last.i, last.epoch):
        return True
    return now.weak and now.i < last.i


def _evaluates(last: Counted, now: Counted) -> bool:
    """Whether a shorter bar follows the whole one of the same epoch."""
    return now.beside and now.epoch == last.epoch and last.i == last.n > now.n


def placed(sample: Sample, counted: Counted) -> Sample:
    """Return the sample where the counter stood."""
    if counted.of_epochs:
        return msgspec.structs.replace(sample, epoch=float(counted.i), total_epochs=counted.n or None)
    step, total = counted.i, counted.n or None
    if counted.epoch is None:
        return msgspec.structs.replace(sample, step=step, total_steps=total)
    epoch, epochs = float(counted.epoch), counted.epochs or None
    return msgspec.structs.replace(sample, step=step, epoch=epoch, total_steps=total, total_epochs=epochs)


class EpochBar:
    """Finds out whether a bar beside the samples counts the epochs, or the steps, that they name.

    Then it knows how many there are.
    """

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
