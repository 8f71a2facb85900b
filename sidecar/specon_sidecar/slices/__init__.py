"""Slices of time: the processes of a trainer run in their turns, and are stopped in those of others."""
