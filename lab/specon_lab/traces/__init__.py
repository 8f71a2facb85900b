"""Workloads from files: the project's own form, and traces that others published."""
