"""A cluster that cannot be relied upon: what is said and done comes lost, doubled, late, refused, killed.

The machines of the property tests of `step` are made of this: they say which jobs there are and what is asked
of the policy.
"""

from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, HoldRoom, ReleaseRoom, StartReplica
from specon_manager.model.cluster import Phase, job_of
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Deadlines
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.transactions import ASKING_STATES, UNTOUCHED_STATES, Transaction
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Checkpoint, Hang, Observation, Report
from support.decisions.cluster import DIGEST, Cluster, Live, key_of

NODES = 3
CPUS = 3.0
DEADLINES = Deadlines(start=8, hold=4, checkpoint=8, eviction_margin=4, verify=15, crash_backoff=1, ready=12)
LONGEST = 400.0
"""In so many seconds without faults every move has ended and everything runs or is over."""

HANG = Hang(age=1.0, silent=600.0, usual=1.0)

pick = st.integers(min_value=0, max_value=30)
categories = st.sampled_from(list(Category)) | st.just(Category.CONVERGED)
steps = st.integers(min_value=0, max_value=60)
rarely = st.sampled_from([False, False, False, True])
seconds = st.sampled_from([1.0, 0.0, 0.1, 1.0, 1.0, 3.0, 5.0, 9.0, 20.0, 500.0])


class Chaos(RuleBasedStateMachine):
    """A cluster, its sidecars and its manager; none of them is reliable."""

    cluster: Cluster

    def calm(self) -> None:
        """Let the policy do nothing any more but start what waits."""

    def startable(self, snapshot: Snapshot) -> Iterable[str]:
        """Return the names of what waits though it could be started."""
        raise NotImplementedError

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
        """Lose the word that something was started, while it is waited for."""
        self._start_unseen(number, self._awaited)

    def _awaited(self, order):
        replica = self.cluster.state.replicas[order.replica]
        return replica.phase is Phase.STARTING and replica.starts == order.start

    def _start_unseen(self, number, may=lambda order: True):
        starts = [order for order in self._next_orders() if isinstance(order, StartReplica) and may(order)]
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

    @rule(
        number=pick, count=st.integers(min_value=1, max_value=6), late=st.sampled_from([0.0, 0.0, 5.0, 300.0])
    )
    @precondition(lambda self: self.cluster.state.transactions)
    def get_one_on(self, *, number, count, late=0.0):
        """One transaction gets what it waits for, so that they get far and not only begin."""
        chosen = _nth(_in_flight(self.cluster.state), number)
        for _ in range(count):
            now = self.cluster.state.transactions.get(chosen.id)
            if now is None:
                return
            self._one_step_of(now, late)

    def _one_step_of(self, each: Transaction, late: float = 0.0) -> None:
        cluster = self.cluster
        keys = {*each.concerned, f"job {each.job}"}
        keys |= {f"{each.id} {name}" for name in each.concerned}
        keys |= {f"checkpoint {name}" for name in each.concerned}
        order = next((order for order in cluster.orders if key_of(order) in keys), None)
        if order is not None:
            cluster.carry_out_one(order)
            return
        asked = [n for n, w in each.witnesses.items() if not w.answered and n in cluster.live]
        if each.state in ASKING_STATES and asked and not cluster.sidecars_answer:
            saved = cluster.reached(asked[0])
            checkpoint = Checkpoint(step=saved, path="/c", digest=DIGEST)
            cluster.acknowledge(asked[0], checkpoint=checkpoint, age=late)
            return
        self._others_do(each)
        here = sorted({*each.concerned} & cluster.live.keys())
        steps = {name: cluster.reached(name) for name in here}
        for name in here:
            known = steps[name]
            cluster.report(name, Category.CONVERGED, step=known + 1)

    def _others_do(self, each: Transaction) -> None:
        """Let those other than the manager do their part of a transaction, where there are any."""

    @rule(number=pick, member=pick, exit_code=st.sampled_from([1, None, 0]), again=st.booleans())
    @precondition(lambda self: _under_way(self.cluster.state))
    def hurt_one(self, *, number, member, exit_code, again):
        """Something that a transaction is about dies, once or whenever it is started again."""
        chosen = _nth(_under_way(self.cluster.state), number)
        for _ in range(6 if again else 1):
            here = sorted({*chosen.concerned} & self.cluster.live.keys())
            if here:
                self.cluster.die(_nth(here, member), exit_code)
            now = self.cluster.state.transactions.get(chosen.id)
            if now is None:
                return
            if again:
                self._one_step_of(now)

    @rule(number=pick, passed=st.sampled_from([0.0, 1.0]))
    @precondition(lambda self: self.cluster.state.transactions)
    def be_late(self, *, number, passed):
        """Let the present state of a transaction be overdue; nothing that it waits for came about."""
        chosen = _nth(_in_flight(self.cluster.state), number)
        self.cluster.tick(max(0.0, chosen.deadline - self.cluster.now) + passed)
        after = self.cluster.state.transactions.get(chosen.id)
        assert after is None or after.deadline > self.cluster.now

    @rule()
    @precondition(lambda self: self.cluster.orders)
    def carry_everything_out(self):
        self.cluster.exit_code = 143
        self.cluster.carry_out()

    @rule(number=pick)
    @precondition(lambda self: self.cluster.orders)
    def refuse(self, *, number):
        """Fail an order, unless it is an eviction that is not given again; room can always be given up."""
        order = _nth(self._next_orders(), number)
        if isinstance(order, ReleaseRoom):
            return
        if isinstance(order, StartReplica) and order.replica in self.cluster.live:
            return
        self.cluster.orders.remove(order)
        if isinstance(order, StartReplica):
            self.cluster.post(
                ev.StartRefused(replica=order.replica, start=order.start, reason="no such image")
            )
        elif isinstance(order, HoldRoom):
            self.cluster.post(
                ev.RoomRefused(transaction=order.transaction, replica=order.replica, reason="full")
            )
        elif isinstance(order, EvictReplica) and order.transaction:
            self.cluster.post(
                ev.EvictionRefused(replica=order.replica, incarnation=order.incarnation, reason="it hangs")
            )

    @rule(number=pick)
    @precondition(lambda self: any(map(_may_expire, self._next_orders())))
    def expire(self, *, number):
        """Let an order to end come too late for the checkpoint that permits it: nothing is ended."""
        order = _nth([order for order in self._next_orders() if _may_expire(order)], number)
        self.cluster.orders.remove(order)
        self.cluster.post(ev.OrderExpired(transaction=order.transaction))

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
        self.cluster.post(ev.ReportReceived(report))

    @rule(odd=st.booleans(), step=steps)
    @precondition(lambda self: self.cluster.live)
    def converge(self, *, odd, step):
        """Many converge and their neighbours do not: without it hardly anything would move."""
        for index, replica in enumerate(sorted(self.cluster.live)):
            converged = index % 2 == odd
            category = Category.CONVERGED if converged else Category.PROGRESSING
            self.cluster.report(replica, category, step=step)

    @rule(number=pick, saved=st.none() | steps, all_of_it=st.sampled_from([True, True, False]))
    @precondition(lambda self: self.cluster.live)
    def hang(self, *, number, saved, all_of_it):
        """Let the steps of a replica, or of all of its job, stop while its processes wait."""
        replica = _nth(sorted(self.cluster.live), number)
        peers = [name for name in sorted(self.cluster.live) if job_of(name) == job_of(replica)]
        step = saved or self.cluster.reached(replica) if replica in self.cluster.state.replicas else saved
        checkpoint = None if step is None else Checkpoint(step=step, path="/c", digest=DIGEST)
        for name in peers if all_of_it else [replica]:
            self.cluster.report(name, step=None, hang=HANG, checkpoint=checkpoint)
        self.cluster.tick()

    @rule()
    @precondition(lambda self: self.cluster.live)
    def train_on(self):
        # A pod may be of a job that is named and described otherwise by now.
        known = sorted(self.cluster.live.keys() & self.cluster.state.replicas.keys())
        steps = {name: self.cluster.reached(name) + 1 for name in known}
        for replica in known:
            self.cluster.report(replica, Category.CONVERGED, step=steps[replica])

    @rule(number=pick, step=steps)
    @precondition(lambda self: self.cluster.live)
    def report_of_a_ghost(self, *, number, step):
        """Hear of an incarnation that never was: nothing may come of it."""
        replica = _nth(sorted(self.cluster.live), number)
        report = Report(
            schema=1,
            replica=replica,
            incarnation="ghost",
            session="ghost",
            sequence=step,
            category=Category.CONVERGED,
            first=_seen(step),
            last=_seen(step),
        )
        before = self.cluster.state
        assert self.cluster.post(ev.ReportReceived(report)) == []
        assert self.cluster.state == before

    @rule(number=pick)
    @precondition(lambda self: self.cluster.live)
    def restart_sidecar(self, *, number):
        live = self.cluster.live[_nth(sorted(self.cluster.live), number)]
        live.session, live.sequence = f"{live.session}+", 0

    @rule(
        number=pick,
        wrong=st.sampled_from(["", "", "id", "incarnation"]),
        done=st.sampled_from([True, True, False]),
        saved=st.none() | steps,
        verified=st.booleans(),
    )
    @precondition(lambda self: _asking(self.cluster.state))
    def answer(self, *, number, wrong, done, saved, verified):
        """Answer though nobody waits, or for another request, or without what makes it an answer."""
        chosen = _nth(_asking(self.cluster.state), number)
        name = _nth(sorted(chosen.witnesses), number)
        live = self.cluster.live.get(name, Live("none", "none", "none"))
        before = self.cluster.state
        self.cluster.post(
            ev.InstructionAcknowledged(
                Acknowledgement(
                    schema=1,
                    replica=name,
                    incarnation="ghost" if wrong == "incarnation" else live.incarnation,
                    id="move-0" if wrong == "id" else chosen.request,
                    done=done,
                    checkpoint=None
                    if saved is None
                    else Checkpoint(step=saved, path="/c", digest=DIGEST if verified else None),
                )
            )
        )
        if wrong or chosen.state not in ASKING_STATES:
            assert self.cluster.state == before

    @rule(number=st.integers(min_value=0, max_value=10_000))
    def hear_again(self, *, number):
        """Anything that was said before may be said again, however late.

        Except what was said of incarnations before the last that ended: a replica remembers one.
        """
        said = [event for _, event, _ in self.cluster.history if self._repeatable(event)]
        if said:
            self.cluster.post(said[-1 - number % len(said)])

    def _repeatable(self, event):
        if isinstance(event, ev.ReplicaStarted | ev.ReplicaGone):
            replica = self.cluster.state.replicas[event.replica]
            return event.incarnation in {None, replica.incarnation, replica.former}
        return not isinstance(event, ev.Tick | ev.ManagerStarted | ev.NodeObserved)

    # -- what must be true in the end ------------------------------------------------------------

    def teardown(self):
        if hasattr(self, "cluster"):
            self._everything_ends_well()
            self._replays()

    def _everything_ends_well(self):
        cluster = self.cluster
        self.calm()
        for index in range(NODES):
            capacity = Resources(cpu=CPUS, memory=8e9)
            cluster.post(ev.NodeObserved(node=f"node-{index}", capacity=capacity, usage=Resources()))
        cluster.exit_code = 143
        cluster.sidecars_answer = True
        steps_taken = 1000
        until = cluster.now + LONGEST
        quiet = 0
        while cluster.now < until and quiet < 5:
            cluster.carry_out()
            steps_taken += 1
            for replica in sorted(cluster.live):
                cluster.report(replica, Category.PROGRESSING, step=steps_taken)
            state = cluster.state
            cluster.tick(1.0 if state.transactions else 4.0)
            state = cluster.state
            waits = any(map(_starting, state.replicas.values()))
            busy = state.transactions or state.unwanted or cluster.orders or waits
            quiet = 0 if busy else quiet + 1
        cluster.carry_out()
        assert not cluster.state.transactions, cluster.state.transactions
        assert not cluster.state.unwanted, cluster.state.unwanted
        for replica in cluster.state.replicas.values():
            assert replica.leaving is None, f"{replica.name} is still to end"
            if replica.phase is Phase.RUNNING:
                assert cluster.live[replica.name].incarnation == replica.incarnation
                assert cluster.live[replica.name].node == replica.node
                assert cluster.live[replica.name].weight == replica.weight
            else:
                assert replica.phase is not Phase.STARTING
                assert replica.name not in cluster.live, f"{replica} lives"
        snapshot = cluster.state.snapshot(cluster.now)
        self._gangs_are_whole(snapshot)
        for name in self.startable(snapshot):
            raise AssertionError(f"{name} waits though there is room")
        assert not cluster.room, f"room is held for moves that ended: {cluster.room}"

    def _gangs_are_whole(self, snapshot):
        """All replicas of a job that trains as one run, or none does."""
        for name, members in snapshot.members.items():
            job = snapshot.jobs[name]
            present = [each for each in members if each.phase is not Phase.ABSENT and not each.ended]
            active = [each.active for each in present]
            if job.spec.coupled and job.spec.transacted:
                assert all(active) or not any(active), f"{job.name} runs in part: {present}"

    def _replays(self):
        state = State(settings=self.cluster.initial.settings)
        for now, event, actions in self.cluster.history:
            state, again = step(state, event, now)
            assert again == actions
        assert state == self.cluster.state


def _starting(replica):
    if replica.leaving is not None:
        return True
    return replica.phase in {Phase.PENDING, Phase.STARTING}


def _in_flight(state):
    return sorted(state.transactions.values(), key=lambda each: each.id)


def _under_way(state):
    """Return the transactions that have had an effect."""
    return [each for each in _in_flight(state) if each.state not in UNTOUCHED_STATES]


def _asking(state):
    return [each for each in _in_flight(state) if each.witnesses]


def _may_expire(order):
    return isinstance(order, EvictReplica) and order.fresh_until is not None


def _nth(items, number):
    return items[number % len(items)]


def _seen(step):
    return Observation(name="loss", value=1.0, age=0.0, step=step)
