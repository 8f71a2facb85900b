"""Prometheus metrics of the calls to the API server; an observer of `Api`."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ApiMetrics:
    """Counts requests; the labels are bounded: verbs, the resources that are used, and codes of HTTP."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "specon_api_requests_total",
            "Requests to the API server by verb, resource and code (unavailable where none came back).",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "specon_api_request_duration_seconds",
            "Time that requests to the API server took; watches are not among them.",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )

        self._unreadable = Counter(
            "specon_objects_unreadable_total",
            "Times that an object could not be read, by its kind: it says nothing, and the log has its name.",
            ["kind"],
            registry=registry,
        )

    def unreadable(self, kind: str) -> None:
        """Count an object that could not be read."""
        self._unreadable.labels(kind).inc()

    def __call__(self, verb: str, resource: str, code: str, seconds: float) -> None:
        """Take one request in."""
        self._requests.labels(verb, resource, code).inc()
        if verb != "watch":
            self._seconds.labels(verb).observe(seconds)
