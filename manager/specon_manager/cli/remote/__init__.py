"""The managers that commands talk to: one of this machine by HTTP, one of a cluster by the Kubernetes API."""
