"""A real Kueue: whom it preempts by our boost, and gangs: preempted, moved, and on a node that is drained.

It runs where `test_kueue.py` does. KUBECTL names a kubectl, else the path does.
"""

import asyncio
import os
import shutil

import pytest

from specon_manager.backends.kube.reporting.signals import PRIORITY_BOOST
from specon_manager.model.transactions import HAS_LEFT
from support.kube import real_kueue
from support.kube.real_kueue_stage import stage_for_moves

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
MOVES = {"kueue_moves": {"enabled": True, "cluster_queues": ["team"]}}
pytestmark = [
    pytest.mark.skipif(
        real_kueue.assets() is None, reason="no Kueue: set KUEUE_ASSETS to the folder of its program"
    ),
    pytest.mark.timeout(1800),
]


@pytest.fixture
async def stage(tmp_path):
    async with stage_for_moves(tmp_path, MOVES) as made:
        yield made


async def preempted_by(stage, name, *, cpu):
    """Let something urgent come and go; return which of our jobs Kueue has preempted for it."""
    evicted = set()

    def told(_, workload):
        for each in ((workload or {}).get("status") or {}).get("conditions") or []:
            if (each["type"], each["status"], each["reason"]) == ("Evicted", "True", "Preempted"):
                evicted.add(workload["metadata"]["ownerReferences"][0]["name"])

    stage.seen[:] = [told]
    await stage.fill(name, "team", cpu=cpu, urgent=True)

    async def admitted():
        return stage.says(name, "Admitted")

    await stage.eventually(admitted, f"{name} preempts")
    stage.seen.clear()
    await stage.remove(name)
    return evicted


def boost_of(stage, job):
    annotations = stage.workload(job)["metadata"].get("annotations") or {}
    return int(annotations.get(PRIORITY_BOOST, "0"))


async def test_kueue_preempts_the_job_that_has_converged_and_not_the_one_that_grows(stage):
    """At equal priority Kueue takes the job admitted last, which still grows: the boost reverses that."""
    (first,) = await stage.submit("first", "team", cpu="2")
    await stage.trains(first)
    await asyncio.sleep(1.5)  # the times of Kueue are whole seconds
    (last,) = await stage.submit("last", "team", cpu="2")
    await stage.trains(first, last)
    assert await preempted_by(stage, "urgent-0", cpu="2") == {"last"}
    await stage.trains(last, beyond=stage.sidecars.saved[last])
    stage.sidecars.converged.add(first)

    async def lowered():
        return boost_of(stage, "first") < 0

    await stage.eventually(lowered, "the converged job is lowered")
    assert boost_of(stage, "last") == 0
    assert await preempted_by(stage, "urgent-1", cpu="2") == {"first"}
    await stage.trains(first, beyond=stage.sidecars.saved[first])
    assert stage.sidecars.lost == {first: 0, last: 0}


async def test_a_gang_of_kueue_is_preempted_whole_and_saved_at_one_step(stage):
    """The urgent job needs the room of one worker: all have saved at one step before, and go on from it."""
    members = await stage.submit("gang", "team", workers=4)
    await stage.trains(*members)
    pods = {stage.pod_of(member)["metadata"]["uid"] for member in members}
    assert await preempted_by(stage, "urgent", cpu="1") == {"gang"}
    assert pods <= stage.sidecars.verified
    steps = {stage.sidecars.saved[member] for member in members}
    assert len(steps) == 1
    await stage.trains(*members, beyond=max(steps))
    assert [stage.sidecars.lost[member] for member in members] == [0] * 4


async def test_a_gang_of_kueue_moves_whole_by_its_workload(stage):
    """To other nodes, with its quota and its place, and no step is lost."""
    members = await stage.submit("gang", "team", workers=4)
    await stage.trains(*members)
    before = {stage.node_of(member) for member in members}
    move = await stage.move(members[0], job="training/gang")
    assert move["state"] == "Succeeded", move["message"]
    await stage.trains(*members)
    assert not before & {stage.node_of(member) for member in members}
    assert [stage.sidecars.lost[member] for member in members] == [0] * 4
    assert stage.says("gang", "Admitted")


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl: set KUBECTL")
async def test_kubectl_drains_a_node_whose_jobs_are_kueues(stage):
    """A Job and a gang leave by their Workloads; Kueue admits both again elsewhere, no step is lost."""
    members = await stage.submit("gang", "team", workers=2)
    (alone,) = await stage.submit("alone", "team")
    replicas = [*members, alone]
    await stage.trains(*replicas)
    nodes = {stage.node_of(replica) for replica in replicas}
    for node in sorted(nodes):
        code, said = await stage.run(
            KUBECTL,
            f"--kubeconfig={stage.config_of('admin')}",
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--timeout=120s",
        )
        assert code == 0, said[-3000:]
        assert stage.on_node(node) == []
        await stage.trains(*replicas)
    assert not nodes & {stage.node_of(replica) for replica in replicas}
    assert [stage.sidecars.lost[replica] for replica in replicas] == [0] * 3
    assert all(stage.says(name, "Admitted") for name in ("gang", "alone"))
    for wish in await stage.wishes():
        status = wish["status"]
        assert status["state"] == "Succeeded" or status["message"].startswith(HAS_LEFT), status
