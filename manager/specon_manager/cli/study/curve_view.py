"""A curve drawn with letters, each in the colour of its category. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from specon_manager.cli.plain import StyledLine
from specon_manager.cli.study.course import Mark
from specon_sidecar.classify import Category

# Letters too, for a terminal without colours and for the colour-blind.
LOOKS: Final[Mapping[Category, tuple[str, str]]] = MappingProxyType(
    {
        Category.UNKNOWN: ("?", "white"),
        Category.PROGRESSING: ("o", "green"),
        Category.WATCHING: ("w", "yellow"),
        Category.CONVERGED: ("c", "blue"),
        Category.STALLED: ("-", "bright_black"),
        Category.DIVERGING: ("!", "red"),
        Category.NOT_CLASSIFIABLE: ("x", "magenta"),
    }
)
_LABEL: Final = 11
_LOGARITHMIC: Final = 100.0  # a curve that spans more than this factor is drawn logarithmically
_LEAST_WIDTH: Final = 20


def draw(points: Sequence[Mark], *, width: int, height: int) -> Iterator[StyledLine]:
    """Yield the lines of the drawing, none wider than `width`, then the legend; nothing without values."""
    values = [point.value for point in points if point.value is not None]
    if not values:
        return
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low > _LOGARITHMIC
    columns = max(_LEAST_WIDTH, width - _LABEL)
    rows: list[list[Category | None]] = [[None] * columns for _ in range(height)]
    # Each column has a point, and each point a column.
    many = max(columns, len(points))
    for number in range(many):
        point = points[number * (len(points) - 1) // max(1, many - 1)]
        if point.value is None:
            continue
        column = number * (columns - 1) // max(1, many - 1)
        share = _share(point.value, low, high, logarithmic=logarithmic)
        rows[round((height - 1) * (1 - share))][column] = point.category
    for number, row in enumerate(rows):
        label = high if number == 0 else low if number == height - 1 else None
        begin = f"{'' if label is None else f'{label:.4g}':>{_LABEL - 2}} |"
        letters = ((" ", "") if category is None else LOOKS[category] for category in row)
        yield StyledLine(((begin, ""), *letters))
    if logarithmic:
        yield StyledLine(((" " * _LABEL + "(logarithmic)", ""),))
    yield legend({point.category for point in points})


def legend(categories: set[Category]) -> StyledLine:
    """Return the meaning of each letter that occurs."""
    pieces = [(" " * _LABEL, "")]
    for category, (letter, style) in LOOKS.items():
        if category in categories:
            pieces += [(f"{letter} {category.value}", style), ("  ", "")]
    return StyledLine(tuple(pieces))


def _share(value: float, low: float, high: float, *, logarithmic: bool) -> float:
    if high == low:
        return 0.5
    if logarithmic:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    # Halved, because the difference of the largest numbers is infinite.
    return (value / 2 - low / 2) / (high / 2 - low / 2)
