"""A manager that takes over in the middle of a change, or after one: what it resumes, releases and leaves."""

import asyncio

import pytest

from fakekube.kinds import JOBS as FAKE_JOBS
from specon_manager.backends.kube.transport.resources import JOBS
from specon_manager.core.state import State
from specon_manager.model.cluster import Job
from specon_manager.model.events import JobObserved
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from support.kube.placing_stage import (
    ELASTIC,
    JOB,
    QUEUED,
    described,
    gang,
    held_by_webhook,
    make_gang,
    place,
    pods_of,
    where,
)
from support.kube.stage import HASTY, Stage

SPREAD = gang("node-0", "node-1", "node-2")
A_WHILE = 1.5  # seconds in which a manager that takes over has looked at everything once


@pytest.fixture
def cluster(cluster):
    held_by_webhook(cluster)
    return cluster


async def _queued(cluster, api, **spec):
    """Make a queued job under a first manager, and return how that told of it."""
    async with Stage(api, settings=HASTY) as stage:
        await make_gang(api, {**QUEUED, **ELASTIC}, **spec)
        told = await described(stage)
        await stage.until(lambda: len(pods_of(cluster)) == 3)
    return told


def _state(spec, *changes, admitted):
    job = Job(spec=spec, order=0, submitted_at=0.0, admitted=admitted)
    return State(jobs={JOB: job}, transactions={each.id: each for each in changes})


def _change(kind, state, *, before, after, restart=False):
    return Transaction(
        id="change-1",
        job=JOB,
        kind=kind,
        policy="kod2",
        reason="test",
        state=state,
        proposed_at=0.0,
        deadline=60.0,
        before=before,
        after=after,
        restart=restart,
        whole=True,
    )


async def _suspend(cluster, api, mark):
    body = {"metadata": {"annotations": {"specon.io/suspended-for": mark}}, "spec": {"suspend": True}}
    await api.patch(JOBS, "train", "default", body, form="merge")
    await cluster.settle()


def _suspended(cluster):
    return cluster.store.get(FAKE_JOBS, ("default", "train"))["spec"]["suspend"]


@pytest.mark.parametrize(
    ("mark", "admitted", "stays"),
    [("held-change-1", False, True), ("held-change-1", True, False), ("change-1", False, False)],
    ids=["waits", "admitted", "change-is-over"],
)
async def test_what_is_suspended_by_us_stays_so_only_while_its_job_waits(cluster, api, mark, admitted, stays):
    """Else the order that was to resume it may have been lost."""
    spec = await _queued(cluster, api)
    await _suspend(cluster, api, mark)
    async with Stage(api, settings=HASTY, state=_state(spec, admitted=admitted)) as stage:
        if stays:
            await asyncio.sleep(A_WHILE)
        else:
            await stage.until(lambda: not _suspended(cluster))
        assert _suspended(cluster) is stays


async def test_what_a_change_in_flight_suspended_is_left_to_its_order(cluster, api):
    """It is given again; until then the job stays as it is."""
    spec = await _queued(cluster, api)
    await _suspend(cluster, api, "change-1")
    change = _change(
        Kind.SCALE_OUT, TransactionState.LEAVING, before=dict(SPREAD), after=dict(SPREAD), restart=True
    )
    async with Stage(api, settings=HASTY, state=_state(spec, change, admitted=True)) as stage:
        await asyncio.sleep(A_WHILE)
        assert _suspended(cluster) is True
        await place(stage, "change-1", SPREAD)
        await stage.until(lambda: len(where(cluster)) == 3)


async def test_a_job_that_names_no_queue_any_more_is_resumed(cluster, api):
    """And its pods are not gated."""
    await _queued(cluster, api)
    await _suspend(cluster, api, "held-change-1")
    body = {"spec": {"template": {"metadata": {"annotations": {"specon.io/queue": None}}}}}
    await api.patch(JOBS, "train", "default", body, form="merge")
    async with Stage(api, settings=HASTY) as stage:
        await stage.until(lambda: len(where(cluster)) == 3)


@pytest.mark.parametrize("admitted", [True, False])
async def test_gated_pods_are_released_only_if_their_job_was_admitted(cluster, api, admitted):
    """Such as those that were created again while no manager was there."""
    spec = await _queued(cluster, api)
    async with Stage(api, settings=HASTY, state=_state(spec, admitted=admitted)) as stage:
        if admitted:
            await stage.until(lambda: len(where(cluster)) == 3)
        else:
            await asyncio.sleep(A_WHILE)
            assert where(cluster) == {}


async def test_gated_pods_of_an_admission_in_flight_wait_for_its_order(cluster, api):
    """They are not let go just anywhere meanwhile."""
    spec = await _queued(cluster, api)
    change = _change(Kind.ADMIT, TransactionState.COMING, before={}, after=dict(SPREAD))
    async with Stage(api, settings=HASTY, state=_state(spec, change, admitted=True)) as stage:
        await asyncio.sleep(A_WHILE)
        assert where(cluster) == {}
        await place(stage, "change-1", SPREAD)
        await stage.until(lambda: where(cluster) == {0: "node-0", 1: "node-1", 2: "node-2"})


@pytest.mark.parametrize("moments", range(0, 60, 12))
async def test_an_admission_is_finished_by_the_next_manager_wherever_the_first_was_killed(
    cluster, api, moments
):
    """A gang half released is released whole, on the same nodes."""
    spec = await _queued(cluster, api)
    change = _change(Kind.ADMIT, TransactionState.COMING, before={}, after=dict(SPREAD))
    state = _state(spec, change, admitted=True)
    async with Stage(api, settings=HASTY, state=state) as first:
        await place(first, "change-1", SPREAD)
        await asyncio.sleep(moments / 1000)
    async with Stage(api, settings=HASTY, state=state) as second:
        await place(second, "change-1", SPREAD)
        await second.until(lambda: where(cluster) == {0: "node-0", 1: "node-1", 2: "node-2"})


async def test_a_preempted_job_that_names_no_queue_any_more_is_not_kept_suspended(cluster, api):
    """The order that preempted it does not hold it for ever."""
    spec = await _queued(cluster, api)
    async with Stage(api, settings=HASTY, state=_state(spec, admitted=True)) as stage:
        await place(stage, "change-1", {})
        await stage.until(lambda: not pods_of(cluster))
        await stage.until(lambda: stage.backend._ledger.owner_of_job(JOB).suspended)
        owner = stage.backend._ledger.owner_of_job(JOB)
        assert stage.backend._book.keeps(owner, [JOB])
        body = {"spec": {"template": {"metadata": {"annotations": {"specon.io/queue": None}}}}}
        await api.patch(JOBS, "train", "default", body, form="merge")
        await stage.until(lambda: any(not each.spec.held for each in stage.said(JobObserved)))
        assert not stage.backend._book.keeps(owner, [JOB])
