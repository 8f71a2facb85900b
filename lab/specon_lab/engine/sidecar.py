"""A simulated sidecar: the reports that the real one would send of a training in virtual time. Pure.

A job with a curve has its samples judged by the sidecar's own code (`observer`). Of a job without one a
sidecar knows the step and, where the log prints the total, the remaining time, about as well as the real one
does (`remaining`).
"""

import math
import random
from typing import Final

import msgspec

from specon_lab.engine.observer import CurveObserver, Seen, step_at
from specon_lab.engine.remaining import err_by, exact_estimate
from specon_lab.workloads.workload import Submission
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import Observation, Report

_SESSION: Final = "simulated"
_FIRST_PACE: Final = 2  # intervals that a sidecar needs for a pace
_RAREST: Final = 64  # intervals; no later is a job without a curve heard again
_OTHER_RATE: Final = 0.05  # a change of speed by more than this part is news
_SOONER: Final = 1e-9  # rounding of times, relative


class Sidecar:
    """Reports on one job, over all its incarnations; times are those of the simulation, seconds."""

    __slots__ = (
        "_began",
        "_classifier",
        "_deviate",
        "_first",
        "_interval",
        "_now",
        "_observer",
        "_oracle",
        "_rate",
        "_replica",
        "_resumed",
        "_seed",
        "_sequence",
        "_training",
    )

    def __init__(
        self,
        submission: Submission,
        *,
        seed: int,
        oracle: bool,
        interval: float = 30.0,
        classifier: ClassifierSettings | None = None,
    ) -> None:
        """Begin with a job that has not trained yet.

        `interval` is that of categorisation, whatever `classifier` says. With `oracle` the remaining time is
        exact. Random numbers depend on `seed` and the job's name, never on when reports are asked for.
        Raises ValueError naming the argument that is out of bounds.
        """
        if not 0 < interval < math.inf:
            raise ValueError(f"interval {interval} is not a finite number above 0")
        spec = submission.spec
        self._training = submission.training
        if oracle:  # who knows how long it takes knows how many steps that are
            self._training = msgspec.structs.replace(submission.training, prints_total=True)
        self._replica = (spec.worker_names or spec.replicas)[0]
        self._seed = f"{seed}/{spec.name}"
        self._oracle = oracle
        self._interval = interval
        self._classifier = classifier or ClassifierSettings()
        self._observer: CurveObserver | None = None
        self._deviate: float | None = None
        self._sequence = 0
        self._began = self._now = -math.inf
        self._rate = 0.0
        """The last speed that was not 0."""
        self._first: tuple[int, float] | None = None
        """Of a job without a curve: the first step of this incarnation, and when it was seen."""
        self._resumed: int | None = None
        """The step at which this incarnation was first heard, until a later one proves that it trains."""

    def report(
        self,
        now: float,
        done: float,
        rate: float,
        incarnation: str,
        first: bool,  # noqa: FBT001  (the last fact about the moment; the engine gives it so)
        *,
        replica: str | None = None,
    ) -> Report:
        """Return the report on the incarnation at `now`.

        `done` is the part of the training that is done, 0 to 1, and `rate` the part done per second now, 0
        while it pauses. From call to call the progress is taken to be steady: ask at `next_due` and where the
        rate changes much. More often does no harm: verdicts fall at the ends of intervals. `first` says that
        the incarnation is new and trains; its sidecar has seen one line, so that a call at `next_step` or
        later proves a resume. `replica` is the one that the report is of; None: the first worker.

        Raises ValueError naming the argument that is out of bounds, and where `now` goes back.
        """
        done = self._check(now, done, rate)
        if first or not self._sequence:
            self._begin(now, done, rate)
        self._sequence += 1
        self._now = now
        if rate:
            self._rate = rate
        of = self._of_steps if self._observer is None else self._of_curve
        return of(now, done, rate, replica or self._replica, incarnation)

    def next_due(self, now: float, done: float, rate: float) -> float:
        """Return when it makes sense to report again after the last report; infinite where that is never.

        With a curve that is the end of the interval. Without one it is rare: once there is a pace, then at
        twice the time in training (at most 64 intervals later). Whatever trains again after a pause is due at
        its next step, and an oracle at once where the rate changed: ask again whenever it does.
        """
        if done >= 1:
            return math.inf
        if self._oracle and rate > 0 and not math.isclose(rate, self._rate):
            return now
        due = self.next_step(now, done, rate) if self._resumed is not None else math.inf
        if self._observer is not None:
            return min(due, max(now, self._observer.closes))
        converges = self._training.converges
        if converges is not None and rate > 0 and done < converges < 1:
            due = min(due, now + (converges - done) / rate * (1 + _SOONER))
        if self._oracle or not self._training.prints_total or rate <= 0:
            return due
        if abs(rate - self._rate) > _OTHER_RATE * self._rate:
            due = min(due, now + self._interval)
        trained = self._now - self._began
        left = _FIRST_PACE * self._interval - trained
        if self._sequence == 1 and left > 0:  # of one that trained before it is heard the first time
            return min(due, max(now, self._now + left))
        wait = min(max(trained, left), _RAREST * self._interval)
        return min(due, max(now, self._now + wait))

    def next_step(self, now: float, done: float, rate: float) -> float:
        """Return when the log prints its next step, at this rate; infinite where it does not."""
        steps = self._training.steps
        if rate <= 0 or done >= 1:
            return math.inf
        if self._observer is not None:
            printed, stride = self._observer.printed_step(done), self._observer.stride
        else:
            printed, stride = step_at(done, steps), 1
        ahead = min(steps, printed + stride) / steps - done
        return now + max(0.0, ahead) / rate

    def _check(self, now: float, done: float, rate: float) -> float:
        if not (math.isfinite(now) and now >= self._now):
            raise ValueError(f"now {now} is before the last report, at {self._now}")
        if not -_SOONER <= done <= 1 + _SOONER:
            raise ValueError(f"done {done} is not from 0 to 1")
        if not 0 <= rate < math.inf:
            raise ValueError(f"rate {rate} is not a finite number of at least 0")
        return min(1.0, max(0.0, done))

    def _begin(self, now: float, done: float, rate: float) -> None:
        """Take up a new incarnation."""
        anew = not self._sequence
        # Steps done before the very first report took their time, too.
        self._began = now - (done / rate if anew and rate else 0.0)
        self._resumed = None if anew else step_at(done, self._training.steps)
        self._first = None
        if self._observer is not None:
            self._observer.restart(now, done)
        elif self._training.curve is not None:
            settings = msgspec.structs.replace(self._classifier, interval=self._interval)
            self._observer = CurveObserver(
                self._training, self._training.curve, settings, seed=self._seed, now=self._began
            )

    def _of_steps(self, now: float, done: float, rate: float, replica: str, incarnation: str) -> Report:
        """Report on a log with steps, and no value that could be judged."""
        training = self._training
        step = step_at(done, training.steps)
        age = max(0.0, (done - step / training.steps) / rate) if rate else 0.0
        if self._first is None:
            self._first = step, now - age
        if self._resumed is not None and step > self._resumed:
            self._resumed = None
        first, since = self._first
        category, until = self._verdict(now, done)
        return Report(
            schema=1,
            replica=replica,
            incarnation=incarnation,
            session=_SESSION,
            sequence=self._sequence,
            category=category,
            category_age=0.0 if category is Category.CONVERGED else now - self._began,
            reason="its log has steps and no value" if category is Category.UNKNOWN else "it is taken to be",
            first=Observation(name="step", value=None, age=now - since, step=first),
            last=Observation(name="step", value=None, age=age, step=step),
            total_steps=training.steps if training.prints_total else None,
            remaining_seconds=self._remaining(now, done, rate),
            until_converged=until,
        )

    def _verdict(self, now: float, done: float) -> tuple[Category, float | None]:
        """Return the category of a job without a curve, and which part of the rest it takes to converge."""
        converges = self._training.converges
        if converges is None or not self._is_paced(now):
            return Category.UNKNOWN, None
        if done >= converges:
            return Category.CONVERGED, None
        return Category.PROGRESSING, (converges - done) / (1 - done)

    def _is_paced(self, now: float) -> bool:
        return now - self._began >= _FIRST_PACE * self._interval * (1 - _SOONER)

    def _remaining(self, now: float, done: float, rate: float) -> Estimate | None:
        """Return the remaining time of a job without a curve, as far as its sidecar can know it."""
        speed = rate or self._rate
        if not speed:
            return None
        if self._oracle:
            return exact_estimate(1 - done, speed)
        if not (self._training.prints_total and self._is_paced(now)):
            return None
        return err_by(exact_estimate(1 - done, speed), done, self._mistake())

    def _of_curve(self, now: float, done: float, rate: float, replica: str, incarnation: str) -> Report:
        """Report on a log whose values the real classifier judges."""
        observer = self._observer
        assert observer is not None
        observer.see(now, done)
        seen, judgement = observer.last, observer.judgement
        if self._resumed is not None and seen is not None and (seen.sample.step or 0) > self._resumed:
            self._resumed = None
        real = observer.curve.remaining_seconds()
        speed = rate or self._rate
        if self._oracle and speed:
            remaining: Estimate | None = exact_estimate(1 - done, speed)
        else:
            remaining = None if real is None else err_by(real, done, self._mistake())
        # A job that is taken to run so many times as long has so many times as many intervals left.
        longer = (
            remaining.value / real.value if remaining and real and remaining.value and real.value else 1.0
        )
        share = None
        if judgement.share is not None and judgement.share_error is not None:
            share = Estimate(value=judgement.share, uncertainty=judgement.share_error)
        return Report(
            schema=1,
            replica=replica,
            incarnation=incarnation,
            session=_SESSION,
            sequence=self._sequence,
            category=judgement.category,
            category_age=max(0.0, now - judgement.since),
            reason=judgement.reason,
            first=_observation(observer.first, now),
            last=_observation(seen, now),
            gain=judgement.gain,
            total_steps=observer.curve.total_steps,
            expected_gain=observer.curve.expected_gain(judgement.gain, self._interval / longer),
            remaining_seconds=remaining,
            confidence=judgement.confidence,
            remaining_gain=share,
            until_converged=judgement.until_converged,
            lines=observer.samples,
            samples=observer.samples,
        )

    def _mistake(self) -> float:
        if self._deviate is None:
            source = random.Random(f"{self._seed}/remaining")  # noqa: S311  (a reproducible simulation)
            self._deviate = source.gauss(0.0, 1.0)
        return self._deviate


def _observation(seen: Seen | None, now: float) -> Observation | None:
    if seen is None:
        return None
    sample = seen.sample
    return Observation(name=sample.name, value=sample.value, age=max(0.0, now - seen.at), step=sample.step)
