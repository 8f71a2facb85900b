"""A real Kueue: what it does with our gate and our moves, and that nothing is lost by it.

By hand: `SPECON_KUEUE=100 KUEUE_ASSETS=FOLDER KUBEBUILDER_ASSETS=FOLDER pytest -s -p no:xdist FILE`, this.
KUEUE_ASSETS has the program `kueue` and the folder `config` of its repository, KUBEBUILDER_ASSETS has etcd,
kube-apiserver, kube-controller-manager and kube-scheduler. SPECON_KUEUE says how many preemptions to make.
"""

import asyncio
import os

import pytest

from specon_manager.backends.kube.kueue.facts import GATE
from support.kube import real_kueue
from support.kube.real_kueue_stage import stage_for_moves

PREEMPTIONS = int(os.environ.get("SPECON_KUEUE", "3"))
MOVES = {"kueue_moves": {"enabled": True, "cluster_queues": ["team", "full"]}}
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


async def test_a_job_of_kueue_moves_by_its_workload_and_loses_no_step(stage):
    """Kueue suspends it and lets it run again, and its quota is its own at both ends."""
    (replica,) = await stage.submit("queued", "team")
    await stage.trains(replica)
    target = stage.other_node(replica)
    move = await stage.move(replica, target)
    assert move["state"] == "Succeeded", move["message"]
    assert stage.node_of(replica) == target
    assert stage.sidecars.lost[replica] == 0
    assert stage.says("queued", "Admitted")
    assert stage.workload("queued")["spec"]["active"]


async def test_the_gate_keeps_kueue_from_preempting_before_the_victim_has_saved(stage):
    """Its webhook keeps our gate, its scheduler says that it is blocked, and goes on once it is open."""
    (replica,) = await stage.submit("victim", "team", cpu="3")
    await stage.trains(replica)
    pod = stage.pod_of(replica)["metadata"]["uid"]
    stage.sidecars.slow.add(replica)
    await stage.fill("urgent", "team", cpu="3", urgent=True)

    async def blocked():
        return stage.says("urgent", "BlockedOnPreemptionGates")

    await stage.eventually(blocked, "it is blocked")
    assert [each["name"] for each in stage.workload("urgent")["spec"]["preemptionGates"]] == [GATE]
    await asyncio.sleep(3)
    assert stage.pod_of(replica)["metadata"]["uid"] == pod
    assert not stage.says("victim", "Evicted")
    stage.sidecars.slow.clear()

    async def admitted():
        return stage.says("urgent", "Admitted")

    await stage.eventually(admitted, "it preempts")
    assert pod in stage.sidecars.verified
    await stage.remove("urgent")
    await stage.trains(replica, beyond=stage.sidecars.saved[replica])
    assert stage.sidecars.lost[replica] == 0


class Watch:
    """When a preemptor was blocked, when its victim was evicted, and whether that had saved by then."""

    def __init__(self, stage, victim, preemptor):
        self.blocked = self.evicted = None
        self.verified = False
        self._stage, self._victim, self._preemptor = stage, victim, preemptor
        self._pod = stage.pod_of(f"training/{victim}/worker/0")["metadata"]["uid"]
        stage.seen[:] = [self.told]

    def told(self, now, workload):
        """Hear of a change of a Workload."""
        if workload is None:
            return
        (owner,) = [each["name"] for each in workload["metadata"].get("ownerReferences") or [{"name": ""}]]
        conditions = (workload.get("status") or {}).get("conditions") or []
        true = {each["type"] for each in conditions if each["status"] == "True"}
        if owner == self._victim and "Evicted" in true and self.evicted is None:
            self.evicted, self.verified = now, self._pod in self._stage.sidecars.verified
        elif owner == self._preemptor and "BlockedOnPreemptionGates" in true and self.blocked is None:
            self.blocked = now


@pytest.mark.parametrize("save_seconds", [0.0, 4.0])
async def test_every_victim_has_saved_before_kueue_preempts_it(stage, save_seconds):
    """One preemption after the other; the victim resumes from its checkpoint each time, and loses no step."""
    stage.sidecars.save_seconds = save_seconds
    preemptions = max(1, PREEMPTIONS // 10) if save_seconds else PREEMPTIONS
    (replica,) = await stage.submit("victim", "team", cpu="3")
    delays = []
    for number in range(preemptions):
        await stage.trains(replica, beyond=stage.sidecars.saved.get(replica, 0))
        urgent = f"urgent-{number}"
        watch = Watch(stage, "victim", urgent)
        await stage.fill(urgent, "team", cpu="3", urgent=True)

        async def admitted(urgent=urgent):
            return stage.says(urgent, "Admitted")

        await stage.eventually(admitted, f"{urgent} preempts")
        assert watch.verified, number
        assert watch.blocked is not None, f"{urgent} was not kept back by the gate"
        delays.append(watch.evicted - watch.blocked)
        stage.seen.clear()
        await stage.remove(urgent)
    await stage.trains(replica, beyond=stage.sidecars.saved[replica])
    delays.sort()
    lost = stage.sidecars.lost[replica]
    told = f"median {delays[len(delays) // 2]:.2f} s, longest {delays[-1]:.2f} s"
    what = f"{len(delays)} preemptions with saves of {save_seconds:g} s"
    print(f"{what}, from blocked to evicted: {told}; {lost} steps lost")  # noqa: T201
    assert lost == 0
