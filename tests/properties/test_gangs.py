"""`step` with gangs that grow, shrink, are preempted and moved at random: nothing is lost, all of it ends."""

from contextlib import ExitStack

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.model.settings import Budgets, Gate, Settings
from support.decisions import random_policy, told
from support.decisions.chaos import CPUS, DEADLINES, NODES, Chaos
from support.decisions.cluster import Cluster
from support.decisions.gangs import gang

pytestmark = pytest.mark.timeout(900)  # of a hang; 50 s on an idle machine, six times that beside much else

JOBS = "abcdef"
job_kinds = st.fixed_dictionaries(
    {
        "workers": st.sampled_from([2, 1, 2, 3]),
        "ps": st.sampled_from([1, 0, 1, 2]),
        "spare": st.sampled_from([1, 0, 2]),
        "fewest": st.sampled_from([1, None, 2]),
        "cpu": st.sampled_from([0.5, 1.0, 0.0]),
        "lead": st.sampled_from([None, None, 1.0]),
        "restarts": st.sampled_from([1000, 3, 1000, 0]),
        "on_hang": st.sampled_from(["report", "restart"]),
        "checkpointing": st.sampled_from(["asked"] * 5 + ["on-termination", "none"]),
        "grace_seconds": st.sampled_from([0.0, 5.0]),
        "coupled": st.sampled_from([True, False]),
    }
)


class Gangs(Chaos):
    """Jobs of many replicas, and a policy that nobody can rely upon either."""

    def __init__(self):
        super().__init__()
        self.open = ExitStack()
        self.open.enter_context(told.registered(random_policy.propose, random_policy.RandomSettings))

    @initialize(
        seed=st.integers(0, 1000),
        at_once=st.sampled_from([4, 1]),
        preemptions=st.sampled_from([3, 1, 100]),
        saving=st.booleans(),
        jobs=st.lists(job_kinds, min_size=3, max_size=len(JOBS)),
    )
    def begin(self, *, seed, at_once, preemptions, saving, jobs):
        self.cluster = Cluster(
            nodes=NODES,
            cpus=CPUS,
            settings=Settings(
                policy=told.NAME,
                parameters={"seed": seed},
                budgets=Budgets(
                    moves_at_once=at_once,
                    moves_at_once_per_node=3,
                    moves_per_replica=3,
                    cooldown=0,
                    retry_cooldown=1,
                    preemptions_per_job=preemptions,
                ),
                gate=Gate(enabled=False),
                deadlines=DEADLINES,
                reweight=True,
            ),
        )
        self.cluster.whole = True
        self.cluster.sidecars_answer = saving
        for name, kind in zip(JOBS, jobs, strict=False):
            self.submit(job=name, **kind)
        self.cluster.tick()
        self.cluster.carry_out()
        self.go_on(times=5, reported=True)

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
            if reported:
                self.train_on()
            self.cluster.tick()

    @rule(job=st.sampled_from(JOBS), exit_code=st.sampled_from([0, 0, 1]))
    def all_workers_end(self, *, job, exit_code):
        """One job comes to its end, its parameter servers do not."""
        for replica in sorted(self.cluster.live):
            if replica.startswith(f"default/{job}/worker/"):
                self.cluster.die(replica, exit_code)

    @invariant()
    def only_a_job_that_is_given_up_fails(self):
        if not hasattr(self, "cluster"):
            return
        state = self.cluster.state
        for job in state.jobs.values():
            members = [state.replicas[name] for name in job.spec.replicas]
            given_up = [replica for replica in members if replica.crashes > job.spec.restarts]
            assert all(replica.crashes <= job.spec.restarts + 1 for replica in members)
            assert all(replica.phase is Phase.FAILED for replica in given_up)
            assert given_up or not any(replica.phase is Phase.FAILED for replica in members)

    def calm(self):
        settings = self.cluster.state.settings
        calm = msgspec.structs.replace(settings, parameters={**settings.parameters, "calm": True})
        self.cluster.post(ev.ManagerStarted("calm", calm))

    def startable(self, snapshot):
        assert not snapshot.claims
        for job in snapshot.waiting:
            if random_policy.first_fit(job, snapshot) is not None:
                yield job.name
        for job in snapshot.running:
            for replica in snapshot.members[job.name]:
                if replica.phase is Phase.PENDING and any(
                    replica.requests.fits(snapshot.room(node)) for node in snapshot.nodes
                ):
                    yield replica.name
            trains = all(r.phase is not Phase.PENDING for r in snapshot.members[job.name])
            assert trains == (job.trains_since is not None)

    def teardown(self):
        with self.open:
            super().teardown()


TestGangs = Gangs.TestCase
TestGangs.settings = settings(max_examples=70, stateful_step_count=40, deadline=None, derandomize=True)
