"""All metrics, read from the code that tells them."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from specon_manager.backends.kube.transport.api_metrics import ApiMetrics
from specon_manager.runtime.cluster_metrics import ClusterMetrics
from specon_manager.runtime.metrics import Metrics
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.reporting.metrics import SidecarCollector
from specon_sidecar.reporting.snapshot import Snapshot
from specon_sidecar.wire import Observation, Report

EVERYWHERE: Final = "every manager"
ON_KUBERNETES: Final = "manager on Kubernetes"
SIDECAR: Final = "sidecar with `--metrics-port`"


class MetricInfo(Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str
    """As it is asked for; a histogram's without `_bucket`, `_sum` and `_count`."""
    kind: str
    """What Prometheus calls its type."""
    labels: tuple[str, ...]
    text: str
    told_by: str

    @property
    def series(self) -> dict[str, tuple[str, ...]]:
        """The names under which Prometheus has it, each with its labels."""
        if self.kind != "histogram":
            return {self.name: self.labels}
        plain = {f"{self.name}_{suffix}": self.labels for suffix in ("sum", "count")}
        return {f"{self.name}_bucket": (*self.labels, "le"), **plain}


class _Recorder(CollectorRegistry):
    """A registry that remembers its metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Take a collector in."""
        super().register(collector)
        self.collectors.append(collector)


def catalogue() -> tuple[MetricInfo, ...]:
    """Return every metric of the manager and of the sidecar; those of one place stand together, by name."""
    found: list[MetricInfo] = []
    for told_by, parts in ((EVERYWHERE, (Metrics,)), (ON_KUBERNETES, (ClusterMetrics, ApiMetrics))):
        recorder = _Recorder()
        for part in parts:
            part(recorder)
        found += sorted(_register(recorder, told_by), key=lambda info: info.name)
    sidecar = (_info(family, _sample(family), SIDECAR) for family in SidecarCollector(_full).collect())
    return (*found, *sorted(sidecar, key=lambda info: info.name))


def table() -> str:
    """Return all metrics as a table in Markdown."""
    lines = ["| metric | type | labels | meaning | told by |", "|---|---|---|---|---|"]
    for info in catalogue():
        labels = ", ".join(f"`{label}`" for label in info.labels) or "none"
        lines.append(f"| `{info.name}` | {info.kind} | {labels} | {info.text} | {info.told_by} |")
    return "\n".join(lines) + "\n"


def _register(recorder: _Recorder, told_by: str) -> Iterator[MetricInfo]:
    for collector in recorder.collectors:
        for family in collector.describe():  # type: ignore[attr-defined]
            # The library tells labels with samples only, and there are none yet.
            owner = family if hasattr(family, "_labelnames") else collector
            yield _info(family, tuple(getattr(owner, "_labelnames", ())), told_by)


def _sample(family: Metric) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for sample in family.samples for label in sample.labels))


def _info(family: Metric, labels: tuple[str, ...], told_by: str) -> MetricInfo:
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    kind = "gauge" if family.type == "info" else family.type
    text = family.documentation.rstrip(".")
    return MetricInfo(
        name=f"{family.name}{suffix}", kind=kind, labels=labels, text=f"{text}.", told_by=told_by
    )


def _full() -> Snapshot:
    """Return a snapshot in which everything is known: unknown values are not told."""
    report = Report(
        schema=1,
        replica="",
        incarnation="",
        session="",
        sequence=0,
        category=Category.CONVERGED,
        gain=0.0,
        confidence=0.0,
        remaining_gain=Estimate(value=0.0, uncertainty=0.0),
        last=Observation(name="", value=0.0, age=0.0),
        total_steps=0,
    )
    return Snapshot(report=report, step=0)
