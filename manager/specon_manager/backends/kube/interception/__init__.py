"""Evictions by others answered: each becomes a wish for a checkpointed move, and passes once it may."""
