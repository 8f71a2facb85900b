"""`step` with jobs that their owners place: described, deleted, moved by hand, at any moment."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import Phase
from specon_manager.model.constraints import Constraints, Taint
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import ASKING_STATES, TransactionState
from specon_sidecar.classify import Category
from support.decisions.chaos import CPUS, DEADLINES, NODES, pick, rarely
from support.decisions.gang_chaos import GangChaos
from support.decisions.owners import Owners, described

JOBS = "abc"
nodes = st.integers(min_value=0, max_value=NODES - 1)
kinds = st.fixed_dictionaries(
    {
        "replicas": st.sampled_from([2, 1, 2, 0, 3]),
        "coupled": st.sampled_from([False, True]),
        "savers": st.sampled_from(["lead", "all"]),
        "immovable": st.sampled_from([""] * 4 + ["its checkpoints are on an emptyDir"]),
        "on_hang": st.sampled_from(["report", "restart"]),
        "checkpointing": st.sampled_from(["asked"] * 4 + ["on-termination", "none"]),
        "constraints": st.sampled_from([Constraints()] * 4 + [Constraints(selector=(("disk", "ssd"),))]),
        "requests": st.sampled_from([Resources(cpu=0.5), Resources()]),
    }
)


class Owned(GangChaos):
    """Owners, a scheduler, people who ask for moves, and a manager that is killed now and then."""

    cluster: Owners

    @initialize(
        jobs=st.lists(kinds, min_size=len(JOBS), max_size=len(JOBS)),
        saving=st.booleans(),
        ahead=st.integers(min_value=0, max_value=7),
    )
    def begin(self, *, jobs, saving, ahead):
        """Let something run and a first move be asked for."""
        self.cluster = Owners(
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
        if self.cluster.state.transactions:
            self.get_one_on(number=0, count=ahead)

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
            move.target == f"node-{node}" and move.changing_at is None
            for move in self.cluster.state.transactions.values()
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
        """Each is ordered or refused, once: a repeated request under the same name changes nothing."""
        names = [*sorted(self.cluster.state.replicas), "default/nothing/worker/0"]
        identity = f"default/by-hand-{name}"
        state = self.cluster.state
        names_known = {*state.transactions, *state.requests, *(each.id for each in state.history)}
        known = identity in names_known
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
        begun = [move for move in after.transactions.values() if move.id == identity]
        refused = [move for move in after.history if move.id == identity]
        waits = [request for request in after.requests.values() if request.id == identity]
        assert len(begun) + len(refused) + len(waits) == 1
        assert all(request.waits_for for request in waits)
        assert bool(begun) == bool(actions)
        assert all(move.note for move in refused)
        assert self.cluster.post(event) == []

    @rule(number=st.integers(0, 12))
    def withdraw(self, *, number):
        """Somebody wants a move no more; one that has begun goes on."""
        identity = f"default/by-hand-{number}"
        waited = identity in self.cluster.state.requests
        flying = self.cluster.state.transactions
        self.cluster.post(ev.RequestWithdrawn(id=identity))
        assert identity not in self.cluster.state.requests
        assert self.cluster.state.transactions == flying
        if waited:
            assert self.cluster.state.history[-1].state is TransactionState.REFUSED

    @rule(number=pick)
    def refuse_order(self, *, number):
        """Where nothing was ended yet, the replica runs where it was."""
        orders = [each for each in self._next_orders() if isinstance(each, PlaceJob) and each.transaction]
        if not orders:
            return
        order = orders[number % len(orders)]
        self.cluster.orders.remove(order)
        before = self.cluster.state.transactions.get(order.transaction)
        self.cluster.post(
            ev.JobRefused(job=order.job, transaction=order.transaction, reason="a disruption budget")
        )
        if before is None or before.attempt > 1 or before.state is not TransactionState.LEAVING:
            return
        replicas = [self.cluster.state.replicas[name] for name in before.concerned]
        asked = {name: witness.incarnation for name, witness in before.witnesses.items()}
        known = dict(before.ending) | asked  # of those that its owner has replaced meanwhile: another one
        if all(
            each.name in self.cluster.live and each.incarnation == known.get(each.name) for each in replicas
        ):
            assert before.id not in self.cluster.state.transactions
            assert all(each.phase is Phase.RUNNING and each.leaving is None for each in replicas)

    @rule(number=pick)
    def expire_order(self, *, number):
        """Let an order to end come too late for the checkpoint that permits it: another one is asked for."""
        orders = [each for each in self._next_orders() if isinstance(each, PlaceJob) and each.fresh_until]
        if not orders:
            return
        order = orders[number % len(orders)]
        self.cluster.orders.remove(order)
        before = self.cluster.state.transactions.get(order.transaction)
        self.cluster.post(ev.OrderExpired(transaction=order.transaction))
        after = self.cluster.state.transactions.get(order.transaction)
        if before is not None and after is not None and after.asks > before.asks:
            assert after.state in ASKING_STATES

    # -- as in `Chaos`, where replicas may be gone ------------------------------------------------

    def _awaited(self, order):
        replica = self.cluster.state.replicas.get(order.replica)
        return replica is not None and replica.phase is Phase.STARTING and replica.starts == order.start

    def _repeatable(self, event):
        if isinstance(event, ev.ReplicaStarted | ev.ReplicaGone):
            replica = self.cluster.state.replicas.get(event.replica)
            return replica is not None and event.incarnation in {replica.incarnation, replica.former}
        gone = ev.JobGone | ev.NodeGone | ev.JobObserved
        return not isinstance(event, ev.Tick | ev.ManagerStarted | ev.NodeObserved | gone)

    def calm(self):
        """Owners get everything going that they want, wherever they are asked to."""
        self.cluster.scheduled, self.cluster.prompt = None, True
        self.cluster.start_all()

    def startable(self, snapshot):
        assert not snapshot.pending
        assert not snapshot.waiting
        assert not snapshot.unplaced
        return ()


TestOwned = Owned.TestCase
TestOwned.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
