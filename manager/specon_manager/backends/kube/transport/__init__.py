"""The API server: calls, watches and the Lease."""
