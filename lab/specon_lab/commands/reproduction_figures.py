"""The columns of a reproduced figure: numbers, difference, verdict, and the counts of a whole paper."""

import math
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from specon_lab.reproduction.experiment import Row, Section
from specon_sidecar.counts import format_count

REPRODUCED: Final = "reproduced"
MISSED: Final = "missed"
NO_FIGURE: Final = "no figure"
"""The paper gives none."""
NO_VERDICT: Final = "no verdict"
"""Ours cannot be judged, for instance after few runs."""
_UNKNOWN: Final = "-"
_FAR: Final = 25.0
_LARGE, _MIDDLE, _SMALL = 1000, 100, 0.1


class Counts(Struct, frozen=True, kw_only=True):
    """The verdicts of a reproduction, counted."""

    reproduced: int
    missed: int
    without_verdict: int
    """Rows with nothing to compare with, or too little."""
    compared: int
    """Of how many figures of a paper there is one here."""
    far: int
    """How many of these are off by more than a quarter, whatever the verdict says."""

    @property
    def words(self) -> tuple[str, str]:
        """How many of the rows with a verdict are reproduced, and how many have none ('' where all have)."""
        none = self.without_verdict
        rest = f", {format_count(none, 'row')} without a verdict" if none else ""
        if self.compared:
            rest += f"; {self.far} of {self.compared} that a paper prints are off by more than {_FAR:g} %"
        return f"{self.reproduced} of {self.reproduced + self.missed} figures reproduced", rest


def counts_of(sections: Iterable[Section], *, printed: bool) -> Counts:
    """Return the verdicts of the sections, counted; `printed`: whether others printed those beside ours."""
    rows = [row for section in sections for row in section.rows]
    verdicts = [row.reproduced for row in rows]
    errors = [off for row in rows if printed and (off := relative_error(row)) is not None]
    return Counts(
        reproduced=verdicts.count(True),
        missed=verdicts.count(False),
        without_verdict=verdicts.count(None),
        compared=len(errors),
        far=sum(abs(off) > _FAR for off in errors),
    )


def verdict(row: Row) -> str:
    """Return the verdict in a word or two."""
    if row.reproduced is None:
        return NO_FIGURE if row.paper is None else NO_VERDICT
    return REPRODUCED if row.reproduced else MISSED


def compared_figure(row: Row) -> float | None:
    """Return our figure that is compared with the paper's: literal mode's where it was run."""
    return row.default if row.literal is None else row.literal


def format_value(value: float | None, row: Row) -> str:
    """Return one of the numbers of a row; all of them have the same number of places."""
    if value is None or math.isnan(value):
        return _UNKNOWN
    return f"{value:,.{_places(row)}f}"


def title(row: Row) -> str:
    """Return what the figure is, with its unit."""
    return f"{row.what} ({row.unit})" if row.unit else row.what


def difference(row: Row) -> str:
    """Return how our figure differs from the paper's, in its unit: percents in points."""
    ours = compared_figure(row)
    if ours is None or row.paper is None or math.isnan(ours):
        return _UNKNOWN
    points = " points" if row.unit.startswith(("%", "percent")) else ""
    return f"{ours - row.paper:+,.{_places(row)}f}{points}"


def error(row: Row) -> str:
    """Return the relative error as it is shown."""
    off = relative_error(row)
    return _UNKNOWN if off is None else f"{off:+.1f} %"


def relative_error(row: Row) -> float | None:
    """Return by how many percent of the paper's figure ours is off; None without a figure, or beside 0."""
    ours = compared_figure(row)
    if ours is None or not row.paper or math.isnan(ours):
        return None
    return 100 * (ours - row.paper) / abs(row.paper)


def format_figure(value: float | None) -> str:
    """Return a figure that stands by itself, with about four digits."""
    if value is None or math.isnan(value):
        return _UNKNOWN
    return f"{value:,.{0 if abs(value) >= _LARGE else 1 if abs(value) >= _MIDDLE else 2}f}"


def _places(row: Row) -> int:
    known = [abs(each) for each in (row.paper, row.literal, row.default) if each is not None]
    largest = max((each for each in known if math.isfinite(each)), default=0.0)
    if largest >= _LARGE:
        return 0
    if largest >= _MIDDLE or row.unit.startswith(("%", "s")):
        return 1
    return 2 if largest >= _SMALL or not largest else 4
