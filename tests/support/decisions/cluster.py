"""A cluster in memory that carries out what `step` orders, with a virtual clock and invariants.

It keeps its own truth of what lives where, so a decision that would start a second copy of a replica, evict
one without a verified checkpoint, or overfill a node is found the moment it is ordered.
"""

import dataclasses

from specon_manager.backends.base import is_stale
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import (
    Action,
    EvictReplica,
    HoldRoom,
    PlaceJob,
    ReleaseRoom,
    RequestCheckpoint,
    SetWeight,
    StartReplica,
    WithdrawRequest,
)
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_manager.model.transactions import Kind, TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint, Observation, Report
from support.decisions import invariants

DIGEST = "0" * 64
SETTINGS = Settings(
    policy="specon",
    tick=1.0,
    budgets=Budgets(cooldown=0, retry_cooldown=1),
    gate=Gate(enabled=False),
    deadlines=Deadlines(start=10, hold=5, checkpoint=10, eviction_margin=5, verify=20, crash_backoff=1),
)


def replica_of(job: str) -> str:
    return f"default/{job}/worker/0"


def key_of(action: Action) -> str:
    """Orders with the same key are carried out in the order in which they were given."""
    if isinstance(action, StartReplica | EvictReplica | SetWeight):
        return action.replica
    if isinstance(action, HoldRoom | ReleaseRoom):
        return f"{action.transaction} {action.replica}"
    if isinstance(action, PlaceJob):
        return f"job {action.job}"
    assert isinstance(action, RequestCheckpoint | WithdrawRequest)
    return f"checkpoint {action.replica}"


@dataclasses.dataclass
class Live:
    """A process that really runs."""

    incarnation: str
    node: str
    session: str
    sequence: int = 0
    weight: float = 1.0
    """With which it really shares the processors of its node."""


class Cluster:
    """The truth outside the manager."""

    def __init__(self, nodes: int = 2, cpus: float = 1.0, settings: Settings = SETTINGS) -> None:
        self.state = State(settings=settings)
        self.now = 1000.0
        self.live: dict[str, Live] = {}
        self.dead: dict[str, ev.ReplicaGone] = {}
        """By incarnation: how it ended. A backend never starts an incarnation twice."""
        self.room: dict[tuple[str, str], str] = {}
        """By transaction and replica: the node on which room is held."""
        self.crowded: set[str] = set()
        """Nodes that got a replica which was ordered elsewhere since: their room was given away."""
        self.initial = self.state
        self.history: list[tuple[float, ev.Event, list[Action]]] = []
        self.orders: list[Action] = []
        self.may_carry_out = lambda action: True
        self.whole = False
        """Whether the policy starts waiting jobs as a whole only."""
        self._quiet = 0
        """How many reports in a row told of steps and changed nothing else."""
        self._since: State | None = None
        """The last state that was looked at; none where that is the present one."""
        for index in range(nodes):
            capacity = Resources(cpu=cpus, memory=8e9)
            self.post(ev.NodeObserved(node=f"node-{index}", capacity=capacity, usage=Resources()))

    # -- driving ---------------------------------------------------------------------------------

    def post(self, event: ev.Event) -> list[Action]:
        """Let one event happen, and check the invariants; keep what was ordered."""
        before = self.state
        self.state, actions = step(before, event, self.now)
        self.history.append((self.now, event, actions))
        self.orders += actions
        if isinstance(event, ev.ReplicaStarted):
            ordered = before.replicas.get(event.replica)
            if ordered is not None and ordered.node != event.node:
                self.crowded.add(event.node)
        self._look(before, event, actions)
        for action in actions:
            if isinstance(action, StartReplica):
                self._check_start(action)
        self._check_all_gone(before)
        return actions

    def _look(self, before: State, event: ev.Event, actions: list[Action]) -> None:
        """Check the invariants after each event; of reports in a row that only tell of steps, each eighth.

        Training sends most of the events, and a look goes through the whole state.
        """
        since, self._since = self._since or before, None
        self._quiet = self._quiet + 1 if not actions and _tells_of_steps(before, event, self.state) else 0
        if self._quiet % 8 > 1:
            self._since = since
            return
        invariants.check(since, self.state, actions, crowded=self.crowded, now=self.now, whole=self.whole)

    def _check_all_gone(self, before: State) -> None:
        """See that nothing of a gang that moves, or is brought back, starts while anything of it lives."""
        for each in self.state.transactions.values():
            former = before.transactions.get(each.id)
            comes = each.state is TransactionState.COMING and each.kind is Kind.MOVE and each.whole
            if comes and (former is None or former.state is not TransactionState.COMING):
                lives = self.live.keys() & {*each.concerned}
                assert not lives, f"{each.id} starts beside {sorted(lives)}"

    def _check_start(self, action: StartReplica) -> None:
        """Whatever lives is that incarnation already, or is evicted before the start's turn comes."""
        known = self.live.get(action.replica)
        if known is None or known.incarnation == incarnation_of(action):
            return
        ending = {None, known.incarnation}
        queue = [order for order in self.orders if key_of(order) == action.replica]
        evictions = [o for o in queue if isinstance(o, EvictReplica) and o.incarnation in ending]
        assert evictions, f"two live copies: {action} while {known}"

    def tick(self, seconds: float = 1.0) -> list[Action]:
        self.now += seconds
        return self.post(ev.Tick())

    def restart_manager(self) -> list[Action]:
        """Kill the manager: what it ordered and nobody carried out is forgotten, its state is not.

        As `Backend.begin` does: what runs and is not wanted is ended, what should run and does not is told,
        and room that no move in flight needs any more is given up.
        """
        self._keep_needed_room()
        self.orders.clear()
        for replica, live in list(self.live.items()):
            known = self.state.replicas[replica]
            ordered = known.phase is Phase.STARTING and live.incarnation == f"{replica}.{known.starts}"
            if live.incarnation != known.incarnation and not ordered:
                self._end(replica, 143, evicted=True)
        for known in list(self.state.replicas.values()):
            live_now = self.live.get(known.name)
            if known.incarnation is None or (live_now and live_now.incarnation == known.incarnation):
                continue
            self.post(
                self.dead.get(known.incarnation)
                or ev.ReplicaGone(replica=known.name, incarnation=known.incarnation)
            )
        return self.post(ev.ManagerStarted("again", self.state.settings))

    def _keep_needed_room(self) -> None:
        """Give up room that no transaction in flight needs, or only one on its way back."""
        needed = {each.id for each in self.state.transactions.values() if each.attempt == 1}
        self.room = {key: node for key, node in self.room.items() if key[0] in needed}

    def carry_out(self) -> None:
        """Carry out what was ordered and may be, as a faultless backend would, until nothing is left."""
        for _ in range(100):
            ready = [action for action in self.orders if self.may_carry_out(action)]
            if not ready:
                return
            self.orders = [action for action in self.orders if not self.may_carry_out(action)]
            for action in ready:
                self._carry_out(action)
        raise AssertionError("orders without end")

    def settle(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            self.carry_out()
            self.tick()
        self.carry_out()

    # -- what may happen -------------------------------------------------------------------------

    def submit(self, job: str, **changes: object) -> str:
        replica = replica_of(job)
        self.post(ev.JobSubmitted(JobSpec(name=f"default/{job}", replicas=(replica,), **changes)))
        return replica

    def run(self, *jobs: str) -> list[str]:
        """Submit jobs and have them started."""
        replicas = [self.submit(job) for job in jobs]
        self.tick()
        self.carry_out()
        return replicas

    def report(
        self,
        replica: str,
        category: Category = Category.PROGRESSING,
        step: int | None = 100,
        **changes: object,
    ) -> list[Action]:
        live = self.live[replica]
        live.sequence += 1
        seen = None if step is None else Observation(name="loss", value=1.0, age=0.0, step=step)
        report = Report(
            schema=1,
            replica=replica,
            incarnation=live.incarnation,
            session=live.session,
            sequence=live.sequence,
            category=category,
            **{"first": seen, "last": seen, **changes},
        )
        return self.post(ev.ReportReceived(report))

    def asked(self, replica: str) -> str | None:
        """Return the request for which a checkpoint of the replica may be awaited."""
        transaction = self.state.transaction_of(replica)
        return None if transaction is None or replica not in transaction.witnesses else transaction.request

    def acknowledge(
        self,
        replica: str,
        *,
        done: bool = True,
        checkpoint: Checkpoint | None = None,
        reason: str = "",
        age: float = 0.0,
    ) -> list[Action]:
        asked = self.asked(replica)
        assert asked is not None, f"nobody asks {replica} for a checkpoint"
        answer = Acknowledgement(
            schema=1,
            replica=replica,
            incarnation=self.live[replica].incarnation,
            id=asked,
            done=done,
            checkpoint=checkpoint,
            reason=reason,
            age=age,
        )
        return self.post(ev.InstructionAcknowledged(answer))

    def die(self, replica: str, exit_code: int | None = None, *, evicted: bool = False) -> list[Action]:
        return self.post(self._end(replica, exit_code, evicted=evicted))

    def _end(self, replica: str, exit_code: int | None, *, evicted: bool) -> ev.ReplicaGone:
        """End what lives, and return the word of it without telling the manager."""
        live = self.live.pop(replica)
        gone = ev.ReplicaGone(
            replica=replica, incarnation=live.incarnation, exit_code=exit_code, evicted=evicted
        )
        self.dead[live.incarnation] = gone
        return gone

    def reached(self, replica: str) -> int:
        """Return the last step of a replica; those that train as one go step by step."""
        record = self.state.replicas[replica]
        spec = self.state.jobs[record.job].spec
        names = spec.replicas if spec.coupled and replica in spec.replicas else (replica,)
        return max(self.state.replicas[name].progress.step or 0 for name in names)

    # -- a faultless backend ---------------------------------------------------------------------

    def carry_out_one(self, action: Action, *, again: bool = False) -> None:
        """Carry out one of the orders that wait; `again` leaves it there, to be carried out twice."""
        if not again:
            self.orders.remove(action)
        self._carry_out(action)

    def start(self, action: StartReplica) -> list[ev.Event]:
        """Start what is ordered, and return what is to be told of it."""
        incarnation = incarnation_of(action)
        known = self.live.get(action.replica)
        if known is not None and known.incarnation != incarnation:
            why = "another one lives"
            return [ev.StartRefused(replica=action.replica, start=action.start, reason=why)]
        node = action.node if known is None else known.node
        told: list[ev.Event] = [
            ev.ReplicaStarted(replica=action.replica, incarnation=incarnation, node=node, start=action.start)
        ]
        if incarnation in self.dead:
            told.append(self.dead[incarnation])
        elif known is None:
            self.live[action.replica] = Live(incarnation, action.node, f"session-{incarnation}")
        return told

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, StartReplica):
            for event in self.start(action):
                self.post(event)
        elif isinstance(action, EvictReplica | PlaceJob) and is_stale(action, self.now):
            self.post(ev.OrderExpired(transaction=action.transaction))
        elif isinstance(action, EvictReplica):
            self._evict(action)
        elif isinstance(action, SetWeight):
            running = self.live.get(action.replica)
            if running is not None and running.incarnation == action.incarnation:
                running.weight = action.weight
        elif isinstance(action, HoldRoom):
            self.room[action.transaction, action.replica] = action.node
            self.post(ev.RoomHeld(transaction=action.transaction, replica=action.replica))
        elif isinstance(action, ReleaseRoom):
            self.room.pop((action.transaction, action.replica), None)
        elif isinstance(action, RequestCheckpoint):
            self._save(action)

    def _evict(self, action: EvictReplica) -> None:
        known = self.live.get(action.replica)
        if known is None or action.incarnation not in {None, known.incarnation}:
            self.post(ev.ReplicaGone(replica=action.replica, incarnation=action.incarnation))
        else:
            self.die(action.replica, self.exit_code, evicted=True)

    exit_code = 143
    """What trainers answer an eviction with."""
    sidecars_answer = True
    """Whether sidecars answer a request for a checkpoint by themselves."""

    def _save(self, action: RequestCheckpoint) -> None:
        live = self.live.get(action.replica)
        if live is None or live.incarnation != action.incarnation or self.asked(action.replica) != action.id:
            return
        self.post(
            ev.InstructionDelivered(id=action.id, replica=action.replica, incarnation=action.incarnation)
        )
        if not self.sidecars_answer:
            return
        saved = self.reached(action.replica)
        if self.asked(action.replica) == action.id:
            checkpoint = Checkpoint(step=saved, path="/c", digest=DIGEST)
            self.acknowledge(action.replica, checkpoint=checkpoint)


def _tells_of_steps(before: State, event: ev.Event, after: State) -> bool:
    """Whether an event is a report that brought no transaction on, and left every replica in its phase."""
    if not isinstance(event, ev.ReportReceived) or before.transactions != after.transactions:
        return False
    former, replica = (state.replicas.get(event.report.replica) for state in (before, after))
    phases = [None if each is None else (each.phase, each.incarnation) for each in (former, replica)]
    return phases[0] == phases[1] and before.requests == after.requests and before.claims == after.claims


def incarnation_of(action: StartReplica) -> str:
    return f"{action.replica}.{action.start}"
