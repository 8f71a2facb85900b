"""What people call replicas, as names of the state. Pure."""

from typing import Final

from specon_manager.core.state import State
from specon_manager.usage import UsageError

_SHOWN: Final = 10
_PARTS: Final = 4


def job_named(state: State, text: str, namespace: str | None) -> str:
    """Return the job of that name, with or without its namespace; raises UsageError naming those there."""
    jobs = [name for name in state.jobs if _is(name, text, namespace)]
    if len(jobs) == 1:
        return jobs[0]
    if jobs:
        raise UsageError(f"{text!r} may be {_listed(jobs)}: name its namespace")
    wanted = text if "/" in text else f"{namespace or 'default'}/{text}"
    raise UsageError(f"there is no job {wanted!r}; there are {_listed(state.jobs) or 'none'}")


def replica_named(state: State, text: str, namespace: str | None) -> str:
    """Return the replica of that name: whole, or by its job where that has one; raises UsageError."""
    if text.count("/") == _PARTS - 1:
        if text in state.replicas:
            return text
        raise UsageError(f"there is no replica {text!r}; there are {_listed(state.replicas) or 'none'}")
    replicas = state.jobs[job_named(state, text, namespace)].spec.replicas
    if len(replicas) != 1:
        raise UsageError(f"{text!r} has {len(replicas)} replicas: name one of {_listed(replicas)}")
    return replicas[0]


def _is(job: str, text: str, namespace: str | None) -> bool:
    if "/" in text:
        return job == text
    home, _, name = job.partition("/")
    return name == text and (namespace is None or home == namespace)


def _listed(names: object) -> str:
    found = sorted(names)  # type: ignore[call-overload]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
