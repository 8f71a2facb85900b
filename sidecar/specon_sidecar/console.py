"""What a stand-alone sidecar prints. Pure: returns lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specon_sidecar.observer import Observer

if TYPE_CHECKING:
    from specon_sidecar.classify import Category


class Narrator:
    """Tells what is new about an observation: the format once, each interval, each change of category."""

    def __init__(self) -> None:
        self._format: str | None = None
        self._category: Category | None = None

    def interval(self, observer: Observer) -> Iterator[str]:
        """Yield the lines to print after an interval."""
        yield from self.changes(observer)
        judgement = observer.judgement
        total = "" if observer.curve.total_steps is None else f"/{observer.curve.total_steps}"
        step = "-" if observer.step is None else f"{observer.step}{total}"
        yield (
            f"step {step:>12}  value {_number(judgement.value):>10}  gain {_number(judgement.gain):>9}"
            f"  {judgement.category.value}"
        )

    def changes(self, observer: Observer) -> Iterator[str]:
        """Yield the lines to print when only changes are wanted."""
        if observer.format is not None and observer.format != self._format:
            self._format = observer.format
            name = "" if observer.last is None else f", metric {observer.last.name!r}"
            yield f"format {observer.format}{name}"
        judgement = observer.judgement
        if judgement.category is not self._category:
            before, self._category = self._category, judgement.category
            arrow = "" if before is None else f"{before.value} -> "
            at = "" if observer.step is None else f" at step {observer.step}"
            yield f"category {arrow}{judgement.category.value}{at}: {judgement.reason}"


def summary(observer: Observer) -> Iterator[str]:
    """Yield the last lines: the verdict and what it rests on."""
    judgement = observer.judgement
    counted = f"{observer.lines} lines, {observer.samples} samples, format {observer.format or 'unknown'}"
    yield f"verdict {judgement.category.value}: {judgement.reason} ({counted})"
    if observer.samples == 0:
        yield from (f"  not understood: {example}" for example in observer.examples)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
