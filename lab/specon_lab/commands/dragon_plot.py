"""Figures 9 and 10 of DRAGON as measured: time saved over the intensity of the load."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specon_lab.reproduction.dragon_runs import KUBEFLOW, LOCALITY
from specon_lab.reproduction.dragon_tables import SweepPoint, sweep_points
from specon_lab.reproduction.experiment import Collected

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT, _DPI = 12.0, 5.0, 100  # inches: 1200 x 500 pixels
_TITLES: Final = {
    LOCALITY: "Figure 9: against the locality-aware scheduler",
    KUBEFLOW: "Figure 10: against Kubeflow",
}
_COLOURS: Final = {"elapsed": "black", "running": "tab:blue", "waiting": "tab:orange"}
_LINES: Final = {"literal": "--", "default": "-"}


def plot(collected: Collected, path: Path) -> None:
    """Draw both figures into a file whose suffix says its format; bars are 95 % intervals over the seeds.

    Raises ModuleNotFoundError where matplotlib is not installed, ValueError where the sweep was not run or
    the format is not known, and OSError where the file cannot be written.
    """
    points = sweep_points(collected)
    if not points:
        raise ValueError("collected: no run of the sweep is in it")
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install 'specon[demo]'") from error
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        # No pyplot: a figure of its own needs no display and leaves no global state.
        figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, layout="constrained")
        axes = figure.subplots(1, len(_TITLES), squeeze=False)[0]
        for axis, (baseline, title) in zip(axes, _TITLES.items(), strict=True):
            _draw(axis, [point for point in points if point.baseline == baseline])
            axis.set_title(title, loc="left", fontweight="bold")
        figure.savefig(path)


def _draw(axis: "Axes", points: list[SweepPoint]) -> None:
    for mode, line in _LINES.items():
        of_mode = [point for point in points if point.mode == mode]
        if not of_mode:
            continue
        for what, colour in _COLOURS.items():
            drawn = [point for point in of_mode if getattr(point, what) is not None]
            saved = [getattr(point, what) for point in drawn]
            axis.errorbar(
                [point.intensity for point in drawn],
                [each.mean for each in saved],
                [each.half_width or 0.0 for each in saved],
                color=colour,
                linestyle=line,
                marker="o",
                capsize=2,
                label=f"{what} time, {mode}",
            )
    axis.axhline(0.0, color="black", linewidth=0.8)
    axis.set_xlabel("intensity: 248 s / mean time between arrivals")
    axis.set_ylabel("time saved (%)")
    axis.grid(alpha=0.3)
    if points:
        axis.legend(fontsize=8)
