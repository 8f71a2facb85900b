"""The room that was held for a move is given back, whatever the API server says of it first."""

import pytest

from fakekube.kinds import PODS
from support.kube.eviction_stage import EvictionStage


@pytest.mark.parametrize("status", [409, 429, 500])
async def test_a_room_whose_deletion_fails_is_deleted_again(tmp_path, status):
    """The save failed, so the move is rolled back, and its placeholder is nobody's."""
    async with EvictionStage(tmp_path, nodes=4) as stage:
        await stage.manage_and_lead()
        replica = await stage.make("StatefulSet", "train")
        await stage.trains(replica)
        stage.sidecars.refuses[replica] = "the disk is full"
        stage.cluster.faults.answer(status, method="DELETE", path="specon-room-")
        await stage.evict(stage.pod_of(replica)["metadata"]["name"])
        await stage.wishes_ended()
        await stage.until(
            lambda: (
                not [
                    one for one in stage.cluster.store.all(PODS) if "specon-room-" in one["metadata"]["name"]
                ]
            ),
            "its room is given back",
        )
