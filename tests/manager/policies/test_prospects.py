"""The order of what jobs have left is the same whether it was kept and renewed, or is made anew."""

from math import inf

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.core.proposals import proposals
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import survey
from specon_manager.model.cluster import Phase
from specon_manager.model.events import Tick
from specon_manager.model.progress import Progress
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.policies import prospects
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.falling import Falling, Seen
from specon_manager.policies.lateness import Lateness
from specon_manager.policies.preemption import running
from specon_manager.policies.progress import ProgressSettings
from specon_manager.policies.table import POLICIES
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from support.decisions.expected import left_alone, worlds
from support.decisions.gang_worlds import NOW, Layout, nodes_of, spec_of
from support.decisions.invariants import check_kinds, check_order, check_survey

DECIDING = sorted(name for name, policy in POLICIES.items() if not policy.clairvoyant)

reports = st.builds(
    Progress,
    category=st.sampled_from(Category),
    step=st.sampled_from([None, 5]),
    total_steps=st.sampled_from([10, 10, None]),
    remaining_seconds=st.builds(
        Estimate, value=st.sampled_from([-1.0, 0.0, 5.0, 5.1, 1e9]), uncertainty=st.just(0.0)
    ),
    until_converged=st.sampled_from([None, 0.0, 0.3]),
    reported_at=st.sampled_from([None, NOW - 100, NOW, NOW + 50]),
    cpu_per_step=st.sampled_from([None, 2.0]),
)


@pytest.fixture(autouse=True, scope="module")
def renewed():
    """Let nothing be made anew for the reason that much of it differs: these worlds are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prospects, "_MANY", inf)
        patch.setattr(running, "_MANY", inf)
        patch.setattr(survey, "_MANY", inf)
        yield


@given(worlds(), st.data())
def test_the_order_is_that_of_what_each_job_has_left(layout, data):
    """Whatever was reported, came, went or was forgotten between two looks, and also where time goes back."""
    state, now = layout.state, NOW
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.sampled_from(["report", "train", "phase", "wait", "back", "node", "end", "spec"]))
        names = sorted(state.replicas)
        replica = state.replicas[data.draw(st.sampled_from(names))] if names else None
        if kind in {"wait", "back"}:
            now += data.draw(st.sampled_from([1.0, 7.0, 1e5])) * (-1 if kind == "back" else 1)
        elif kind == "node":
            node = data.draw(st.sampled_from(sorted(state.nodes)))
            ready = not state.nodes[node].ready
            changed = msgspec.structs.replace(state.nodes[node], ready=ready)
            state = msgspec.structs.replace(state, nodes={**state.nodes, node: changed})
        elif replica is not None and kind == "report":
            state = state.with_replica(msgspec.structs.replace(replica, progress=data.draw(reports)))
        elif replica is not None and kind == "phase":
            phase = data.draw(st.sampled_from([Phase.RUNNING, Phase.ABSENT]))
            state = state.with_replica(msgspec.structs.replace(replica, phase=phase, node=min(state.nodes)))
        elif replica is not None and kind == "spec":
            job = state.jobs[replica.job]
            asks = NOTHING if job.spec.requests != NOTHING else Resources(gpu=1)
            spec = msgspec.structs.replace(job.spec, requests=asks, ps_requests=None)
            state = state.with_job(msgspec.structs.replace(job, spec=spec))
        elif replica is not None:
            job = state.jobs[replica.job]
            since = data.draw(st.sampled_from([None, now, now - 10]))
            ended = now if kind == "end" else None
            state = state.with_job(msgspec.structs.replace(job, trains_since=since, ended_at=ended))
        check_survey(state.flatten() if data.draw(st.booleans()) else state, now)
        check_kinds(state.snapshot(now))


@given(worlds(), st.data(), st.sampled_from([0.0, inf]))
def test_what_was_reported_while_nobody_asked_is_looked_at_later(layout, data, many):
    """Where no job waits a Tick asks who lacks workers alone; the next one that asks for more has it all."""
    state, now = layout.state, NOW
    check_order(state.snapshot(now))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prospects, "_MANY", many)
        for _ in range(data.draw(st.integers(1, 5))):
            for name in data.draw(st.sets(st.sampled_from(sorted(state.replicas) or [""]))) - {""}:
                change = data.draw(st.sampled_from(["progress", "phase"]))
                value = data.draw(reports if change == "progress" else st.sampled_from(Phase))
                changed = msgspec.structs.replace(state.replicas[name], **{change: value})
                state = state.with_replica(msgspec.structs.replace(changed, node=min(state.nodes)))
            now += 5.0
            snapshot = state.snapshot(now)
            expected = Expectation(snapshot, prior_seconds=600.0, size_power=0.5, objective="balanced")
            active = snapshot.active_jobs
            lacking = {n for n, count in active.items() if prospects.varies(snapshot.jobs[n], count)}
            assert {job.name for job in expected.varying()} == lacking
        check_order(snapshot)


def test_a_job_that_shares_from_now_on_is_measured_as_those_are():
    """By what a step costs; the same report says less of a job that reserves."""
    layout = Layout(nodes_of(4))
    for number, name in enumerate("jklm"):
        left_alone(layout.add(spec_of(name), str(number)), name, 100.0)
    replica = layout.state.replicas["default/j/worker/0"]
    told = msgspec.structs.replace(replica.progress, remaining_seconds=Estimate(value=7.0, uncertainty=0.0))
    layout.change("j/worker/0", progress=told)
    check_order(layout.snapshot)
    job = layout.state.jobs["default/j"]
    shared = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, requests=NOTHING))
    layout.state = layout.state.with_job(shared)
    check_order(layout.snapshot)


def test_a_job_that_was_submitted_again_as_it_was_is_where_it_belongs_now():
    """Behind those that came in between, though it is described by the same record."""
    layout = Layout(nodes_of(4))
    for name in "jkl":
        layout.add(spec_of(name), "0")
    check_survey(layout.state, NOW)
    job = layout.state.jobs["default/k"]
    layout.state = layout.state.with_job(msgspec.structs.replace(job, order=9))
    check_survey(layout.state, NOW)
    layout.change("k/worker/0", node="node-1")
    check_survey(layout.state, NOW)


@given(worlds(), st.sampled_from(["completion", "quality", "balanced"]), st.sampled_from([0.0, 1.0]))
def test_other_settings_have_an_order_of_their_own(layout, objective, power):
    """What was kept for others is not used."""
    snapshot = layout.snapshot
    check_order(snapshot)
    expected = Expectation(snapshot, prior_seconds=600.0, size_power=power, objective=objective)
    works = [(-each.work, each.job.order) for each in expected.most_work()]
    assert works == sorted((-expected.work(each.job), each.job.order) for each in expected.most_work())
    check_order(snapshot)


@given(worlds())
def test_contention_is_counted_job_by_job_or_in_kinds(layout):
    """All that jobs ask for that have not ended, by the largest share of what ready nodes have."""
    snapshot = layout.snapshot
    late = Lateness(snapshot, Expectation(snapshot, prior_seconds=1.0), ProgressSettings())
    asked = {"cpu": 0.0, "memory": 0.0, "gpu": 0.0}
    for job in snapshot.jobs.values():
        spec = job.spec
        counted = (*spec.ps, *spec.worker_names[: spec.wanted_workers]) if job.ended_at is None else ()
        for name in counted:
            for kind in asked:
                asked[kind] += getattr(spec.requests_of(name), kind)
    whole = {kind: sum(getattr(node.capacity, kind) for node in snapshot.ready_nodes) for kind in asked}
    shares = [asked[kind] / most for kind, most in whole.items() if most > 0]
    assert late.contention == pytest.approx(max(1.0, *shares))


def test_of_many_only_those_that_may_be_first_are_asked():
    """So that a Tick does not look at each job of a large cluster."""
    falling = Falling[int]({}, {}).renewed(
        [], [(str(number), float(number), number) for number in range(1, 5000)]
    )
    asked = list[int]()

    def key(number):
        asked.append(number)
        return -number / 2, number  # it has fallen since

    assert next(falling.descending(key))[1] == 4999
    assert len(asked) > 2000  # half as much by now: each of those might be first
    asked.clear()
    assert (
        next(falling.descending(lambda number: (asked.append(number), (-float(number), number))[1]))[1]
        == 4999
    )
    assert len(asked) < 500


def test_what_was_seen_is_not_asked_for_again():
    """Also where two go through it by turns."""
    source = iter(range(5))
    seen = Seen(source)
    one, other = iter(seen), iter(seen)
    assert [next(one), next(one), next(other), next(one), *other] == [0, 1, 0, 2, 1, 2, 3, 4]
    assert list(seen) == [0, 1, 2, 3, 4]
    assert list(one) == [3, 4]


@settings(deadline=None)
@given(worlds(), st.sampled_from(DECIDING), st.data())
def test_what_is_decided_does_not_depend_on_what_was_asked_before(layout, policy, data):
    """The same records without kept results give the same proposals and orders, word for word."""
    given = msgspec.structs.replace(
        layout.state.settings, policy=policy, parameters={}, defragment="on", warnings=("cordon",)
    )
    state, now = msgspec.structs.replace(layout.state, settings=given), NOW
    asked = list[tuple[State, float, str]]()
    for _ in range(data.draw(st.integers(1, 4))):
        now += data.draw(st.sampled_from([0.0, 5.0, 400.0]))
        for number in data.draw(st.lists(st.integers(0, 20), max_size=2) if state.replicas else st.just([])):
            name = sorted(state.replicas)[number % len(state.replicas)]
            replica = msgspec.structs.replace(state.replicas[name], progress=data.draw(reports))
            state = state.with_replica(replica)
            change = data.draw(st.sampled_from([described_anew, cordoned, None]))
            state = state if change is None else change(state, name)
        state = state.flatten()
        asked.append((state, now, decided(state, now)))
    for former, at, said in asked:
        assert decided(forgotten(former), at) == said


def described_anew(state, name):
    """Let the job of a replica be a trial of another priority and grace period."""
    job = state.jobs[state.replicas[name].job]
    spec = msgspec.structs.replace(job.spec, job_class="trial", priority=5, grace_seconds=90.0)
    return state.with_job(msgspec.structs.replace(job, spec=spec))


def cordoned(state, name):
    """Let a node be about to be emptied, and be of another model."""
    node = state.nodes[state.replicas[name].node or min(state.nodes)]
    changed = msgspec.structs.replace(
        node, ready=False, warned="cordon", labels={"specon.io/accelerator": "X"}
    )
    return msgspec.structs.replace(state, nodes={**state.nodes, node.name: changed})


def decided(state, now):
    """Return what is proposed, and what a Tick orders."""
    return repr(proposals(state.snapshot(now))), repr(step(state, Tick(), now)[1])


def forgotten(state):
    """Return the same with other records, so that no earlier result can be kept."""
    kinds = ("nodes", "jobs", "replicas")
    anew = {
        kind: {name: msgspec.structs.replace(record) for name, record in getattr(state, kind).items()}
        for kind in kinds
    }
    return msgspec.structs.replace(state, **anew)
