"""Real processes of one machine: managers, sidecars and trainers that are run, killed and starved."""
