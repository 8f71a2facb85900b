"""DRAGON: whole gangs on the fewest nodes, room for urgent jobs, growth into what stays idle."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.actions import AdmitGang, Claim, ScaleIn, ScaleOut
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.policies.dragon import DragonSettings, LocalitySettings, propose, propose_locality
from support.decisions.gang_worlds import NOW, InstantWorld, Layout, layouts, nodes_of, said, spec_of

DEFAULT = DragonSettings()
FIFO = DragonSettings(victim_order="fifo")
LITERAL = DragonSettings(literal=True, victim_order="fifo")
URGENT = {"queued_at": NOW - 200.0}
IDLE = {"changed_at": NOW - 61.0}


def done(layout, settings=DEFAULT):
    return said(propose(layout.snapshot, settings))


def elastic(name, workers, *, most=4, fewest=1, **changes):
    return spec_of(name, workers, most=most, min_workers=fewest, **changes)


# -- adapted first come, first served ------------------------------------------------------------


def test_a_gang_goes_onto_one_node_where_one_holds_it():
    """Locality: three places on node-1 rather than two on node-0 and one elsewhere."""
    layout = Layout().add(spec_of("a", 2), "0 0").add(spec_of("b", 3))
    assert done(layout) == [("AdmitGang", "b", "worker/0@1 worker/1@1 worker/2@1")]


def test_a_gang_that_no_node_holds_takes_the_fewest():
    """Five workers on nodes of four: four and one."""
    layout = Layout(nodes_of(3)).add(spec_of("a", 5))
    ((_, _, where),) = done(layout)
    assert Counter(place[-1] for place in where.split()) == {"0": 4, "1": 1}


def test_all_workers_on_several_nodes_come_before_fewer_on_one():
    """The published placement plan: one node for all, several for all, one for the fewest, several."""
    layout = Layout().add(spec_of("a", 1), "0").add(spec_of("b", 1), "1").add(elastic("c", 4, fewest=3))
    ((_, _, where),) = done(layout)
    assert len(where.split()) == 4
    layout = Layout().add(spec_of("a", 1), "0").add(spec_of("b", 4), "1 1 1 1").add(elastic("c", 4, fewest=2))
    assert done(layout) == [("AdmitGang", "c", "worker/0@0 worker/1@0")]


def test_the_first_that_has_room_starts_and_the_next_is_tried():
    """AFCFS: a job that does not fit holds nobody back; never a part of a gang."""
    layout = Layout(nodes_of(1)).add(spec_of("a", 1), "0").add(spec_of("b", 4)).add(spec_of("c", 2))
    layout.add(spec_of("d", 2)).add(spec_of("e", 1))
    assert [name for _, name, _ in done(layout)] == ["c", "e"]


@pytest.mark.parametrize(("order", "node"), [("most-idle", "2"), ("least-idle", "0")])
def test_the_node_for_a_gang_can_be_chosen(order, node):
    """least-idle is best fit: it keeps the empty node for a gang that needs it."""
    layout = Layout(nodes_of(3)).add(spec_of("a", 2), "0 0").add(spec_of("b", 1), "1").add(spec_of("c", 2))
    settings = LocalitySettings(node_order=order)
    assert said(propose_locality(layout.snapshot, settings)) == [
        ("AdmitGang", "c", f"worker/0@{node} worker/1@{node}")
    ]


def test_parameter_servers_count():
    """The published code does not reserve their resources; a node without room for them takes no gang."""
    spec = spec_of("a", 2, ps=1, requests=Resources(gpu=1.0, cpu=3.0), ps_requests=Resources(cpu=1.0))
    assert done(Layout(nodes_of(1, gpu=4.0, cpu=6.0)).add(spec)) == []
    assert len(done(Layout(nodes_of(1, gpu=4.0, cpu=7.0)).add(spec))) == 1


def test_jobs_that_request_nothing_spread():
    """Idle room says nothing on nodes that are shared; the emptiest node is the next one's."""
    layout = Layout(nodes_of(2, cpu=8.0))
    for name in "ab":
        layout.add(spec_of(name, 1, requests=NOTHING))
    assert [where for *_, where in done(layout)] == ["worker/0@0", "worker/0@1"]


# -- scale-down ----------------------------------------------------------------------------------


def crowded():
    """One node: a has three of four workers, b one; c wants two and gets none."""
    layout = Layout(nodes_of(1)).add(elastic("a", 3), "0 0 0").add(spec_of("b", 1), "0")
    return layout.add(elastic("c", 2, fewest=2), **URGENT)


def test_an_urgent_job_gets_what_others_can_spare():
    """Workers beyond the minimum end, and what they leave is kept for the job."""
    assert done(crowded()) == [
        ("ScaleIn", "a", "worker/2 worker/1"),
        ("Claim", "c", "worker/0@0 worker/1@0"),
    ]


def test_a_job_is_urgent_only_beyond_the_threshold():
    """tau: waiting for as long as it is not yet longer."""
    layout = crowded()
    job = layout.state.jobs["default/c"]
    layout.state = layout.state.with_job(msgspec.structs.replace(job, queued_at=NOW - 120.0))
    assert done(layout) == []
    assert done(layout, DragonSettings(urgent_after=119.0)) != []


def test_without_scaling_nobody_shrinks_and_nobody_grows():
    """The locality-aware scheduler, as a setting and as a policy."""
    layout = crowded()
    assert done(layout, DragonSettings(scaling=False)) == []
    assert said(propose_locality(layout.snapshot, LocalitySettings())) == []
    idle = Layout(**IDLE).add(elastic("a", 1), "0")
    assert done(idle, DragonSettings(scaling=False)) == []


def test_an_urgent_job_that_has_room_needs_no_victim():
    """Figure 5: the residual capacity is looked at first; the job starts at its minimum."""
    layout = Layout(nodes_of(1)).add(elastic("a", 2), "0 0").add(elastic("c", 3, fewest=2), **URGENT)
    assert done(layout) == [("AdmitGang", "c", "worker/0@0 worker/1@0")]


def test_the_smallest_urgent_job_comes_first():
    """Least resources at the minimum, whenever it came; of equals the older."""
    layout = Layout(nodes_of(1)).add(elastic("a", 4), "0 0 0 0")
    layout.add(spec_of("large", 3), **URGENT).add(spec_of("small", 1), **URGENT)
    layout.add(spec_of("twin", 1), **URGENT)
    claims = [name for kind, name, _ in done(layout) if kind == "Claim"]
    assert claims == ["small", "twin"]


def test_without_a_plan_the_queue_goes_on():
    """Not enough surplus for the smallest urgent job: nobody shrinks in vain, others that fit start."""
    layout = Layout(nodes_of(1)).add(elastic("a", 2), "0 0").add(spec_of("b", 1), "0")
    layout.add(spec_of("c", 3), **URGENT).add(spec_of("d", 1))
    assert done(layout) == [("AdmitGang", "d", "worker/0@0")]


@pytest.mark.parametrize(
    ("settings", "victims"),
    [(DEFAULT, {"b": "worker/3 worker/2"}), (FIFO, {"a": "worker/1", "b": "worker/3"})],
)
def test_who_shrinks(settings, victims):
    """Most surplus first, one worker at a time; or the oldest down to its minimum, then the next."""
    layout = Layout(nodes_of(1, gpu=6.0)).add(elastic("a", 2), "0 0").add(elastic("b", 4), "0 0 0 0")
    layout.add(spec_of("c", 2), **URGENT)
    assert {name: who for kind, name, who in done(layout, settings) if kind == "ScaleIn"} == victims


def test_equal_surpluses_shrink_in_turn():
    """Recomputed after each worker: neither is stripped while the other keeps all."""
    layout = Layout(nodes_of(1, gpu=6.0)).add(elastic("a", 3), "0 0 0").add(elastic("b", 3), "0 0 0")
    layout.add(spec_of("c", 2), **URGENT)
    assert [who for kind, _, who in done(layout) if kind == "ScaleIn"] == ["worker/2", "worker/2"]


def test_room_is_made_on_one_node_or_not_at_all():
    """Two workers of one job rather than one of each, which would tear the urgent gang apart; else none."""
    layout = Layout().add(elastic("a", 4), "0 0 0 0").add(elastic("b", 4), "1 1 1 1")
    assert done(layout.add(spec_of("c", 2), **URGENT)) == [
        ("ScaleIn", "a", "worker/3 worker/2"),
        ("Claim", "c", "worker/0@0 worker/1@0"),
    ]
    layout = Layout().add(elastic("a", 4, fewest=3), "0 0 0 0").add(elastic("b", 4, fewest=3), "1 1 1 1")
    assert done(layout.add(spec_of("c", 2), **URGENT)) == []


def test_room_on_several_nodes_is_made_only_for_a_gang_that_no_node_holds():
    """Both shrink for five workers on nodes of four."""
    layout = Layout().add(elastic("a", 4, fewest=1), "0 0 0 0").add(elastic("b", 4, fewest=1), "1 1 1 1")
    actions = done(layout.add(spec_of("c", 5), **URGENT))
    assert {job for kind, job, *_ in actions if kind == "ScaleIn"} == {"a", "b"}
    assert [job for kind, job, *_ in actions if kind == "Claim"] == ["c"]


def test_only_workers_that_are_needed_end():
    """What one node frees in vain, because the gang goes to the other, stays."""
    nodes = nodes_of(2, gpu=4.0, cpu=8.0)
    heavy = {"requests": Resources(gpu=1.0, cpu=4.0)}
    light = {"requests": Resources(gpu=1.0, cpu=2.0)}
    layout = Layout(nodes).add(elastic("a", 4, fewest=1, **light), "0 0 0 0")
    layout.add(elastic("b", 2, fewest=1, **heavy), "1 1").add(spec_of("c", 1, **heavy), **URGENT)
    victims = [(name, who) for kind, name, who in done(layout) if kind == "ScaleIn"]
    assert len(victims) == 1
    assert layout.refused(propose(layout.snapshot, DEFAULT)) == []


def test_nothing_shrinks_twice_for_the_same_job():
    """While the workers leave, the job waits with its claim; then it starts where they were."""
    layout = crowded().leave("a/worker/2").leave("a/worker/1")
    layout.claim("c", {"default/c/worker/0": "node-0", "default/c/worker/1": "node-0"})
    assert done(layout) == []
    for index in (1, 2):
        layout.change(f"a/worker/{index}", leaving=None, phase="Absent", node=None)
    assert done(layout) == [("AdmitGang", "c", "worker/0@0 worker/1@0")]


def test_what_leaves_already_counts_before_more_is_told_to():
    """Without a claim yet, a worker on its way out is enough for a job of one."""
    layout = Layout(nodes_of(1)).add(elastic("a", 4), "0 0 0 0").leave("a/worker/3")
    layout.add(spec_of("c", 1), **URGENT)
    assert done(layout) == [("Claim", "c", "worker/0@0")]


def test_a_job_that_just_starts_or_cannot_resume_is_not_shrunk():
    """Nothing is told to end before it trained; without checkpoints a new size loses everything."""
    starting = Layout(nodes_of(1)).add(elastic("a", 4), "0 0 0 0", trains_since=None)
    assert done(starting.add(spec_of("c", 1), **URGENT)) == []
    layout = Layout(nodes_of(1)).add(elastic("a", 4, checkpointing="none"), "0 0 0 0")
    assert done(layout.add(spec_of("c", 1), **URGENT)) == []


# -- scale-up ------------------------------------------------------------------------------------


def test_idle_room_goes_to_jobs_that_run_beside_it():
    """Only on nodes that the job holds already: node-1 stays for jobs to come."""
    layout = Layout(**IDLE).add(elastic("a", 2), "0 0")
    assert done(layout) == [("ScaleOut", "a", "worker/2@0 worker/3@0")]


def test_room_must_have_been_idle_for_long_enough():
    """The time counts from the last admission, scaling or preemption; as long is not yet longer."""
    for seconds, expected in ((60.0, 0), (60.1, 1)):
        layout = Layout(changed_at=NOW - seconds).add(elastic("a", 2), "0 0")
        assert len(done(layout)) == expected


def test_jobs_grow_in_turn():
    """One worker each, round after round, until a round changes nothing."""
    layout = Layout(nodes_of(1, gpu=6.0), **IDLE).add(elastic("a", 1), "0").add(elastic("b", 2), "0 0")
    assert done(layout) == [("ScaleOut", "a", "worker/1@0 worker/2@0"), ("ScaleOut", "b", "worker/2@0")]


def test_the_node_of_the_parameter_server_comes_first():
    """Then the other nodes of the job; the published code grows beside the server only."""
    layout = Layout(nodes_of(2, gpu=2.0), **IDLE)
    layout.add(elastic("a", 2, ps=1), "1 1 0")  # server and worker 0 on node-1, worker 1 on node-0
    assert done(layout) == [("ScaleOut", "a", "worker/2@1 worker/3@0")]
    assert done(layout, LITERAL) == [("ScaleOut", "a", "worker/2@1")]


def test_nobody_grows_while_somebody_can_start():
    """Scale-up is for what no waiting job can use."""
    layout = Layout(nodes_of(1), **IDLE).add(elastic("a", 2), "0 0").add(spec_of("b", 1))
    assert [kind for kind, *_ in done(layout)] == ["AdmitGang"]
    layout = Layout(nodes_of(1), **IDLE).add(elastic("a", 2), "0 0").add(spec_of("b", 3))
    assert [kind for kind, *_ in done(layout)] == ["ScaleOut"]


def test_a_job_that_does_not_train_or_shares_its_node_does_not_grow():
    """Not while a part of it starts or leaves, and not where nothing is reserved."""
    starting = Layout(**IDLE).add(elastic("a", 2), "0 0", trains_since=None)
    leaving = Layout(**IDLE).add(elastic("a", 2), "0 0").leave("a/worker/1")
    sharing = Layout(**IDLE).add(elastic("a", 2, requests=NOTHING), "0 0")
    assert [done(layout) for layout in (starting, leaving, sharing)] == [[], [], []]


# -- as published --------------------------------------------------------------------------------


def test_as_published_the_surplus_must_exceed_the_need():
    """sum(running - min) > min(u), strictly and without what is idle; no claim keeps the room."""
    assert done(crowded(), LITERAL) == []
    layout = Layout(nodes_of(1)).add(elastic("a", 4), "0 0 0 0").add(elastic("c", 2, fewest=2), **URGENT)
    assert done(layout, LITERAL) == [("ScaleIn", "a", "worker/3 worker/2")]
    assert done(layout.leave("a/worker/3").leave("a/worker/2"), LITERAL) == []


def test_as_published_idle_places_count_wherever_they_are():
    """The need is what is missing in all; one free place on each node is as good as two on one."""
    layout = Layout().add(elastic("a", 3), "0 0 0").add(elastic("b", 3), "1 1 1")
    layout.add(spec_of("c", 3), **URGENT)
    assert done(layout, LITERAL) == [("ScaleIn", "a", "worker/2")]


def test_both_agree_where_the_paper_is_unambiguous():
    """Queue and placement are the same; so is scaling down with plenty of surplus in one job."""
    layout = Layout().add(spec_of("a", 2), "0 0").add(spec_of("b", 3)).add(elastic("c", 4))
    assert done(layout) == done(layout, LITERAL)


# -- always --------------------------------------------------------------------------------------

some_settings = st.builds(
    DragonSettings,
    scaling=st.booleans(),
    victim_order=st.sampled_from(["surplus", "fifo"]),
    node_order=st.sampled_from(["most-idle", "least-idle"]),
    literal=st.booleans(),
)


@given(layout=layouts(), settings=some_settings)
def test_every_proposal_is_possible(layout, settings):
    """Capacity, whole gangs, minima and claims hold; the same snapshot gives the same proposals."""
    proposals = list(propose(layout.snapshot, settings))
    assert proposals == list(propose(layout.snapshot, settings))
    assert all(proposal.reason for proposal in proposals)
    assert layout.refused(proposals) == []
    jobs = [(type(p), p.job) for p in proposals if isinstance(p, AdmitGang | ScaleIn | ScaleOut)]
    jobs += [(Claim, p.job) for p in proposals if isinstance(p, Claim) and p.placement]
    changed = Counter(name for kind, name in jobs if kind is not ScaleIn)
    assert set(changed.values()) <= {1}
    if not settings.scaling:
        assert {kind for kind, _ in jobs} <= {AdmitGang}


@given(layout=layouts())
def test_room_that_is_made_is_enough_for_the_claim(layout):
    """Once all that were told to end are gone, every claim of this call can be redeemed at once."""
    proposals = list(propose(layout.snapshot, DEFAULT))
    gone = {name for p in proposals if isinstance(p, ScaleIn) for name in p.replicas}
    gone |= {name for name, replica in layout.state.replicas.items() if replica.leaving is not None}
    for name in gone:
        layout.change(name.removeprefix("default/"), leaving=None, phase="Absent", node=None)
    starts = [p for p in proposals if isinstance(p, AdmitGang)]
    claims = [p for p in proposals if isinstance(p, Claim) and p.placement]
    starts += [AdmitGang(job=p.job, placement=p.placement, reason="") for p in claims]
    layout.state = msgspec.structs.replace(layout.state, claims={})
    assert layout.refused(starts) == []


@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 300)), min_size=1, max_size=8),
    literal=st.booleans(),
)
def test_every_job_completes(sizes, literal):
    """Whatever shrinks and grows, nobody waits for ever and nothing that is ordered is impossible."""
    settings = DragonSettings(literal=literal)
    world = InstantWorld(nodes_of(2), lambda snapshot: propose(snapshot, settings))
    for number, (size, seconds) in enumerate(sizes):
        world.submit(elastic(f"job-{number}", size), float(seconds), 0.0)
    for now in range(0, 3000, 10):
        world.tick(float(now))
        if len(world.ended) == len(sizes):
            break
    assert len(world.ended) == len(sizes)
    assert world.refused == []
