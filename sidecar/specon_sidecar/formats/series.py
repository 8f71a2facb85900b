"""Samples as parsed -> samples of one series: repetitions and lines of another kind are left out."""

from typing import Final

from specon_sidecar.formats.sample import Sample

# So many samples with less of a place in a row: the log prints it no more.
_PATIENCE: Final = 100
# The same where only one sample had it: a line `Step 2` is that of a stage as often as that of a step.
_LITTLE_PATIENCE: Final = 8
# So many epochs in which the step was the same: it counts within the epoch, and one is printed of each.
_STILL: Final = 3
_EPOCH, _STEP = 1, 2


class Series:
    """Keeps what belongs to one series, in the order of the log.

    - The place (epoch and step) of the sample before: printed twice, so left out. Where only the epoch is
      known, the whole line must be the same too.
    - A sample without a step, where others of the log have one, and one without a step and an epoch where
      others have an epoch: a summary of an epoch or of the run. But a step that is the same in each epoch
      places nothing, and the summaries are the series.
    - A step of fewer than those of its epoch (`88/88` behind `614/614`): an evaluation.
    - A step that goes back: a resume or a new run. It counts, and is counted in `restarts`.
    - A sample whose name stands in for another at the same epoch, once there were several: a test afterwards.
    - With `rewritten`, a step that is not beyond the furthest one: the file was rewritten.
    """

    def __init__(self, *, rewritten: bool = False) -> None:
        self._rewritten = rewritten
        self._furthest = -1
        self._last: Sample | None = None
        self._began: float | None = None
        self._placed = 0
        self._count = 0
        self._missed = 0
        self._gave_up = False
        self._doubted: list[Sample] = []
        self._steps: set[int] = set()
        self._epoch = -1.0
        self._still = 0
        self.restarts = 0
        """How often the step went back."""

    def admit(self, sample: Sample, *, again: bool = False, stands_in: bool = False) -> bool:
        """Whether this sample belongs to the series.

        `again`: its line is the same as the one before. `stands_in`: its name is followed because the one
        before is printed no more.
        """
        step, last = sample.step, self._last
        if stands_in and last is not None and last.name != sample.name and self._is_after(last, sample):
            return False
        if not self._has_enough_place(sample, last):
            return False
        if last is not None and last.name == sample.name:
            if _same_place(last, sample, again=again) or _is_aside(last, sample):
                return False
            if step is not None and last.step is not None and step < last.step:
                self._went_back(last, sample)
        if self._rewritten and step is not None:
            if step <= self._furthest:
                return False
            self._furthest = step
        if last is None:
            self._began = sample.epoch
        self._last = sample
        return True

    def is_at(self, sample: Sample) -> bool:
        """Whether a sample without a step is of the epoch of the one before, and of its name."""
        last = self._last
        return (
            last is not None
            and sample.step is None
            and sample.epoch is not None
            and (last.name, last.epoch) == (sample.name, sample.epoch)
        )

    def forget_place(self) -> None:
        """Let the next sample count wherever it stands: what follows is another incarnation's."""
        self._last = None

    @property
    def stands_still(self) -> bool:
        """Whether the step is the same in each epoch, so that only the epochs place anything."""
        return self._still >= _STILL

    def take_doubted(self) -> list[Sample]:
        """Return the samples left out beside the only place, once it was that of a stage."""
        if not self._gave_up or not self._doubted:
            return []
        doubted, self._doubted = self._doubted, []
        return doubted

    def _is_after(self, last: Sample, sample: Sample) -> bool:
        """Whether a sample of another name is of what follows the training: the last epoch stays."""
        return sample.step is None and sample.epoch is not None and sample.epoch == last.epoch != self._began

    def _has_enough_place(self, sample: Sample, last: Sample | None) -> bool:
        """Whether a sample says where it stands as well as others of its log do."""
        step = sample.step
        if step is not None and self.stands_still:
            if step in self._steps:
                return False
            self._still = 0
        known = _STEP if step is not None else _EPOCH if sample.epoch is not None else 0
        if known >= self._placed:
            if known:
                self._take_place(known, step)
            return True
        if last is not None and last.name != sample.name:
            self._placed, self._count = known, 0  # a better name: what had a place was another series
            return True
        if not self._is_summary(sample, known):
            return True
        if self._count == 1:
            self._doubted.append(sample)
        return False

    def _take_place(self, known: int, step: int | None) -> None:
        if known > self._placed:
            self._placed, self._count = known, 0
        self._count += 1
        self._missed, self._gave_up = 0, False
        self._doubted.clear()
        if step is not None and len(self._steps) <= 1:  # two are enough to differ
            self._steps.add(step)

    def _is_summary(self, sample: Sample, known: int) -> bool:
        if known == _EPOCH and sample.epoch is not None and sample.epoch > self._epoch:
            self._epoch = sample.epoch
            self._still = self._still + 1 if len(self._steps) == 1 else 0
        self._missed += 1
        patience = _PATIENCE if self._count > 1 else _LITTLE_PATIENCE
        if self._missed <= patience and not (known == _EPOCH and self.stands_still):
            return True
        self._placed, self._count = known, 0
        self._gave_up = not self.stands_still
        return False

    def _went_back(self, last: Sample, sample: Sample) -> None:
        # Steps within an epoch go back at each of its ends.
        if last.epoch is None or sample.epoch is None or sample.epoch <= last.epoch:
            self.restarts += 1


def _same_place(last: Sample, sample: Sample, *, again: bool) -> bool:
    if last.epoch != sample.epoch or last.step != sample.step:
        return False
    return sample.step is not None or (again and sample.epoch is not None)


def _is_aside(last: Sample, sample: Sample) -> bool:
    if sample.step is None or last.step is None or sample.epoch is None or sample.epoch != last.epoch:
        return False
    fewer = (sample.total_steps or 0) < (last.total_steps or 0)
    return fewer and sample.total_steps is not None and sample.step < last.step
