"""What more workers bring, as it was measured on jobs of the same kind.

As Optimus does (Y. Peng et al., EuroSys 2018) growth goes by what the next workers add. It is looked up, not
fitted: a kind has few sizes, and one that was never seen is tried, twice the size before at most.
"""

from collections.abc import Mapping
from typing import Final

WORTH: Final = 0.9  # of a linear speed-up, for growth beyond what the owner asked for
_TRIED: Final = 2  # times the largest size that is known to be worth it


def largest_worthwhile(paces: Mapping[int, float], wanted: int) -> int:
    """Return with how many workers at most a job is worth its room.

    `paces` are seconds per step by number of workers. What the owner asked for always is. A larger size is
    where it was measured to be at least `WORTH` of linear from there on, as is every smaller one that was
    measured; beyond the largest of them up to `_TRIED` times as many are tried until a measured one is not.
    """
    larger = sorted(size for size in paces if size > wanted)
    own, worth = paces.get(wanted), wanted
    if own is None:
        return wanted if larger else _TRIED * wanted
    for workers in larger:
        if own / paces[workers] < WORTH * workers / wanted:
            return min(workers - 1, _TRIED * worth)
        worth = workers
    return _TRIED * worth


def has_no_speedup(paces: Mapping[int, float], wanted: int, now: int) -> bool:
    """Whether a job with more workers than its owner asked for trains no faster than it would with those."""
    if now <= wanted or now not in paces or wanted not in paces:
        return False
    return paces[now] >= paces[wanted]
