"""Samples as parsed -> samples of one series: repetitions and lines of another kind are left out."""

from typing import Final

from specon_sidecar.formats.sample import Sample

# So many samples without a step in a row: the log prints no steps any more.
_PATIENCE: Final = 100
# The same where only one sample had one: a line `Step 2` is that of a stage as often as that of a step.
_LITTLE_PATIENCE: Final = 8


class Series:
    """Keeps what belongs to one series, in the order of the log.

    - The place (epoch and step) of the sample before: printed twice, so left out. Where only the epoch is
      known, the whole line must be the same too.
    - A sample without a step, where others of the log have one: a summary of an epoch or of the run.
    - A step of fewer than those of its epoch (`88/88` behind `614/614`): an evaluation.
    - A step that goes back: a resume or a new run. It counts, and is counted in `restarts`.
    - With `rewritten`, a step that is not beyond the furthest one: the file was written anew.
    """

    def __init__(self, *, rewritten: bool = False) -> None:
        self._rewritten = rewritten
        self._furthest = -1
        self._last: Sample | None = None
        self._stepped = False
        self._steps = 0
        self._stepless = 0
        self._doubted: list[Sample] = []
        self.restarts = 0
        """How often the step went back."""

    def admit(self, sample: Sample, *, again: bool = False) -> bool:
        """Whether this sample belongs to the series; `again`: its line is the same as the one before."""
        step = sample.step
        last = self._last
        if step is None:
            if last is not None and last.name != sample.name:
                self._stepped, self._steps = False, 0  # a better name: what had steps was another series
            if self._stepped and self._is_summary():
                if self._steps == 1:
                    self._doubted.append(sample)
                return False
        else:
            self._stepped, self._stepless = True, 0
            self._steps += 1
            self._doubted.clear()
        if last is not None and last.name == sample.name:
            if _same_place(last, sample, again=again) or _is_aside(last, sample):
                return False
            if step is not None and last.step is not None and step < last.step:
                self._went_back(last, sample)
        if self._rewritten and step is not None:
            if step <= self._furthest:
                return False
            self._furthest = step
        self._last = sample
        return True

    def forget_place(self) -> None:
        """Let the next sample count wherever it stands: what follows is another incarnation's."""
        self._last = None

    def take_doubted(self) -> list[Sample]:
        """Return what was left out beside the only step, once it was that of a stage."""
        if self._stepped or not self._doubted:
            return []
        doubted, self._doubted = self._doubted, []
        return doubted

    def _is_summary(self) -> bool:
        self._stepless += 1
        if self._stepless <= (_PATIENCE if self._steps > 1 else _LITTLE_PATIENCE):
            return True
        self._stepped = False
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
