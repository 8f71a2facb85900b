"""Kueue: its Workloads and queues as it sees them, and a checkpoint before it preempts."""
