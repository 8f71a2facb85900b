"""What is followed of Kueue for moves: which Workload stands for a job, and who hears of what changes."""

import asyncio

import msgspec
import pytest

from specon_manager.backends.kube.kueue.standing import ELASTIC, KueueMoveSettings
from specon_manager.backends.kube.kueue.standings import Standings
from specon_manager.backends.kube.objects.owner import OwnerInfo
from support.kube.kueue_api import KueueApi
from support.kube.kueue_objects import queue_object

JOB = OwnerInfo(kind="Job", namespace="training", name="train", uid="job-1", kueue=True)
SETTINGS = KueueMoveSettings(enabled=True, cluster_queues=("team",))


class Followed:
    """Standings that have seen one ClusterQueue of ten processors, with its LocalQueue."""

    def __init__(self):
        self.api, self.told = KueueApi(), []
        self.api.put("clusterqueues", queue_object("team", **{"default/cpu": 10}))
        local = {"name": "local", "namespace": "training", "uid": "local"}
        self.api.put("localqueues", {"metadata": local, "spec": {"clusterQueue": "team"}})
        self.standings = Standings(self.api, SETTINGS, self.told.extend)

    def workload(self, name, *, cpu=4, job="job-1", admitted=True, finished=False, elastic=False):
        """Have Kueue write a Workload, of one pod."""
        labels = {"kueue.x-k8s.io/job-uid": job}
        metadata = {"name": name, "namespace": "training", "uid": name, "labels": labels}
        kinds = [*(("QuotaReserved", "Admitted") if admitted else ()), *(("Finished",) if finished else ())]
        status = {
            "conditions": [{"type": kind, "status": "True"} for kind in kinds],
            "resourceRequests": [{"resources": {"cpu": str(cpu)}}],
        }
        if admitted:
            given = {"flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(cpu)}}
            status["admission"] = {"clusterQueue": "team", "podSetAssignments": [given]}
        spec = {"queueName": "local", "podSets": [{"name": "main", "count": 1}]}
        if elastic:
            metadata["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
        self.api.put("workloads", {"metadata": metadata, "spec": spec, "status": status})

    async def until(self, holds):
        async with asyncio.timeout(5):
            while not holds():  # noqa: ASYNC110  (what a stub does has no event)
                await asyncio.sleep(0.01)

    @property
    def against(self):
        return self.standings.of(JOB).kueue_against


@pytest.fixture
async def followed():
    made = Followed()
    made.workload("first")
    task = asyncio.create_task(made.standings.run())
    await made.standings.wait_until_synced()
    yield made
    task.cancel()


async def test_a_job_is_told_with_its_one_workload(followed):
    """While it has several, or none, nothing is said by them."""
    assert (followed.standings.of(JOB).workload, followed.against) == ("first", "")
    followed.workload("second")
    await followed.until(lambda: followed.standings.of(JOB) == JOB)
    followed.workload("first", finished=True)
    await followed.until(lambda: followed.standings.of(JOB).workload == "second")
    followed.api.remove("workloads", "training", "second")
    await followed.until(lambda: followed.standings.of(JOB) == JOB)


async def test_an_elastic_job_is_told_with_all_of_its_slices(followed):
    """It is sized by its own object; nothing of it is moved, and only it hears of what becomes free."""
    job = msgspec.structs.replace(JOB, slices=True)
    followed.workload("first", elastic=True)
    await followed.until(lambda: not followed.standings.of(job).kueue_fixed)
    sized = followed.standings.of(job)
    assert (sized.workload, sized.headroom, sized.kueue_against) == ("", 1, ELASTIC)
    followed.told.clear()
    followed.workload("small", job="other", cpu=6)
    await followed.until(lambda: "job-1" in followed.told)
    assert followed.standings.of(job).headroom == 0
    followed.workload("second", cpu=8, admitted=False, elastic=True)
    await followed.until(lambda: followed.standings.of(job).queued)
    assert followed.standings.of(job).kueue_fixed == ""
    assert "waits for quota" in followed.standings.of(job).no_headroom


async def test_those_of_a_queue_hear_of_who_comes_to_wait_there(followed):
    """And of nobody who fits."""
    followed.told.clear()
    followed.workload("small", job="other", cpu=6, admitted=False)
    await followed.until(lambda: "other" in followed.told)
    await asyncio.sleep(0.3)
    assert (followed.against, "job-1" in followed.told) == ("", False)
    followed.workload("large", job="another", cpu=7, admitted=False)
    await followed.until(lambda: "job-1" in followed.told)
    assert "another Workload waits for cpu" in followed.against


async def test_those_of_a_queue_hear_that_it_is_stopped(followed):
    """Though no Workload has changed."""
    followed.told.clear()
    stopped = queue_object("team", **{"default/cpu": 10})
    stopped["spec"]["stopPolicy"] = "Hold"
    followed.api.put("clusterqueues", stopped)
    await followed.until(lambda: "job-1" in followed.told)
    assert "ClusterQueue team is stopped" in followed.against
