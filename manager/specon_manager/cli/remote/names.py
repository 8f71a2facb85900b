"""What people call replicas, as names of the state. Pure."""

from typing import Final

import msgspec

from specon_manager.cli.remote.remote import Wanted
from specon_manager.core.state import State
from specon_manager.usage import UsageError

_SHOWN: Final = 10
_PARTS: Final = 4


def find_job(state: State, text: str, namespace: str | None) -> str:
    """Return the job of that name, with or without its namespace; raises UsageError naming those there."""
    jobs = [name for name in state.jobs if _is(name, text, namespace)]
    if len(jobs) == 1:
        return jobs[0]
    if jobs:
        raise UsageError(f"{text!r} may be {_list(jobs)}: name its namespace")
    wanted = text if "/" in text else f"{namespace or 'default'}/{text}"
    raise UsageError(f"there is no job {wanted!r}; there are {_list(state.jobs) or 'none'}")


def find_wanted(state: State, text: str, to: str | None, namespace: str | None) -> Wanted:
    """Return the move of the replica or job of that name to the nodes between the commas of `to`.

    A name is that of a replica, or of a job: of its only replica, or of the whole of one that trains as one.
    Raises UsageError for an unknown name, for a job whose replicas train by themselves, and where one
    replica is to go to several nodes.
    """
    targets = read_nodes(to)
    if text.count("/") == _PARTS - 1:
        if text not in state.replicas:
            raise UsageError(f"there is no replica {text!r}; there are {_list(state.replicas) or 'none'}")
        wanted = Wanted(job=state.replicas[text].job, replica=text, targets=targets)
    else:
        wanted = Wanted(job=find_job(state, text, namespace), targets=targets)
        spec = state.jobs[wanted.job].spec
        count = len(spec.replicas)
        if count == 1:
            wanted = msgspec.structs.replace(wanted, replica=spec.replicas[0])
        elif not spec.coupled and state.nodes:  # without nodes, nobody has seen its owner
            found = _list(spec.replicas)
            raise UsageError(f"{text!r} has {count} replicas that train by themselves: name one of {found}")
    if wanted.replica is not None and len(targets) > 1:
        raise UsageError(f"--to: one replica goes to one node, not to {len(targets)}")
    return wanted


def read_nodes(to: str | None) -> tuple[str, ...]:
    """Return the nodes between the commas, each once; raises UsageError where there is none."""
    nodes = () if to is None else tuple(dict.fromkeys(to.split(",")))
    if not all(nodes):
        raise UsageError(f"--to: {to!r} is no list of nodes")
    return nodes


def _is(job: str, text: str, namespace: str | None) -> bool:
    if "/" in text:
        return job == text
    home, _, name = job.partition("/")
    return name == text and (namespace is None or home == namespace)


def _list(names: object) -> str:
    found = sorted(names)  # type: ignore[call-overload]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
