"""What a sidecar sees of a simulated training: printed samples, and the real judgement of them.

The simulated counterpart of `specon_sidecar.observing.observer`: the samples are made, while the curve, the
pace and the classifiers that get them are the sidecar's own. Pure; the caller tells the time.
"""

import math
from typing import Final, NamedTuple

import msgspec

from specon_lab.engine.loss import Losses
from specon_lab.workloads.workload import LossCurve, Training
from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.classify.curve import Curve
from specon_sidecar.classify.horizon import judge_by_horizon
from specon_sidecar.classify.judgement import begin
from specon_sidecar.classify.specon import judge
from specon_sidecar.formats.sample import Sample

_SAMPLES: Final = 20  # about so many are printed in an interval at full speed, and no more are taken in one
_ROUNDING: Final = 1e-6  # of a step: sums of progress are not exact
_INTERVALS: Final = 100  # no more are closed at once: who was not asked for longer judges the rest as one


class Seen(NamedTuple):
    """A sample and when it was printed."""

    sample: Sample
    at: float


class CurveObserver:
    """Observes one job that prints a curve, over all its incarnations."""

    def __init__(
        self, training: Training, curve: LossCurve, settings: ClassifierSettings, *, seed: str, now: float
    ) -> None:
        """Begin at `now` with nothing printed; `settings.interval` is the interval of categorisation.

        Raises ValueError naming the field of the curve that is wrong.
        """
        rises = curve.floor > curve.first
        self._metric = "accuracy" if rises else "loss"
        # Without a goal that was set the real one goes by the metric's name, too.
        goal = settings.goal or ("max" if rises else "min")
        self._settings = msgspec.structs.replace(settings, goal=goal)
        self._by_horizon = settings.classifier == "horizon" and not settings.literal
        self._losses = Losses(curve, training.steps, seed)
        self._steps = training.steps
        self._total = training.steps if training.prints_total else None
        self.stride = max(1, math.ceil(training.steps * settings.interval / training.seconds / _SAMPLES))
        self._at, self._done, self._printed = now, 0.0, 0
        self._closes = now + settings.interval
        self.curve = Curve(last_value=settings.literal)
        self.judgement = begin(now, settings)
        self.samples = 0
        self.first: Seen | None = None
        """The first sample of this incarnation."""
        self.last: Seen | None = None
        """The last sample of this incarnation."""

    @property
    def closes(self) -> float:
        """When the present interval ends."""
        return self._closes

    def restart(self, now: float, done: float) -> None:
        """Go on with a new incarnation, which trains at `now` from somewhere just before `done` on.

        As with a state file: curve and verdict are taken up, the pace is measured again.
        """
        if done > self._done:
            self._emit(now, done)  # what the former incarnation printed last
        away = now - self._at
        self.judgement = msgspec.structs.replace(self.judgement, since=self.judgement.since + away)
        self.curve = Curve(self.curve.state, last_value=self._settings.literal)
        self.samples = 0
        self.first = self.last = None
        # One line is new: a sidecar that saw none could not report that its trainer resumed.
        self._printed = max(0, self.printed_step(done) - 1)
        self._at, self._done = now, done
        self._closes = now + self._settings.interval

    def see(self, now: float, done: float) -> None:
        """Take the values printed until `now`, at a steady pace since the last call; judge due intervals."""
        interval = self._settings.interval
        surplus = math.floor((now - self._closes) / interval) - _INTERVALS
        if surplus > 0:
            self._closes += surplus * interval
        begun, behind = self._at, self._done
        while self._closes <= now + 1e-9 * max(1.0, now):
            part = min(1.0, (self._closes - begun) / (now - begun)) if now > begun else 1.0
            self._emit(self._closes, behind + part * (done - behind))
            self._judge(self._closes)
            self._closes += interval
        self._emit(now, done)

    def printed_step(self, done: float) -> int:
        """Return the last step that was printed when so much of the training is done; 0 before the first."""
        step = step_at(done, self._steps)
        return step if step >= self._steps else step - step % self.stride

    def _emit(self, now: float, done: float) -> None:
        """Feed the samples between the last call and `done`, each at the time at which it was printed."""
        last = self.printed_step(done)
        begun, behind, before = self._at, self._done, self._printed
        self._at, self._done = max(begun, now), done
        if last <= before:
            return
        stride = self.stride * math.ceil((last - before) / self.stride / _SAMPLES)
        for step in [*range(before - before % self.stride + stride, last, stride), last]:
            part = (step / self._steps - behind) / (done - behind) if done > behind else 1.0
            at = begun + min(1.0, max(0.0, part)) * (self._at - begun)
            self._take(Sample(self._metric, self._losses.at(step), step=step, total_steps=self._total), at)
        self._printed = last

    def _take(self, sample: Sample, at: float) -> None:
        self.curve.add(sample, at)
        self.samples += 1
        self.last = Seen(sample, at)
        self.first = self.first or self.last

    def _judge(self, now: float) -> None:
        interval = self.curve.close_interval(now)
        if self._by_horizon:
            self.judgement = judge_by_horizon(
                self.judgement, interval, self.curve.values, self.curve.done, now=now, settings=self._settings
            )
        else:
            self.judgement = judge(self.judgement, interval, now, self._settings)


def step_at(done: float, steps: int) -> int:
    """Return the last whole step when so much of the training is done."""
    return min(steps, int(done * steps + _ROUNDING))
