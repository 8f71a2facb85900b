"""The manager in real time: the loop around `step`, its journal, its HTTP server and its metrics."""
