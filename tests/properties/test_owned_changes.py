"""`step` with jobs that their owners place and let us admit, scale and preempt: edited, deleted, refused."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from specon_manager.model import events as ev
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import Phase, role_of
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import UNTOUCHED_STATES, TransactionState
from support.decisions import random_policy, told
from support.decisions.chaos import CPUS, DEADLINES, NODES, pick
from support.decisions.gang_chaos import GangChaos
from support.decisions.gangs import gang
from support.decisions.owners import Owners

JOBS = "abcd"
nodes = st.integers(min_value=0, max_value=NODES - 1)
kinds = st.fixed_dictionaries(
    {
        "workers": st.sampled_from([2, 1, 2, 3]),
        "ps": st.sampled_from([0, 0, 1]),
        "spare": st.sampled_from([1, 2, 0]),
        "fewest": st.sampled_from([1, 1, None]),
        "held": st.sampled_from([True, True, False]),
        "resizing": st.sampled_from(["none", "live", "restart", "none", "live", "restart"]),
        "savers": st.sampled_from(["lead", "all"]),
        "on_hang": st.sampled_from(["report", "restart"]),
        "checkpointing": st.sampled_from(["asked"] * 6 + ["on-termination", "none"]),
        "unpreemptible": st.sampled_from([""] * 5 + ["its PodDisruptionBudget forbids it"]),
        "top_down": st.booleans(),
        "grace_seconds": st.sampled_from([5.0, 0.0]),
    }
)


class OwnedChanges(GangChaos):
    """Owners that do as they are told, late, or not at all."""

    cluster: Owners

    def __init__(self):
        super().__init__()
        self.open = told.registered(random_policy.propose, random_policy.RandomSettings)
        self.open.__enter__()

    @initialize(
        seed=st.integers(0, 1000),
        scaling=st.sampled_from([True, True, False]),
        saving=st.sampled_from([True, True, False]),
        late=st.booleans(),
        jobs=st.lists(kinds, min_size=2, max_size=len(JOBS)),
    )
    def begin(self, *, seed, scaling, saving, late, jobs):
        self.cluster = Owners(
            nodes=NODES,
            cpus=CPUS,
            settings=Settings(
                policy=told.NAME,
                parameters={"seed": seed, "scaling": scaling},
                budgets=Budgets(
                    moves_at_once=2,
                    moves_at_once_per_node=99,
                    moves_per_replica=999,
                    cooldown=0,
                    retry_cooldown=1,
                    change_cooldown=1,
                    preemptions_per_job=3,
                ),
                gate=Gate(enabled=False),
                deadlines=DEADLINES,
            ),
        )
        self.cluster.prompt = True
        self.cluster.sidecars_answer = saving
        self.cluster.told_late = late
        for name, kind in zip(JOBS, jobs, strict=False):
            self.create(job=name, kind=kind)
        self.go_on(times=6, reported=True)

    # -- owners ----------------------------------------------------------------------------------

    @rule(job=st.sampled_from(JOBS), kind=kinds)
    def create(self, *, job, kind):
        if f"default/{job}" in self.cluster.specs:
            return
        kind = dict(kind)
        workers, spare = kind.pop("workers"), kind.pop("spare")
        spec = gang(job, workers, most=workers + spare, cpu=0.5, present=workers, **kind)
        self.cluster.create(spec)
        self.cluster.reconcile(spec.name)

    @rule(job=st.sampled_from(JOBS), workers=st.integers(1, 5))
    def edit(self, *, job, workers):
        """Somebody writes another number of workers; a change that wants neither ends at once."""
        name = f"default/{job}"
        if name not in self.cluster.specs:
            return
        workers = min(workers, len(self.cluster.specs[name].worker_names))
        change = self.cluster.state.whole_transaction_of(name)
        self.cluster.edit(name, workers)
        if change is None or change.kind in {"admit", "preempt", "put-back"}:
            return
        counts = {sum(role_of(r) != "ps" for r in side) for side in (change.before, change.after)}
        after = self.cluster.state.whole_transaction_of(name)
        assert workers in counts or after is None or after.id != change.id

    @rule(job=st.sampled_from(JOBS), fewer=st.booleans(), held=st.booleans())
    def describe(self, *, job, fewer, held):
        """Let somebody change how many workers a job may have, and whether it names a queue."""
        spec = self.cluster.specs.get(f"default/{job}")
        if spec is None:
            return
        names = spec.worker_names
        keep = names[: max(1, len(names) - 1)] if fewer else names
        changed = msgspec.structs.replace(
            spec, replicas=(*spec.ps, *keep), held=held, present=min(spec.present, len(keep))
        )
        self.cluster.placed.pop(spec.name, None)
        self.cluster.observe(changed)
        self.cluster.reconcile(spec.name)

    @rule(job=st.sampled_from(JOBS))
    def delete(self, *, job):
        self.cluster.remove(f"default/{job}")

    @rule(node=nodes)
    def start_all(self, *, node):
        self.cluster.start_all(f"node-{node}")

    @rule(prompt=st.booleans())
    def hurry(self, *, prompt):
        """From now on controllers are quick, or leave everything for later."""
        self.cluster.prompt = prompt

    @rule(node=st.none() | nodes)
    def schedule(self, *, node):
        """From now on the scheduler puts everything there, or does as it is asked."""
        self.cluster.scheduled = None if node is None else f"node-{node}"

    @rule(number=pick, exit_code=st.sampled_from([0, 143, None]))
    @precondition(lambda self: self.cluster.live)
    def drain(self, *, number, exit_code):
        """Somebody else makes a pod go."""
        self.cluster.die(sorted(self.cluster.live)[number % len(self.cluster.live)], exit_code, evicted=True)

    @rule(number=pick, node=nodes)
    @precondition(lambda self: self.cluster.live)
    def replace_unseen(self, *, number, node):
        """Lose the word of an end, but not that of the next start."""
        name = sorted(self.cluster.live)[number % len(self.cluster.live)]
        if name in self.cluster.wanted(name.rsplit("/", 2)[0]):
            self.cluster._end(name, None, evicted=True)
            self.cluster.appears(name, f"node-{node}")

    @rule(node=nodes)
    def lose_node(self, *, node):
        """Nothing is to start there any more, from this moment on."""
        name = f"node-{node}"
        self.cluster.post(ev.NodeGone(node=name))
        for change in self.cluster.state.transactions.values():
            coming = [r for r in change.wanted if self.cluster.state.replicas[r].phase is Phase.STARTING]
            if change.state is TransactionState.COMING:
                assert all(change.wanted[r] != name for r in coming)

    @rule(number=pick)
    def refuse_placing(self, *, number):
        """Refuse what is ordered of an owner: nothing is changed by halves because of it."""
        orders = [order for order in self._next_orders() if isinstance(order, PlaceJob) and order.transaction]
        if not orders:
            return
        order = orders[number % len(orders)]
        self.cluster.orders.remove(order)
        before = self.cluster.state.transactions.get(order.transaction)
        refused = ev.JobRefused(job=order.job, transaction=order.transaction, reason="the webhook denied it")
        self.cluster.post(refused)
        after = self.cluster.state.transactions.get(order.transaction)
        if before is not None and before.attempt == 1 and after is not None:
            open_states = UNTOUCHED_STATES | {TransactionState.VERIFYING}
            assert after.attempt == 2 or after.state in open_states

    @rule(times=st.integers(1, 6), reported=st.booleans())
    def go_on(self, *, times, reported):
        """Let what is ordered come about, and the policy have its say each time."""
        for _ in range(times):
            self.cluster.carry_out()
            if reported and self.cluster.live:
                self.train_on()
            self.cluster.tick()

    # -- as in `Chaos`, where replicas may be gone ------------------------------------------------

    def _others_do(self, change):
        self.cluster.reconcile(change.job)
        self.cluster._start_missing(change.job)

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
        """Owners do as they are told, and the policy only lets start what waits."""
        self.cluster.scheduled, self.cluster.prompt, self.cluster.told_late = None, True, False
        known = self.cluster.state.settings
        calm = msgspec.structs.replace(known, parameters={**known.parameters, "calm": True})
        self.cluster.see_objects()
        self.cluster.post(ev.ManagerStarted("calm", calm))
        self.cluster.start_all()

    def startable(self, snapshot):
        """Whatever was admitted runs as a whole, and of what waits nothing does."""
        cluster = self.cluster
        for job in snapshot.jobs.values():
            if job.ended_at is not None:
                continue
            idle = job.name in cluster.idle
            assert not (idle and job.admitted), f"{job.name} is suspended, and nothing would resume it"
            assert not (idle and not job.spec.held), f"{job.name} is suspended, and it names no queue"
            for name in cluster.wanted(job.name):
                replica = snapshot.replicas[name]
                assert replica.ended or replica.phase is Phase.RUNNING, f"{name} is {replica.phase}"
            for replica in snapshot.members[job.name]:
                waits = {Phase.PENDING} if idle else {Phase.ABSENT, Phase.RUNNING}
                assert replica.ended or replica.phase in waits | {Phase.ABSENT}, replica
            tried_later = job.cooldown_until > snapshot.now
            if idle and not tried_later and random_policy.first_fit(job, snapshot) is not None:
                yield job.name

    def teardown(self):
        try:
            super().teardown()
        finally:
            self.open.__exit__(None, None, None)


TestOwnedChanges = OwnedChanges.TestCase
TestOwnedChanges.settings = settings(max_examples=40, stateful_step_count=40, deadline=None, derandomize=True)
