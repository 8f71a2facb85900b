"""A picture of a curve and its categories."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from specon_manager.cli.study.course import Course, Mark, place
from specon_manager.cli.study.curve_view import LOOKS

_WIDTH, _HEIGHT, _DPI = 11.0, 5.5, 100  # inches: 1100 x 550 pixels
_COLOURS: Final = {"bright_black": "grey", "white": "lightgrey", "yellow": "orange"}


def plot_curve(path: Path, course: Course, *, title: str, metric: str) -> None:
    """Draw the course into a file whose suffix says its format, for instance `.png`.

    Raises ModuleNotFoundError where matplotlib is not installed, ValueError where the format is not known,
    and OSError where the file cannot be written.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install 'specon[demo]'") from error
    points = [point for point in course.points if point.value is not None]
    values = [point.value for point in points if point.value is not None]
    positions = _positions(points)
    with mpl.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, layout="constrained")
        axis = figure.subplots()
        axis.plot(positions, values, color="lightgrey", linewidth=1, zorder=1)
        for category, (_, colour) in LOOKS.items():
            chosen = [number for number, point in enumerate(points) if point.category is category]
            if chosen:
                axis.scatter(
                    [positions[number] for number in chosen],
                    [values[number] for number in chosen],
                    s=14,
                    color=_COLOURS.get(colour, colour),
                    label=category.value,
                    zorder=2,
                )
        for mark, style in ((course.watching_at, ":"), (course.converged_at, "--")):
            if mark is not None:
                at = _position_of(mark, points, positions)
                label = f"{mark.category.value} at {place(mark)}"
                axis.axvline(at, linestyle=style, color="black", linewidth=1, label=label)
        axis.set_title(title, loc="left", fontweight="bold")
        axis.set_xlabel("step" if _has_steps(points) else "interval")
        axis.set_ylabel(metric)
        axis.grid(alpha=0.3)
        if points:
            axis.legend(frameon=False)
        figure.savefig(path)


def _has_steps(points: Sequence[Mark]) -> bool:
    """Whether the steps can be an axis: each point has one, and none goes back."""
    steps = [point.step for point in points if point.step is not None]
    return len(steps) == len(points) and steps == sorted(steps)


def _positions(points: Sequence[Mark]) -> list[float]:
    if _has_steps(points):
        return [float(point.step) for point in points if point.step is not None]
    return [float(number) for number in range(1, len(points) + 1)]


def _position_of(mark: Mark, points: Sequence[Mark], positions: Sequence[float]) -> float:
    same = [at for point, at in zip(points, positions, strict=True) if point == mark]
    return same[0] if same else float(mark.step or 0)
