"""A cluster whose jobs are placed by their owners: a backend observes them and makes single pods move."""

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import Action, EvictReplica, StartReplica
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.moves import MoveState
from specon_manager.model.settings import Settings
from support.cluster import SETTINGS, Cluster, Live


def described(job: str, replicas: int = 1, **changes: object) -> JobSpec:
    """Return a job as its owner describes it."""
    names = tuple(f"default/{job}/worker/{index}" for index in range(replicas))
    return JobSpec(name=f"default/{job}", replicas=names, placed_by="owner", **changes)


class OwnedCluster(Cluster):
    """The truth where owners start pods: one after the other of each replica, none while we suspend it."""

    def __init__(self, nodes: int = 2, cpus: float = 4.0, settings: Settings = SETTINGS) -> None:
        self.specs: dict[str, JobSpec] = {}
        self.suspended: set[str] = set()
        """Replicas that were made to go for a move: their owners start none until they are told."""
        self.scheduled: str | None = None
        """Where the scheduler puts what is started next, whatever was asked for."""
        self.count = 0
        super().__init__(nodes, cpus, settings)

    # -- owners ----------------------------------------------------------------------------------

    def observe(self, spec: JobSpec) -> list[Action]:
        """Let an owner describe a job; what it names no more goes on until it ends."""
        self.specs[spec.name] = spec
        return self.post(ev.JobObserved(spec))

    def remove(self, job: str) -> list[Action]:
        """Delete a job with all that runs of it."""
        self.specs.pop(job, None)
        for name in [name for name in self.live if name.startswith(f"{job}/")]:
            del self.live[name]
        self.suspended = {name for name in self.suspended if not name.startswith(f"{job}/")}
        return self.post(ev.JobGone(job=job, reason="deleted"))

    def missing(self) -> list[str]:
        """Return what owners would start now."""
        names = (name for spec in self.specs.values() for name in spec.replicas)
        return [name for name in names if name not in self.live and name not in self.suspended]

    def appears(self, replica: str, node: str) -> str:
        """Let an owner start a replica and the manager see it; return the incarnation."""
        live = self._run(replica, node)
        self.post(self._started(replica))
        return live.incarnation

    def start_all(self, node: str = "node-0") -> None:
        """Let owners start everything that is missing."""
        for name in self.missing():
            self.appears(name, node)

    def _run(self, replica: str, node: str) -> Live:
        assert replica not in self.live, f"two live copies of {replica}"
        self.count += 1
        uid = f"uid-{self.count}"
        self.live[replica] = live = Live(uid, node, f"session-{uid}")
        return live

    def _started(self, replica: str) -> ev.ReplicaStarted:
        live = self.live[replica]
        return ev.ReplicaStarted(replica=replica, incarnation=live.incarnation, node=live.node)

    # -- the backend -----------------------------------------------------------------------------

    def post(self, event: ev.Event) -> list[Action]:
        """Let one event happen; owners fill nodes as they like, so none must hold what fits."""
        self.crowded = {*self.crowded, *self.state.nodes}
        if isinstance(event, ev.NodeObserved):
            self.crowded.add(event.node)
        before = self.state
        actions = super().post(event)
        for action in actions:
            if isinstance(action, EvictReplica):
                _check_eviction(self.state, action)
        if isinstance(event, ev.JobGone) and event.job in before.jobs and before.jobs[event.job].owned:
            _check_nothing_left(self.state, event.job)
        return actions

    def _check_start(self, action: StartReplica) -> None:
        replica = self.state.replicas.get(action.replica)
        assert replica is None or replica.phase is not Phase.RUNNING or action.node is None

    def start(self, action: StartReplica) -> list[ev.Event]:
        self.suspended.discard(action.replica)
        if action.replica in self.live:
            return [self._started(action.replica)]
        if not any(action.replica in spec.replicas for spec in self.specs.values()):
            return []
        node = self.scheduled or action.node or "node-0"
        self._run(action.replica, node)
        return [self._started(action.replica)]

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, EvictReplica):
            self.suspended.add(action.replica)
        super()._carry_out(action)

    def restart_manager(self) -> list[Action]:
        """Kill the manager; the next one is told what there is before it orders again what is in flight."""
        moves = self.state.moves.values()
        self.room = {
            move.id: self.room[move.id] for move in moves if move.id in self.room and move.attempt == 1
        }
        self.orders.clear()
        for known in list(self.state.replicas.values()):
            live = self.live.get(known.name)
            if known.incarnation is not None and (live is None or live.incarnation != known.incarnation):
                self.post(self.dead.get(known.incarnation) or _lost(known.name, known.incarnation))
            if live is not None and live.incarnation != known.incarnation:
                self.post(self._started(known.name))
        open_moves = set(self.state.moves)
        asked = {n for n, r in self.state.replicas.items() if r.phase is Phase.STARTING}
        self.suspended &= open_moves | asked  # a backend resumes what is suspended for no move in flight
        return self.post(ev.ManagerStarted("again", self.state.settings))


def _lost(replica: str, incarnation: str) -> ev.ReplicaGone:
    return ev.ReplicaGone(replica=replica, incarnation=incarnation)


def _check_eviction(state: State, action: EvictReplica) -> None:
    """Nothing that its owner places is evicted but for a move."""
    move = state.moves.get(action.replica)
    assert move is not None, f"{action} outside of a move"
    assert move.state is MoveState.EVICTING


def _check_nothing_left(state: State, job: str) -> None:
    """See that a job which is gone leaves nothing but history."""
    assert job not in state.jobs
    assert job not in state.claims
    assert job not in state.verdicts
    for names in (state.replicas, state.moves, state.verdicts):
        assert not [name for name in names if name.startswith(f"{job}/")]
