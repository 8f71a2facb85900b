"""One measured figure beside its bound, and how figures are printed and written."""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value; without a bound it explains another figure."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""
    """How sure the value is, or what disturbed it."""

    @property
    def holds(self) -> bool | None:
        """Whether the bound is met; None without a bound."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    @property
    def bound(self) -> str:
        """The bound as it is printed."""
        if self.at_most is not None:
            return f"<= {_number(self.at_most)}"
        return "" if self.at_least is None else f">= {_number(self.at_least)}"


Measure = Callable[[], Sequence[Figure]]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def show(figures: Sequence[Figure]) -> None:
    """Print one line for each figure."""
    width = max(len(figure.what) for figure in figures)
    for figure in figures:
        verdict = {True: "holds", False: "MISSED", None: ""}[figure.holds]
        print(
            f"  {figure.what:{width}} {_number(figure.value):>10} {figure.unit:9} {figure.bound:>12}"
            f" {verdict:7} {figure.note}".rstrip()
        )


def as_json(figures: Sequence[Figure]) -> list[dict[str, object]]:
    """Return the content of the file."""
    return [asdict(figure) | {"holds": figure.holds} for figure in figures]


def main(
    description: str | None, measure: Measure, smallest: Measure, *, quick: Measure | None = None
) -> None:
    """Be the command of one benchmark: measure, print, and write the figures where asked to.

    `quick` measures something smaller of the same kind. `smallest` gives every figure and measures nothing:
    it shows that the benchmark comes to its end.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    if quick is not None:
        parser.add_argument("--quick", action="store_true", help="measure something smaller")
    parser.add_argument("--smallest", action="store_true", help="show that it works, measure nothing")
    arguments = parser.parse_args()
    file: Path | None = arguments.json
    if arguments.smallest:
        measure = smallest
    elif quick is not None and arguments.quick:
        measure = quick
    figures = measure()
    show(figures)
    if file is not None:
        file.write_text(json.dumps(as_json(figures), indent=2) + "\n", encoding="utf-8")


def _number(value: float) -> str:
    if value != 0 and abs(value) < 10:
        return f"{value:.3g}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
