"""Which of the numbers of a log is the one to follow.

Logs print several losses: parts, means, validation, and a `loss scale` that is none. Taking now one, now
another, would give a curve that means nothing, so the choice is by name, and it holds.
"""

import re
from typing import Final, NamedTuple

# In order of preference, after `_canonical`: "train/loss" and "train loss" are "train_loss", "lm loss" is
# "lm_loss".
PREFERRED: Final = ("loss", "total_loss", "train_loss", "training_loss", "lm_loss")
_ANY_OTHER: Final = len(PREFERRED)
# A name that was given up ranks behind all that were not.
_GIVEN_UP: Final = 1000

# A part of the name that makes it something else than the training loss.
_VALIDATION: Final = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "testing", "dev"})
_NO_LOSS: Final = frozenset(
    {"scale", "scaler", "scaling", "weight", "weights", "coef", "coefficient", "factor", "ratio", "best"},
)
# Words that stand before a name on a line without being part of it: log levels, stream names, units.
_NOISE: Final = frozenset(
    {
        *("info", "debug", "warning", "warn", "error", "notice", "root", "stdout", "stderr", "f", "p"),
        *(
            "s",
            "ms",
            "sec",
            "secs",
            "seconds",
            "it/s",
            "samples/sec",
            "samples/s",
            "tok/s",
            "tokens/s",
            "steps/s",
        ),
    },
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")

# So many samples of other names in a row, none of the chosen one: it was a passing line, or it is printed
# no more.
PATIENCE: Final = 100
# Keys come from the log and may hold numbers, so the memory of them must be bounded.
_REMEMBERED: Final = 1024


class Candidate(NamedTuple):
    """A key that may name the metric: smaller ranks are preferred; `name` is without the noise before it."""

    rank: int
    name: str


class MetricChoice:
    """Chooses one name and keeps to it.

    With a `metric`, exactly that name counts (case-insensitive). Without one: `PREFERRED` in that order,
    else the first key with a word that ends in "loss" and that is not of validation. A better name takes
    over when it appears. A chosen name that is missed `PATIENCE` times is given up, once and for all, for
    what is printed instead.
    """

    def __init__(self, metric: str | None = None) -> None:
        if metric is not None and not metric.strip():
            raise ValueError("metric must not be empty")
        self._metric = _fold(metric) if metric is not None else None
        # Case folding is not always ASCII to ASCII, so only an ASCII name can be looked for in bytes.
        self.needle: Final = _needle(metric)
        """Bytes that the lower-cased form of each line with a sample holds."""
        self._printed: str | None = None
        self._known: dict[bytes | str, Candidate | None] = {}
        self._chosen: Candidate | None = None
        self._missed = 0
        self._given_up: set[str] = set()

    def candidate(self, key: bytes | str) -> Candidate | None:
        """Return the rank of a key, or None where it is not the name of a metric to follow."""
        try:
            return self._known[key]
        except KeyError:
            pass
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
            if chosen is not None and candidate.name == chosen.name:
                rank = 2 * chosen.rank  # even: before others of its rank
            else:
                rank = 2 * (candidate.rank + _GIVEN_UP * (candidate.name in self._given_up)) + 1
            if best is None or rank < best_rank:
                best, best_rank = one, rank
        if best is None or not self._holds(best[0], best_rank):
            return None
        return best[0].name, best[1]

    def _holds(self, candidate: Candidate, rank: int) -> bool:
        chosen = self._chosen
        if chosen is None or candidate.name == chosen.name or rank < 2 * chosen.rank:
            self._missed = 0
            if chosen is None or candidate.name != chosen.name:
                self._chosen = candidate
            return True
        self._missed += 1
        if self._missed <= PATIENCE:
            return False
        if len(self._given_up) < _REMEMBERED:
            self._given_up.add(chosen.name)
        self._chosen = candidate
        self._missed = 0
        return True

    def _judge(self, name: str) -> Candidate | None:
        if self._metric is not None:
            # One name for all spellings, so that `Loss` and `loss` are not two series.
            if _fold(name) != self._metric:
                return None
            self._printed = self._printed or name
            return Candidate(0, self._printed)
        if "loss" not in name.casefold():
            return None
        words = [word.casefold() for word in _WORD.findall(name)]
        if not _VALIDATION.isdisjoint(words) or not _NO_LOSS.isdisjoint(words):
            return None
        # In a phrase the last word says what it is: "loss per token" may be one, "setting loss scale to" is
        # not.
        last = [word.casefold() for word in _WORD.findall(name.rsplit(" ", 1)[-1])]
        if not any(word.endswith("loss") for word in last):
            return None
        canonical = re.sub(r"[ /.-]+", "_", name.casefold())
        return Candidate(PREFERRED.index(canonical) if canonical in PREFERRED else _ANY_OTHER, name)


def _needle(metric: str | None) -> bytes:
    if metric is None:
        return b"loss"
    # Blanks may be repeated on the line, and the parts of a path may stand apart in nested records.
    parts = metric.replace("/", " ").encode().lower().split()
    return max(parts, key=len, default=b"") if metric.isascii() else b""


def _fold(name: str) -> str:
    return " ".join(name.casefold().split())


def _without_noise(name: str) -> str:
    words = name.split(" ")
    start = 0
    while start < len(words) - 1 and _is_noise(words[start]):
        start += 1
    return " ".join(words[start:])


def _is_noise(word: str) -> bool:
    # Bars and bullets (`━━━ loss: 2.1`) have neither letters nor digits.
    return word.casefold() in _NOISE or word.endswith(".py") or not any(map(str.isalnum, word))
