"""The first item with the least value is known, while values change again and again."""

from hypothesis import given
from hypothesis import strategies as st

from specon_manager.policies.levels import Levels

values = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 7.25])


@given(st.lists(values, min_size=1, max_size=12), st.data())
def test_the_first_of_the_lowest_level_is_the_first_with_the_least_value(given_values, data):
    """Whatever was changed before, one item or several at once, and also where values fall."""
    levels, known = Levels(given_values), list(given_values)
    for _ in range(data.draw(st.integers(0, 12))):
        for _ in range(data.draw(st.integers(1, 3))):
            position, value = data.draw(st.integers(0, len(known) - 1)), data.draw(values)
            levels.change(position, value)
            known[position] = value
        levels.settle()
        assert levels.values == known
        assert (levels.lowest, levels.first) == (min(known), known.index(min(known)))
