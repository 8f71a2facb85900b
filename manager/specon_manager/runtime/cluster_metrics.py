"""Metrics of a manager on Kubernetes: those of the controller are in `metrics`, these are of all replicas."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from specon_manager.backends.kube.admission.webhook import PATHS
from specon_manager.backends.kube.interception.webhook import ENTRY as EVICTIONS


class ClusterMetrics:
    """Who leads, what the webhook answers, and the mistakes of pods that asked for a sidecar."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._leader = Gauge("specon_leader", "1 where this manager leads, else 0.", registry=registry)
        self._admissions = Counter(
            "specon_admissions_total",
            "Answers of the webhook by entry and outcome.",
            ["entry", "outcome"],
            registry=registry,
        )
        # A series that appears with its first event shows no increase for it.
        for outcome in ("allowed", "denied", "unreadable"):
            self._admissions.labels(EVICTIONS, outcome)
        for entry in PATHS:
            for outcome in ("patched", "allowed", "denied", "unreadable"):
                self._admissions.labels(entry, outcome)
        self._not_injected = Gauge(
            "specon_pods_not_injected",
            "Pods that ask for a sidecar and have none; known to the leader only.",
            registry=registry,
        )
        self._certificate = Gauge(
            "specon_certificate_expiry_timestamp_seconds",
            "When the certificate of the webhook ends, Unix seconds; 0 before there is one.",
            registry=registry,
        )
        self._events_dropped = Gauge(
            "specon_events_dropped",
            "Events on objects that were not written in this term of leadership.",
            registry=registry,
        )

    def count_answer(self, entry: str, outcome: str) -> None:
        """Count one answer of the webhook."""
        self._admissions.labels(entry, outcome).inc()

    def follow_term(self, *, not_injected: Callable[[], float], events_dropped: Callable[[], float]) -> None:
        """Ask these for their values from now on: those of the present term."""
        self._not_injected.set_function(not_injected)
        self._events_dropped.set_function(events_dropped)

    def follow_manager(self, *, leads: Callable[[], bool], certificate_expiry: Callable[[], float]) -> None:
        """Ask these whether this manager leads, and when the certificate that is served ends."""
        self._leader.set_function(leads)
        self._certificate.set_function(certificate_expiry)
