"""`step` with single replicas that move: against everything that can happen, in any order."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_sidecar.classify import Category
from support.decisions.chaos import CPUS, DEADLINES, NODES, Chaos, rarely
from support.decisions.cluster import Cluster

pytestmark = pytest.mark.timeout(900)  # of a hang; 40 s on an idle machine, eight times that beside much else

JOBS = "abcde"
job_kinds = st.tuples(
    st.sampled_from([1.0, 1.0, 0.0, 2.0]),
    st.sampled_from([3, 1000, 1000, 0]),
    st.sampled_from(["asked"] * 8 + ["on-termination"] * 4 + ["none"]),
)
"""Cores, restarts, and when it saves."""


class Moves(Chaos):
    """Jobs of one replica each, which SpeCon starts and moves."""

    @initialize(
        at_once=st.sampled_from([4, 2, 1]),
        per_node=st.sampled_from([3, 1]),
        literal=rarely,
        gate=rarely,
        grace=st.sampled_from([0.0, 5.0]),
        jobs=st.lists(job_kinds, min_size=len(JOBS), max_size=len(JOBS)),
        saving=st.booleans(),
        ahead=st.integers(min_value=0, max_value=7),
    )
    def begin(self, *, at_once, per_node, literal, gate, grace, jobs, saving, ahead):
        """Let some jobs run and some of them converge already: moves begin early."""
        self.grace = grace
        self.cluster = Cluster(
            nodes=NODES,
            cpus=CPUS,
            settings=Settings(
                policy="specon",
                parameters={"literal": literal},
                budgets=Budgets(
                    moves_at_once=at_once,
                    moves_at_once_per_node=per_node,
                    moves_per_replica=3,
                    cooldown=0,
                    retry_cooldown=1,
                ),
                gate=Gate(enabled=gate, margin=0, expected_downtime=0, horizon=1e6),
                deadlines=DEADLINES,
            ),
        )
        self.cluster.sidecars_answer = saving
        for name, (cpu, restarts, checkpointing) in zip(JOBS, jobs, strict=True):
            self.submit(job=name, cpu=cpu, restarts=restarts, checkpointing=checkpointing)
        self.cluster.tick()
        self.cluster.carry_out()
        for index, replica in enumerate(sorted(self.cluster.live)):
            moves = index in {0, 4}  # with one that grows, on a node with more to do than the third
            self.cluster.report(replica, Category.CONVERGED if moves else Category.PROGRESSING, step=10)
        self.cluster.tick()
        if self.cluster.state.transactions:
            self.get_one_on(number=0, count=ahead)

    # -- owners ----------------------------------------------------------------------------------

    @rule(job=st.sampled_from(JOBS), kind=job_kinds)
    def submit_another(self, *, job, kind):
        cpu, restarts, checkpointing = kind
        self.submit(job=job, cpu=cpu, restarts=restarts, checkpointing=checkpointing)

    def submit(self, *, job, cpu, restarts, checkpointing):
        self.cluster.submit(
            job,
            requests=Resources(cpu=cpu),
            restarts=restarts,
            checkpointing=checkpointing,
            on_hang="restart",
            grace_seconds=self.grace,
        )

    # -- what must be true -----------------------------------------------------------------------

    @invariant()
    def budget_of_crashes(self):
        if not hasattr(self, "cluster"):
            return
        for replica in self.cluster.state.replicas.values():
            restarts = self.cluster.state.jobs[replica.job].spec.restarts
            assert replica.crashes <= restarts + 1
            assert (replica.phase is Phase.FAILED) == (replica.crashes > restarts)

    def startable(self, snapshot):
        waiting = [r for r in snapshot.replicas.values() if r.phase is Phase.PENDING]
        for replica in waiting:
            if any(replica.requests.fits(snapshot.room(node)) for node in snapshot.nodes):
                yield replica.name


TestMoves = Moves.TestCase
TestMoves.settings = settings(max_examples=300, stateful_step_count=40, deadline=None, derandomize=True)
