"""Which of the numbers of a log is the one to follow.

Logs print several losses: parts, means, validation, and a `loss scale` that is none. Taking now one, now
another, would give a curve that means nothing, so the choice is by name, and it holds.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from specon_sidecar.formats.metric_names import (
    PREFERRED,
    SCORE_NEEDLES,
    Goal,
    canonical,
    fold,
    goal_of,
    is_loss,
    is_validation,
    may_be_counterpart,
    measured,
    reason,
    score_rank,
    sides_of,
)
from specon_sidecar.formats.validation import Place, ValidationSeries

__all__ = ["LONGEST_NAME", "PATIENCE", "PREFERRED", "Candidate", "MetricChoice"]

_ANY_LOSS: Final = 100
_SCORE: Final = 200  # behind all losses; a score of validation stands behind one of training
# A name that was given up ranks behind all that were not.
_GIVEN_UP: Final = 1000
# A name that is never followed: it may be the counterpart of validation.
_BESIDE: Final = 1_000_000

# Words that stand before a name on a line without being part of it: log levels, stream names, units.
_NOISE: Final = frozenset(
    {
        *("info", "debug", "warning", "warn", "error", "notice", "root", "stdout", "stderr", "f", "p"),
        *("s", "ms", "sec", "secs", "seconds", "it/s", "samples/sec", "samples/s"),
        *("tok/s", "tokens/s", "steps/s"),
    },
)

# So many samples of other names in a row, none of the chosen one: it was a passing line, or it is printed
# no more.
PATIENCE: Final = 100
# Both sides of an adversarial pair must have been seen so often.
_SEEN_SIDES: Final = 2
# Keys come from the log and may hold numbers, so the memory of them must be bounded, and so must each key.
_REMEMBERED: Final = 1024
LONGEST_NAME: Final = 1024
"""Letters of a key that may name anything."""


class Candidate(NamedTuple):
    """A key that may name the metric: smaller ranks are preferred; `name` is without the noise before it."""

    rank: int
    name: str
    sides: tuple[tuple[int, bool], ...] = ()
    """The adversarial pairs that it belongs to."""
    validates: tuple[str, ...] | None = None
    """What a name of validation measures; None where the name is none."""


class MetricChoice:
    """Chooses one name and keeps to it.

    With a `metric`, exactly that name counts (case-insensitive). Without one, in this order: the `names` of
    the format (regular expressions over whole names), `PREFERRED`, any key with a word that ends in "loss"
    and that is not of validation, and last the scores of `metric_names`. A better name takes over when it
    appears. A chosen name that is missed `PATIENCE` times is given up, once and for all, for what is printed
    instead. Where a log prints both sides of an adversarial pair nothing is chosen: `verdict` says why.
    With `closed`, only the names of the format count.

    Beside the chosen name its counterpart of validation is kept, in `validation`, from what `note` is given.
    """

    def __init__(self, metric: str | None = None, names: Sequence[str] = (), *, closed: bool = False) -> None:
        if metric is not None and not metric.strip():
            raise ValueError("metric must not be empty")
        self._metric = fold(metric) if metric is not None else None
        self._names = [re.compile(name, re.IGNORECASE) for name in names]
        self._closed = closed
        # Case folding is not always ASCII to ASCII, so only an ASCII name can be looked for in bytes.
        self.needle: Final = _needle(metric)
        """Bytes that the lower-cased form of each line with the metric, or with a loss, holds."""
        self.score_needles: tuple[bytes, ...] = SCORE_NEEDLES if metric is None else ()
        """Bytes of which one is in each line with a score; fewer as soon as a name is chosen."""
        self.verdict: str | None = None
        """Why the log cannot be judged, or None where it can."""
        self._seen_sides: dict[tuple[int, bool], int] = {}
        self._printed: str | None = None
        self._known: dict[bytes | str, Candidate | None] = {}
        self._chosen: Candidate | None = None
        self._missed = 0
        self._given_up: set[str] = set()
        self._measured: tuple[str, ...] | None = None
        self.validation: Final = ValidationSeries()
        """The values of the counterpart of the chosen name."""

    @property
    def goal(self) -> Goal | None:
        """Whether less or more is better, as far as the chosen name says it."""
        return goal_of(self._chosen.name) if self._chosen is not None else None

    @property
    def is_score(self) -> bool:
        """Whether a score was chosen for want of a loss."""
        return self._chosen is not None and _SCORE <= self._chosen.rank < _GIVEN_UP

    def may_count(self, lowered: bytes) -> bool:
        """Whether a line, lower-cased, may hold the metric: cheap, for each line of the log."""
        if self.needle in lowered:
            return True
        needles = self.score_needles
        return bool(needles) and any(map(lowered.__contains__, needles))

    def candidate(self, key: bytes | str) -> Candidate | None:
        """Return the rank of a key, or None where it is not the name of a metric to follow."""
        found = self.named(key)
        return None if found is None or found.rank == _BESIDE else found

    def named(self, key: bytes | str) -> Candidate | None:
        """Return the rank of a key that is the name of a metric to follow, or to keep beside it, or None."""
        try:
            return self._known[key]
        except KeyError:
            if len(key) > LONGEST_NAME:
                return None
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        found = self._judge(_without_noise(name.strip()))
        if len(self._known) < _REMEMBERED:
            self._known[key] = found
        return found

    def pick(self, found: list[tuple[Candidate, float]]) -> tuple[str, float] | None:
        """Return the name and value to follow among those of one line, or None if it is not among them."""
        chosen = self._chosen
        best: tuple[Candidate, float] | None = None
        best_rank = 0
        for one in found:
            candidate = one[0]
            if candidate.rank == _BESIDE:
                continue
            if candidate.sides:
                self._take_sides(candidate)
            if chosen is not None and candidate.name == chosen.name:
                rank = 2 * chosen.rank  # even: before others of its rank
            else:
                rank = 2 * (candidate.rank + _GIVEN_UP * (candidate.name in self._given_up)) + 1
            if best is None or rank < best_rank:
                best, best_rank = one, rank
        if best is None or self.verdict is not None or not self._holds(best[0], best_rank):
            return None
        return best[0].name, best[1]

    def note(
        self, found: list[tuple[Candidate, float]], place: Place = (None, None), *, data_set: str = ""
    ) -> None:
        """Keep the counterpart of the chosen name among what one line holds, after `pick`.

        `data_set` is the name of other data than those of the training, where all of the line is about them.
        """
        of = self._measured
        if of is None:
            return
        values: dict[str, float] = {}
        for candidate, value in found:
            if candidate.validates is not None:
                if candidate.validates == of:
                    values.setdefault(candidate.name, value)
            elif data_set and measured(candidate.name) == of:
                values.setdefault(f"{data_set}/{candidate.name}", value)
        if values:
            self.validation.take(values, place)

    def _holds(self, candidate: Candidate, rank: int) -> bool:
        chosen = self._chosen
        if chosen is None or candidate.name == chosen.name or rank < 2 * chosen.rank:
            self._missed = 0
            if chosen is None or candidate.name != chosen.name:
                self._choose(candidate)
            return True
        self._missed += 1
        if self._missed <= PATIENCE:
            return False
        if len(self._given_up) < _REMEMBERED:
            self._given_up.add(chosen.name)
        self._choose(candidate)
        self._missed = 0
        return True

    def _choose(self, candidate: Candidate) -> None:
        self._chosen = candidate
        before = self._measured
        self._measured = None if is_validation(candidate.name) else measured(candidate.name)
        if before != self._measured:
            self.validation.forget()
        if self._metric is None:
            name = candidate.name.lower().encode("utf-8", "replace")
            self.score_needles = tuple(one for one in SCORE_NEEDLES if one in name and self.is_score)

    def _take_sides(self, candidate: Candidate) -> None:
        seen = self._seen_sides
        for pair, second in candidate.sides:
            seen[pair, second] = seen.get((pair, second), 0) + 1
            if min(seen[pair, second], seen.get((pair, not second), 0)) >= _SEEN_SIDES:
                self.verdict = reason(pair)

    def _judge(self, name: str) -> Candidate | None:
        if self._metric is not None:
            # One name for all spellings, so that `Loss` and `loss` are not two series.
            if fold(name) != self._metric:
                counts = may_be_counterpart(name) and measured(name) == measured(self._metric)
                return Candidate(_BESIDE, name, (), measured(name)) if counts else None
            self._printed = self._printed or name
            return Candidate(0, self._printed)
        rank = self._rank(name)
        if rank is None and not may_be_counterpart(name):
            return None
        validates = measured(name) if is_validation(name) else None
        if rank is None:
            return Candidate(_BESIDE, name, (), validates)
        return Candidate(rank, name, tuple(sides_of(name)), validates)

    def _rank(self, name: str) -> int | None:
        for rank, expression in enumerate(self._names):
            if expression.fullmatch(name):
                return rank
        if self._closed:
            return None
        if is_loss(name):
            key = canonical(name)
            return len(self._names) + (PREFERRED.index(key) if key in PREFERRED else _ANY_LOSS)
        score = score_rank(name)
        return None if score is None else _SCORE + score


def _needle(metric: str | None) -> bytes:
    if metric is None:
        return b"loss"
    # Blanks may be repeated on the line, and the parts of a path may stand apart in nested records.
    parts = metric.replace("/", " ").encode("utf-8", "replace").lower().split()
    return max(parts, key=len, default=b"") if metric.isascii() else b""


def _without_noise(name: str) -> str:
    found = name.split(" ")
    start = 0
    while start < len(found) - 1 and _is_noise(found[start]):
        start += 1
    return " ".join(found[start:])


def _is_noise(word: str) -> bool:
    # Bars and bullets (`━━━ loss: 2.1`) have neither letters nor digits.
    return word.casefold() in _NOISE or word.endswith(".py") or not any(map(str.isalnum, word))
