"""One module per paper or idea: plain functions from a snapshot to proposals."""
