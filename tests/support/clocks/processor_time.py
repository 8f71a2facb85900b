"""What work costs, as far as a busy machine lets one measure it."""

import time
from collections.abc import Callable


def least_seconds(work: Callable[[], object], *, enough: float = 0.0, tries: int = 3) -> float:
    """Return the least processor time of this thread that `work` took: other processes hardly add to it.

    It is not measured again once it is below `enough`.
    """
    least = float("inf")
    for _ in range(tries):
        started = time.thread_time()
        work()
        least = min(least, time.thread_time() - started)
        if least < enough:
            break
    return least


def times_as_long(
    work: Callable[[], object], other: Callable[[], object], *, enough: float, turns: int = 5
) -> float:
    """Return how many times the processor time of `other` the same thread needs for `work`.

    A core may run at twice its speed a moment later. So the two are measured in turns, and the least counts;
    no further turn comes once it is below `enough`.
    """
    least = float("inf")
    for _ in range(turns):
        beside = least_seconds(other, tries=1)
        least = min(least, least_seconds(work, tries=1) / beside)
        if least < enough:
            break
    return least
