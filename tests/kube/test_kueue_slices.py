"""Our policies size elastic Jobs of Kueue, as far as its free quota goes.

Kueue is a stand-in that does what was read in its source; see `fakekube.kueue_slices`.
"""

import asyncio

import msgspec
import pytest

from support.kube.cluster_stage import DECISIONS
from support.kube.kueue_move_stage import KueueMoveStage

SIZES = msgspec.structs.replace(
    DECISIONS,
    policy="kod2",
    parameters={"cooldown": 0.5, "starve_limit": 1},
    budgets=msgspec.structs.replace(DECISIONS.budgets, change_cooldown=0.5, retry_cooldown=600),
)


@pytest.fixture
async def stage(tmp_path):
    async with KueueMoveStage(tmp_path, nodes=1) as made:
        made.sidecars.pauses = True
        await made.queue("full", **{"default/cpu": 4})
        await made.manage_and_lead(decisions=SIZES)
        yield made


class Job:
    """An elastic Job that trains, and of which a checkpoint is not saved before it is let."""

    def __init__(self, stage, replicas, workers):
        self.stage, self.replicas = stage, replicas
        self.pods = {each: stage.pod_of(each)["metadata"]["uid"] for each in replicas[:workers]}

    @classmethod
    async def training(cls, stage, queue="full", *, workers, **bounds):
        replicas = await stage.make_elastic("bert", queue, workers=workers, **bounds)
        stage.sidecars.slow.add(replicas[0])
        await stage.trains(*replicas[:workers])
        return cls(stage, replicas, workers)

    async def is_asked(self):
        state = lambda: (self.stage.record("bert").get("change") or {}).get("state")  # noqa: E731
        await self.stage.until(lambda: state() == "Checkpointing", "a checkpoint is asked for")

    def save(self):
        self.stage.sidecars.slow.clear()

    async def has(self, workers, state):
        """Wait until a change has ended so, with one admitted Workload; return why it ended."""
        last = lambda: self.stage.record("bert").get("lastChange") or {}  # noqa: E731
        await self.stage.until(
            lambda: last().get("state") == state and self.stage.sizes("bert") == [(workers, True)],
            f"it has {workers} workers",
        )
        await self.stage.trains(*self.replicas[:workers])
        stay = [each for each in self.pods if self.stage.pods_of(each)]
        assert {each: self.stage.pod_of(each)["metadata"]["uid"] for each in stay} == {
            each: self.pods[each] for each in stay
        }
        assert {self.stage.sidecars.lost[each] for each in stay} == {0}
        assert not any(self.stage.pods_of(each) for each in self.replicas[workers:])
        return last().get("note", "")


async def test_a_job_grows_within_the_free_quota_and_no_further(stage):
    """Those that train lose no step; then its record says why it grows no more."""
    job = await Job.training(stage, workers=2, most=8)
    job.save()
    await job.has(4, "Succeeded")
    words = "ClusterQueue full has no free quota for one more worker (cpu of the flavor default)"
    await stage.until(lambda: stage.record("bert").get("notScaledOut") == words, "it says why")
    await asyncio.sleep(2.0)
    assert stage.sizes("bert") == [(4, True)]


async def test_what_a_job_gives_back_is_free_at_once(stage):
    """Another Workload that waited for it is admitted."""
    job = await Job.training(stage, workers=4, fewest=3, most=4)
    job.save()
    await stage.fill("beside", "1", "full")
    await stage.hold("held", cpu="12")
    await job.has(3, "Succeeded")
    await stage.until(lambda: stage.is_admitted("beside"), "the one that waited is admitted")


async def test_a_job_whose_quota_another_takes_while_it_saves_does_not_grow(stage):
    """Kueue is asked for nothing."""
    job = await Job.training(stage, workers=2, most=3)
    await job.is_asked()
    await stage.fill("thief", "2", "full")
    await stage.until(lambda: stage.is_admitted("thief"), "another takes the quota")
    job.save()
    assert "has no free quota" in await job.has(2, "RolledBack")


async def test_a_job_does_not_grow_while_another_workload_waits(stage):
    """Kueue would serve one of the two later than without us."""
    await stage.fill("large", "3", "full")
    await stage.until(lambda: stage.is_admitted("large"), "it is admitted")
    await stage.fill("waiting", "3", "full")
    await Job.training(stage, workers=1, most=3)
    words = "another Workload waits for cpu in ClusterQueue full"
    await stage.until(lambda: stage.record("bert").get("notScaledOut") == words, "it says why")
    await asyncio.sleep(2.0)
    assert stage.sizes("bert") == [(1, True)]


@pytest.mark.parametrize("killed", [False, True])
async def test_a_job_that_kueue_does_not_let_grow_goes_back_whole(stage, killed):
    """Also by the next manager: the slice that waits is written back, and admitted for the former one."""
    job = await Job.training(stage, workers=2, most=3)
    await job.is_asked()
    stage.cluster.kueue.away = True
    job.save()
    await stage.until(lambda: len(stage.pods_of(job.replicas[2])) == 1, "its number is written")
    await stage.set_quota("full", 2)
    stage.cluster.kueue.away = False
    await stage.cluster.settle()
    await stage.until(lambda: stage.sizes("bert") == [(2, True), (3, False)], "the second slice waits")
    if killed:
        await stage.leader.kill()
        await stage.lease_runs_out()
        await stage.manage_and_lead("second", SIZES)
    assert "a slice of it waits in its queue" in await job.has(2, "RolledBack")


@pytest.mark.parametrize(
    ("gate", "queue", "words"),
    [
        (True, "other", "the jobs of ClusterQueue other are not sized (kueue.moves.clusterQueues)"),
        (False, "full", "Kueue does not heed its annotation kueue.x-k8s.io/elastic-job"),
    ],
)
async def test_a_job_that_is_not_sized_says_why(stage, gate, queue, words):
    """Where nobody has opted its queue in, and where the feature gate of Kueue is off."""
    stage.cluster.kueue.slices.on = gate
    job = await Job.training(stage, queue, workers=2, most=3)
    job.save()
    await stage.until(lambda: words in stage.record("bert").get("notScaledOut", ""), "it says why")
    await asyncio.sleep(2.0)
    assert stage.sizes("bert") == [(2, True)]
