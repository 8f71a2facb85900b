"""One replica as its log shows it: where that begins, what is known, what a next sidecar goes on with."""
