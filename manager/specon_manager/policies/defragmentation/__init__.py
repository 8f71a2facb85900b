"""The cheapest moves after which a job that waits has room: see docs/results/ours.md."""
