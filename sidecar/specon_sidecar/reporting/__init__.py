"""Outgoing: reports and answers to the manager, metrics, and lines of a sidecar that stands alone."""
