"""Amounts, and whether they fit."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.resources import NOTHING, Resources, total

amounts = st.builds(
    Resources,
    cpu=st.integers(0, 64).map(float),
    memory=st.integers(0, 1 << 40).map(float),
    gpu=st.integers(0, 8).map(float),
)


@given(st.lists(amounts, max_size=5), amounts)
def test_a_sum_fits_where_every_part_of_it_fits_beside_the_rest(parts, room):
    """Fitting is by each amount, and an exact fit is a fit."""
    whole = total(parts)
    assert whole.fits(whole)
    assert NOTHING.fits(room)
    expected = all(getattr(whole, kind) <= getattr(room, kind) for kind in ("cpu", "memory", "gpu"))
    assert whole.fits(room) is expected


@pytest.mark.parametrize("kind", ["cpu", "memory", "gpu"])
def test_one_amount_too_much_does_not_fit(kind):
    """Plenty of one thing does not make up for the lack of another."""
    room = Resources(cpu=1, memory=1, gpu=1)
    assert not msgspec.structs.replace(room, **{kind: 1.5}).fits(room)


@pytest.mark.parametrize("content", [{"cpu": -1}, {"gpu": float("nan")}, {"memory": 1e300}, {"cpus": 1}])
def test_impossible_amounts_are_refused_by_name(content):
    """Negative, endless and misspelt amounts are named."""
    with pytest.raises(msgspec.ValidationError, match=next(iter(content))):
        msgspec.convert(content, Resources)
