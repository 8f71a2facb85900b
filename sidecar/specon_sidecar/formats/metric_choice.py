"""Which of the numbers of a log is the one to follow.

Logs print several losses: parts, means, validation, and a `loss scale` that is none. Taking now one, now
another, would give a curve that means nothing, so the choice is by name, and it holds.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from specon_sidecar.formats.metric_names import (
    PREFERRED,
    SCORE_NEEDLES,
    SUM_OF_PARTS,
    Goal,
    find_whole_loss,
    goal_of,
    is_validation,
    measured_words,
)
from specon_sidecar.formats.metric_rank import (
    BESIDE,
    LAST_RESORT,
    PLAIN_REWARDS,
    SCORE,
    MetricCandidate,
    Ranking,
)
from specon_sidecar.formats.name_noise import without_noise
from specon_sidecar.formats.name_words import canonical
from specon_sidecar.formats.opponents import is_of_policy, reason
from specon_sidecar.formats.reward_names import is_of_episodes
from specon_sidecar.formats.validation import Place, ValidationSeries

__all__ = ["BESIDE", "LONGEST_NAME", "PATIENCE", "PREFERRED", "SCORE", "MetricCandidate", "MetricChoice"]

# A metric followed instead of a score, whenever it comes, and without "loss" in its name.
_BETTER_NEEDLES: Final = (b"rew", b"return", b"score", b"entropy")
_FEWEST_PARTS: Final = 2
# A name that was given up ranks behind all that were not.
_GIVEN_UP: Final = 1000
# So many samples of other names in a row, none of the chosen one: it was a passing line, or it is printed
# no more.
PATIENCE: Final = 100
# A name that was seen less often is given up sooner: a source text at the head says `return 0`.
_FIRM: Final = 3
_BRIEF: Final = 10
# Both sides of an adversarial pair must have been seen so often.
_SEEN_SIDES: Final = 2
# Keys come from the log and may hold numbers, so the memory of them must be bounded, and so must each key.
_REMEMBERED: Final = 1024
LONGEST_NAME: Final = 1024
"""Letters of a key that may name anything."""


class MetricChoice:
    """Chooses one name and keeps to it.

    With a `metric`, exactly that name counts (case-insensitive). Without one, in this order: the `names` of
    the format (regular expressions over whole names), `PREFERRED`, any key with a word that ends in "loss"
    and that is not of validation, and last the scores of `metric_names`. A better name takes over when it
    appears. Several parts of a loss on one line (`cls_loss`, `box_loss`) count as their sum, unless the line
    has the loss itself. A chosen name that is missed `PATIENCE` times is given up, once and for all, for a
    name printed instead. Where a log prints both sides of an adversarial pair nothing is chosen: `verdict`
    says why; but beside the losses of a policy and its critic a reward is. With `closed`, only the names of
    the format count. With `last_resorts` errors, perplexities and losses of validation are followed where
    there is nothing else.

    Beside the chosen name its counterpart of validation is kept, in `validation`, from what `note` is given.
    """

    def __init__(
        self,
        metric: str | None = None,
        names: Sequence[str] = (),
        *,
        closed: bool = False,
        last_resorts: bool = False,
    ) -> None:
        if metric is not None and not metric.strip():
            raise ValueError("metric must not be empty")
        self._is_named = metric is not None
        self._ranking = Ranking(metric, names, closed=closed, last_resorts=last_resorts)
        self._seen = 0
        # Case folding is not always ASCII to ASCII, so only an ASCII name can be looked for in bytes.
        self.needle: Final = _needle(metric)
        """Bytes that the lower-cased form of each line with the metric, or with a loss, holds."""
        self.score_needles: tuple[bytes, ...] = SCORE_NEEDLES if metric is None else ()
        """Byte strings; each line with a score has one of them. There are fewer once a name is chosen."""
        self._against: int | None = None
        self._seen_sides: dict[tuple[int, bool], int] = {}
        self._known: dict[bytes | str, MetricCandidate | None] = {}
        self._chosen: MetricCandidate | None = None
        self._missed = 0
        self._missing: MetricCandidate | None = None
        self._better: dict[str, int] = {}
        self._given_up: set[str] = set()
        self._measured: tuple[str, ...] | None = None
        self._sum = MetricCandidate(self._ranking.of_sum, SUM_OF_PARTS)
        self._parts: frozenset[str] = frozenset()
        self.validation: Final = ValidationSeries()
        """The values of the counterpart of the chosen name."""

    @property
    def goal(self) -> Goal | None:
        """Whether less or more is better, as far as the chosen name says it."""
        return goal_of(self._chosen.name) if self._chosen is not None else None

    @property
    def verdict(self) -> str | None:
        """Why the log cannot be judged, or None where it can."""
        pair, chosen = self._against, self._chosen
        if pair is None or (chosen is not None and self._outweighs(chosen, pair)):
            return None
        return reason(pair)

    def count_episodes(self) -> None:
        """Take note that the log counts episodes: then a `return` is what they are rewarded with."""
        if not self._ranking.has_episodes:
            self._ranking.has_episodes = True
            self._known.clear()

    def count_epochs(self) -> None:
        """Take note that the log counts epochs: then a plain `error` is that of the training."""
        if not self._ranking.has_epochs:
            self._ranking.has_epochs = True
            self._known.clear()

    @property
    def is_score(self) -> bool:
        """Whether a score was chosen for want of a loss."""
        return self._chosen is not None and SCORE <= self._chosen.rank < _GIVEN_UP

    @property
    def is_bare_reward(self) -> bool:
        """Whether a reward of something was chosen, by its name neither of an episode nor the mean."""
        chosen = self._chosen
        if chosen is None or chosen.rank >= 0 or canonical(chosen.name) in PLAIN_REWARDS:
            return False
        return not is_of_episodes(chosen.name)

    @property
    def is_error(self) -> bool:
        """Whether an error or a perplexity was chosen for want of a loss and a score."""
        return self._chosen is not None and LAST_RESORT <= self._chosen.rank < _GIVEN_UP

    @property
    def stands_in(self) -> bool:
        """Whether the followed name is one in place of a better one that is printed no more."""
        missing, chosen = self._missing, self._chosen
        return missing is not None and chosen is not None and chosen.rank > missing.rank

    def may_count(self, lowered: bytes) -> bool:
        """Whether a line, lower-cased, may hold the metric: cheap, for each line of the log."""
        # `find` is much faster than `in`, which tries whether the needle is a number first.
        return lowered.find(self.needle) >= 0 or (
            bool(self.score_needles) and _holds_one(lowered, self.score_needles)
        )

    def candidate(self, key: bytes | str) -> MetricCandidate | None:
        """Return the rank of a key, or None where it is not the name of a metric to follow."""
        found = self.named(key)
        return None if found is None or found.rank == BESIDE else found

    def named(self, key: bytes | str) -> MetricCandidate | None:
        """Return the rank of a key that is the name of a metric to follow, or to keep beside it, or None."""
        try:
            return self._known[key]
        except KeyError:
            if len(key) > LONGEST_NAME:
                return None
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        found = self._ranking.judge(without_noise(name.strip()))
        if len(self._known) < _REMEMBERED:
            self._known[key] = found
        return found

    def goes_on(self, candidate: MetricCandidate) -> bool:
        """Whether a name that stands alone on its line is the followed one: then nothing else is to say."""
        if candidate is not self._chosen or candidate.sides or self._against is not None:
            return False
        self._missed = 0
        self._seen += 1
        return True

    def pick(self, found: list[tuple[MetricCandidate, float]]) -> tuple[str, float] | None:
        """Return the name and value to follow among those of one line, or None if it is not among them."""
        chosen = self._chosen
        best: tuple[MetricCandidate, float] | None = None
        best_rank = 0
        if len(found) > 1 and (chosen is None or self._may_be_sum(chosen, found)):
            found = self._with_sum(found)
        for one in found:
            candidate = one[0]
            if candidate.sides:
                self._take_sides(candidate)
            if candidate.rank == BESIDE:
                continue
            if chosen is not None and candidate.name == chosen.name:
                rank = 2 * chosen.rank  # even: before others of its rank
            else:
                rank = 2 * (candidate.rank + _GIVEN_UP * (candidate.name in self._given_up)) + 1
            if best is None or rank < best_rank:
                best, best_rank = one, rank
        if best is None or (self._against is not None and not self._outweighs(best[0], self._against)):
            return None
        if not self._holds(best[0], best_rank):
            return None
        return best[0].name, best[1]

    def note(
        self, found: list[tuple[MetricCandidate, float]], place: Place = (None, None), *, data_set: str = ""
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
            elif data_set and measured_words(candidate.name) == of:
                values.setdefault(f"{data_set}/{candidate.name}", value)
        if values:
            self.validation.take(values, place)

    def _may_be_sum(self, chosen: MetricCandidate, found: list[tuple[MetricCandidate, float]]) -> bool:
        """Whether the sum of a line's parts may be followed: not where the loss is one of other lines."""
        if not self._sum.rank < chosen.rank < SCORE or self._seen < _FIRM:
            return chosen.rank >= self._sum.rank
        return any(candidate.name == chosen.name for candidate, _ in found)

    def _with_sum(self, found: list[tuple[MetricCandidate, float]]) -> list[tuple[MetricCandidate, float]]:
        """Return what one line holds, with the sum of the parts of a loss where all of them are there."""
        parts = {candidate.name: value for candidate, value in found if candidate.part}
        if len(parts) < _FEWEST_PARTS:
            return found
        whole = find_whole_loss(parts)
        if whole is not None:
            return [
                (one._replace(rank=self._sum.rank) if one.name == whole else one, value)
                for one, value in found
            ]
        if not self._parts <= parts.keys():
            return found
        self._parts = frozenset(parts)
        return [*found, (self._sum, sum(parts.values()))]

    def _holds(self, candidate: MetricCandidate, rank: int) -> bool:
        chosen = self._chosen
        if chosen is None or candidate.name == chosen.name or rank < 2 * chosen.rank:
            if chosen is not None and candidate.name != chosen.name and self._is_passing(candidate):
                return False
            self._missed = 0
            self._seen += 1
            if chosen is None or candidate.name != chosen.name:
                self._choose(candidate)
            return True
        if candidate.rank >= LAST_RESORT > chosen.rank:
            return False  # however often: the chosen one comes back after a validation
        self._missed += 1
        if self._missed <= (PATIENCE if self._seen >= _FIRM else _BRIEF):
            return False
        if len(self._given_up) < _REMEMBERED:
            self._given_up.add(chosen.name)
        if self._missing is None and self._seen >= _FIRM:
            self._missing = chosen
        self._choose(candidate)
        self._missed = 0
        return True

    def _is_passing(self, candidate: MetricCandidate) -> bool:
        """Whether a better name may be one that comes once: then a series of many values goes on."""
        if self._seen < _BRIEF or len(self._better) >= _REMEMBERED:
            return False
        self._better[candidate.name] = self._better.get(candidate.name, 0) + 1
        return self._better[candidate.name] < _FIRM

    def _choose(self, candidate: MetricCandidate) -> None:
        self._chosen, self._seen = candidate, 1
        before = self._measured
        self._measured = None if is_validation(candidate.name) else measured_words(candidate.name)
        if before != self._measured:
            self.validation.forget()
        if not self._is_named:
            name = candidate.name.lower().encode("utf-8", "replace")
            self.score_needles = tuple(
                one
                for one in SCORE_NEEDLES
                if one in _BETTER_NEEDLES or (one.strip(b" :=") in name and self.needle not in name)
            )

    @staticmethod
    def _outweighs(candidate: MetricCandidate, pair: int) -> bool:
        """Whether a log with both sides of a pair can be judged by this candidate all the same."""
        return candidate.rank < 0 and is_of_policy(pair)

    def _take_sides(self, candidate: MetricCandidate) -> None:
        seen = self._seen_sides
        for pair, second in candidate.sides:
            seen[pair, second] = seen.get((pair, second), 0) + 1
            if min(seen[pair, second], seen.get((pair, not second), 0)) >= _SEEN_SIDES:
                self._against = pair


# Several formats ask about the same line, as long as none is chosen.
@lru_cache(maxsize=4)
def _holds_one(lowered: bytes, needles: tuple[bytes, ...]) -> bool:
    return any(map(lowered.decode("latin-1").__contains__, _in_text(needles)))  # thrice as fast as in bytes


@lru_cache(maxsize=64)
def _in_text(needles: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(one.decode("latin-1") for one in needles)


def _needle(metric: str | None) -> bytes:
    if metric is None:
        return b"loss"
    # Blanks may be repeated on the line, and the parts of a path may stand apart in nested records.
    parts = metric.replace("/", " ").encode("utf-8", "replace").lower().split()
    return max(parts, key=len, default=b"") if metric.isascii() else b""
