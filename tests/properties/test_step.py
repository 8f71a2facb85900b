"""`step` against everything that can happen, in any order: lost, doubled, late, refused, killed."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import RequestCheckpoint, StartReplica
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint, Observation, Report
from support.cluster import DIGEST, Cluster, Live, key_of, replica_of

JOBS = "abcde"
NODES = 3
CPUS = 2.0
DEADLINES = Deadlines(start=8, hold=4, checkpoint=8, eviction_margin=4, verify=15, crash_backoff=1)
LONGEST = 400.0
"""In so many seconds without faults every move has ended and everything runs or is over."""

pick = st.integers(min_value=0, max_value=30)
categories = st.sampled_from(list(Category)) | st.just(Category.CONVERGED)
steps = st.integers(min_value=0, max_value=60)
seconds = st.sampled_from([0.0, 0.1, 1.0, 3.0, 5.0, 9.0, 20.0, 500.0])


class Chaos(RuleBasedStateMachine):
    """A cluster, its sidecars and its manager, none of which can be relied upon."""

    @initialize(
        at_once=st.sampled_from([1, 2, 4]),
        per_node=st.sampled_from([1, 3]),
        literal=st.booleans(),
        gate=st.booleans(),
        grace=st.sampled_from([0.0, 5.0]),
    )
    def begin(self, *, at_once, per_node, literal, gate, grace):
        self.grace = grace
        self.cluster = Cluster(
            nodes=NODES,
            cpus=CPUS,
            settings=Settings(
                parameters={"literal": literal},
                budgets=Budgets(
                    moves_at_once=at_once,
                    moves_at_once_per_node=per_node,
                    moves_per_replica=3,
                    cooldown=0,
                    retry_cooldown=1,
                ),
                gate=Gate(enabled=gate, margin=0, expected_downtime=0),
                deadlines=DEADLINES,
            ),
        )
        self.sent: list[Report] = []

    # -- owners ----------------------------------------------------------------------------------

    @rule(
        job=st.sampled_from(JOBS),
        cpu=st.sampled_from([0.0, 1.0, 1.0, 2.0]),
        restarts=st.sampled_from([0, 3, 1000]),
        checkpointing=st.sampled_from(["asked", "asked", "on-termination", "none"]),
    )
    def submit(self, *, job, cpu, restarts, checkpointing):
        self.cluster.submit(
            job,
            requests=Resources(cpu=cpu),
            restarts=restarts,
            checkpointing=checkpointing,
            grace_seconds=self.grace,
        )

    # -- time and the manager --------------------------------------------------------------------

    @rule(passed=seconds)
    def tick(self, *, passed):
        self.cluster.tick(passed)

    @rule(passed=seconds, silently=st.lists(pick, max_size=2), dying=st.lists(pick, max_size=2))
    def kill_manager(self, *, passed, silently, dying):
        """Orders may have been carried out, and processes may die, without the manager's hearing of it."""
        for number in silently:
            self._start_unseen(number)
        for number in dying:
            if self.cluster.live:
                self.cluster._end(_nth(sorted(self.cluster.live), number), None, evicted=False)
        self.cluster.now += passed
        self.cluster.restart_manager()

    @rule(number=pick)
    def start_unseen(self, *, number):
        """The word that something was started is lost."""
        self._start_unseen(number)

    def _start_unseen(self, number):
        starts = [order for order in self._next_orders() if isinstance(order, StartReplica)]
        if starts:
            order = _nth(starts, number)
            self.cluster.orders.remove(order)
            self.cluster.start(order)

    # -- the backend -----------------------------------------------------------------------------

    def _next_orders(self):
        """Return the oldest order of each key."""
        heads = {}
        for order in self.cluster.orders:
            heads.setdefault(key_of(order), order)
        return list(heads.values())

    @rule(number=pick, again=st.booleans(), exit_code=st.sampled_from([143, 0, 1, None]))
    @precondition(lambda self: self.cluster.orders)
    def carry_out(self, *, number, again, exit_code):
        self.cluster.exit_code = exit_code
        self.cluster.carry_out_one(_nth(self._next_orders(), number), again=again)

    @rule()
    @precondition(lambda self: self.cluster.orders)
    def carry_everything_out(self):
        self.cluster.exit_code = 143
        self.cluster.carry_out()

    @rule(number=pick)
    @precondition(lambda self: self.cluster.orders)
    def refuse(self, *, number):
        order = _nth(self._next_orders(), number)
        self.cluster.orders.remove(order)
        if isinstance(order, StartReplica):
            self.cluster.post(
                ev.StartRefused(replica=order.replica, start=order.start, reason="no such image")
            )
        elif type(order).__name__ == "HoldRoom":
            self.cluster.post(ev.RoomRefused(move=order.move, reason="full"))

    @rule(number=pick, exit_code=st.sampled_from([0, 1, 137, None]))
    @precondition(lambda self: self.cluster.live)
    def die(self, *, number, exit_code):
        self.cluster.die(_nth(sorted(self.cluster.live), number), exit_code)

    @rule(node=st.integers(min_value=0, max_value=NODES - 1), ready=st.booleans(), used=st.floats(0, CPUS))
    def observe(self, *, node, ready, used):
        self.cluster.post(
            ev.NodeObserved(
                node=f"node-{node}",
                capacity=Resources(cpu=CPUS, memory=8e9),
                usage=Resources(cpu=used),
                ready=ready,
            )
        )

    # -- sidecars --------------------------------------------------------------------------------

    @rule(
        number=pick,
        category=categories,
        step=st.none() | steps,
        first=st.none() | steps,
        saved=st.none() | steps,
        verified=st.booleans(),
        total=st.none() | st.just(60),
    )
    @precondition(lambda self: self.cluster.live)
    def report(self, *, number, category, step, first, saved, verified, total):
        replica = _nth(sorted(self.cluster.live), number)
        live = self.cluster.live[replica]
        live.sequence += 1
        report = Report(
            schema=1,
            replica=replica,
            incarnation=live.incarnation,
            session=live.session,
            sequence=live.sequence,
            category=category,
            first=None if first is None else _seen(first),
            last=None if step is None else _seen(step),
            checkpoint=None
            if saved is None
            else Checkpoint(step=saved, path="/c", digest=DIGEST if verified else None),
            total_steps=total,
        )
        self.sent.append(report)
        self.cluster.post(ev.ReportReceived(report))

    @rule(category=st.just(Category.CONVERGED), step=steps)
    @precondition(lambda self: self.cluster.live)
    def converge(self, *, category, step):
        """Many converge and their neighbours do not: without it hardly anything would move."""
        for index, replica in enumerate(sorted(self.cluster.live)):
            self.cluster.report(replica, category if index % 2 else Category.PROGRESSING, step=step)

    @rule(number=pick)
    @precondition(lambda self: self.cluster.live)
    def restart_sidecar(self, *, number):
        live = self.cluster.live[_nth(sorted(self.cluster.live), number)]
        live.session, live.sequence = f"{live.session}+", 0

    @rule(
        number=pick,
        wrong=st.booleans(),
        done=st.booleans(),
        saved=st.none() | steps,
        verified=st.booleans(),
    )
    @precondition(lambda self: self.cluster.state.moves)
    def answer(self, *, number, wrong, done, saved, verified):
        """An answer nobody waited for, or of the wrong move, or without what makes it one."""
        move = _nth(sorted(self.cluster.state.moves.values(), key=lambda move: move.id), number)
        live = self.cluster.live.get(move.replica, Live("none", "none", "none"))
        self.cluster.post(
            ev.InstructionAcknowledged(
                Acknowledgement(
                    schema=1,
                    replica=move.replica,
                    incarnation=live.incarnation,
                    id="move-0" if wrong else move.id,
                    done=done,
                    checkpoint=None
                    if saved is None
                    else Checkpoint(step=saved, path="/c", digest=DIGEST if verified else None),
                )
            )
        )

    @rule(number=st.integers(min_value=0, max_value=10_000))
    def hear_again(self, *, number):
        """Anything that was said before may be said again, however late."""
        said = [
            event
            for _, event, _ in self.cluster.history
            if not isinstance(event, ev.Tick | ev.ManagerStarted | ev.NodeObserved)
        ]
        if said:
            self.cluster.post(said[-1 - number % len(said)])

    # -- what must be true -----------------------------------------------------------------------

    @invariant()
    def budget_of_crashes(self):
        if not hasattr(self, "cluster"):
            return
        for replica in self.cluster.state.replicas.values():
            restarts = self.cluster.state.jobs[replica.job].spec.restarts
            assert replica.crashes <= restarts + 1
            assert (replica.phase is Phase.FAILED) == (replica.crashes > restarts)

    def teardown(self):
        if hasattr(self, "cluster"):
            self._everything_ends_well()
            self._replays()

    def _everything_ends_well(self):
        cluster = self.cluster
        for index in range(NODES):
            capacity = Resources(cpu=CPUS, memory=8e9)
            cluster.post(ev.NodeObserved(node=f"node-{index}", capacity=capacity, usage=Resources()))
        cluster.exit_code = 143
        steps_taken = 1000
        until = cluster.now + LONGEST
        while cluster.now < until:
            cluster.carry_out()
            for replica in sorted(cluster.live):
                steps_taken += 1
                cluster.report(replica, Category.PROGRESSING, step=steps_taken)
            cluster.tick()
        assert not cluster.state.moves, cluster.state.moves
        waiting = []
        for replica in cluster.state.replicas.values():
            if replica.phase is Phase.RUNNING:
                assert cluster.live[replica.name].incarnation == replica.incarnation
                assert cluster.live[replica.name].node == replica.node
            elif not replica.ended:
                waiting.append(replica)
            if replica.phase is not Phase.RUNNING:
                assert replica.name not in cluster.live, f"{replica} lives"
        snapshot = cluster.state.snapshot(cluster.now)
        for replica in waiting:
            assert replica.phase is Phase.PENDING
            fits = [replica.requests.fits(snapshot.room(node)) for node in cluster.state.nodes]
            assert not any(fits), f"{replica} waits though there is room"
        assert not cluster.room, f"room is held for moves that ended: {cluster.room}"

    def _replays(self):
        state = State(settings=self.cluster.initial.settings)
        for now, event, actions in self.cluster.history:
            state, again = step(state, event, now)
            assert again == actions
        assert state == self.cluster.state


def _nth(items, number):
    return items[number % len(items)]


def _seen(step):
    return Observation(name="loss", value=1.0, age=0.0, step=step)


assert replica_of("a")
assert RequestCheckpoint

TestChaos = Chaos.TestCase
TestChaos.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
