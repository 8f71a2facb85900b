"""Time that passes at once, stands still, or is counted by the processor."""
