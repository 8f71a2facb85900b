"""Which names of metrics are preferred to which."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from specon_sidecar.formats.metric_names import (
    PREFERRED,
    TOTAL_OF_PARTS,
    is_bare_part,
    is_last_resort,
    is_loss,
    is_of_class,
    is_part,
    is_plain_error,
    is_validation,
    may_be_counterpart,
    measured_words,
    score_rank,
)
from specon_sidecar.formats.name_words import canonical, fold
from specon_sidecar.formats.opponents import is_turned_side, sides_of
from specon_sidecar.formats.reward_names import is_return, is_reward

_ANY_LOSS: Final = 100
# `average loss` is the whole; the sum of the parts of a line stands between it and each of them.
_PLAIN_LOSS: Final = _ANY_LOSS - 2
# A reward stands before the losses beside it: those are what the policy is pushed by, and never converge.
_REWARD: Final = -3
# That of a test, and a `return` or a `score` of a log that counts episodes, stand behind it.
_TESTED: Final = -2
_RETURN: Final = -1
PLAIN_REWARDS: Final = frozenset({"reward", "mean_reward", "reward_mean", "rewards_mean", "avg_reward"})
SCORE: Final = 200
"""Rank of the best score: behind all losses; one of validation stands behind one of training."""
LAST_RESORT: Final = 300
_VALIDATION: Final = 400  # a loss of validation, where there is nothing else
# A name that is never followed: it may be the counterpart of validation.
BESIDE: Final = 1_000_000
"""Rank of such a name."""


class MetricCandidate(NamedTuple):
    """A key that may name the metric: smaller ranks are preferred; `name` is without the noise before it."""

    rank: int
    name: str
    sides: tuple[tuple[int, bool], ...] = ()
    """The adversarial pairs that it belongs to."""
    validates: tuple[str, ...] | None = None
    """What a name of validation measures; None where the name is none."""
    part: bool = False
    """Whether it may be one of several losses whose sum the training minimises."""


class Ranking:
    """Ranks names as `MetricChoice` says: exactly the `metric`, or the `names` of a format and all others."""

    def __init__(self, metric: str | None, names: Sequence[str], *, closed: bool, last_resorts: bool) -> None:
        self._metric = fold(metric) if metric is not None else None
        self._names = [re.compile(name, re.IGNORECASE) for name in names]
        self._closed = closed
        self._last_resorts = last_resorts
        self._printed: str | None = None
        self.has_episodes = False
        """Whether the log counts episodes: then a `return` is what they are rewarded with."""
        self.has_epochs = False
        """Whether it counts epochs: then a plain `error` is that of the training."""
        self.of_sum: Final = len(self._names) + _ANY_LOSS - 1
        """Rank of the sum of the parts of a loss."""

    def judge(self, name: str) -> MetricCandidate | None:
        """Return the rank of a name without noise, or None where it is not one to follow or to keep."""
        if self._metric is not None:
            # One name for all spellings, so that `Loss` and `loss` are not two series.
            if fold(name) != self._metric:
                counts = may_be_counterpart(name) and measured_words(name) == measured_words(self._metric)
                return MetricCandidate(BESIDE, name, (), measured_words(name)) if counts else None
            self._printed = self._printed or name
            return MetricCandidate(0, self._printed)
        rank = self._rank(name)
        if rank is None and is_turned_side(name):
            return MetricCandidate(BESIDE, name, tuple(sides_of(name)))
        if rank is None and not may_be_counterpart(name):
            return None
        validates = measured_words(name) if is_validation(name) else None
        if rank is None:
            return MetricCandidate(BESIDE, name, (), validates)
        sides = tuple(sides_of(name))
        part = rank == len(self._names) + _ANY_LOSS and not sides and is_part(name)
        return MetricCandidate(rank, name, sides, validates, part)

    def _rank(self, name: str) -> int | None:
        for rank, expression in enumerate(self._names):
            if expression.fullmatch(name):
                return rank
        if self._closed:
            return None
        reward = self._reward_rank(name)
        if reward is not None:
            return reward
        if is_loss(name):
            key = canonical(name)
            plain = _PLAIN_LOSS if not is_part(name) else _ANY_LOSS
            return len(self._names) + (PREFERRED.index(key) if key in PREFERRED else plain)
        score = score_rank(name)
        if score is not None:
            return SCORE + 2 * score + is_of_class(name)
        return self._last_rank(name) if self._last_resorts else None

    def _last_rank(self, name: str) -> int | None:
        """Return the rank of a name that is followed where there is neither a loss nor a score."""
        if canonical(name) == TOTAL_OF_PARTS:
            return _VALIDATION + 1  # behind all others: it may be the sum of anything
        if is_last_resort(name) or (self.has_epochs and is_plain_error(name)):
            return LAST_RESORT + is_validation(name)
        if is_bare_part(name):
            return _VALIDATION + 2
        return _VALIDATION if may_be_counterpart(name) and "loss" in name.casefold() else None

    def _reward_rank(self, name: str) -> int | None:
        if is_reward(name):
            return _TESTED if is_validation(name) else _REWARD - (canonical(name) in PLAIN_REWARDS)
        return _RETURN if self.has_episodes and is_return(name) else None
