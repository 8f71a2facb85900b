"""State in custom resources: read, written and restored."""
