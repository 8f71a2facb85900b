"""Queues with quotas as custom resources: read, told to the core, and their use written back."""
