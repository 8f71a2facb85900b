"""Metrics of single replicas, with their names as labels: bounded in number, and gone when they end."""

from collections.abc import Collection, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.transactions import Kind
from specon_sidecar.classify import Category
from specon_sidecar.wire import Report

MOST: Final = 1000
"""How many replicas have series of their own, unless told otherwise."""
LABELS: Final = ("job_namespace", "job_name", "replica")
"""Not `namespace` and `job`, which Prometheus gives to every series itself: those of the manager."""
CATEGORY_NUMBERS: Final = {category: number for number, category in enumerate(Category)}
_WORDS: Final = ", ".join(f"{number} {category.value}" for category, number in CATEGORY_NUMBERS.items())
_HELP: Final = {
    "category": f"Category of a replica: {_WORDS}.",
    "loss": "Last value of the metric that a replica is judged by: its loss, or what its log has instead.",
    "gain_ratio": "Gain of the last interval of a replica, relative to its scale.",
    "confidence": "Probability that a replica has converged, of the classifier horizon.",
    "remaining_gain_ratio": "Gain that is still expected of a replica, relative to its gain so far.",
    "step": "Last step of a replica.",
    "converged_timestamp_seconds": "Since when a replica has converged, Unix seconds; only while it has.",
    "moves": "Moves of a replica that succeeded.",
    "report_age_seconds": "Time since the last report of a replica.",
    "checkpoint_age_seconds": "Time since the newest checkpoint of a replica was first reported to this "
    "manager; where there is none, since this manager first heard of the replica. "
    "Not of jobs that save at their end only, or never.",
}


class JobMetrics(Collector):
    """Tells of the running replicas when it is scraped.

    The first `most` that run keep their series until they end: a series that comes and goes with each report
    would cost more than it tells. How many have none is told as well.
    """

    def __init__(self, registry: CollectorRegistry, most: int = MOST) -> None:
        self._most = most
        self._state = State()
        self._now = 0.0
        self._shown: dict[str, None] = {}
        self._saved: dict[str, tuple[int | None, float]] = {}
        """By replica: the step of its newest checkpoint, and when that was first heard of."""
        self._judged: dict[str, tuple[float | None, float | None]] = {}
        """By replica: confidence and remaining gain, as its sidecar said last."""
        registry.register(self)

    def forget(self) -> None:
        """Tell of no replica: another manager does."""
        self._state = State()
        self._shown.clear()
        self._saved.clear()
        self._judged.clear()

    def observe(self, state: State, now: float) -> None:
        """Take the state in."""
        self._state, self._now = state, now

    def report(self, report: Report, state: State, now: float) -> None:
        """Note what a sidecar expects, and when a checkpoint is heard of for the first time."""
        name = report.replica
        replica = state.replicas.get(name)
        if replica is None:
            return
        remaining = report.remaining_gain
        self._judged[name] = (report.confidence, None if remaining is None else remaining.value)
        checkpoint = replica.progress.checkpoint
        step = None if checkpoint is None else checkpoint.step
        known = self._saved.get(name)
        if known is None or known[0] != step:
            self._saved[name] = (step, now)

    def tick(self, state: State) -> None:
        """Forget replicas that are no more."""
        replicas = state.replicas
        if len(self._saved) > len(replicas):
            self._saved = {name: saved for name, saved in self._saved.items() if name in replicas}
            self._judged = {name: judged for name, judged in self._judged.items() if name in replicas}

    def _choose(self, state: State) -> int:
        """Choose whose series are shown; return of how many running replicas none is."""
        replicas = state.replicas
        moving = {
            name for each in state.transactions.values() if each.kind is Kind.MOVE for name in each.concerned
        }
        shown = {name: None for name in self._shown if name in replicas and _is_there(replicas[name], moving)}
        missing = 0
        for name, replica in replicas.items():
            if name in shown or not _is_there(replica, moving):
                continue
            if len(shown) < self._most:
                shown[name] = None
            else:
                missing += 1
        self._shown = shown
        return missing

    def describe(self) -> list[Metric]:
        """Return the metrics without their samples."""
        return [_missing(), *_families().values()]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as of now."""
        families, state = _families(), self._state
        missing = _missing()
        missing.add_metric((), self._choose(state))
        yield missing
        for name in self._shown:
            replica = state.replicas.get(name)
            if replica is None:
                continue
            namespace, _, job = replica.job.partition("/")
            labels = [namespace, job, f"{replica.role}-{replica.index}"]
            for metric, amount in self._values(replica, state.jobs.get(replica.job)):
                families[metric].add_metric(labels, amount)
        yield from families.values()

    def _values(self, replica: Replica, job: Job | None) -> Iterator[tuple[str, float]]:
        progress, now = replica.progress, self._now
        yield "category", float(CATEGORY_NUMBERS[progress.category])
        yield "moves", float(replica.moves)
        if progress.value is not None:
            yield "loss", progress.value
        if progress.gain is not None:
            yield "gain_ratio", progress.gain
        confidence, remaining = self._judged.get(replica.name, (None, None))
        if confidence is not None:
            yield "confidence", confidence
        if remaining is not None:
            yield "remaining_gain_ratio", remaining
        if progress.step is not None:
            yield "step", float(progress.step)
        if progress.category is Category.CONVERGED:
            yield "converged_timestamp_seconds", progress.category_since
        if progress.reported_at is not None:
            yield "report_age_seconds", max(0.0, now - progress.reported_at)
        saved = self._saved.get(replica.name)
        if saved is not None and job is not None and job.spec.checkpointing == "asked":
            yield "checkpoint_age_seconds", max(0.0, now - saved[1])


def _is_there(replica: Replica, moving: Collection[str]) -> bool:
    return replica.phase is Phase.RUNNING or (replica.name in moving and not replica.ended)


def _missing() -> GaugeMetricFamily:
    text = "Running replicas without series of their own, because too many have one already."
    return GaugeMetricFamily("specon_job_series_missing", text, labels=())


def _families() -> dict[str, GaugeMetricFamily]:
    return {
        name: GaugeMetricFamily(f"specon_job_{name}", text, labels=LABELS) for name, text in _HELP.items()
    }
