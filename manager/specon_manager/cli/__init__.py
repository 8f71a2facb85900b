"""The command line, above every other layer: what people type, and what they see.

The names below are shown by all its modules, so that a job is called the same in each.
"""

from specon_manager.core.state import State


def printable(text: str) -> str:
    """Return the text on one line and without control characters: no log line steers a terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def job_label(job: str) -> str:
    """Return what a job is called on the screen: its name, without the namespace `default`."""
    return printable(job.removeprefix("default/")) or "(no name)"


def short_name(replica: str) -> str:
    """Return a replica's name without what goes without saying; as a name of a command's it is as good."""
    return job_label(replica.removesuffix("/worker/0"))


def replica_label(state: State, replica: str) -> str:
    """Return what a replica is called on the screen: its job, or its own name where the job has several."""
    record = state.replicas.get(replica)
    job = None if record is None else state.jobs.get(record.job)
    alone = job is not None and len(job.spec.replicas) == 1
    return job_label(job.name if job is not None and alone else replica)
