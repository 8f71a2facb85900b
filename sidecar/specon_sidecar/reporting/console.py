"""What a stand-alone sidecar prints. Pure: returns lines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specon_sidecar.counts import format_count
from specon_sidecar.observing.observer import Observer

if TYPE_CHECKING:
    from specon_sidecar.classify import Category, Judgement


class Narrator:
    """Tells the news of an observation: how the log is read, each interval, each change of category."""

    def __init__(self) -> None:
        self._reading: tuple[str, str | None, str] | None = None
        self._category: Category | None = None
        self._overfitting = False

    def interval(self, observer: Observer) -> Iterator[str]:
        """Yield the lines to print after an interval."""
        yield from self.changes(observer)
        judgement = observer.judgement
        total = "" if observer.total_steps is None else f"/{observer.total_steps}"
        step = "-" if observer.step is None else f"{observer.step}{total}"
        yield (
            f"step {step:>12}  value {_number(judgement.value):>10}  gain {_number(judgement.gain):>9}"
            f"{_outlook(judgement)}  {judgement.category.value}"
        )

    def changes(self, observer: Observer) -> Iterator[str]:
        """Yield the lines to print when only changes are wanted."""
        if observer.format is not None:
            reading = (observer.format, observer.metric, observer.goal)
            if reading != self._reading:
                self._reading = reading
                yield from _reading(observer)
        judgement = observer.judgement
        if judgement.category is not self._category:
            before, self._category = self._category, judgement.category
            arrow = "" if before is None else f"{before.value} -> "
            at = "" if observer.step is None else f" at step {observer.step}"
            yield f"category {arrow}{judgement.category.value}{at}: {judgement.reason}"
        if observer.overfitting is not self._overfitting:
            self._overfitting = observer.overfitting
            name = observer.validation.name
            yield (
                f"overfitting: {name!r} is worse than its best"
                if self._overfitting
                else "overfitting no more"
            )


def summary(observer: Observer) -> Iterator[str]:
    """Yield the last lines: the verdict and what it rests on."""
    judgement = observer.judgement
    counted = (
        f"classifier {observer.classifier}, {format_count(observer.lines, 'line')},"
        f" {format_count(observer.samples, 'sample')},"
        f" format {observer.format or 'unknown'}"
    )
    yield f"verdict {judgement.category.value}: {judgement.reason} ({counted})"
    if observer.samples == 0 and observer.unclassifiable is None:
        yield from (f"  not understood: {example}" for example in observer.examples)


def _reading(observer: Observer) -> Iterator[str]:
    """Yield the choice, and what it rests on."""
    metric, found = observer.metric, observer.evidence
    yield f"format {observer.format}{'' if metric is None else f', metric {metric!r}'}"
    if metric is not None:
        yield f"  {'more' if observer.goal == 'max' else 'less'} is better ({observer.goal_from})"
    if found is not None:
        yield (
            f"  its first {format_count(found.samples, 'sample')} are at"
            f" {format_count(found.steps, 'step or epoch', 'steps or epochs')},"
            f" {found.share_of_lines:.0%} of the lines"
        )


def _outlook(judgement: "Judgement") -> str:
    """Return what `horizon` expects; nothing of the other classifier."""
    if judgement.confidence is None:
        return ""
    share = "-" if judgement.share is None else f"{judgement.share:.2%}"
    return f"  to come {share:>7}  confidence {judgement.confidence:.2f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"
