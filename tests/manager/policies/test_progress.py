"""specon's own policy as a whole: the order of the queue, mixed clusters, and that nobody starves."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_lab.engine.run import simulate
from specon_lab.workloads.poisson import PoissonWorkload, generate
from specon_lab.workloads.workload import NodeFailure
from specon_manager.core.plan import plan
from specon_manager.model.actions import AdmitGang, Claim, Migrate, Preempt, Reweight, subject
from specon_manager.model.cluster import Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Deadlines, Settings
from specon_manager.policies.progress import ProgressSettings, propose
from support.decisions.expected import in_place, left, left_alone, served, sharing, worlds
from support.decisions.gang_worlds import NOW, Layout, nodes_of, said, spec_of
from support.lab.invariants import Invariants
from support.lab.simulations import job, nodes, sharing_job, workload

DEFAULT = ProgressSettings()
TRIAL = {"job_class": "trial"}
STARVED = {"submitted_at": NOW - 1e6}


def done(layout, settings=DEFAULT):
    return said(propose(layout.snapshot, settings))


def starts(layout, settings=DEFAULT):
    return [name for kind, name, _ in done(layout, settings) if kind == "AdmitGang"]


# -- the order of the queue ----------------------------------------------------------------------


def test_the_least_expected_work_starts_first():
    """Whenever it was submitted; of equals the older."""
    layout = Layout(nodes_of(1)).add(spec_of("long", 2)).add(spec_of("short", 2)).add(spec_of("twin", 2))
    for name, seconds in (("long", 500.0), ("short", 50.0), ("twin", 50.0)):
        left(layout, name, seconds)
    assert starts(layout) == ["short", "twin"]


def test_what_its_kind_took_orders_jobs_of_which_nothing_is_measured():
    """Three jobs of the kind are enough."""
    layout = Layout(nodes_of(1)).add(spec_of("a", 4, kind="long")).add(spec_of("b", 4, kind="short"))
    assert starts(served(layout, long=(3, 900.0), short=(3, 90.0))) == ["b"]


@pytest.mark.parametrize(("power", "first"), [(0.0, "large"), (1.0, "small")])
def test_the_size_counts_by_its_power(power, first):
    """A whole node for 100 s is more work than a quarter for 150 s, where size counts."""
    layout = Layout(nodes_of(1)).add(spec_of("large", 4)).add(spec_of("small", 1))
    left(left(layout, "large", 100.0), "small", 150.0)
    assert starts(layout, ProgressSettings(size_power=power)) == [first]


def test_trials_come_before_all_others():
    """Also before those with less to do, and those that starve."""
    layout = Layout(nodes_of(1)).add(spec_of("short", 4)).add(spec_of("starved", 4), **STARVED)
    layout.add(spec_of("trial", 4, **TRIAL))
    assert starts(left(layout, "short", 1.0)) == ["trial"]


def test_who_starves_comes_before_those_who_do_not_the_oldest_first():
    """Whatever they have to do."""
    layout = Layout(nodes_of(1)).add(spec_of("short", 4))
    layout.add(spec_of("starved", 2), **STARVED).add(spec_of("younger", 2), **STARVED)
    for name, seconds in (("short", 1.0), ("starved", 900.0), ("younger", 1.0)):
        left(layout, name, seconds)
    assert starts(layout) == ["starved", "younger"]


@pytest.mark.parametrize(
    ("age", "seconds", "starved"),
    [(3600, 1, False), (3601, 1, True), (3604, 901, False), (3605, 901, True)],
)
def test_a_job_is_late_after_its_patience_and_twice_its_fair_share(age, seconds, starved):
    """More than an hour, and more than twice its own time on half of the cluster: two jobs ask for all."""
    layout = Layout(nodes_of(1)).add(spec_of("short", 4)).add(spec_of("j", 4), submitted_at=NOW - age)
    left(left(layout, "short", 0.5), "j", seconds)
    assert starts(layout) == (["j"] if starved else ["short"])


# -- who starves ---------------------------------------------------------------------------------


def test_room_is_kept_for_who_starves_and_others_take_the_rest():
    """On node 0, which is free first; the GPU that is free there now goes to nobody."""
    layout = Layout().add(spec_of("soon", 3), "0 0 0").add(spec_of("late", 3), "1 1 1")
    left(left(layout, "soon", 100.0), "late", 900.0)
    layout.add(spec_of("starved", 4), **STARVED).add(spec_of("a")).add(spec_of("b"))
    placed = "worker/0@0 worker/1@0 worker/2@0 worker/3@0"
    assert done(layout) == [("AdmitGang", "a", "worker/0@1"), ("Claim", "starved", placed)]


def test_there_are_never_two_claims_for_those_who_starve():
    """Not in one call, and not where an older one starves later."""
    layout = Layout().add(spec_of("x", 4), "0 0 0 0").add(spec_of("y", 4), "1 1 1 1")
    layout.add(spec_of("old", 4), **STARVED).add(spec_of("young", 4), **STARVED)
    assert [name for kind, name, _ in done(layout) if kind == "Claim"] == ["old"]
    layout.claim("young", {f"default/young/worker/{k}": "node-0" for k in range(4)})
    assert done(layout) == []


def test_a_trial_for_which_nobody_can_end_has_room_kept_when_it_starves():
    """All that runs would lose everything; best-effort jobs do not take what becomes free."""
    runs = {"checkpointing": "none"}
    layout = Layout(nodes_of(1)).add(spec_of("x", 3, **runs), "0 0 0").add(spec_of("b"))
    layout.add(spec_of("t", 4, **TRIAL), **STARVED)
    placement = "worker/0@0 worker/1@0 worker/2@0 worker/3@0"
    assert done(layout) == [("Claim", "t", placement)]
    layout.claim("t", {f"default/t/worker/{k}": "node-0" for k in range(4)})
    assert done(layout) == []


def test_nobody_is_preempted_for_room_that_another_waits_for():
    """The victim's room would go to who has the claim, and the trial would wait on."""
    layout = Layout(nodes_of(1)).add(spec_of("x", 4), "0 0 0 0").add(spec_of("starved", 4), **STARVED)
    layout.add(spec_of("t", 1, **TRIAL))
    assert ("Preempt", "x", "") in done(layout)
    layout.claim("starved", {f"default/starved/worker/{k}": "node-0" for k in range(4)})
    assert done(layout) == []


def test_a_claim_gives_way_to_a_crashed_replica_of_who_must_end_first():
    """Then it is made anew, in the call in which the replica starts."""
    layout = Layout(nodes_of(1)).add(spec_of("gang", 4), "0 0 0 0", trains_since=None)
    layout.change("gang/worker/3", phase=Phase.PENDING, crashes=1).add(spec_of("starved", 4), **STARVED)
    kept = {f"default/starved/worker/{k}": "node-0" for k in range(4)}
    placed = "worker/0@0 worker/1@0 worker/2@0 worker/3@0"
    assert done(layout) == [("Admit", "gang/worker/3", "0"), ("Claim", "starved", placed)]
    assert done(layout.claim("starved", kept)) == [("Claim", "starved", "")]


# -- trials and mixed clusters -------------------------------------------------------------------


def test_a_trial_without_room_preempts_as_fitgpp_does():
    """The small one with the short grace period."""
    layout = Layout(nodes_of(1)).add(spec_of("large", 3, grace_seconds=90.0), "0 0 0")
    layout.add(spec_of("small", 1, grace_seconds=5.0), "0").add(spec_of("t", 1, **TRIAL))
    assert done(layout) == [("Preempt", "small", ""), ("Claim", "t", "worker/0@0")]


def mixed():
    """Return two nodes where jobs share, one reserves, and some of each kind wait."""
    layout = in_place(Layout(nodes_of(3, cpu=8.0)))
    for name, place, seconds in (("a", "0", 90.0), ("b", "0", 300.0)):
        layout.add(sharing(name), place, trains_since=NOW - 5)
        left_alone(layout, name, seconds)
    cores = {"requests": Resources(cpu=4.0)}
    layout.add(spec_of("own", **cores), "1").add(sharing("new")).add(spec_of("next", **cores))
    return layout.add(spec_of("t", **cores, **TRIAL))


def test_in_a_mixed_cluster_everybody_is_served_by_the_rule_of_its_kind():
    """Who shares starts where least is to do and gets a weight; who reserves has room; trials go first."""
    assert done(mixed()) == [
        ("AdmitGang", "new", "worker/0@2"),
        ("Reweight", "b/worker/0", ""),
        ("AdmitGang", "t", "worker/0@1"),
        ("AdmitGang", "next", "worker/0@0"),
    ]


def test_nothing_is_reweighted_where_weights_cannot_be_changed():
    """As on the local backend."""
    layout = in_place(mixed(), reweight=False)
    assert "Reweight" not in {kind for kind, *_ in done(layout)}


def test_without_ready_nodes_nothing_is_proposed():
    """And nothing goes wrong."""
    assert done(Layout({}).add(spec_of("j")).add(sharing("k"))) == []


# -- what holds for every cluster ----------------------------------------------------------------


@given(worlds(), st.sampled_from(["best-fit", "first-fit"]), st.sampled_from([0.5, 1e6]))
@settings(max_examples=200)
def test_the_planner_lets_everything_through_but_moves_that_gain_nothing(layout, choice, ratio):
    """Capacity, whole gangs, claims, minima; only gate and budgets have a say that a policy cannot know."""
    proposals = list(propose(layout.snapshot, ProgressSettings(node_choice=choice, shrink_ratio=ratio)))
    verdicts = plan(layout.state, proposals, NOW, layout.snapshot)
    refused = [v for v in verdicts if v.objection is not None and not isinstance(v.proposal, Migrate)]
    assert refused == []
    assert all(proposal.reason for proposal in proposals)


@given(worlds())
def test_nothing_is_proposed_twice(layout):
    """One proposal of a kind for a job or a replica, one claim for those who starve, one move from a node."""
    snapshot = layout.snapshot
    proposals = list(propose(snapshot, DEFAULT))
    counted = Counter((type(p), subject(p)) for p in proposals)
    assert set(counted.values()) <= {1}
    sources = Counter(snapshot.replicas[p.replica].node for p in proposals if isinstance(p, Migrate))
    assert set(sources.values()) <= {1}
    started = {p.job for p in proposals if isinstance(p, AdmitGang)}
    assert not started & {p.job for p in proposals if isinstance(p, Claim)}


@given(worlds())
def test_no_trial_is_preempted_and_nobody_beyond_the_cap(layout):
    """A job that was preempted `max_preemptions` times stays."""
    snapshot = layout.snapshot
    for proposal in propose(snapshot, DEFAULT):
        if isinstance(proposal, Preempt):
            victim = snapshot.jobs[proposal.job]
            assert victim.spec.job_class == "best-effort"
            assert victim.preemptions < 1
        if isinstance(proposal, Reweight):
            assert snapshot.reweight


@given(worlds())
def test_the_same_snapshot_gives_the_same_proposals_whatever_the_order_of_its_records(layout):
    """Every ordering ends in an id."""
    state = layout.state
    turned = msgspec.structs.replace(
        state,
        nodes=dict(reversed(state.nodes.items())),
        jobs=dict(reversed(state.jobs.items())),
        replicas=dict(reversed(state.replicas.items())),
        claims=dict(reversed(state.claims.items())),
    )
    assert list(propose(layout.snapshot, DEFAULT)) == list(propose(turned.snapshot(NOW), DEFAULT))


# -- simulated -----------------------------------------------------------------------------------


def completed(outcome):
    return {done.state for done in outcome.jobs} <= {"completed", "cannot-run"}


@given(
    st.builds(
        PoissonWorkload,
        jobs=st.just(12),
        nodes=st.integers(2, 3),
        interarrival=st.sampled_from([10.0, 60.0]),
        median=st.sampled_from([60.0, 300.0]),
        trials=st.sampled_from([0.0, 0.3]),
        curves=st.just(0.0),
    ),
    st.integers(0, 1000),
)
@settings(max_examples=15, deadline=None)
def test_every_job_that_can_run_completes(generated, seed):
    """Gangs that grow, shrink and are preempted, with a node that is lost for a while."""
    base = generate(generated, seed)
    lost = NodeFailure(node=base.nodes[0].name, at=100.0, seconds=200.0)
    simulated = msgspec.structs.replace(base, failures=(lost,))
    assert completed(simulate(simulated, "progress", parameters={"patience": 600}, check=Invariants()))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200), st.integers(5, 300)), min_size=2, max_size=8))
@settings(max_examples=20, deadline=None)
def test_every_job_of_a_mixed_cluster_completes(drawn):
    """Jobs that share beside jobs that reserve half a node, trials among them."""
    jobs = [
        sharing_job(k, at=float(at), seconds=float(seconds))
        if shares
        else job(
            k, at=float(at), seconds=float(seconds), requests=Resources(cpu=4.0), spec=TRIAL if k % 3 else {}
        )
        for k, (shares, at, seconds) in enumerate(drawn)
    ]
    outcome = simulate(workload(*jobs, on=nodes(2)), "progress", check=Invariants())
    assert {done.state for done in outcome.jobs} == {"completed"}


HALF, WHOLE = Resources(cpu=4.0), Resources(cpu=8.0)


def stream(*, seconds=100.0, every=45.0, count=120, **spec):
    """Return small jobs that keep half of a node busy for ever, and a large one that needs all of it."""
    small = [
        job(k, at=every * k, seconds=seconds, requests=HALF, spec={"kind": "small", **spec})
        for k in range(count)
    ]
    return small, every * count


def waited_of_the_large(small, parameters, *, settings=None, spec=None):
    large = job(
        10_000,
        at=10.0,
        seconds=100.0,
        requests=WHOLE,
        spec={"kind": "large", "grace_seconds": 5.0, **(spec or {})},
    )
    outcome = simulate(
        workload(*small, large, on=nodes(1)),
        "progress",
        parameters=parameters,
        settings=settings,
        check=Invariants(),
    )
    assert {done.state for done in outcome.jobs} == {"completed"}
    return next(done.started_at for done in outcome.jobs if done.name.endswith("10000")) - 10.0


PATIENT = {"patience": 600.0, "patience_factor": 1.0, "prior_seconds": 100.0}


def test_a_large_job_waits_no_longer_than_the_stated_bound():
    """Patience, then what the longest that runs takes, its grace period and two ticks; else until the end."""
    small, over = stream()
    tick = 5.0
    bound = PATIENT["patience"] + 100.0 + 30.0 + 2 * tick
    assert PATIENT["patience"] < waited_of_the_large(small, PATIENT) <= bound
    assert waited_of_the_large(small, {**PATIENT, "patience": 1e9}) > over - 200.0


def test_the_bound_holds_for_each_of_several_in_turn():
    """Three jobs starve at once; the last waits for two others that take their turns before it."""
    small, _ = stream()
    large = [
        job(10_000 + k, at=10.0 + k, seconds=100.0, requests=WHOLE, spec={"kind": "large"}) for k in range(3)
    ]
    outcome = simulate(
        workload(*small, *large, on=nodes(1)), "progress", parameters=PATIENT, check=Invariants()
    )
    started = [done.started_at - done.submitted_at for done in outcome.jobs if "job-1000" in done.name]
    assert len(started) == 3
    each = 100.0 + 30.0 + 10.0
    for turn, waited in enumerate(started):
        assert PATIENT["patience"] < waited <= PATIENT["patience"] + (turn + 1) * each


def test_the_bound_holds_where_claims_are_shorter_than_jobs():
    """Room is kept for a minute at a time, and those that run take eight: what is kept is kept on."""
    small, over = stream(seconds=480.0, every=230.0, count=30)
    short = Settings(deadlines=Deadlines(claim=60.0))
    bound = PATIENT["patience"] + 480.0 + 30.0 + 10.0
    assert waited_of_the_large(small, PATIENT, settings=short) <= bound < over


def test_the_bound_holds_for_a_trial_for_which_nobody_can_be_preempted():
    """Those that run write no checkpoints."""
    small, over = stream(checkpointing="none")
    bound = PATIENT["patience"] + 100.0 + 30.0 + 10.0
    assert PATIENT["patience"] < waited_of_the_large(small, PATIENT, spec=TRIAL) <= bound
    assert waited_of_the_large(small, {**PATIENT, "patience": 1e9}, spec=TRIAL) > over - 200.0
