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
