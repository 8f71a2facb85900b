"""The one place where things settle: whatever follows from the records of jobs that an event touched.

Whether a gang trains, what its description leaves out, what a transaction in flight does next: nothing of
this is written anywhere else. Which jobs were touched is read off the records, so no handler can forget one.
"""

from collections.abc import Iterator

from specon_manager.core.gang import group_replicas
from specon_manager.core.state import State, Step
from specon_manager.core.transaction.look import look
from specon_manager.model.actions import Action
from specon_manager.model.cluster import Replica
from specon_manager.model.overlay import differing

_ROUNDS = 100  # of one job: far more than the states of all its transactions


def settle(before: State, state: State, now: float, *, later: bool = False) -> Step:
    """Return the state in which everything follows that does from the change of `before` to `state`.

    `later`: whether time has passed, so that deadlines count.
    """
    actions = list[Action]()
    for name in sorted(_find_touched(before, state, later=later)):
        occupied = _is_occupied(before, name)
        for _ in range(_ROUNDS):
            former = state
            state = group_replicas(state, name, now, occupied=occupied)
            for transaction in state.transactions_of(name):
                state, ordered = look(state, transaction.id, now)
                actions += ordered
            if state is former:
                break
        else:
            raise AssertionError(f"{name} does not settle")
    return state, actions


def _find_touched(before: State, state: State, *, later: bool) -> set[str]:
    """Return the jobs whose records differ in what something may follow from."""
    found = set[str]()
    if later or _nodes_lost(before, state):
        found |= {each.job for each in state.transactions.values()}
    if before.transactions is not state.transactions:
        found |= {
            each.job for name, each in state.transactions.items() if before.transactions.get(name) is not each
        }
    if before.jobs is not state.jobs:
        former = before.jobs
        found |= {name for name in differing(former, state.jobs) if state.jobs[name] is not former.get(name)}
    if before.replicas is not state.replicas:
        found |= set(_of_replicas(before, state))
    return found


def _of_replicas(before: State, state: State) -> Iterator[str]:
    """Return the jobs of replicas that are not what they were, reports aside."""
    former, present = before.replicas, state.replicas
    flying = {each.job for each in state.transactions.values()} if state.transactions else ()
    for name in differing(former, present):
        known, replica = former.get(name), present[name]
        if known is replica:
            continue
        if known is None or replica.job in flying or not _stands_alike(known, replica):
            yield replica.job
    if len(former) > len(present):
        gone = (replica for name, replica in former.items() if name not in present)
        yield from (replica.job for replica in gone)


def _stands_alike(known: Replica, replica: Replica) -> bool:
    """Whether two records agree in the fields that decide over their job and its transactions in flight."""
    return (
        known.phase is replica.phase
        and known.incarnation == replica.incarnation
        and known.node == replica.node
        and known.leaving == replica.leaving
        and known.lost_at == replica.lost_at
        and known.holds is replica.holds
    )


def _nodes_lost(before: State, state: State) -> bool:
    """Whether a node is not there, or not ready, that was."""
    if before.nodes is state.nodes:
        return False
    return any(
        node.ready and not (name in state.nodes and state.nodes[name].ready)
        for name, node in before.nodes.items()
    )


def _is_occupied(before: State, name: str) -> bool:
    job = before.jobs.get(name)
    return job is not None and any(
        replica in before.replicas and before.replicas[replica].active for replica in job.spec.replicas
    )
