"""Somebody deletes the Migration of a move in flight: it is there again for the next leader."""

import asyncio

from fakekube.kinds import MIGRATIONS
from support.kube.eviction_stage import EvictionStage


async def test_a_bare_pod_whose_migration_is_deleted_outlives_its_leader(tmp_path):
    """The Migration has the manifest by which the next leader creates the pod again."""
    async with EvictionStage(tmp_path, nodes=4) as stage:
        first = await stage.manage_and_lead()
        standby = await stage.manage("standby")
        replica = await stage.make("Pod", "bare")
        stage.brake(replica, "Evicting")
        await stage.trains(replica)
        name = await stage.braked(replica, stage.other_node(replica))
        await stage.cluster.machinery.delete(MIGRATIONS, ("training", name))
        await asyncio.sleep(2.0)
        await first.stop()
        await stage.until(lambda: stage.leader is standby, "the next one leads")
        await stage.until(standby.has_taken_over, "it has taken over")
        await stage.release(replica)
        await asyncio.sleep(2.0)
        await stage.trains(replica)
