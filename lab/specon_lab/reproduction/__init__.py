"""The papers' experiments: one module each, run by the same policies, `step` and simulator."""
