"""A simulated sidecar: the reports that the real one would send of a training in virtual time. Pure.

A job with a curve has its samples judged by the sidecar's own code (`observer`). Of a job without one a sidecar
knows the step and, where the log prints the total, the remaining time. A steady simulated training would tell that
exactly, so the estimates get the errors that were measured on recorded runs (docs/results/convergence.md).
"""

import math
import random
from typing import Final

import msgspec

from specon_manager.sim.observer import CurveObserver, Seen, step_at
from specon_manager.sim.workload import Submission
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.curve import Estimate
from specon_sidecar.wire import Observation, Report

# Error of the remaining time by the part of the run that is done: two thirds of those at 200 intervals of
# `python benchmarks/convergence` were below 6 % around 0.025, 3 % around 0.075, 2 % around 0.15 and 1.7 % later.
_ERROR: Final = 0.017
_EARLY_ERROR: Final = 0.0015
_EARLIEST: Final = 0.005
_LEAST_SPREAD: Final = 0.04  # as `specon_sidecar.remaining` says it, and
_DEVIATIONS: Final = 2.0  # as often right as its intervals were
_RAREST: Final = 64  # intervals; no later is a job without a curve heard again
_OTHER_RATE: Final = 0.05  # a change of speed by more than this part is news


class Sidecar:
    """Reports on one job, over all its incarnations; the times are those of the simulation, seconds."""

    __slots__ = (
        "_began",
        "_classifier",
        "_deviate",
        "_first",
        "_heard_at",
        "_heard_rate",
        "_interval",
        "_job",
        "_observer",
        "_oracle",
        "_replica",
        "_resumed_step",
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

        `interval` is that of categorisation, whatever `classifier` says. With `oracle` the remaining time is exact.
        What is random depends on `seed` and the job's name only, not on when reports are asked for. Raises
        ValueError naming the argument that is out of bounds.
        """
        if not 0 < interval < math.inf:
            raise ValueError(f"interval {interval} is not a finite number above 0")
        self._job, self._training = submission.spec.name, submission.training
        self._replica = submission.spec.worker_names[0]
        self._seed = f"{seed}/{self._job}"
        self._oracle = oracle
        self._interval = interval
        self._classifier = classifier
        self._observer: CurveObserver | None = None
        self._began: float | None = None
        self._first: tuple[int, float] | None = None
        self._resumed_step: int | None = None
        self._heard_at = -math.inf
        self._heard_rate = 0.0
        self._sequence = 0
        self._deviate: float | None = None

    def report(
        self, now: float, done: float, rate: float, incarnation: str, first: bool, *, replica: str | None = None
    ) -> Report:
        """Return what is known at `now` of the incarnation.

        `done` is the part of the training that is done, 0 to 1, and `rate` the part that is done per second now,
        0 while it pauses. Between two calls the progress is taken to be steady: call it when the rate changes much,
        at the time of `next_due`, or more often; verdicts fall at the ends of the intervals all the same. `first`
        says that the incarnation is new: its sidecar has seen one line, so that a resume is proven as soon as this
        is called at `next_step` or later. `replica` is the one that the report is of; None: the first worker.

        Raises ValueError naming the argument that is out of bounds, and when `now` goes back.
        """
        done = self._check(now, done, rate)
        if first or self._began is None:
            self._begin(now, done, rate)
        assert self._began is not None
        self._sequence += 1
        self._heard_at, self._heard_rate = now, rate
        training = self._training
        report = Report(
            schema=1,
            replica=replica or self._replica,
            incarnation=incarnation,
            session="simulated",
            sequence=self._sequence,
            category=Category.UNKNOWN,
            category_age=now - self._began,
            total_steps=training.steps if training.prints_total else None,
        )
        return self._of_steps(report, now, done, rate) if training.curve is None else self._of_curve(report, now, done, rate)
