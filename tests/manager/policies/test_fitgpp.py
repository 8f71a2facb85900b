"""FitGpp: the choice of a victim (equations (1) to (4)), the two queues, and the room kept for trials."""

import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.actions import AdmitGang, Claim, Preempt
from specon_manager.model.cluster import Leaving
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies import fifo, fitgpp, lrtp, rand
from specon_manager.policies.fitgpp import FitGppSettings, propose, size
from specon_manager.policies.preemption.victims import running_best_effort
from support.decisions.jobs import NOW, Line, refused, snapshot_of_jobs, state_of

ONE = {"node-0": (8.0, 8.0, 8.0)}
TWO = {"node-0": (8.0, 8.0, 8.0), "node-1": (8.0, 8.0, 8.0)}
DEFAULT = FitGppSettings()


def short(job):
    return job.removeprefix("default/")


def told(lines, settings=DEFAULT, **cluster):
    """Return (who starts, who is preempted, who gets a claim where), by short name."""
    proposals = list(propose(snapshot_of_jobs(lines, **cluster), settings))
    assert all(proposal.reason for proposal in proposals)
    started = {short(p.job): tuple(p.placement.values()) for p in proposals if isinstance(p, AdmitGang)}
    victims = [short(p.job) for p in proposals if isinstance(p, Preempt)]
    claims = {short(p.job): tuple(p.placement.values()) for p in proposals if isinstance(p, Claim)}
    return started, victims, claims


# -- equations -----------------------------------------------------------------------------------


def test_the_smallest_demand_goes_first():
    """Equations (1) and (3): of those whose end makes enough room, the one with the smallest demand."""
    lines = [
        Line(name="large", gpu=8, node="node-0"),
        Line(name="small", gpu=4, node="node-1"),
        Line(name="other", gpu=4, cpu=4, node="node-1"),
        Line(name="t", gpu=2, trial=True),
    ]
    assert told(lines, nodes=TWO) == ({}, ["small"], {"t": ("node-1",)})


@pytest.mark.parametrize(("weight", "victim"), [(0.0, "small"), (4.0, "quick")])
def test_s_weighs_the_grace_period_against_the_demand(weight, victim):
    """Equation (3): with s = 0 the demand alone decides, with a larger s the grace period."""
    lines = [
        Line(name="small", gpu=3, grace=600, node="node-0"),
        Line(name="quick", gpu=5, grace=10, node="node-0"),
        Line(name="t", gpu=2, trial=True),
    ]
    _, victims, _ = told(lines, FitGppSettings(grace_weight=weight), nodes=ONE)
    assert victims == [victim]


def test_one_end_must_be_enough():
    """Equation (2): small jobs whose end makes too little room are left alone, free room counts."""
    lines = [
        Line(name="tiny", gpu=1, node="node-0"),
        Line(name="rest", gpu=7, node="node-0"),
        Line(name="half", gpu=6, node="node-1"),
        Line(name="t", gpu=8, trial=True),
    ]
    assert told(lines, nodes=TWO) == ({}, ["half"], {"t": ("node-1",)})


def test_free_room_counts_beside_what_the_victim_holds():
    """Equation (2): D_TE <= D_BE + N, of two that hold too little alone only one has room beside it."""
    lines = [
        Line(name="full", gpu=4, node="node-0"),
        Line(name="old", gpu=4, node="node-0", trial=True),
        Line(name="roomy", gpu=5, grace=600, node="node-1"),
        Line(name="t", gpu=8, trial=True),
    ]
    started, victims, claims = told(lines, nodes=TWO)
    assert (started, victims, claims) == ({}, ["roomy"], {"t": ("node-1",)})
    why = [p.reason for p in propose(snapshot_of_jobs(lines, nodes=TWO), DEFAULT) if isinstance(p, Preempt)]
    assert "score 5" in why[0]  # the largest and the longest of those that run: 1 + 4


def test_size_is_the_euclidean_length_of_the_shares():
    """Equation (1): (4/8, 4/8) is shorter than (6/8, 1/8), though it adds up to more."""
    lines = [
        Line(name="even", cpu=4, gpu=4, memory=0, node="node-0"),
        Line(name="uneven", cpu=1, gpu=6, memory=0, node="node-1"),
        Line(name="t", cpu=4, gpu=5, trial=True),
    ]
    assert told(lines, nodes=TWO)[1] == ["even"]
    by_hand = {"even": math.sqrt(0.5**2 + 0.5**2), "uneven": math.sqrt(0.75**2 + 0.125**2)}
    snapshot = snapshot_of_jobs(lines, nodes=TWO)
    running = running_best_effort(snapshot)
    sizes = {short(candidate.name): size(candidate) for candidate in running if candidate.frees}
    assert sizes == pytest.approx(by_hand)


def test_every_resource_must_suffice():
    """Equation (2) holds for cores, memory and GPUs each."""
    lines = [
        Line(name="gpus", gpu=8, memory=1, node="node-0"),
        Line(name="both", gpu=8, memory=8, grace=600, node="node-1"),
        Line(name="t", gpu=8, memory=8, trial=True),
    ]
    lines.insert(1, Line(name="trial", gpu=0, memory=7, node="node-0", trial=True))
    assert told(lines, nodes=TWO)[1] == ["both"]


def test_no_grace_period_at_all_divides_by_nothing():
    """Where the longest grace period is 0 the demand alone decides."""
    lines = [
        Line(name="large", gpu=5, grace=0, node="node-0"),
        Line(name="small", gpu=3, grace=0, node="node-0"),
        Line(name="t", gpu=2, trial=True),
    ]
    assert told(lines, nodes=ONE)[1] == ["small"]


def test_maxima_are_over_everybody_who_runs():
    """Equation (3): jobs at their cap still count in max Size and max GP."""
    small, quick = (
        Line(name="small", gpu=2, grace=100, node="node-0"),
        Line(name="quick", gpu=6, grace=80, node="node-0"),
    )
    settings, trial = FitGppSettings(grace_weight=4.0), Line(name="t", gpu=2, trial=True)
    assert told([small, quick, trial], settings, nodes=TWO | {"node-1": (8.0, 8.0, 0.0)})[1] == ["quick"]
    capped = Line(name="capped", gpu=8, grace=1000, node="node-1", preemptions=1)
    assert told([small, quick, capped, trial], settings, nodes=TWO)[1] == ["small"]


def test_the_cap_spares_who_was_preempted_often_enough():
    """Equation (4): PreemptCount < P; None is no cap."""
    lines = [
        Line(name="small", gpu=3, node="node-0", preemptions=1),
        Line(name="large", gpu=5, node="node-0"),
        Line(name="t", gpu=2, trial=True),
    ]
    for cap, victim in ((1, "large"), (2, "small"), (None, "small")):
        assert told(lines, FitGppSettings(max_preemptions=cap), nodes=ONE)[1] == [victim]
    assert told(lines, FitGppSettings(max_preemptions=0), nodes=ONE) == ({}, [], {})


def test_who_cannot_resume_is_no_victim():
    """A job whose trainer never writes a checkpoint would lose everything, and the planner forbids it."""
    lines = [
        Line(name="small", gpu=3, node="node-0", checkpointing="none"),
        Line(name="large", gpu=5, node="node-0"),
        Line(name="t", gpu=2, trial=True),
    ]
    assert told(lines, nodes=ONE)[1] == ["large"]


def test_who_is_in_the_middle_of_something_is_no_victim():
    """The planner would refuse a job that gives up a worker, or that has a replica in a move."""
    lines = [
        Line(name="shrinking", gpu=2, node=("node-0", "node-1")),
        Line(name="large", gpu=5, node="node-0"),
        Line(name="more", gpu=6, node="node-1", trial=True),
        Line(name="t", gpu=2, trial=True),
    ]
    state = state_of(lines, nodes=TWO)
    told_to_end = Leaving(purpose="scale-in", since=NOW, deadline=NOW, reason="test")
    replica = state.replicas["default/shrinking/worker/1"]
    state = state.with_replica(msgspec.structs.replace(replica, leaving=told_to_end))
    victims = [p.job for p in propose(state.snapshot(NOW), DEFAULT) if isinstance(p, Preempt)]
    assert victims == ["default/large"]


# -- nobody alone is enough ----------------------------------------------------------------------


def _pairs(trial_gpu=8.0):
    running = [Line(name=f"b{k}", gpu=4, node=f"node-{k // 2}") for k in range(4)]
    return [*running, Line(name="t", gpu=trial_gpu, trial=True)]


def test_without_one_that_is_enough_random_ones_go_until_there_is_room():
    """The fallback ends both jobs of one node, and none of the other: its room would be of no use."""
    started, victims, claims = told(_pairs(), nodes=TWO)
    assert not started
    assert sorted(victims) in (["b0", "b1"], ["b2", "b3"])
    assert claims == {"t": ("node-0",) if "b0" in victims else ("node-1",)}
    chosen = {tuple(sorted(told(_pairs(), FitGppSettings(seed=seed), nodes=TWO)[1])) for seed in range(20)}
    assert len(chosen) == 2


def test_nobody_ends_where_it_would_not_help():
    """A trial that would not fit even without all preemptible jobs waits, and preempts nobody."""
    lines = [Line(name="old", gpu=1, node="node-0", trial=True), *_pairs()[2:]]
    lines[1:3] = [Line(name="b", gpu=7, node="node-0")]
    assert told(lines, nodes=ONE) == ({}, [], {})


def test_literal_ends_one_random_job_and_keeps_nothing():
    """Printed: "preempts a random BE job", one, whether or not that is enough."""
    started, victims, claims = told(_pairs(), FitGppSettings(literal=True), nodes=TWO)
    assert (started, len(victims), claims) == ({}, 1, {})


# -- queues --------------------------------------------------------------------------------------


def test_trials_start_before_best_effort_jobs():
    """A trial that came last takes the room that there is."""
    lines = [Line(name="b", gpu=8), Line(name="t", gpu=8, trial=True)]
    assert told(lines, nodes=ONE) == ({"t": ("node-0",)}, [], {})


def test_trials_are_served_in_the_order_of_their_submission():
    """Whatever order the records are in."""
    lines = [Line(name="t0", gpu=8, trial=True), Line(name="t1", gpu=8, trial=True)]
    whole = snapshot_of_jobs(lines, nodes=ONE)
    backwards = dict(reversed(whole.replicas.items()))
    snapshot = Snapshot(now=NOW, nodes=whole.nodes, jobs=whole.jobs, replicas=backwards)
    assert [proposal.job for proposal in propose(snapshot, DEFAULT)] == ["default/t0"]


def test_a_trial_that_waits_does_not_hold_up_the_next():
    """Trials are small and many: each starts where it fits, or has room made for it."""
    lines = [
        Line(name="old", gpu=7, node="node-0", trial=True),
        Line(name="t0", gpu=2, trial=True),
        Line(name="t1", gpu=1, trial=True),
    ]
    assert told(lines, nodes=ONE) == ({"t1": ("node-0",)}, [], {})


def test_literal_a_trial_that_waits_holds_up_all_behind_it():
    """The FIFO principle: nobody overtakes it, whether it waits for the room of a victim or for nobody's."""
    lines = [
        Line(name="b0", gpu=8, node="node-0"),
        Line(name="old", gpu=1, node="node-1", trial=True),
        Line(name="t0", gpu=8, trial=True),
        Line(name="t1", gpu=1, trial=True),
        Line(name="b1", gpu=1),
    ]
    started, victims, _ = told(lines, FitGppSettings(literal=True), nodes=TWO)
    assert (started, list(victims)) == ({}, ["b0"])
    assert set(told(lines, nodes=TWO)[0]) == {"t1", "b1"}


def test_the_head_of_the_best_effort_queue_blocks_the_rest():
    """Strict FIFO: what would fit waits behind what does not."""
    lines = [Line(name="r", gpu=4, node="node-0"), Line(name="head", gpu=8), Line(name="small", gpu=1)]
    assert told(lines, nodes=ONE) == ({}, [], {})


def test_what_fits_no_node_blocks_nobody():
    """A job that is larger than every node would block the queue for ever."""
    lines = [Line(name="huge", gpu=9), Line(name="giant", gpu=9, trial=True), Line(name="small", gpu=1)]
    assert told(lines, nodes=ONE) == ({"small": ("node-0",)}, [], {})


def test_who_was_preempted_is_at_the_head_of_the_queue():
    """By submission, which is the head; printed as a stack: the last preempted foremost."""
    lines = [
        Line(name="first", gpu=8, preemptions=1, queued_at=10.0),
        Line(name="second", gpu=8, preemptions=1, queued_at=20.0),
        Line(name="third", gpu=8),
    ]
    assert list(told(lines, nodes=ONE)[0]) == ["first"]
    assert list(told(lines, FitGppSettings(literal=True), nodes=ONE)[0]) == ["second"]


def test_best_effort_jobs_do_not_take_the_room_that_a_trial_waits_for():
    """A trial for which nobody can end waits at the head of the whole queue."""
    lines = [
        Line(name="old", gpu=7, node="node-0", trial=True),
        Line(name="b", gpu=1),
        Line(name="t", gpu=2, trial=True),
    ]
    assert told(lines, nodes=ONE) == ({}, [], {})
    assert told(lines, FitGppSettings(literal=True), nodes=ONE) == ({}, [], {})


@pytest.mark.parametrize(("choice", "node"), [("first-fit", "node-0"), ("best-fit", "node-1")])
def test_the_choice_of_a_node_can_be_set(choice, node):
    """The paper does not say: the first that fits, or the one that is left with least."""
    lines = [Line(name="r", gpu=6, node="node-1"), Line(name="b", gpu=2)]
    assert told(lines, FitGppSettings(node_choice=choice), nodes=TWO)[0] == {"b": (node,)}


# -- claims --------------------------------------------------------------------------------------


def test_room_kept_for_a_trial_goes_to_nobody_else():
    """Neither a later trial nor a best-effort job takes it; the later trial finds a victim of its own."""
    lines = [
        Line(name="gone", gpu=4, node="node-0", leaving=True),
        Line(name="stays", gpu=2, node="node-0"),
        Line(name="t1", gpu=6, trial=True),
        Line(name="t2", gpu=1, trial=True),
        Line(name="b", gpu=1),
    ]
    started, victims, claims = told(lines, nodes=ONE, claims={"t1": {0: "node-0"}})
    assert (started, victims, claims) == ({}, ["stays"], {"t2": ("node-0",)})


def test_free_room_beside_a_victim_is_kept_at_once():
    """The room that the trial will take beside its victim's goes to nobody in the same call."""
    lines = [Line(name="r", gpu=4, node="node-0"), Line(name="b", gpu=2), Line(name="t", gpu=8, trial=True)]
    assert told(lines, nodes=ONE) == ({}, ["r"], {"t": ("node-0",)})


def test_a_trial_with_a_claim_waits_for_it():
    """While those who hold its room are leaving, nobody else is preempted for it."""
    lines = [
        Line(name="gone", gpu=4, node="node-0", leaving=True),
        Line(name="stays", gpu=4, node="node-0"),
        Line(name="t", gpu=4, trial=True),
    ]
    assert told(lines, nodes=ONE, claims={"t": {0: "node-0"}}) == ({}, [], {})


def test_a_trial_starts_on_its_claim_as_soon_as_it_is_free_or_elsewhere_before():
    """The room that is kept for it first; if that is not free yet, any other."""
    stays = Line(name="gone", gpu=8, node="node-1", leaving=True)
    trial = Line(name="t", gpu=8, trial=True)
    lines = [stays, trial]
    assert told([trial], nodes=TWO, claims={"t": {0: "node-1"}})[0] == {"t": ("node-1",)}
    assert told(lines, nodes=TWO, claims={"t": {0: "node-1"}})[0] == {"t": ("node-0",)}


def test_a_claim_that_is_not_needed_any_more_is_room_for_those_who_come_after():
    """Who starts elsewhere gives it up, also to one that asks for as much as somebody who just found none."""
    lines = [
        Line(name="gone", gpu=5, cpu=1, node="node-0", leaving=True),
        Line(name="busy", gpu=4, cpu=4, node="node-1", trial=True),
        Line(name="t0", gpu=3, cpu=5, trial=True),
        Line(name="t1", gpu=4, trial=True),
        Line(name="t2", gpu=3, cpu=5, trial=True),
    ]
    cluster = {"nodes": TWO, "claims": {"t1": {0: "node-0"}}}
    assert told(lines, **cluster)[0] == {"t1": ("node-1",), "t2": ("node-0",)}
    state = state_of(lines, **cluster)
    assert refused(state, list(propose(state.snapshot(NOW), DEFAULT))) == []


@pytest.mark.parametrize("not_ready", [(), ("node-1",)])
def test_a_claim_that_will_not_be_met_is_replaced(not_ready):
    """Nobody is leaving the node, or it is gone: the trial chooses again."""
    lines = [
        Line(name="b0", gpu=8, node="node-0"),
        Line(name="full", gpu=8, node="node-1", leaving=bool(not_ready), preemptions=1),
        Line(name="t", gpu=8, trial=True),
    ]
    _, victims, claims = told(lines, nodes=TWO, claims={"t": {0: "node-1"}}, not_ready=not_ready)
    assert (victims, claims) == (["b0"], {"t": ("node-0",)})


def test_a_claim_is_given_up_where_nothing_can_take_its_place():
    """An empty placement lets others use the room."""
    lines = [Line(name="full", gpu=8, node="node-0", preemptions=1), Line(name="t", gpu=8, trial=True)]
    assert told(lines, nodes=ONE, claims={"t": {0: "node-0"}}) == ({}, [], {"t": ()})


def test_two_trials_never_choose_the_same_victim():
    """What the first one leaves over is not promised twice either."""
    lines = [
        Line(name="b0", gpu=4, node="node-0"),
        Line(name="b1", gpu=4, node="node-0", grace=90),
        Line(name="t0", gpu=3, trial=True),
        Line(name="t1", gpu=3, trial=True),
        Line(name="t2", gpu=3, trial=True),
    ]
    assert told(lines, nodes=ONE) == ({}, ["b0", "b1"], {"t0": ("node-0",), "t1": ("node-0",)})


# -- gangs ---------------------------------------------------------------------------------------


def test_a_gang_starts_as_a_whole_or_not_at_all():
    """Each replica on the first node with room."""
    assert told([Line(name="g", gpu=5, workers=2)], nodes=TWO)[0] == {"g": ("node-0", "node-1")}
    assert told([Line(name="g", gpu=5, workers=3)], nodes=TWO)[0] == {}


def test_room_is_made_for_each_replica_of_a_gang_that_has_none():
    """One victim for each, and the free room that the others take is kept with it."""
    lines = [
        Line(name="b0", gpu=4, node="node-1"),
        Line(name="b1", gpu=4, node="node-1", grace=90),
        Line(name="g", gpu=8, workers=1, trial=True),
    ]
    lines[2] = Line(name="g", gpu=4, workers=3, trial=True)
    assert told(lines, nodes=TWO) == ({}, ["b0"], {"g": ("node-0", "node-0", "node-1")})


def test_a_gang_as_victim_frees_what_it_holds_on_every_node():
    """Its size counts all of it, and both replicas of the trial fit where its two were."""
    lines = [
        Line(name="gang", gpu=6, node=("node-0", "node-1")),
        Line(name="t", gpu=6, workers=2, trial=True),
    ]
    assert told(lines, nodes=TWO) == ({}, ["gang"], {"t": ("node-0", "node-1")})


# -- always --------------------------------------------------------------------------------------

GPUS = st.sampled_from([1.0, 2.0, 3.0, 4.0, 8.0])
NODES = {f"node-{number}": (8.0, 16.0, 8.0) for number in range(3)}


@st.composite
def clusters(draw, gangs=True):
    """Return lines that fit the nodes: jobs that run, are leaving, or wait."""
    lines, free = [], {name: list(capacity) for name, capacity in NODES.items()}
    for number in range(draw(st.integers(0, 9))):
        line = _line(draw, f"r{number}")
        line.leaving = draw(st.booleans()) and not line.trial
        wanted = (line.cpu, line.memory, line.gpu)
        count = draw(st.integers(1, 2)) if gangs else 1
        fitting = [n for n, f in free.items() if all(a <= b for a, b in zip(wanted, f, strict=True))]
        if len(fitting) >= count:
            line.node = tuple(draw(st.permutations(fitting))[:count])
            for name in line.node:
                free[name] = [b - a for a, b in zip(wanted, free[name], strict=True)]
            lines.append(line)
    for number in range(draw(st.integers(0, 5))):
        line = _line(draw, f"w{number}")
        line.workers = draw(st.integers(1, 3)) if gangs else 1
        lines.append(line)
    return lines


def _line(draw, name):
    return Line(
        name=name,
        gpu=draw(GPUS),
        cpu=float(draw(st.integers(0, 4))),
        memory=float(draw(st.integers(0, 9))),
        trial=draw(st.booleans()),
        grace=float(draw(st.integers(0, 3)) * 60),
        preemptions=draw(st.integers(0, 2)),
        declared=draw(st.none() | st.floats(1, 1e4)),
        queued_at=float(draw(st.integers(0, 3))),
    )


CAPS = st.none() | st.integers(0, 2)
CHOICES = st.sampled_from(["first-fit", "best-fit"])
POLICIES = st.one_of(
    st.builds(FitGppSettings, max_preemptions=CAPS, node_choice=CHOICES, literal=st.booleans()).map(
        lambda settings: (fitgpp.propose, settings)
    ),
    st.builds(lrtp.LrtpSettings, max_preemptions=CAPS, node_choice=CHOICES, literal=st.booleans()).map(
        lambda settings: (lrtp.propose, settings)
    ),
    st.builds(rand.RandSettings, max_preemptions=CAPS, seed=st.integers(0, 3), literal=st.booleans()).map(
        lambda settings: (rand.propose, settings)
    ),
    st.builds(fifo.FifoSettings, node_choice=CHOICES).map(lambda settings: (fifo.propose, settings)),
)


@given(lines=clusters(), policy=POLICIES, seed=st.integers(0, 5))
def test_what_is_proposed_is_possible_and_depends_on_nothing_else(lines, policy, seed):
    """Nothing is refused; the order of records is no matter; no victim twice, at its cap, or a trial."""
    function, settings = policy
    state = state_of(lines, nodes=NODES)
    snapshot = state.snapshot(NOW)
    proposals = list(function(snapshot, settings))
    assert refused(state, proposals) == []
    victims = [proposal.job for proposal in proposals if isinstance(proposal, Preempt)]
    assert len(victims) == len(set(victims))
    for name in victims:
        job, cap = snapshot.jobs[name], settings.max_preemptions
        assert job.spec.job_class == "best-effort"
        assert cap is None or job.preemptions < cap
    for proposal in proposals:
        if isinstance(proposal, Claim):
            assert snapshot.jobs[proposal.job].spec.job_class == "trial"
    shuffled = {}
    for kind in ("nodes", "jobs", "replicas"):
        items = list(getattr(snapshot, kind).items())
        random.Random(seed).shuffle(items)
        shuffled[kind] = dict(items)
    assert proposals == list(function(Snapshot(now=NOW, **shuffled), settings))


@given(lines=clusters(), policy=POLICIES)
def test_claims_are_met_when_the_victims_have_ended(lines, policy):
    """Once those told to end have ended, every trial with a claim starts at the next call."""
    function, settings = policy
    proposals = list(function(snapshot_of_jobs(lines, nodes=NODES), settings))
    started = {short(p.job): tuple(p.placement.values()) for p in proposals if isinstance(p, AdmitGang)}
    victims = {short(p.job) for p in proposals if isinstance(p, Preempt)}
    claims = {
        short(p.job): {int(replica.rpartition("/")[2]): node for replica, node in p.placement.items()}
        for p in proposals
        if isinstance(p, Claim)
    }
    later = []
    for line in lines:
        if line.name in victims or line.leaving:
            after = Line(name=line.name, gpu=line.gpu, cpu=line.cpu, memory=line.memory)
            later.append(after)
        else:
            later.append(Line(**{**vars(line), "node": started.get(line.name, line.node)}))
    snapshot = snapshot_of_jobs(later, nodes=NODES, claims=claims)
    again = list(function(snapshot, settings))
    admitted = {short(p.job) for p in again if isinstance(p, AdmitGang)}
    assert set(claims) <= admitted


@given(
    lines=clusters(gangs=False),
    weight=st.sampled_from([0.0, 0.5, 4.0]),
    cap=st.integers(0, 2),
    gpu=st.sampled_from([4.0, 6.0, 8.0]),
)
def test_the_victim_is_the_argmin_of_equation_4(lines, weight, cap, gpu):
    """For the first trial that lacks room: the naive minimum over all running best-effort jobs."""
    trial = Line(name="t", gpu=gpu, cpu=3.0, memory=5.0, trial=True)
    lines = [*(line for line in lines if line.node is not None), trial]
    wanted = (trial.cpu, trial.memory, trial.gpu)
    free = {name: list(capacity) for name, capacity in NODES.items()}
    for line in lines[:-1]:
        (node,) = line.node
        free[node] = [a - b for a, b in zip(free[node], (line.cpu, line.memory, line.gpu), strict=True)]
    running = [line for line in lines[:-1] if not line.trial and not line.leaving]

    def size(line):
        return math.sqrt((line.cpu / 8) ** 2 + (line.memory / 16) ** 2 + (line.gpu / 8) ** 2)

    largest = max(map(size, running), default=1.0)
    longest = max((line.grace for line in running), default=1.0) or 1.0

    def enough(line):
        frees = (line.cpu, line.memory, line.gpu)
        return all(w <= f + room for w, f, room in zip(wanted, frees, free[line.node[0]], strict=True))

    fitting = [line for line in running if line.preemptions < cap and enough(line)]
    best = min(fitting, key=lambda line: size(line) / largest + weight * line.grace / longest, default=None)
    settings = FitGppSettings(grace_weight=weight, max_preemptions=cap)
    started, victims, claims = told(lines, settings, nodes=NODES)
    if any(all(w <= room for w, room in zip(wanted, left, strict=True)) for left in free.values()):
        assert (list(started), victims) == (["t"], [])
    elif best is not None:
        assert victims == [best.name]
        assert claims == {"t": best.node}
    else:
        assert len(victims) != 1  # several of one node, or nobody


def test_settings_are_bounded():
    """A negative weight or cap, or an unknown choice of nodes, is refused by name."""
    for bad in ({"grace_weight": -1.0}, {"max_preemptions": -1}, {"node_choice": "worst-fit"}, {"gp": 1}):
        with pytest.raises(msgspec.ValidationError, match=next(iter(bad))):
            msgspec.convert(bad, FitGppSettings)
