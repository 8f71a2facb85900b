"""The trainer's own word: a Unix socket on which its helper reports, saves on request and is asked."""
