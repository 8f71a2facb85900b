"""For how long jobs that share a node may wait until they end later than with equal shares."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

from msgspec import Struct


class JobService(Struct, frozen=True, gc=False):
    """One job on a node that is shared; seconds, those of training as if it were alone there."""

    present: float
    """For how long it could have trained there, at whatever weight."""
    attained: float
    remaining: float


def slack(sharers: Sequence[JobService]) -> list[float]:
    """Return for how long each may stand still before it ends later than with equal shares, seconds.

    With equal shares from now on a job with r left ends after the sum of min(r, rest) over the rests of all
    that are there, its own among them. With equal shares until now it would have less left by what it lacks,
    and end sooner by that for each of them. Who has ended is not counted: it was served out of what the
    others lack. The virtual end is that of the fair sojourn protocol: E. J. Friedman, S. G. Henderson,
    SIGMETRICS 2003.
    """
    rests, number, fair = sorted(each.remaining for each in sharers), len(sharers), _fair(sharers)
    below = list(accumulate(rests, initial=0.0))
    found = []
    for each in sharers:
        shorter = bisect_left(rests, each.remaining)
        others = below[shorter] + each.remaining * (number - shorter - 1)
        found.append(others - number * (fair[each.present] - each.attained))
    return found


def _fair(sharers: Sequence[JobService]) -> dict[float, float]:
    """Return what equal shares would have given by now to who was present for so long, seconds."""
    longest = sorted((each.present for each in sharers), reverse=True)
    found = dict[float, float]()
    given = 0.0
    # The last to come shared with all, the one before it with one fewer until then, and so on.
    for number, (came, later) in reversed(list(enumerate(pairwise([*longest, 0.0]), start=1))):
        given += (came - later) / number
        found[came] = given
    return found
