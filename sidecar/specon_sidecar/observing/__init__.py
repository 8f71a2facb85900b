"""One replica as its log shows it: where that begins, its known state, what a next sidecar goes on with."""
