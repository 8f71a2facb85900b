"""`step` with gangs that are changed as wholes, against faults: admitted, scaled, preempted, and proven."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import TransactionState
from support.decisions import random_policy, told
from support.decisions.chaos import CPUS, DEADLINES, NODES
from support.decisions.cluster import Cluster
from support.decisions.gang_chaos import GangChaos
from support.decisions.gangs import gang

JOBS = "abcd"
job_kinds = st.fixed_dictionaries(
    {
        "workers": st.sampled_from([2, 1, 2, 3]),
        "ps": st.sampled_from([1, 0, 0]),
        "spare": st.sampled_from([1, 2, 0]),
        "fewest": st.sampled_from([1, 1, None]),
        "cpu": st.sampled_from([0.5, 0.5, 1.0]),
        "restarts": st.sampled_from([1000, 3, 1000, 0]),
        "on_hang": st.sampled_from(["report", "restart"]),
        "checkpointing": st.sampled_from(["asked"] * 6 + ["on-termination", "none"]),
        "resizing": st.sampled_from(["none", "live", "restart", "none", "live", "restart", "at-once"]),
        "savers": st.sampled_from(["lead", "all"]),
        "grace_seconds": st.sampled_from([5.0, 0.0]),
        "top_down": st.booleans(),
        "coupled": st.sampled_from([True, True, False]),
    }
)


class Changes(GangChaos):
    """Jobs that the manager places, and a policy that proposes whatever comes to its mind."""

    def __init__(self):
        super().__init__()
        self.open = told.registered(random_policy.propose, random_policy.RandomSettings)
        self.open.__enter__()

    @initialize(
        seed=st.integers(0, 1000),
        scaling=st.sampled_from([True, True, False]),
        at_once=st.sampled_from([16, 2, 1]),
        saving=st.sampled_from([True, True, False]),
        jobs=st.lists(job_kinds, min_size=2, max_size=len(JOBS)),
    )
    def begin(self, *, seed, scaling, at_once, saving, jobs):
        self.cluster = Cluster(
            nodes=NODES,
            cpus=CPUS,
            settings=Settings(
                policy=told.NAME,
                parameters={"seed": seed, "scaling": scaling},
                budgets=Budgets(
                    moves_at_once=2,
                    moves_at_once_per_node=3,
                    moves_per_replica=999,
                    cooldown=0,
                    retry_cooldown=1,
                    change_cooldown=1,
                    changes_at_once=at_once,
                    preemptions_per_job=3,
                ),
                gate=Gate(enabled=False),
                deadlines=DEADLINES,
            ),
        )
        self.cluster.whole = True
        self.cluster.sidecars_answer = saving
        for name, kind in zip(JOBS, jobs, strict=False):
            self.submit(job=name, **kind)
        self.go_on(times=6, reported=True)

    @rule(job=st.sampled_from(JOBS), kind=job_kinds)
    def submit_another(self, *, job, kind):
        self.submit(job=job, **kind)

    def submit(self, *, job, workers, spare, **kind):
        self.cluster.post(ev.JobSubmitted(gang(job, workers, most=workers + spare, **kind)))

    @rule(times=st.integers(1, 6), reported=st.booleans())
    def go_on(self, *, times, reported):
        """Let what is ordered come about, and the policy have its say each time."""
        for _ in range(times):
            self.cluster.carry_out()
            if reported and self.cluster.live:
                self.train_on()
            self.cluster.tick()

    @rule(job=st.sampled_from(JOBS), exit_code=st.sampled_from([0, 0, 1]))
    def all_workers_end(self, *, job, exit_code):
        """One job comes to its end, its parameter servers do not."""
        for replica in sorted(self.cluster.live):
            if replica.startswith(f"default/{job}/worker/"):
                self.cluster.die(replica, exit_code)

    @rule()
    @precondition(lambda self: self.cluster.state.transactions)
    def lose_where_it_goes(self):
        """Lose a node on which something is to start: the change is turned back at once."""
        for change in sorted(self.cluster.state.transactions.values(), key=lambda change: change.id):
            replicas = self.cluster.state.replicas
            coming = [name for name in sorted(change.wanted) if replicas[name].phase is not Phase.RUNNING]
            early = {TransactionState.CHECKPOINTING, TransactionState.COMING}
            if change.state not in early or not coming or change.changing_at is None:
                continue
            self.cluster.post(
                ev.NodeObserved(
                    node=change.wanted[coming[0]],
                    capacity=Resources(cpu=CPUS, memory=8e9),
                    usage=Resources(),
                    ready=False,
                )
            )
            after = self.cluster.state.transactions.get(change.id)
            assert after is None or after.attempt > change.attempt
            return

    def calm(self):
        settings = self.cluster.state.settings
        self.cluster.post(ev.ManagerStarted("calm", calmed(settings)))

    def startable(self, snapshot):
        assert not snapshot.claims
        for job in snapshot.waiting:
            tried_later = job.cooldown_until > snapshot.now
            if not tried_later and random_policy.first_fit(job, snapshot) is not None:
                yield job.name
        for job in snapshot.running:
            trains = all(r.phase is not Phase.PENDING for r in snapshot.members[job.name])
            assert trains == (job.trains_since is not None)

    def teardown(self):
        try:
            super().teardown()
        finally:
            self.open.__exit__(None, None, None)


def calmed(settings: Settings) -> Settings:
    """Return the settings with which the policy only starts what waits."""
    parameters = {**settings.parameters, "calm": True}
    return Settings(
        policy=settings.policy,
        parameters=parameters,
        budgets=settings.budgets,
        gate=settings.gate,
        deadlines=settings.deadlines,
    )


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=40, stateful_step_count=40, deadline=None, derandomize=True)
