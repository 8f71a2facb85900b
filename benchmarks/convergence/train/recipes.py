"""Which runs are trained: optimisers, schedules, batch sizes, label noise, lengths; good and broken ones."""

from collections.abc import Iterator

from train import recipes_deep, recipes_libraries, recipes_perceptrons
from train.recipe import Recipe


def recipes() -> Iterator[Recipe]:
    """Yield all runs."""
    yield from recipes_perceptrons.recipes()
    yield from recipes_deep.recipes()
    yield from recipes_libraries.recipes()
