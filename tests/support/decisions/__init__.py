"""Clusters in memory, and what must be true of every state: for tests of model, policies and core."""
