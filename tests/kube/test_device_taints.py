"""A taint of a device has the replicas leave that hold it, and nobody else."""

import logging

import msgspec
import pytest

from fakekube.kinds import Kind
from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from support.kube.cluster_stage import DECISIONS, ClusterStage

GROUP = "resource.k8s.io"
WARNED = msgspec.structs.replace(DECISIONS, warnings=("device-taint",))
DRIVER = "gpu.example.com"
SERVICE = {"key": "example.com/service", "effect": "NoSchedule", "timeAdded": "2026-11-27T12:00:00Z"}


def kinds(version="v1", rules="v1beta2"):
    return (
        Kind(GROUP, version, "resourceslices", "ResourceSlice", namespaced=False),
        Kind(GROUP, version, "resourceclaims", "ResourceClaim", status=True),
        Kind(GROUP, rules, "devicetaintrules", "DeviceTaintRule", namespaced=False),
    )


@pytest.fixture
async def stage(tmp_path):
    kube = KubeSettings(
        watch=WatchSettings(device_taints=True),
        rooms=RoomSettings(patience=1.0, guard_class="guards"),
        eviction_patience=1.5,
        unschedulable_seconds=1.0,
    )
    async with ClusterStage(tmp_path, nodes=2, kube=kube) as made:
        yield made


async def placed(stage, *names):
    """Let jobs train, each with a device of its node that has its name, by a claim of its own."""
    replicas = [await stage.make("Job", name) for name in names]
    await stage.trains(*replicas)
    return replicas


async def give_device(stage, kind, replica, device, tolerations=()):
    pod = stage.pod_of(replica)["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"], "controller": True}
    metadata = {"name": f"{pod['name']}-gpu", "ownerReferences": [owner]}
    made = await stage.cluster.machinery.create(kind, "training", {"metadata": metadata, "spec": {}})
    result = {
        "request": "gpu",
        "driver": DRIVER,
        "pool": stage.node_of(replica),
        "device": device,
        "tolerations": list(tolerations),
    }
    user = {"resource": "pods", "name": pod["name"], "uid": pod["uid"]}
    await stage.cluster.machinery.set_status(
        kind, made, allocation={"devices": {"results": [result]}}, reservedFor=[user]
    )


async def offer(stage, kind, node, **taints):
    devices = [{"name": name, "taints": found} for name, found in taints.items()]
    spec = {"driver": DRIVER, "nodeName": node, "pool": {"name": node, "generation": 1}, "devices": devices}
    return await stage.cluster.machinery.create(
        kind, "", {"metadata": {"name": f"slice-{node}"}, "spec": spec}
    )


async def has_left(stage, replica, node):
    """Wait until the replica trains on another node, and nothing is in flight."""

    def elsewhere():
        pods = stage.pods_of(replica)
        return len(pods) == 1 and pods[0]["spec"].get("nodeName", node) != node

    await stage.until(elsewhere, f"{replica} has left {node}")
    await stage.no_moves()
    await stage.trains(replica)


@pytest.mark.parametrize(("version", "rules"), [("v1", "v1beta2"), ("v1beta2", "v1alpha3")])
async def test_who_holds_a_tainted_device_leaves_and_its_neighbour_stays(stage, version, rules):
    """By a rule, and by a taint of its slice; no step is lost twice, and the node takes others."""
    slices, claims, taint_rules = kinds(version, rules)
    stage.cluster.server.kinds += [slices, claims, taint_rules]
    await stage.manage_and_lead("first", WARNED)
    for node in stage.nodes:
        await offer(stage, slices, node, first=[], second=[])
    first, second = await placed(stage, "one", "two")
    await give_device(stage, claims, first, "first")
    await give_device(stage, claims, second, "second")
    nodes = [stage.node_of(first), stage.node_of(second)]
    selector = {"driver": DRIVER, "pool": nodes[0], "device": "first"}
    spec = {"deviceSelector": selector, "taint": SERVICE}
    await stage.cluster.machinery.create(taint_rules, "", {"metadata": {"name": "service"}, "spec": spec})
    await has_left(stage, first, nodes[0])
    assert stage.node_of(second) == nodes[1]
    (move,) = stage.leader.serves._server.controller.state.history
    assert (move.policy, move.replica) == ("early-warning", first)
    assert f"its device first of pool {nodes[0]} has the taint example.com/service" in move.reason
    taints = {"spec": {"devices": [{"name": "first"}, {"name": "second", "taints": [SERVICE]}]}}
    await stage.cluster.machinery.patch(slices, ("", f"slice-{nodes[1]}"), "merge", taints)
    await has_left(stage, second, nodes[1])
    await stage.tidy()


async def test_what_is_deleted_at_once_is_not_asked_for_anything(stage):
    """`NoExecute` is too late; tolerated for some seconds it is not."""
    slices, claims, rules = kinds()
    stage.cluster.server.kinds += [slices, claims, rules]
    await stage.manage_and_lead("first", WARNED)
    first, second = await placed(stage, "one", "two")
    waits = {"key": SERVICE["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    await give_device(stage, claims, first, "first")
    await give_device(stage, claims, second, "second", [waits])
    nodes = [stage.node_of(first), stage.node_of(second)]
    spec = {"deviceSelector": {}, "taint": {**SERVICE, "effect": "NoExecute"}}
    await stage.cluster.machinery.create(rules, "", {"metadata": {"name": "service"}, "spec": spec})
    await has_left(stage, second, nodes[1])
    assert stage.node_of(first) == nodes[0]


async def test_where_devices_are_not_served_nothing_happens_and_it_is_said_once(stage, caplog):
    """An older server knows no such objects."""
    caplog.set_level(logging.INFO)
    await stage.manage_and_lead("first", WARNED)
    (replica,) = await placed(stage, "one")
    await stage.trains(replica, beyond=stage.progress(replica)["step"])
    said = [record.message for record in caplog.records if "taints of devices" in record.message]
    assert sorted(said) == [
        f"the server has no {each}: taints of devices say nothing"
        for each in ("devicetaintrules", "resourceclaims", "resourceslices")
    ]
