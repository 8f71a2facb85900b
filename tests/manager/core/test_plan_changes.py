"""What speaks against scalings and preemptions that need a checkpoint and a proof."""

import msgspec
import pytest

from specon_manager.core.plan import plan
from specon_manager.model.actions import Preempt, Refusal, ScaleIn, ScaleOut
from specon_manager.model.cluster import Phase
from specon_manager.model.settings import Budgets
from support.decisions.changed_worlds import W1, W2, W3, G, change_of, grow, owned, runs
from support.decisions.gangs import gang, on, worker

GROW = ScaleOut(job=G, placement=on("node-1", W2), reason="idle")
SHRINK = ScaleIn(job=G, replicas=(W1,), reason="another waits")
PREEMPT = Preempt(job=G, reason="a trial waits")


def judged(state, *proposals, now=2000.0):
    return [verdict.objection and verdict.objection.refusal for verdict in plan(state, proposals, now)]


@pytest.mark.parametrize(
    ("described", "proposal", "expected"),
    [
        ({}, GROW, None),
        ({}, SHRINK, None),
        ({}, PREEMPT, None),
        ({"resizing": "none"}, GROW, Refusal.NOT_ELASTIC),
        ({"resizing": "none"}, SHRINK, Refusal.NOT_ELASTIC),
        ({"resizing": "none"}, PREEMPT, None),
        ({"checkpointing": "none"}, GROW, Refusal.NO_CHECKPOINT),
        ({"checkpointing": "none"}, SHRINK, Refusal.NO_CHECKPOINT),
        ({"checkpointing": "none"}, PREEMPT, Refusal.NO_CHECKPOINT),
        ({"unpreemptible": "never"}, PREEMPT, Refusal.FORBIDDEN),
        ({"top_down": True}, GROW, None),
        ({"top_down": True}, ScaleOut(job=G, placement=on("node-1", W3), reason="gap"), Refusal.NOT_ELASTIC),
    ],
)
def test_what_a_job_is_decides_what_may_be_done_with_it(described, proposal, expected):
    """Every refusal has its code."""
    with runs(**described) as cluster:
        assert judged(cluster.state, proposal) == [expected]


def test_only_the_highest_worker_goes_where_its_owner_numbers_them():
    """Without gaps."""
    with runs(workers=3, top_down=True) as cluster:
        lower = ScaleIn(job=G, replicas=(W1,), reason="why")
        higher = ScaleIn(job=G, replicas=(W2,), reason="why")
        assert judged(cluster.state, lower) == [Refusal.NOT_ELASTIC]
        assert judged(cluster.state, higher) == [None]


def test_a_job_one_of_whose_workers_waits_is_not_scaled():
    """It does not train as it is."""
    with runs() as cluster:
        cluster.die(W1, 1)
        assert judged(cluster.state, GROW, SHRINK) == [Refusal.NOT_RUNNING, Refusal.NOT_RUNNING]


def test_a_job_one_of_whose_workers_is_done_is_not_scaled():
    """It is about to be over."""
    with runs() as cluster:
        cluster.die(W1, 0)
        assert judged(cluster.state, GROW) == [Refusal.NOT_ELASTIC]


def test_a_job_one_of_whose_workers_only_starts_is_not_preempted():
    """It is asked for a checkpoint when all of it runs, or what started is lost."""
    with runs() as cluster:
        starting = msgspec.structs.replace(cluster.state.replicas[W1], phase=Phase.STARTING, incarnation=None)
        assert judged(cluster.state.with_replica(starting), PREEMPT) == [Refusal.NOT_RUNNING]


def test_a_job_whose_user_is_changing_it_is_left_alone():
    """Its number and its pods have to agree first."""
    with owned(top_down=True) as cluster:
        cluster.prompt = False
        spec = msgspec.structs.replace(cluster.specs[G], present=1)
        cluster.observe(spec)
        assert judged(cluster.state, GROW) == [Refusal.IN_FLIGHT]


def test_a_job_rests_after_a_change():
    """Scalings and preemptions of it are refused until then."""
    with runs() as cluster:
        rested = msgspec.structs.replace(cluster.state.jobs[G], cooldown_until=2000.5)
        state = cluster.state.with_job(rested)
        assert judged(state, GROW, PREEMPT) == [Refusal.COOLDOWN, Refusal.COOLDOWN]
        assert judged(state, GROW, now=2000.5) == [None]


@pytest.mark.parametrize(
    ("budget", "expected"), [(0, Refusal.CHANGE_BUDGET), (1, Refusal.CHANGE_BUDGET), (2, None)]
)
def test_the_cluster_has_a_budget_of_changes_in_flight(budget, expected):
    """Those accepted in the same plan count; admissions do not."""
    with runs() as cluster:
        other = gang("h", 2, ps=0, most=3, fewest=1, resizing="live")
        cluster.admit(other, on("node-2", worker("h", 0), worker("h", 1)))
        state = msgspec.structs.replace(
            cluster.state,
            settings=msgspec.structs.replace(cluster.state.settings, budgets=Budgets(changes_at_once=budget)),
        )
        second = ScaleOut(job="default/h", placement=on("node-2", worker("h", 2)), reason="idle")
        assert judged(state, GROW, second)[1] == expected


def test_nothing_else_is_begun_for_a_job_that_is_being_changed():
    """Neither another change nor a move."""
    with runs() as cluster:
        grow(cluster, W2)
        assert change_of(cluster).in_flight
        expected = [Refusal.IN_FLIGHT, Refusal.IN_FLIGHT]
        assert judged(cluster.state, SHRINK, PREEMPT) == expected
        assert cluster.state.transactions_of(G) == [change_of(cluster)]
