"""What jobs and replicas are called; what people and trainers wrote is data: on one line, cut."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from specon_manager.core.state import State

_LONGEST: Final = 400
_LISTED: Final = 3


def printable(text: str) -> str:
    """Return the text on one line and without control characters: no log line steers a terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def cut(text: str, most: int = _LONGEST) -> str:
    """Return the text on one line, without characters that cannot be seen, of at most that many."""
    line = printable(text[: 2 * most])
    return line if len(line) <= most else f"{line[: most - 1]}…"


def job_label(job: str) -> str:
    """Return what a job is called: its name, without the namespace `default`."""
    return cut(job.removeprefix("default/")) or "(no name)"


def short_name(replica: str) -> str:
    """Return a replica's name without what goes without saying; as a name of a command's it is as good."""
    return job_label(replica.removesuffix("/worker/0"))


def replica_label(state: "State", replica: str) -> str:
    """Return what a replica is called: its job, or its own name where the job has several."""
    record = state.replicas.get(replica)
    job = None if record is None else state.jobs.get(record.job)
    alone = job is not None and len(job.spec.replicas) == 1
    return job_label(job.name if job is not None and alone else replica)


def list_names(names: Sequence[str], most: int = _LISTED) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
