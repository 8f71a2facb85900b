"""A loss curve in one line of characters, each part in the colour of what the job was then."""

import itertools
import math
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from specon_manager.cli.styles import STYLES
from specon_manager.views.page import Point

_BARS: Final = "▁▂▃▄▅▆▇█"


def sparkline(points: Sequence[Point], width: int) -> Text:
    """Return the curve in at most `width` characters, the newest value last; nothing of fewer than two."""
    finite = [point for point in points if math.isfinite(point.value)]
    if len(finite) < 2:  # noqa: PLR2004 - one value is no curve
        return Text("")
    count = min(width, len(finite))
    chosen = [finite[-1 - index * (len(finite) - 1) // max(1, count - 1)] for index in reversed(range(count))]
    least, most = min(point.value for point in chosen), max(point.value for point in chosen)
    text = Text(no_wrap=True)
    for category, part in itertools.groupby(chosen, key=lambda point: point.category):
        text.append("".join(_bar(point.value, least, most) for point in part), STYLES[category])
    return text


def _bar(value: float, least: float, most: float) -> str:
    part = 0.5 if most == least else (value - least) / (most - least)
    return _BARS[round(part * (len(_BARS) - 1))]
