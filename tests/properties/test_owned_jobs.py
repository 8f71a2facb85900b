"""`step` with jobs that their owners place: described, deleted, moved by hand, at any moment."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.constraints import Constraints, Taint
from specon_manager.model.moves import MoveState
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_sidecar.classify import Category
from support.chaos import CPUS, DEADLINES, NODES, Chaos, pick, rarely
from support.owned import OwnedCluster, described

JOBS = "abc"
nodes = st.integers(min_value=0, max_value=NODES - 1)
kinds = st.fixed_dictionaries(
    {
        "replicas": st.sampled_from([1, 2, 1, 0, 3]),
        "immovable": st.sampled_from([""] * 4 + ["its checkpoints are on an emptyDir"]),
        "checkpointing": st.sampled_from(["asked"] * 4 + ["on-termination", "none"]),
        "constraints": st.sampled_from([Constraints()] * 4 + [Constraints(selector=(("disk", "ssd"),))]),
        "requests": st.sampled_from([Resources(cpu=0.5), Resources()]),
    }
)


class Owned(Chaos):
    """Owners, a scheduler, people who ask for moves, and a manager that is killed now and then."""

    cluster: OwnedCluster

    @initialize(
        jobs=st.lists(kinds, min_size=len(JOBS), max_size=len(JOBS)),
        saving=st.booleans(),
        ahead=st.integers(min_value=0, max_value=7),
    )
    def begin(self, *, jobs, saving, ahead):
        """Let something run and a first move be asked for."""
        self.cluster = OwnedCluster(
            nodes=NODES,
            cpus=CPUS,
            settings=Settings(
                policy="specon",
                budgets=Budgets(
                    moves_at_once=4,
                    moves_at_once_per_node=99,
                    moves_per_replica=999,
                    cooldown=0,
                    retry_cooldown=1,
                ),
                gate=Gate(enabled=False),
                deadlines=DEADLINES,
            ),
        )
        self.cluster.sidecars_answer = saving
        for name, kind in zip(JOBS, jobs, strict=True):
            self.cluster.observe(described(name, **kind))
        self.cluster.start_all()
        for replica in sorted(self.cluster.live):
            self.cluster.report(replica, Category.PROGRESSING, step=10)
        for number, replica in enumerate(sorted(self.cluster.live)[:2]):
            self.cluster.post(ev.MoveRequested(id=f"default/first-{number}", replica=replica))
        if self.cluster.state.moves:
            self.get_a_move_on(number=0, count=ahead)

    # -- owners and the scheduler ----------------------------------------------------------------

    @rule(job=st.sampled_from(JOBS), kind=kinds)
    def describe(self, *, job, kind):
        self.cluster.observe(described(job, **kind))

    @rule(job=st.sampled_from(JOBS))
    def delete(self, *, job):
        self.cluster.remove(f"default/{job}")

    @rule(node=nodes)
    def start_all(self, *, node):
        self.cluster.start_all(f"node-{node}")

    @rule(number=pick, node=nodes)
    @precondition(lambda self: self.cluster.live)
    def replace_unseen(self, *, number, node):
        """Lose the word of an end, but not that of the next start."""
        name = sorted(self.cluster.live)[number % len(self.cluster.live)]
        if any(name in spec.replicas for spec in self.cluster.specs.values()):
            self.cluster._end(name, None, evicted=True)
            self.cluster.appears(name, f"node-{node}")

    @rule(number=pick, exit_code=st.sampled_from([0, 143, None]))
    @precondition(lambda self: self.cluster.live)
    def drain(self, *, number, exit_code):
        """Somebody else makes a pod go."""
        self.cluster.die(sorted(self.cluster.live)[number % len(self.cluster.live)], exit_code, evicted=True)

    @rule(node=st.none() | nodes)
    def schedule(self, *, node):
        """From now on the scheduler puts everything there, or does as it is asked."""
        self.cluster.scheduled = None if node is None else f"node-{node}"

    # -- nodes -----------------------------------------------------------------------------------

    @rule(node=nodes)
    def lose_node(self, *, node):
        self.cluster.post(ev.NodeGone(node=f"node-{node}"))
        assert not any(
            move.target == f"node-{node}" and move.state in {MoveState.PROPOSED, MoveState.RESERVED}
            for move in self.cluster.state.moves.values()
        )

    @rule(node=nodes, ssd=st.booleans(), tainted=rarely)
    def describe_node(self, *, node, ssd, tainted):
        self.cluster.post(
            ev.NodeObserved(
                node=f"node-{node}",
                capacity=Resources(cpu=CPUS, memory=8e9),
                usage=Resources(),
                labels={"disk": "ssd"} if ssd else {},
                taints=(Taint(key="gpu"),) if tainted else (),
            )
        )

    # -- requests and refusals -------------------------------------------------------------------

    @rule(number=pick, name=st.integers(0, 12), wanted=st.none() | st.integers(0, NODES))
    def ask_for_a_move(self, *, number, name, wanted):
        """Each is ordered or refused, once: whoever asks again under the same name changes nothing."""
        names = [*sorted(self.cluster.state.replicas), "default/nothing/worker/0"]
        identity = f"default/by-hand-{name}"
        state = self.cluster.state
        known = any(move.id == identity for move in (*state.moves.values(), *state.history))
        event = ev.MoveRequested(
            id=identity,
            replica=names[number % len(names)],
            target=None if wanted is None else f"node-{wanted}",
        )
        actions = self.cluster.post(event)
        after = self.cluster.state
        if known:
            assert (after, actions) == (state, [])
            return
        begun = [move for move in after.moves.values() if move.id == identity]
        refused = [move for move in after.history if move.id == identity]
        assert len(begun) + len(refused) == 1
        assert bool(begun) == bool(actions)
        assert all(move.note for move in refused)
        assert self.cluster.post(event) == []

    @rule(number=pick)
    def refuse_eviction(self, *, number):
        """Nothing was ended: the replica runs where it was."""
        orders = [order for order in self._next_orders() if isinstance(order, EvictReplica)]
        if not orders:
            return
        order = orders[number % len(orders)]
        move = self.cluster.state.moves.get(order.replica)
        refused = ev.EvictionRefused(
            replica=order.replica, incarnation=order.incarnation, reason="a disruption budget"
        )
        if move is None or move.attempt > 1 or order.replica not in self.cluster.live:
            self.cluster.post(refused)
            return
        self.cluster.orders.remove(order)
        self.cluster.post(refused)
        replica = self.cluster.state.replicas[order.replica]
        if move.incarnation == order.incarnation and move.state is MoveState.EVICTING:
            assert order.replica not in self.cluster.state.moves
            assert replica.phase is Phase.RUNNING

    # -- as in `Chaos`, where replicas may be gone ------------------------------------------------

    def _awaited(self, order):
        replica = self.cluster.state.replicas.get(order.replica)
        return replica is not None and replica.phase is Phase.STARTING and replica.starts == order.start

    def _told_again(self, replica):
        return replica in self.cluster.state.moves

    def _repeatable(self, event):
        if isinstance(event, ev.ReplicaStarted | ev.ReplicaGone):
            replica = self.cluster.state.replicas.get(event.replica)
            return replica is not None and event.incarnation in {replica.incarnation, replica.former}
        gone = ev.JobGone | ev.NodeGone | ev.JobObserved
        return not isinstance(event, ev.Tick | ev.ManagerStarted | ev.NodeObserved | gone)

    def calm(self):
        """Owners get everything going that they want, wherever they are asked to."""
        self.cluster.scheduled = None
        self.cluster.start_all()

    def startable(self, snapshot):
        assert not snapshot.pending
        assert not snapshot.waiting
        assert not snapshot.unplaced
        return ()


TestOwned = Owned.TestCase
TestOwned.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
