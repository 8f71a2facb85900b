"""How things are called on the page. What people and trainers wrote is data: cut, and on one line."""

from typing import Final

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_sidecar.classify import Category

_LONGEST: Final = 400


def plain(text: str, most: int = _LONGEST) -> str:
    """Return the text on one line, without characters that cannot be seen, of at most that many."""
    seen = "".join(letter if letter.isprintable() else " " for letter in text[: 2 * most])
    line = " ".join(seen.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def job_label(job: str) -> str:
    """Return what a job is called: its name, without the namespace `default`."""
    return plain(job.removeprefix("default/")) or "(no name)"


def replica_label(state: State, replica: str) -> str:
    """Return what a replica is called: its job, or job, role and index where the job has several."""
    record = state.replicas.get(replica)
    job = None if record is None else state.jobs.get(record.job)
    return job_label(replica if job is None or len(job.spec.replicas) > 1 else job.name)


def word_for(replica: Replica) -> Category | Phase:
    """Return the word that says most about a replica: its category while it runs, else its phase."""
    return replica.progress.category if replica.phase is Phase.RUNNING else replica.phase
