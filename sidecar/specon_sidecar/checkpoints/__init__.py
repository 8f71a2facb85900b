"""Checkpoints of the trainer: which are complete, whether one is whole, and one that is asked for."""
