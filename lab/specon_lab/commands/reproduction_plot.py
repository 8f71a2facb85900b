"""A picture of a reproduction: the paper's figures and ours side by side, a panel for each table and unit."""

import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from specon_lab.commands.reproduction_figures import compared_figure
from specon_lab.commands.reproduction_run import Reproduced
from specon_lab.reproduction.experiment import Row
from specon_manager.views.names import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _DPI = 10.0, 100  # inches: 1000 pixels
_ROW_INCHES, _FRAME_INCHES = 0.28, 0.9
_MOST_ROWS: Final = 60  # of one panel
_MOST_PANELS: Final = 30  # more would make a picture that no viewer opens
_LONGEST: Final = 60  # letters of a row's name
_PAPER, _LITERAL, _DEFAULT = "black", "tab:orange", "tab:blue"


class Panel(Struct, frozen=True, kw_only=True):
    """The rows of a section that share a unit."""

    title: str
    unit: str
    rows: tuple[Row, ...]

    @property
    def inches(self) -> float:
        """How high it is."""
        return _FRAME_INCHES + _ROW_INCHES * len(self.rows)


def plot_reproduction(path: Path, reproduced: Reproduced) -> None:
    """Draw the figures into a file whose suffix says its format, for instance `.png`.

    Raises ModuleNotFoundError where matplotlib is not installed, ValueError where there is no number to
    draw, and OSError where the file cannot be written.
    """
    drawn = list(panels(reproduced))[:_MOST_PANELS]
    if not drawn:
        raise ValueError(f"{reproduced.reproduction.name}: there is no figure to draw")
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 - the same

    heights = [panel.inches for panel in drawn]
    with mpl.rc_context({"text.parse_math": False, "font.size": 9}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        # No pyplot: a figure of its own needs no display and leaves no global state.
        figure = Figure(figsize=(_WIDTH, sum(heights) + 0.5), dpi=_DPI, layout="constrained")
        figure.suptitle(_wrap(reproduced.reproduction.title), x=0.01, ha="left", fontweight="bold")
        axes = figure.subplots(len(drawn), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axis, panel in zip(axes, drawn, strict=True):
            _draw(axis, panel)
        axes[0].legend(loc="best", framealpha=0.9)
        figure.savefig(path)


def panels(reproduced: Reproduced) -> Iterator[Panel]:
    """Yield the parts of the plot: rows with a number of ours, by section and unit."""
    for section in reproduced.sections:
        by_unit: dict[str, list[Row]] = {}
        for row in section.rows:
            if compared_figure(row) is not None:
                by_unit.setdefault(row.unit, []).append(row)
        for unit, rows in by_unit.items():
            yield Panel(title=section.title, unit=unit, rows=tuple(rows[:_MOST_ROWS]))


def _draw(axis: "Axes", panel: Panel) -> None:
    places = range(len(panel.rows))
    for place, row in zip(places, panel.rows, strict=True):
        ours = compared_figure(row)
        if row.paper is not None and ours is not None:
            axis.plot([row.paper, ours], [place, place], color="0.8", lw=1, zorder=1)
        if row.spread is not None and ours is not None:
            axis.errorbar(ours, place, xerr=row.spread, color="0.5", lw=1, capsize=3, zorder=2)
    for marker, colour, name, values in (
        ("D", _PAPER, "paper", [row.paper for row in panel.rows]),
        ("o", _LITERAL, "literal", [row.literal for row in panel.rows]),
        ("s", _DEFAULT, "default", [row.default for row in panel.rows]),
    ):
        known = [(value, place) for place, value in zip(places, values, strict=True) if value is not None]
        axis.scatter(
            [value for value, _ in known],
            [place for _, place in known],
            marker=marker,
            s=22,
            color=colour,
            label=name,
            zorder=3,
        )
    axis.set_yticks(list(places), [_short(row.what) for row in panel.rows])
    axis.set_ylim(len(panel.rows) - 0.5, -0.5)
    axis.set_title(_short(panel.title, 2 * _LONGEST), loc="left", fontweight="bold")
    axis.set_xlabel(printable(panel.unit))
    axis.grid(axis="x", alpha=0.3)


def _wrap(text: str) -> str:
    return "\n".join(textwrap.wrap(printable(text), 2 * _LONGEST)[:3])


def _short(text: str, most: int = _LONGEST) -> str:
    shown = printable(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
