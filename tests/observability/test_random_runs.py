"""What is counted whatever happens, with jobs of many replicas that move, grow, shrink and are killed."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from specon_manager.model import events as ev
from specon_manager.model.settings import Budgets, Gate, Settings
from specon_manager.model.transactions import Kind
from support.decisions import random_policy, told
from support.decisions.chaos import CPUS, DEADLINES, NODES, Chaos
from support.decisions.gangs import gang
from support.decisions.observed import Observed

# The limit is that of a hang: 35 s on an idle machine, thrice that beside others.
pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

MOST = 3


class Counted(Chaos):
    """Three jobs on three nodes, under a policy that proposes at random."""

    def __init__(self):
        super().__init__()
        self.registered = told.registered(random_policy.propose, random_policy.RandomSettings)
        self.registered.__enter__()
        self.former = {}

    @initialize(seed=st.integers(0, 1000))
    def begin(self, *, seed):
        budgets = Budgets(moves_per_replica=3, cooldown=0, retry_cooldown=1, moves_at_once_per_node=3)
        decided = Settings(
            policy=told.NAME,
            parameters={"seed": seed},
            budgets=budgets,
            gate=Gate(enabled=False),
            deadlines=DEADLINES,
            tick=0.5,
        )
        self.cluster = Observed(nodes=NODES, cpus=CPUS, settings=decided, most_replicas=MOST)
        self.cluster.whole = True
        for job in "abc":
            self.cluster.post(ev.JobSubmitted(gang(job, workers=2, ps=0, most=3, fewest=1, cpu=0.5)))
        self.go_on()

    def go_on(self):
        """Let everything start and report."""
        for _ in range(3):
            self.cluster.tick()
            self.cluster.carry_out()
            for replica in sorted(self.cluster.live):
                self.cluster.report(replica, step=10)

    def startable(self, snapshot):
        return []

    def teardown(self):
        self.registered.__exit__(None, None, None)

    @invariant()
    def counters_never_fall(self):
        """And what is scraped can be read."""
        if not hasattr(self, "cluster"):
            return
        families = list(text_string_to_metric_families(generate_latest(self.cluster.registry).decode()))
        counted = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families
            if family.type in {"counter", "histogram"}
            for sample in family.samples
        }
        assert all(value >= self.former.get(key, 0) for key, value in counted.items())
        assert set(self.former) <= set(counted)
        self.former = counted

    @invariant()
    def nothing_is_counted_twice_or_left_out(self):
        """Count as many reports and moves as there were."""
        if not hasattr(self, "cluster"):
            return
        value, state = self.cluster.value, self.cluster.state
        reports = sum(isinstance(event, ev.ReportReceived) for _, event, _ in self.cluster.history)
        taken, ignored = value("specon_reports_total"), value("specon_reports_ignored_total")
        assert taken + ignored == reports
        moves = [each for each in state.history if each.kind is Kind.MOVE]
        for (purpose, outcome), count in Counter((move.purpose, move.state) for move in moves).items():
            assert value("specon_moves_total", purpose=purpose, outcome=outcome) == count
        ended = Counter((each.kind, each.state, each.policy) for each in state.history)
        for (kind, how, policy), count in ended.items():
            assert value("specon_transactions_total", kind=kind, state=how, policy=policy) == count

    @invariant()
    def no_more_replicas_are_shown_than_may_be(self):
        """And none that nobody knows."""
        if not hasattr(self, "cluster"):
            return
        families = {family.name: family for family in self.cluster.registry.collect()}
        shown = families["specon_job_category"].samples
        assert len(shown) <= MOST
        names = {(sample.labels["job_name"], sample.labels["replica"]) for sample in shown}
        known = self.cluster.state.replicas.values()
        assert names <= {(each.job.partition("/")[2], f"{each.role}-{each.index}") for each in known}


TestCounted = Counted.TestCase
TestCounted.settings = settings(max_examples=30, stateful_step_count=20, deadline=None, derandomize=True)
