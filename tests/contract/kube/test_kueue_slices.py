"""A real Kueue: our policies size its elastic Jobs within free quota, and take nothing from others.

It runs where `test_kueue.py` does.
"""

import asyncio

import pytest

from specon_manager.backends.kube.transport.resources import KUEUE_CLUSTER_QUEUES
from support.kube import real_kueue
from support.kube.kueue_objects import queue_object
from support.kube.real_kueue_stage import stage_for_moves

SETTINGS = {
    "kueue_moves": {"enabled": True, "cluster_queues": ["team"]},
    "policy": "kod2",
    "parameters": {"cooldown": 1, "starve_limit": 2},
    "budgets": {"cooldown": 0, "change_cooldown": 1, "retry_cooldown": 600},
    "nodes": 1,
}
pytestmark = [
    pytest.mark.skipif(
        real_kueue.assets() is None, reason="no Kueue: set KUEUE_ASSETS to the folder of its program"
    ),
    pytest.mark.timeout(1800),
]


@pytest.fixture
async def stage(tmp_path):
    async with stage_for_moves(tmp_path, SETTINGS) as made:
        yield made


class Job:
    """An elastic Job that trains, and what became of it."""

    def __init__(self, stage, replicas):
        self.stage, self.name, self.replicas = stage, replicas[0].split("/")[1], replicas
        self.sizes = []
        """What its Workloads said, each time that one of them changed."""

    @classmethod
    async def training(cls, stage, *, workers, **bounds):
        """Return one that trains with so many workers, of which the first saves nothing yet."""
        replicas = await stage.submit_elastic("bert", "team", workers=workers, **bounds)
        stage.sidecars.slow.add(replicas[0])
        await stage.trains(*replicas[:workers])
        made = cls(stage, replicas)
        made.pods = {each: stage.pod_of(each)["metadata"]["uid"] for each in replicas[:workers]}
        stage.seen.append(made.told)
        return made

    def told(self, _, workload):
        sizes = self.stage.sizes(self.name)
        if sizes not in self.sizes[-1:]:
            self.sizes.append(sizes)

    def save(self):
        """Let the first worker save what it is asked for."""
        self.stage.sidecars.slow.clear()

    async def is_asked(self):
        """Wait until a checkpoint is asked for, so that it can be sized."""

        async def asked():
            return (await self.stage.record(self.name)).get("change", {}).get("state") == "Checkpointing"

        await self.stage.eventually(asked, "a checkpoint is asked for")

    async def has(self, workers, state):
        """Wait until a change has ended so, and return it; one admitted Workload stands for all workers."""
        last = {}

        async def over():
            last.update((await self.stage.record(self.name)).get("lastChange") or {})
            return last.get("state") == state and self.stage.sizes(self.name) == [(workers, True)]

        await self.stage.eventually(over, f"it has {workers} workers", seconds=120)
        await self.stage.trains(*self.replicas[:workers])
        return last

    @property
    def lost(self):
        """How many steps those lost that trained from the beginning and still do, in the same pods."""
        stay = {each: uid for each, uid in self.pods.items() if self.stage.pod_of(each)}
        assert {each: self.stage.pod_of(each)["metadata"]["uid"] for each in stay} == stay
        return [self.stage.sidecars.lost[each] for each in stay]


def told(what, job, last):
    words = f"{last['state']}: {last.get('note') or last.get('reason')}"
    print(f"{what}: {job.sizes}; {words}; {job.lost} steps lost")  # noqa: T201


async def test_a_job_grows_within_the_free_quota_and_no_further(stage):
    """Those that train lose no step, and keep their pods."""
    job = await Job.training(stage, workers=2, most=8)
    job.save()
    last = await job.has(4, "Succeeded")
    await asyncio.sleep(8)
    assert stage.sizes("bert") == [(4, True)]
    assert "has no free quota for one more worker" in (await stage.record("bert"))["notScaledOut"]
    told("a quota of 4", job, last)
    assert job.lost == [0, 0]


async def test_what_a_job_gives_back_is_free_at_once(stage):
    """Another Workload that waited for it is admitted."""
    job = await Job.training(stage, workers=4, fewest=3, most=4)
    job.save()
    await stage.fill("beside", "team", cpu="1")
    await asyncio.sleep(3)
    assert not stage.says("beside", "Admitted")
    await stage.hold("held", cpu="12")

    async def admitted():
        return stage.says("beside", "Admitted")

    await stage.eventually(admitted, "the one that waited is admitted")
    last = await job.has(3, "Succeeded")
    told("a node that a held job needs", job, last)
    assert job.lost == [0, 0, 0]


async def test_a_job_whose_quota_another_takes_while_it_saves_does_not_grow(stage):
    """Kueue is asked for nothing."""
    job = await Job.training(stage, workers=2, most=3)
    await job.is_asked()
    await stage.fill("thief", "team", cpu="2")

    async def admitted():
        return stage.says("thief", "Admitted")

    await stage.eventually(admitted, "another takes the quota")
    job.save()
    last = await job.has(2, "RolledBack")
    told("a quota that another took meanwhile", job, last)
    assert (job.lost, job.sizes) == ([0, 0], [[(2, True)]])


async def test_a_job_that_kueue_does_not_let_grow_goes_back_whole(stage):
    """The slice that waits is written back, and admitted in the stead of the former one: nothing is left."""
    job = await Job.training(stage, workers=2, most=3)
    await job.is_asked()
    await set_queue(stage, namespaceSelector={"matchLabels": {"no": "such"}})
    job.save()

    async def waits():
        return stage.sizes("bert") == [(2, True), (3, False)]

    await stage.eventually(waits, "the second slice waits")
    groups = queue_object("team", **{"default/cpu": 2})["spec"]["resourceGroups"]
    await set_queue(stage, namespaceSelector={"matchLabels": None}, resourceGroups=groups)
    last = await job.has(2, "RolledBack")
    told("a quota that was lost after the write", job, last)
    assert job.lost == [0, 0]
    assert stage.pod_of(job.replicas[2]) is None


async def set_queue(stage, **spec):
    await stage.api.patch(KUEUE_CLUSTER_QUEUES, "team", None, {"spec": spec}, form="merge")


async def test_a_job_is_not_sized_while_the_feature_gate_is_off(tmp_path):
    """Kueue would suspend it as soon as its number changed."""
    without = {"without": ["ElasticJobsViaWorkloadSlices"]}
    async with stage_for_moves(tmp_path, {**SETTINGS, **without}) as stage:
        job = await Job.training(stage, workers=2, most=4)
        job.save()
        await asyncio.sleep(8)
        assert stage.sizes("bert") == [(2, True)]
        record = await stage.record("bert")
        assert "Kueue does not heed its annotation" in record["notScaledOut"]
        assert not {"change", "lastChange"} & record.keys()
