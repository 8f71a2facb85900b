"""Evictions of pods that do not train yet: a drain ends only once they have left."""

import asyncio

import pytest

from fakekube.kinds import PDBS, PODS
from support.kube.eviction_stage import EvictionStage


@pytest.fixture
async def stage(tmp_path):
    async with EvictionStage(tmp_path, nodes=4) as made:
        yield made


async def test_a_pod_whose_containers_are_still_created_is_drained(stage):
    """It was never moved: a 404 would end the drain, and leave the pod on the node."""
    await stage.manage_and_lead()
    stage.cluster.kubelet.held.add("train-0")
    replica = await stage.make("StatefulSet", "train")
    key = ("training", "train-0")
    await stage.until(
        lambda: (stage.cluster.store.get(PODS, key) or {"spec": {}})["spec"].get("nodeName"), "it has a node"
    )
    await asyncio.sleep(1.0)
    node = stage.cluster.store.get(PODS, key)["spec"]["nodeName"]
    assert replica not in stage.sidecars.saved
    await stage.drain(node)
    assert stage.on_node(node) == [], [each["status"] for each in stage.wishes()]


async def test_a_budget_deleted_a_moment_ago_hides_no_pod_of_a_node_that_is_drained(stage):
    """The watches are late: neither the cordon nor the end of the budget is known here."""
    await stage.manage_and_lead()
    replica = await stage.make_drained("train")
    pod = stage.pod_of(replica)
    await stage.never_disrupt(pod["metadata"]["labels"])
    stage.cluster.faults.freeze_watches()
    await stage.cordon(pod["spec"]["nodeName"])
    await stage.cluster.machinery.delete(PDBS, ("training", "none"))
    status, message, _ = await stage.evict(pod["metadata"]["name"])
    stage.cluster.faults.clear()
    assert status == 429, message
