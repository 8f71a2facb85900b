"""What a trainer says of itself -> samples, in place of a log that is read. Pure."""

from collections.abc import Iterable
from typing import Final

from specon_sidecar.formats.detect import Evidence
from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.metric_names import Goal, goal_of
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.position_keys import position_of
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.series import Series
from specon_sidecar.formats.surroundings import Total
from specon_sidecar.hook.messages import Progress

FORMAT: Final = "hook"


class ReportReader:
    """Reader (`formats.table.Reader`) that takes reports, and nothing of the lines of a log."""

    def __init__(self, options: FormatOptions) -> None:
        """Raise ValueError for an unusable metric."""
        self._options = options
        self._choice = MetricChoice(options.metric)
        self._records = RecordReader(self._choice)
        self._series = Series()
        self.chosen: Final = FORMAT

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return nothing: nothing had to be found out."""
        return ()

    @property
    def goal(self) -> Goal | None:
        """Whether less or more of the metric is better, or None where nothing says it."""
        options = self._options
        return (
            options.goal or self._choice.goal or (None if options.metric is None else goal_of(options.metric))
        )

    @property
    def unclassifiable(self) -> str | None:
        """Why the values cannot be judged, or None where they can."""
        return self._choice.verdict

    @property
    def restarts(self) -> int:
        """How often the step went back: resumes and new runs."""
        return self._series.restarts

    @property
    def total(self) -> Total | None:
        """How long the training is, where a value is not beside it: each report names its own."""
        return None

    def take(self, progress: Progress) -> Sample:
        """Return the sample of a report; without the followed metric one that has a place and no name."""
        values = {name: value for name, value in progress.values.items() if position_of(name) is None}
        place = {"step": progress.step, "epoch": progress.epoch, "max_steps": progress.total}
        # A value that was not finite travels without its number, and a run that diverges is news.
        numbers = {name: float("nan") if value is None else value for name, value in values.items()}
        sample = self._records.sample((numbers | place).items())
        if sample is not None and self._series.admit(sample):
            return sample
        return Sample("", float("nan"), progress.step, progress.epoch, progress.total)

    def read(self, lines: Iterable[bytes]) -> list[Sample]:  # noqa: ARG002 - as every reader
        """Return nothing: the trainer says by itself what its log would."""
        return []

    def finish(self) -> list[Sample]:
        """Return nothing, for nothing is held back."""
        self._series.forget_place()
        return []

    def validation(self) -> list[Sample]:
        """Return the values of the metric's counterpart of validation since the last call: a bounded few."""
        return self._choice.validation.drain()
