"""A Job that carries our mark without a change in flight: who lets it run again, and when."""

import asyncio
import logging

import msgspec
import pytest

from fakekube.kinds import JOBS as FAKE_JOBS
from fakekube.kinds import PODS
from specon_manager.backends.kube import backend as backends
from specon_manager.backends.kube.placing.book import Book
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import JOBS
from specon_manager.model.events import ReplicaGone, ReplicaStarted
from support.kube.stage import make_job, template

R = "default/train/worker/0"
MARK = "specon.io/suspended-for"
LOOKS = 0.2
"""Seconds of this test's wall in which `_settle` has looked several times."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Let a backend look every few milliseconds in place of every 30 s."""
    monkeypatch.setattr(backends, "_TICK", 0.02)
    monkeypatch.setattr(backends, "_SETTLE", 0.04)


async def suspend(api, move="m-1"):
    """Do what a manager does that is lost right after: mark, and suspend."""
    change = {"metadata": {"annotations": {MARK: move}}, "spec": {"suspend": True}}
    await api.patch(JOBS, "train", "default", change, form="merge")


async def is_suspended(api):
    job = await api.get(JOBS, "train", "default")
    marked = MARK in (job["metadata"].get("annotations") or {})
    assert marked is bool(job["spec"].get("suspend")), job
    return marked


async def resumed(api, seconds=15.0):
    async with asyncio.timeout(seconds):
        while await is_suspended(api):  # noqa: ASYNC110  (nobody tells a client)
            await asyncio.sleep(0.02)


async def test_what_is_suspended_for_nothing_runs_again(api, stage):
    """Nobody else would ever resume it."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await suspend(api)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    await resumed(api)
    await stage.until(lambda: stage.said(ReplicaStarted)[-1].incarnation != started.incarnation)


async def test_it_waits_until_pods_that_end_are_gone(cluster, api, stage):
    """One beside them would be a second live copy."""
    await make_job(api, "train", template=template(terminationGracePeriodSeconds=2))
    started = await stage.hear(ReplicaStarted)
    cluster.kubelet.deaf.add(stage.backend.pod_of(R))
    await suspend(api)
    await stage.until(lambda: stage.backend._book.is_ending("default/train"))
    while not stage.said(ReplicaGone, incarnation=started.incarnation):
        assert len(stage.said(ReplicaStarted)) == 1
        pods = [pod for pod in cluster.store.all(PODS) if pod["metadata"]["uid"] == started.incarnation]
        if pods:  # nobody has resumed it, as far as the API server knows
            assert cluster.store.get(FAKE_JOBS, ("default", "train"))["spec"]["suspend"]
        await asyncio.sleep(0.01)
    await resumed(api)
    await stage.until(lambda: len(stage.said(ReplicaStarted)) == 2)


async def test_what_is_in_flight_is_left_alone(api, stage):
    """Its transaction says when it runs again."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await stage.hold("m-1", R, "node-1")
    await stage.leave(R, started.incarnation)
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    await asyncio.sleep(LOOKS)
    assert await is_suspended(api)
    await stage.over(R)
    await resumed(api)


async def test_what_its_user_suspended_is_left_alone(api, stage):
    """It carries no mark of ours."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    await api.patch(JOBS, "train", "default", {"spec": {"suspend": True}}, form="merge")
    await stage.hear(ReplicaGone, incarnation=started.incarnation)
    await asyncio.sleep(LOOKS)
    assert (await api.get(JOBS, "train", "default"))["spec"]["suspend"]


async def test_a_mark_that_was_cleared_meanwhile_resumes_nothing(api, stage):
    """Between two looks its move may have ended by itself: whatever is not marked any more is passed over."""
    await make_job(api, "train")
    await stage.hear(ReplicaStarted)
    assert await stage.backend._resume_idle({("Job", "default", "train")}) == set()
    assert not await is_suspended(api)


@pytest.mark.parametrize("trouble", [ApiError(500, "InternalError", "etcd"), ApiUnavailableError("nobody")])
async def test_a_trouble_of_the_api_server_is_told_and_it_is_tried_again(
    api, stage, monkeypatch, caplog, trouble
):
    """As often as it takes; the loop goes on."""
    await make_job(api, "train")
    started = await stage.hear(ReplicaStarted)
    rightly, failures = api.patch, iter([trouble] * 3)

    async def patch(resource, name, namespace, change, **how):
        mine = resource is JOBS and (change["spec"] if isinstance(change, dict) else {}).get("suspend")
        if resource is JOBS and mine is not True and (failure := next(failures, None)) is not None:
            raise failure
        return await rightly(resource, name, namespace, change, **how)

    monkeypatch.setattr(api, "patch", patch)
    with caplog.at_level(logging.WARNING):
        await suspend(api)
        await stage.hear(ReplicaGone, incarnation=started.incarnation)
        await resumed(api)
    assert next(failures, None) is None
    assert caplog.text.count("could not be resumed") == 3


@pytest.mark.parametrize(
    ("pods", "ending"),
    [
        ([], False),
        ([{}], False),
        ([{"deleting": True}], True),
        ([{"deleting": True, "phase": "Succeeded"}], False),
        ([{}, {"deleting": True}], True),
    ],
    ids=["none", "runs", "ends", "has ended", "one of two"],
)
async def test_a_job_is_ending_while_a_pod_of_it_that_may_run_was_told_to_end(api, stage, pods, ending):
    """One that is over is in nobody's way."""
    await make_job(api, "train")
    await stage.hear(ReplicaStarted)
    known = stage.backend._ledger.live(R)
    book = Book()
    for number, changes in enumerate(pods):
        book.note_pod(None, msgspec.structs.replace(known, uid=f"u-{number}", name=f"p-{number}", **changes))
    assert book.is_ending("default/train") is ending
    assert not book.is_ending("default/other")
