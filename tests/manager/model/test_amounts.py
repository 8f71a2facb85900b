"""What a worker reserves where its job's workers differ."""

import pytest

from specon_manager.model.cluster import from_index
from specon_manager.model.resources import NOTHING, Resources

MANY = 4096


class Watched(tuple):
    """Amounts that count how many of them are looked at."""

    __slots__ = ()
    looked = 0

    def __getitem__(self, at):
        Watched.looked += 1
        return super().__getitem__(at)


@pytest.mark.parametrize("number", [0, 1, MANY // 2, MANY - 1])
def test_a_job_with_thousands_of_amounts_is_not_gone_through_for_each_worker(number):
    """Ten thousand workers of it are placed at each Tick."""
    amounts = Watched((1000 * each, Resources(cpu=each)) for each in range(MANY))
    Watched.looked = 0
    assert from_index(amounts, 1000 * number + 999, NOTHING) == Resources(cpu=number)
    assert Watched.looked <= 16


def test_below_the_first_index_the_usual_amount_counts():
    assert from_index(((5, Resources(cpu=2)),), 4, Resources(cpu=1)) == Resources(cpu=1)
    assert from_index((), 4, Resources(cpu=1)) == Resources(cpu=1)
