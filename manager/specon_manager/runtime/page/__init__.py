"""The status page: a read-only picture of a manager, live in a browser; see docs/metrics.md."""
