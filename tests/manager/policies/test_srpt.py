"""SRPT with perfect knowledge: what is optimal, what is possible, and who makes room for whom."""

import functools
import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.model.actions import AdmitGang, Claim, Preempt
from specon_manager.model.progress import Progress
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.policies.remaining_work import remaining_seconds, remaining_work
from specon_manager.policies.srpt import SrptSettings, propose
from specon_sidecar.classify.curve import Estimate
from support.decisions.gang_worlds import NOW, InstantWorld, Layout, layouts, nodes_of, said, spec_of

DEFAULT = SrptSettings()
SECONDS = SrptSettings(rank="seconds")
JUST_STARTED = {"trains_since": NOW}


def done(layout, settings=DEFAULT):
    return said(propose(layout.snapshot, settings))


def lasting(name, seconds, workers=1, **changes):
    return spec_of(name, workers, declared_seconds=float(seconds), **changes)


def sharing(name, seconds, workers=1, **changes):
    return lasting(name, seconds, workers, requests=NOTHING, **changes)


# -- the remaining time --------------------------------------------------------------------------


def test_what_remains_is_what_was_reported_less_the_time_since():
    """A report since it trains counts; one from before does not, nor does one while it waits."""
    layout = Layout().add(lasting("a", 950), "0")
    told = Progress(remaining_seconds=Estimate(value=300.0, uncertainty=0.0), reported_at=NOW - 20)
    job = layout.state.jobs["default/a"]
    assert remaining_seconds(job, layout.snapshot) == 950.0 - 900.0
    layout.change("a/worker/0", progress=told)
    assert remaining_seconds(job, layout.snapshot) == 280.0
    later = msgspec.structs.replace(job, trains_since=NOW - 10, attained_seconds=100.0)
    assert remaining_seconds(later, layout.snapshot) == 950.0 - 110.0


def test_what_nothing_is_known_of_comes_last():
    """Infinite, never negative."""
    layout = Layout(nodes_of(1, gpu=1.0)).add(spec_of("a")).add(lasting("b", 5000))
    assert remaining_seconds(layout.state.jobs["default/a"], layout.snapshot) == float("inf")
    assert done(layout) == [("AdmitGang", "b", "worker/0@0")]
    over = Layout().add(lasting("a", 10), "0")
    assert remaining_seconds(over.state.jobs["default/a"], over.snapshot) == 0.0


def test_what_is_left_does_not_depend_on_what_a_job_trains_with():
    """Steps tell it, and the time since at its present speed; remaining time only where no total is known."""
    layout = Layout().add(lasting("a", 1000), "0")
    told = Progress(
        step=60,
        total_steps=100,
        remaining_seconds=Estimate(value=800.0, uncertainty=0.0),  # at half of the speed
        reported_at=NOW - 200,
    )
    layout.change("a/worker/0", progress=told)
    job = layout.state.jobs["default/a"]
    assert remaining_work(job, layout.snapshot) == pytest.approx(400.0 * 600 / 800)
    waits = msgspec.structs.replace(job, trains_since=None)
    assert remaining_work(waits, layout.snapshot) == pytest.approx(400.0)
    layout.change("a/worker/0", progress=msgspec.structs.replace(told, total_steps=None))
    assert remaining_work(job, layout.snapshot) == 600.0


def test_jobs_that_run_smaller_than_they_are_do_not_swap_for_ever():
    """By its present speed one has 160 s left and the other 90 s; by its steps it has 80 s, and stays."""
    layout = Layout(nodes_of(1, gpu=1.0)).add(lasting("a", 100, 2, min_workers=1), "0", **JUST_STARTED)
    layout.add(lasting("b", 90, 2, min_workers=1))
    remaining = Estimate(value=160.0, uncertainty=0.0)
    told = Progress(step=20, total_steps=100, remaining_seconds=remaining, reported_at=NOW)
    layout.change("a/worker/0", progress=told)
    assert done(layout) == []
    layout.change("a/worker/0", progress=msgspec.structs.replace(told, total_steps=None))
    assert done(layout)[0] == ("Preempt", "a", "")


# -- who runs ------------------------------------------------------------------------------------


def test_the_shortest_starts_first_and_shorter_ones_fill_what_is_left():
    """By remaining time, of equals by submission; a job without room holds nobody back."""
    layout = Layout(nodes_of(1)).add(lasting("a", 30, 3)).add(lasting("b", 10)).add(lasting("c", 20, 2))
    assert [name for _, name, _ in done(layout, SECONDS)] == ["b", "c"]
    twins = Layout(nodes_of(1, gpu=1.0)).add(lasting("a", 30)).add(lasting("b", 30))
    assert [name for _, name, _ in done(twins)] == ["a"]


def test_a_shorter_job_takes_the_place_of_a_longer_one():
    """The running job with the most left leaves; its room is kept for the shorter one."""
    layout = Layout(nodes_of(2, gpu=1.0)).add(lasting("a", 100), "0", **JUST_STARTED)
    layout.add(lasting("b", 200), "1", **JUST_STARTED).add(lasting("c", 50))
    assert done(layout) == [("Preempt", "b", ""), ("Claim", "c", "worker/0@1")]


@pytest.mark.parametrize("seconds", [100, 150])
def test_a_job_that_is_as_long_or_longer_waits(seconds):
    """Only what has strictly more left makes room, or two equals would swap for ever."""
    layout = Layout(nodes_of(1, gpu=1.0)).add(lasting("a", 100), "0", **JUST_STARTED)
    assert done(layout.add(lasting("b", seconds))) == []


def test_a_victim_that_is_leaving_is_enough():
    """While it ends nobody else is preempted, and a claim that stands is not made again."""
    layout = Layout(nodes_of(2, gpu=1.0)).add(lasting("a", 100), "0", **JUST_STARTED)
    layout.add(lasting("b", 200), "1", trains_since=None).leave("b/worker/0", "preempt")
    layout.add(lasting("c", 50))
    assert done(layout) == [("Claim", "c", "worker/0@1")]
    assert done(layout.claim("c", {"default/c/worker/0": "node-1"})) == []


def test_a_claim_yields_to_a_shorter_job():
    """The job with the least left gets the room; the other takes the next room."""
    layout = Layout(nodes_of(1, gpu=1.0)).add(lasting("b", 200), "0", trains_since=None)
    layout.leave("b/worker/0", "preempt").add(lasting("c", 50))
    layout.claim("c", {"default/c/worker/0": "node-0"}).add(lasting("d", 20))
    assert done(layout) == [("Claim", "d", "worker/0@0"), ("Claim", "c", "")]


def test_a_gang_preempts_no_more_than_it_needs():
    """Two places are missing: the two with the most left make room, the two others stay."""
    layout = Layout(nodes_of(2, gpu=2.0))
    for name, seconds, node in (("a", 400, "0"), ("b", 50, "0"), ("c", 300, "1"), ("d", 200, "1")):
        layout.add(lasting(name, seconds), node, **JUST_STARTED)
    layout.add(lasting("e", 20, 2))
    proposals = done(layout)
    assert [name for kind, name, _ in proposals if kind == "Preempt"] == ["a", "c"]
    assert layout.refused(propose(layout.snapshot, DEFAULT)) == []


def test_the_longest_that_suffice_leave():
    """The shortest victim is as long as can be, and a long one elsewhere stays."""
    layout = Layout(nodes_of(2, gpu=1.0, cpu=4.0))
    wide = {"requests": Resources(gpu=1.0, cpu=4.0)}
    layout.add(lasting("a", 400, requests=Resources(cpu=1.0)), "0", **JUST_STARTED)
    layout.add(lasting("b", 300, requests=Resources(gpu=1.0)), "1", **JUST_STARTED)
    layout.add(lasting("c", 20, **wide)).add(lasting("d", 900, **wide))
    victims = [name for kind, name, _ in done(layout, SECONDS) if kind == "Preempt"]
    assert victims == ["a"]


def test_service_ranks_by_what_a_job_takes_of_the_cluster():
    """Four small jobs before one that is a little shorter but takes the whole cluster."""
    layout = Layout(nodes_of(1)).add(lasting("wide", 10, 4))
    for name in "abcd":
        layout.add(lasting(name, 11))
    assert [name for _, name, _ in done(layout)] == ["a", "b", "c", "d"]
    assert [name for _, name, _ in done(layout, SECONDS)] == ["wide"]


def test_margin_and_cap_spare_those_that_run():
    """A victim must exceed by the margin, and be preempted no more often than the cap."""
    layout = Layout(nodes_of(1, gpu=1.0)).add(lasting("a", 100), "0", preemptions=2, **JUST_STARTED)
    layout.add(lasting("b", 60))
    assert len(done(layout)) == 2
    assert done(layout, SrptSettings(margin=1.0)) == []
    assert done(layout, SrptSettings(preemptions_per_job=2)) == []
    rigid = Layout(nodes_of(1, gpu=1.0)).add(lasting("a", 100, checkpointing="none"), "0", **JUST_STARTED)
    assert done(rigid.add(lasting("b", 60))) == []


def test_an_elastic_job_starts_small_only_where_it_cannot_start_large():
    """All workers that its owner asked for, else the fewest."""
    layout = Layout(nodes_of(1)).add(lasting("a", 10, 2), "0 0", **JUST_STARTED)
    layout.add(lasting("b", 50, 4, min_workers=2))
    assert done(layout, SECONDS) == [("AdmitGang", "b", "worker/0@0 worker/1@0")]


# -- shared processors ---------------------------------------------------------------------------


def test_on_shared_nodes_each_has_one_job():
    """Sharing makes everybody later than one after the other: the third waits."""
    layout = Layout(nodes_of(2, cpu=8.0)).add(sharing("a", 30)).add(sharing("b", 10)).add(sharing("c", 20))
    assert done(layout) == [("AdmitGang", "b", "worker/0@0"), ("AdmitGang", "c", "worker/0@1")]
    assert len(done(layout, SrptSettings(per_node=2))) == 3


def test_on_shared_nodes_the_longest_makes_room():
    """A shorter arrival takes the node of the one with the most left."""
    layout = Layout(nodes_of(2, cpu=8.0)).add(sharing("a", 100), "0", **JUST_STARTED)
    layout.add(sharing("b", 90), "1", **JUST_STARTED).add(sharing("c", 20))
    assert done(layout) == [("Preempt", "a", ""), ("Claim", "c", "worker/0@0")]
    assert done(layout.leave("a/worker/0", "preempt")) == [("Claim", "c", "worker/0@0")]


def test_a_gang_takes_a_node_for_each_worker():
    """And where there are more workers than nodes they share; their server goes beside one of them."""
    layout = Layout(nodes_of(2, cpu=8.0)).add(sharing("a", 30, 2, ps=1)).add(sharing("b", 40))
    assert done(layout, SECONDS) == [("AdmitGang", "a", "worker/0@0 worker/1@1 ps/0@0")]
    large = Layout(nodes_of(2, cpu=8.0)).add(sharing("a", 30, 3))
    assert done(large) == [("AdmitGang", "a", "worker/0@0 worker/1@1 worker/2@0")]


# -- what is optimal -----------------------------------------------------------------------------


def total_completion(jobs, machines, policy=DEFAULT):
    """Return the sum of completion times under the policy; jobs are (arrival, seconds)."""
    world = InstantWorld(nodes_of(machines, cpu=8.0), lambda snapshot: propose(snapshot, policy))
    now = 0
    while len(world.ended) < len(jobs):
        for number, (arrival, seconds) in enumerate(jobs):
            if arrival == now:
                world.submit(sharing(f"job-{number}", seconds), float(seconds), float(now))
        world.tick(float(now))
        now += 1
        assert now < 200, "a job never ends"
    assert world.refused == []
    return sum(world.ended.values())


def least_completion(jobs, machines):
    """Return the least possible sum of completion times, by trying every schedule in unit steps."""

    @functools.cache
    def least(now, left):
        if not any(left):
            return 0
        ready = [i for i, (arrival, _) in enumerate(jobs) if arrival <= now and left[i]]
        best = float("inf")
        for chosen in itertools.combinations(ready, min(machines, len(ready))):
            after = tuple(seconds - (i in chosen) for i, seconds in enumerate(left))
            ends = sum(now + 1 for i in chosen if not after[i])
            best = min(best, ends + least(now + 1, after))
        return best

    return least(0, tuple(seconds for _, seconds in jobs))


small = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(jobs=small)
def test_on_one_node_nothing_is_better(jobs):
    """Schrage 1968: the sum of completion times is the least of all schedules."""
    assert total_completion(jobs, 1) == least_completion(jobs, 1)


@settings(max_examples=40, deadline=None)
@given(seconds=st.lists(st.integers(1, 6), min_size=1, max_size=6), machines=st.integers(1, 3))
def test_on_several_nodes_nothing_is_better_if_all_are_there_at_once(seconds, machines):
    """McNaughton 1959: without later arrivals, shortest first needs no preemption and is optimal."""
    jobs = [(0, each) for each in seconds]
    assert total_completion(jobs, machines) == least_completion(jobs, machines)


def test_on_several_nodes_with_arrivals_it_may_be_beaten():
    """Two nodes: it finishes the short ones at once and leaves a node idle later on."""
    jobs = [(0, 1), (0, 1), (0, 2), (2, 1), (2, 1)]
    found, least = total_completion(jobs, 2), least_completion(jobs, 2)
    assert (found, least) == (12, 11)


# -- always --------------------------------------------------------------------------------------

some_settings = st.builds(
    SrptSettings,
    rank=st.sampled_from(["service", "seconds"]),
    per_node=st.integers(1, 3),
    margin=st.sampled_from([0.0, 0.5]),
    preemptions_per_job=st.sampled_from([None, 0, 3]),
)


@given(layout=layouts(), policy=some_settings)
def test_every_proposal_is_possible(layout, policy):
    """Room and whole gangs; nobody leaves twice, or for one with as much left; always the same."""
    proposals = list(propose(layout.snapshot, policy))
    assert proposals == list(propose(layout.snapshot, policy))
    assert all(proposal.reason for proposal in proposals)
    assert layout.refused(proposals) == []
    for kind in (AdmitGang, Preempt, Claim):
        names = [proposal.job for proposal in proposals if isinstance(proposal, kind)]
        assert len(names) == len(set(names))


@given(layout=layouts())
def test_room_that_is_made_is_enough_for_the_claims(layout):
    """Once all that were told to end are gone, every claim of this call can be redeemed at once."""
    proposals = list(propose(layout.snapshot, DEFAULT))
    victims = {proposal.job for proposal in proposals if isinstance(proposal, Preempt)}
    for name, replica in layout.state.replicas.items():
        if replica.leaving is not None or (replica.job in victims and replica.active):
            layout.change(name.removeprefix("default/"), leaving=None, phase="Absent", node=None)
    starts = [p for p in proposals if isinstance(p, AdmitGang)]
    claims = [p for p in proposals if isinstance(p, Claim) and p.placement]
    starts += [AdmitGang(job=p.job, placement=p.placement, reason="") for p in claims]
    layout.state = msgspec.structs.replace(layout.state, claims={})
    assert layout.refused(starts) == []


@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 60)), min_size=1, max_size=7),
    policy=st.sampled_from([DEFAULT, SECONDS]),
)
def test_every_job_completes(sizes, policy):
    """Nobody is preempted for ever, and nothing that is ordered is impossible."""
    world = InstantWorld(nodes_of(2), lambda snapshot: propose(snapshot, policy))
    for number, (size, seconds) in enumerate(sizes):
        world.submit(lasting(f"job-{number}", seconds, size), float(seconds), 0.0)
    for now in range(500):
        world.tick(float(now))
        if len(world.ended) == len(sizes):
            break
    assert len(world.ended) == len(sizes)
    assert world.refused == []
