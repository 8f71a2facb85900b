"""What replicas held while they were converged, and what their moves gave back: sums over time. Pure.

A replica holds what it requests. One that requests nothing on a node that the manager alone fills holds its
share of that: on this machine jobs rarely say what they need.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.overlay import flat
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_manager.views.transactions import find_ended
from specon_sidecar.classify import Category

_LEAST_SECONDS: Final = 1.0
_SECONDS_PER_REPLICA: Final = 0.001  # looking at very many takes a while: it is done less often


class Hold(Struct, frozen=True, gc=False):
    """A running replica, with the processors and GPUs that it holds."""

    replica: Replica
    cpu: float
    gpu: float


def holds(state: State) -> Iterator[Hold]:
    """Yield what each running replica holds now."""
    replicas = flat(state.replicas).values()
    crowds = _crowds(replicas)
    for replica in replicas:
        if replica.phase is Phase.RUNNING:
            yield _hold(state, replica, replica.node, crowds[replica.node])


def _crowds(replicas: Iterable[Replica]) -> Counter[str | None]:
    return Counter(replica.node for replica in replicas if replica.phase is Phase.RUNNING)


def _hold(state: State, replica: Replica, node: str | None, crowd: int) -> Hold:
    """Return what a replica holds on a node on which so many run, itself included."""
    asked = replica.requests
    if not (asked.cpu or asked.gpu):
        job, place = state.jobs.get(replica.job), state.nodes.get(node or "")
        if job is not None and place is not None and job.spec.placed_by == "manager":
            return Hold(replica, place.capacity.cpu / max(1, crowd), place.capacity.gpu / max(1, crowd))
    return Hold(replica, asked.cpu, asked.gpu)


class Held(Struct, frozen=True, kw_only=True):
    """Amounts times seconds since the beginning: processors and GPUs; memory is not counted."""

    all: Resources = NOTHING
    """Held by all running replicas."""
    converged: Resources = NOTHING
    """Held by converged replicas."""
    freed: Resources = NOTHING
    """What converged replicas no longer held on the nodes that they left by a move."""


class Holding:
    """Takes the events step by step, and sums up the resources held.

    A move frees what its replica held on the node that it left, from its success for as long as the replica
    runs on another one. A replica that was not converged when its move succeeded frees nothing.
    """

    def __init__(self, began: float) -> None:
        """Begin at `began`, seconds on the manager's clock."""
        self.began = self._at = began
        self.held = Held()
        self.seen: set[str] = set()
        """Replicas that ran at some time."""
        self._left: dict[str, tuple[str, Hold]] | None = None
        """By replica that was moved while it was converged: the node that it left, and what it held there."""

    def observe(self, before: State, after: State, now: float) -> None:
        """Take one step that ended at `now`; until then everything was as `before` has it."""
        if self._left is None:
            self._left = {}
            for each in before.history:
                self._note(each, before)
        self.account(before, now)
        for each in find_ended(before, after):
            self._note(each, after)

    def account(self, state: State, now: float) -> None:
        """Add the resources held until `now` in a state.

        Less than a second is left for the next time; of 10,000 replicas less than ten.
        """
        passed = now - self._at
        if passed < max(_LEAST_SECONDS, _SECONDS_PER_REPLICA * len(state.replicas)):
            return
        self._at = now
        left = self._left or {}
        cpu, gpu = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
        for hold in holds(state):
            replica = hold.replica
            self.seen.add(replica.name)
            cpu[0] += hold.cpu
            gpu[0] += hold.gpu
            if replica.progress.category is Category.CONVERGED:
                cpu[1] += hold.cpu
                gpu[1] += hold.gpu
            freed = left.get(replica.name)
            if freed is not None and freed[0] != replica.node:
                cpu[2] += freed[1].cpu
                gpu[2] += freed[1].gpu
        former = (self.held.all, self.held.converged, self.held.freed)
        summed = [
            one + Resources(cpu=cores * passed, gpu=gpus * passed)
            for one, cores, gpus in zip(former, cpu, gpu, strict=True)
        ]
        self.held = Held(all=summed[0], converged=summed[1], freed=summed[2])
        if len(left) > len(state.replicas):
            self._left = {name: each for name, each in left.items() if name in state.replicas}

    def _note(self, ended: Transaction, state: State) -> None:
        if ended.kind is not Kind.MOVE or ended.state is not TransactionState.SUCCEEDED:
            return
        assert self._left is not None
        for name in ended.moved:
            replica, node = state.replicas.get(name), ended.before.get(name)
            if replica is None or node is None or replica.progress.category is not Category.CONVERGED:
                self._left.pop(name, None)
            else:
                crowd = _crowds(state.replicas.values())[node] + 1
                self._left[name] = (node, _hold(state, replica, node, crowd))
