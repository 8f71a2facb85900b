"""Workloads that are made up from a seed: one module for each paper, and a table of them by name."""
