"""Who is preempted for a job that is shorter: only where what is left was measured, and where it pays."""

import msgspec
import pytest

from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, Preempt, Refusal
from specon_manager.model.settings import Budgets, Settings
from specon_manager.policies.progress import ProgressSettings, propose
from support.decisions.expected import left, served
from support.decisions.gang_worlds import NOW, Layout, nodes_of, said, spec_of

SETTINGS = ProgressSettings(preemption_seconds=30.0)


def layout_of(long: float | None, short: float, **changes: object) -> Layout:
    """Return one node that `long` fills, and `short` that waits for half of it, with so many seconds left."""
    layout = Layout(nodes_of(1)).add(spec_of("long", 4, **changes), "0 0 0 0").add(spec_of("short", 2))
    if long is not None:
        left(layout, "long", long)
    return left(layout, "short", short)


def done(layout: Layout, settings: ProgressSettings = SETTINGS) -> list[tuple[object, ...]]:
    return said(propose(layout.snapshot, settings))


def test_a_job_with_much_more_left_makes_room_and_the_room_is_kept():
    """All of it ends, though half of its room would do."""
    assert done(layout_of(1000.0, 100.0)) == [
        ("Preempt", "long", ""),
        ("Claim", "short", "worker/0@0 worker/1@0"),
    ]


@pytest.mark.parametrize(
    ("long", "short", "preempted"),
    [(321.0, 100.0, True), (320.0, 100.0, False), (100.0, 1000.0, False), (None, 1.0, False)],
)
def test_a_victim_has_twice_as_much_left_and_what_it_costs_both(long, short, preempted):
    """Beyond it twice 30 s, and the grace period of 60 s. Of whom nothing was measured none is a victim."""
    layout = layout_of(long, short, grace_seconds=60.0)
    assert (("Preempt", "long", "") in done(layout)) is preempted


@pytest.mark.parametrize(
    "spared",
    [
        {"priority": 1},
        {"checkpointing": "none"},
        {"unpreemptible": "its owner says so"},
    ],
)
def test_who_may_not_be_preempted_is_not(spared):
    """As for trials: priorities, owners, and jobs that would lose everything."""
    assert done(layout_of(1000.0, 100.0, **spared)) == []


def test_a_job_trains_for_a_while_before_it_makes_room():
    """Else two jobs that wait in turn would do nothing but stop and start."""
    layout = Layout(nodes_of(1)).add(spec_of("long", 4), "0 0 0 0", trains_since=NOW - 59.0)
    layout.add(spec_of("short"))
    left(left(layout, "long", 1000.0), "short", 10.0)
    assert done(layout) == []


def test_who_is_late_makes_no_room():
    """So nobody's completion is put off without a bound."""
    layout = Layout(nodes_of(1)).add(spec_of("long", 4), "0 0 0 0", submitted_at=NOW - 1e5)
    layout.add(spec_of("short"))
    left(left(layout, "long", 1000.0), "short", 10.0)
    assert done(layout) == []


def test_as_few_as_suffice_end_those_with_the_most_left_first():
    """Each of three jobs would do, and only one ends."""
    layout = Layout(nodes_of(3))
    for number, seconds in enumerate((900.0, 1100.0, 1000.0)):
        layout.add(spec_of(f"long-{number}", 4), " ".join([str(number)] * 4))
        left(layout, f"long-{number}", seconds)
    left(layout.add(spec_of("short", 3)), "short", 10.0)
    assert [name for kind, name, _ in done(layout) if kind == "Preempt"] == ["long-1"]


def test_the_room_of_a_victim_goes_to_nobody_else():
    """In this call and in the next ones, until the job for which it was made starts in it."""
    layout = layout_of(1000.0, 100.0)
    layout.claim("short", {f"default/short/worker/{k}": "node-0" for k in range(2)})
    for worker in range(4):
        layout.leave(f"long/worker/{worker}", purpose="preempt")
    left(layout.add(spec_of("shorter", 4)), "shorter", 1.0)
    assert done(layout) == []


def test_a_claim_is_given_up_when_nobody_is_about_to_leave_its_room():
    """As where the victim could not save, and stays."""
    layout = layout_of(110.0, 100.0)
    layout.claim("short", {f"default/short/worker/{k}": "node-0" for k in range(2)})
    assert done(layout) == [("Claim", "short", "")]


def test_a_firm_claim_is_nobodys_to_give_up():
    """The manager keeps it for the job that has waited longest, also while its room is taken."""
    layout = layout_of(110.0, 100.0)
    layout.claim("short", {f"default/short/worker/{k}": "node-0" for k in range(2)})
    claims = {name: msgspec.structs.replace(claim, firm=True) for name, claim in layout.state.claims.items()}
    layout.state = msgspec.structs.replace(layout.state, claims=claims)
    assert done(layout) == []


def test_a_job_of_which_only_the_kind_is_known_can_be_the_newcomer():
    """It has not run yet: what its kind took is what is known."""
    layout = Layout(nodes_of(1)).add(spec_of("long", 4), "0 0 0 0").add(spec_of("new", 2, kind="short"))
    left(layout, "long", 1000.0)
    assert ("Preempt", "long", "") in done(served(layout, short=(3, 90.0)))


def test_nobody_is_preempted_for_length_without_a_ratio():
    """`preemption_ratio: null`."""
    assert done(layout_of(1000.0, 100.0), ProgressSettings(preemption_ratio=None)) == []


def test_the_cluster_has_a_budget_of_them_and_policy_and_plan_agree_on_it():
    """What the policy proposes the plan accepts; when the budget is spent neither does any."""
    budgets = Budgets(preemptions_per_node=1.0)
    layout = layout_of(1000.0, 100.0)
    layout.state = with_budgets(layout, budgets)
    assert layout.refused(propose(layout.snapshot, SETTINGS)) == []
    other = spec_of("before", 1)
    layout.add(other, preempted_at=(NOW - 1.0,))
    left(layout, "before", 1e6)
    assert [kind for kind, *_ in done(layout) if kind == "Preempt"] == []
    forced = Preempt(job="default/long", reason="why", beneficiary="default/short")
    assert "budget of preemptions" in layout.refused([forced])[0]
    trial = Preempt(job="default/long", reason="why", beneficiary="")
    assert layout.refused([trial]) == []


def test_a_gang_is_preempted_as_a_whole_and_counted():
    """Each of its replicas is told to end, and the time is remembered for the budget."""
    layout = layout_of(1000.0, 100.0)
    layout.state = with_budgets(layout, Budgets())
    after, actions = step(layout.state, ev.Tick(), NOW)
    evicted = [action.replica for action in actions if isinstance(action, EvictReplica)]
    assert evicted == [f"default/long/worker/{k}" for k in range(4)]
    assert after.jobs["default/long"].preempted_at == (NOW,)
    assert Refusal.PREEMPTION_BUDGET not in {decision.refusal for decision in after.decisions}


def with_budgets(layout: Layout, budgets: Budgets):
    """Return the layout's state with these budgets and the policy's defaults."""
    return msgspec.structs.replace(layout.state, settings=Settings(policy="progress", budgets=budgets))
