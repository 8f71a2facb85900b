"""Possible worlds: the same state, with remaining times and newcomers drawn from present knowledge. Pure."""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Final

import msgspec

from specon_lab.forecasts.arrivals import draw_arrivals, latest_arrivals, newcomer
from specon_lab.forecasts.chance import Chance
from specon_lab.forecasts.convergence import Convergence
from specon_lab.forecasts.forecast import Forecast, forecast, simulate_spec
from specon_lab.forecasts.knowledge import Knowledge
from specon_lab.workloads.workload import Submission, Training
from specon_manager.core.state import State
from specon_manager.model.cluster import Job
from specon_manager.model.settings import Settings
from specon_manager.policies.progress import ProgressSettings
from specon_manager.policies.shared_nodes import reserves
from specon_manager.policies.table import policy_named

_MOST_NEWCOMERS: Final = 256
_LONGEST_TICK: Final = 300.0
_PREEMPTING_TICK: Final = 60.0
"""Where who runs makes way for others: it may do so at a Tick at which nothing else happens."""
_TICKS: Final = 50
"""Regular Ticks in the mean time that jobs have left: a policy is asked at every change beside these."""


class Worlds:
    """Draws worlds of one state; the same seed and number give the same world."""

    def __init__(self, state: State, now: float, *, seed: int, asked: Collection[str] | None = None) -> None:
        """Take a state, and the jobs that are `asked` for: what cannot matter to them is left out.

        None: all that wait. Raises ValueError where nothing is there to play.
        """
        self.expected = forecast(state, now, prior_seconds=ProgressSettings().prior_seconds)
        self.in_order = _starts_in_order(state.settings, state)
        """Whether nobody who waits can be delayed by who comes later."""
        if self.in_order and asked is not None:
            self.expected = _without_later(self.expected, asked)
        self._state, self._now, self._seed = state, now, seed
        self._knowledge = Knowledge(state, now, self.expected.remaining)
        self._convergence = None if self.in_order else Convergence(state, now)
        guessed = [each.job for each in self.expected.remaining if each.basis in {"learnt", "assumed"}]
        self.unknown = ""
        """Why some jobs are taken never to end, in words; empty where something is known of all."""
        if guessed and not self._knowledge.enough:
            self.unknown = (
                f"nothing is known of how long {guessed[0]} trains: its log names no last step, its owner "
                "declares no duration, and too few jobs are complete"
            )
        counts = self._knowledge.enough and not self.in_order
        self._latest = latest_arrivals(state, now) if counts else ()

    @property
    def waiting(self) -> frozenset[str]:
        """The jobs that occupy nothing."""
        return frozenset(each.job for each in self.expected.remaining if each.waits)

    @property
    def arrivals(self) -> str:
        """Who is taken to come, in words."""
        if self.in_order:
            return "jobs start in the order of their submission, so that those to come do not matter"
        span = sum(each.after for each in self._latest)
        if span <= 0:
            return "nothing else arrives: too few came to say who will"
        hourly = 3600 * len(self._latest) / span
        return f"jobs arrive as the latest {len(self._latest)} did, {hourly:.3g} in an hour"

    def draw(self, number: int, *, until: float) -> Forecast:
        """Return world `number`, with those who come within `until` seconds, a few hundred at most."""
        chance = Chance(self._seed, number)
        known, converge, expected = self._knowledge, self._convergence, self.expected
        # What took longer than a start may is over within the deadline: the rest of it was something else.
        longest = 0.9 * expected.settings.deadlines.start
        jobs, done, left = list[Submission](), dict[str, float](), dict[str, float]()
        for submission in expected.workload.jobs:
            job = self._state.jobs[submission.spec.name]
            told = known.left[job.name]
            left[job.name] = known.draw(job, chance)
            done[job.name] = expected.beginning.jobs[job.name].done_seconds
            if told.basis == "measured":
                # Its steps are what they are: who is slower was slower before.
                done[job.name] *= left[job.name] / told.seconds
            part = done[job.name] / (done[job.name] + left[job.name])
            # Who runs needs it once it is preempted.
            starts = known.start_seconds(chance if told.waits else chance.apart(job.name), longest)
            training = msgspec.structs.replace(
                submission.training,
                seconds=left[job.name] + done[job.name],
                prints_total=told.basis == "measured" or self._will_print(job),
                start_seconds=starts,
                # From a checkpoint nothing starts sooner than a moved replica.
                restore_seconds=max(0.0, submission.training.restore_seconds - starts),
                converges=None if converge is None else converge.draw(job, chance, part),
            )
            jobs.append(msgspec.structs.replace(submission, training=training))
        arrivals = draw_arrivals(self._latest, chance.rng, until=until, most=_MOST_NEWCOMERS)
        for index, (at, pattern) in enumerate(arrivals):
            spec = simulate_spec(newcomer(pattern.spec, index))
            training = Training(
                seconds=known.whole(pattern.kind, chance),
                demand=0.0 if reserves(spec) else self._cores,
                prints_total=self._prints(pattern),
                start_seconds=known.start_seconds(chance, longest),
                stop_seconds=0.0,
                converges=None if converge is None else converge.draw_kind(pattern.kind, chance),
            )
            jobs.append(Submission(at=at, spec=spec, training=training))
        settings = self._settings(left.values())
        report = expected.workload.report_seconds
        workload = msgspec.structs.replace(
            expected.workload,
            jobs=tuple(jobs),
            report_seconds=max(report, settings.tick) if self.in_order else report,
            seed=chance.rng.randrange(2**31),
        )
        beginning = expected.beginning
        underway = {
            name: msgspec.structs.replace(each, done_seconds=done[name])
            for name, each in beginning.jobs.items()
        }
        return msgspec.structs.replace(
            expected,
            workload=workload,
            beginning=msgspec.structs.replace(beginning, jobs=underway, looks_again=not self.in_order),
            settings=settings,
        )

    def _settings(self, left: Collection[float]) -> Settings:
        """Return the settings with rarer regular Ticks where jobs take long."""
        longest = _LONGEST_TICK if self.in_order else _PREEMPTING_TICK
        tick = max(self.expected.settings.tick, min(longest, sum(left) / len(left) / _TICKS))
        return msgspec.structs.replace(self.expected.settings, tick=tick)

    @cached_property
    def _cores(self) -> float:
        return max(node.capacity.cpu for node in self.expected.workload.nodes)

    @cached_property
    def _prints_total(self) -> Mapping[str, bool]:
        """By kind, with "" for all: whether most jobs with a report named their last step."""
        told: dict[str, list[bool]] = {}
        for job in self._state.jobs.values():
            heard = [self._state.replicas[name].progress for name in job.spec.replicas]
            if any(each.step is not None for each in heard):
                measured = any(each.total_steps is not None for each in heard)
                told.setdefault(job.kind, []).append(measured)
                told.setdefault("", []).append(measured)
        return {kind: 2 * sum(each) > len(each) for kind, each in told.items()}

    def _will_print(self, job: Job) -> bool:
        """Whether a job that is not measured yet will be: its log names its last step, or was not read."""
        heard = [self._state.replicas[name].progress for name in job.spec.replicas]
        if any(each.total_steps is not None for each in heard):
            return True
        return all(each.step is None for each in heard) and self._prints(job)

    def _prints(self, job: Job) -> bool:
        return self._prints_total.get(job.kind, self._prints_total.get("", False))


def _starts_in_order(settings: Settings, state: State) -> bool:
    """Whether no job waits for one that came later: quotas and moves that make room may turn the order."""
    return policy_named(settings.policy).in_order and not state.queues and settings.defragment == "off"


def _without_later(expected: Forecast, asked: Collection[str]) -> Forecast:
    """Return the same without the jobs that wait behind the last requested one."""
    places = [n for n, each in enumerate(expected.remaining) if each.job in asked]
    if not places:
        return expected
    kept = [n for n, each in enumerate(expected.remaining) if n <= places[-1] or not each.waits]
    names = {expected.remaining[n].job for n in kept}
    beginning = expected.beginning
    return msgspec.structs.replace(
        expected,
        workload=msgspec.structs.replace(
            expected.workload, jobs=tuple(expected.workload.jobs[n] for n in kept)
        ),
        beginning=msgspec.structs.replace(
            beginning, jobs={name: each for name, each in beginning.jobs.items() if name in names}
        ),
        remaining=tuple(expected.remaining[n] for n in kept),
    )
