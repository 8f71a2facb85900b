"""The simulator: the same policies and the same `step`, driven through virtual time."""
