"""The sidecar's Prometheus metrics, read from the observer when they are scraped."""

import math
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from specon_sidecar.classify import Category
from specon_sidecar.reporting.snapshot import Snapshot
from specon_sidecar.wire import Observation

_PREFIX = "specon_sidecar_"
_LONGEST_LABEL: Final = 64  # the name of a metric comes from the log


class SidecarCollector(Collector):
    """Turns a snapshot into metrics; `snapshot` is called from the thread of the scrape."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> list[Metric]:
        """Return nothing: the names are fixed, and need no scrape at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        now = self._snapshot()
        report = now.report
        last, remaining = report.last, report.remaining_gain
        category = GaugeMetricFamily(
            _PREFIX + "category", "1 for the category of the job, 0 for the others", labels=["category"]
        )
        for one in Category:
            category.add_metric([one.value], float(one is report.category))
        yield category
        log = {"format": report.format, "metric": None if last is None else last.name, "goal": now.goal}
        yield InfoMetricFamily(
            _PREFIX + "log",
            "Format of the log, the metric that is judged, and whether less or more of it is better",
            {label: _bound_label(value or "unknown") for label, value in log.items()},
        )
        for name, text, amount in (
            ("gain_ratio", "Gain of the last interval, relative to its scale", report.gain),
            (
                "confidence",
                "Probability that the job has converged, of the classifier horizon",
                report.confidence,
            ),
            (
                "remaining_gain_ratio",
                "Gain still expected, relative to the gain so far",
                None if remaining is None else remaining.value,
            ),
            ("overfitting", "1 where validation got worse again since long, else 0", report.overfitting),
            ("value", "Last value of the evaluation function", None if last is None else _value(last)),
            ("step", "Last step in the log", now.step),
            ("total_steps", "Steps of the whole run, as the log tells", report.total_steps),
            ("last_sample_age_seconds", "Time since the last sample", None if last is None else last.age),
        ):
            if amount is not None:
                yield GaugeMetricFamily(_PREFIX + name, text, float(amount))
        for name, text, count in (
            ("lines", "Lines of the log", report.lines),
            ("samples", "Samples in the log", report.samples),
            ("unparsed_lines", "Lines without a sample", report.unparsed),
            ("oversized_lines", "Lines dropped because they were too long", now.oversized),
            ("reports_sent", "Reports that the manager took", now.reports_sent),
            ("reports_failed", "Sendings of a report that failed", now.reports_failed),
            ("changes_dropped", "Changes lost because too many waited to be sent", now.changes_dropped),
            ("checkpoints_verified", "Checkpoints read whole, with their digest", now.checkpoints_verified),
            ("checkpoints_unreadable", "Checkpoints found unreadable", now.checkpoints_unreadable),
        ):
            yield CounterMetricFamily(_PREFIX + name, text, float(count))


def _value(observation: Observation) -> float:
    """Return the value, which is not finite where the message has none."""
    return math.nan if observation.value is None else observation.value


def _bound_label(label: str) -> str:
    """Return the text as a label: printable and short."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in label[:_LONGEST_LABEL])
    return shown.encode("utf-8", "replace").decode()


def serve(port: int, snapshot: Callable[[], Snapshot]) -> Callable[[], None]:
    """Serve the metrics in a thread and return what ends it; raises OSError where the port is taken."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SidecarCollector(snapshot))
    server, thread = start_http_server(port, registry=registry)

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=1.0)

    return end
