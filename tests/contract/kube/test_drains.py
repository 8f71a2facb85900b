"""`kubectl drain`, unmodified, against a real API server: what it moves, how long it takes, what is lost.

Beside it an imitation of the cluster autoscaler, which empties nodes before it removes them.

By hand: `SPECON_DRAINS=100 KUBEBUILDER_ASSETS=FOLDER pytest -s -p no:xdist FILE`, this one. The folder has
etcd, kube-apiserver, kube-controller-manager and kube-scheduler. KUBECTL names a kubectl, else the path does.
"""

import asyncio
import os
import shutil
import time

import pytest

from specon_manager.backends.kube.admission.webhook import WebhookSettings
from support.kube import server
from support.kube.autoscaler import scale_down
from support.kube.real_stage import SYSTEM, RealStage
from support.kube.real_upgrade import UpgradedStage

EVICTIONS = int(os.environ.get("SPECON_DRAINS", "8"))
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
FINAL = {"Succeeded", "RolledBack", "Failed", "Refused"}
pytestmark = pytest.mark.timeout(1800)


async def kubectl(stage, *command):
    """Run it as somebody who may do everything; return what it said."""
    as_admin = (f"--kubeconfig={stage.config}", "--as=admin", "--as-group=system:masters")
    code, said = await stage.run(KUBECTL, *as_admin, *command)
    assert code == 0, said[-3000:]
    return said


async def drain(stage, node, *options):
    return await kubectl(
        stage, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s", *options
    )


async def drained(stage, node):
    """Drain a node and uncordon it; return how many pods it had, the seconds, and how often it waited."""
    began = time.monotonic()
    here = len(stage.on_node(node))
    said = await drain(stage, node)
    seconds = time.monotonic() - began
    assert stage.on_node(node) == []
    await kubectl(stage, "uncordon", node)
    return here, seconds, said.count("Eviction triggered evacuation")


def programs():
    """Return where the programs are; skips the test where there are none."""
    found = server.assets()
    if found is None or not (found / "kube-scheduler").exists():
        pytest.skip(
            "no etcd, kube-apiserver, kube-controller-manager, kube-scheduler: set KUBEBUILDER_ASSETS"
        )
    return found


async def until_all_moves_end(stage, replicas, evictions):
    """Wait until as many moves as evictions have begun, and all of them ended."""

    async def over():
        ended = [each.get("status", {}).get("state") for each in await stage.wishes()]
        begun = len(stage.sidecars.first) - len(replicas)
        return begun >= evictions and all(each in FINAL for each in ended)

    await stage.eventually(over, "all moves are over", seconds=120)


async def count_moves(stage, replicas, evictions):
    """Return which moves failed, of the last ten of each replica, how many there were, and the steps lost."""
    failed = [each for each in await stage.wishes() if each["status"]["state"] != "Succeeded"]
    moved = len(stage.sidecars.first) - len(replicas)
    lost = {replica: steps for replica, steps in stage.sidecars.lost.items() if steps}
    print(f"{evictions} evictions: {moved} moved, {sum(lost.values())} steps lost in all {lost}")  # noqa: T201
    return failed, moved, lost


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl: set KUBECTL")
@pytest.mark.parametrize("pauses", [True, False], ids=["hold", "no-hold"])
async def test_kubectl_drains_from_checkpoints(tmp_path, pauses):
    """Node after node, until so many pods were evicted; then the same without us."""
    async with RealStage(tmp_path, programs()) as stage:
        stage.sidecars.pauses, stage.sidecars.saves_every = pauses, 10.0
        replicas = await stage.train("train", min(EVICTIONS, 40))
        done, times = 0, []
        while done < EVICTIONS:
            node = max(stage.nodes, key=lambda name: len(stage.on_node(name)))
            number, seconds, told = await drained(stage, node)
            print(f"{node}: {number} pods in {seconds:.1f} s, told {told} times to wait", flush=True)  # noqa: T201
            done += number
            times.append(seconds / number)
            await until_all_moves_end(stage, replicas, done)
        failed, moved, lost = await count_moves(stage, replicas, done)
        assert (failed, moved) == ([], done)
        if pauses:
            assert not lost
        await stage.intercept(WebhookSettings(name="specon", namespace=SYSTEM, service="specon"), on=False)
        before = dict(stage.sidecars.lost)
        node = max(stage.nodes, key=lambda name: len(stage.on_node(name)))
        number, seconds, _ = await drained(stage, node)

        async def trains_again():
            return all(stage.sidecars.last[replica] > 0 for replica in replicas)

        await stage.eventually(trains_again, "all train again")
        plain = sum(stage.sidecars.lost.values()) - sum(before.values())
        print(f"without us: {number} pods in {seconds:.1f} s, {plain} steps lost")  # noqa: T201


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl: set KUBECTL")
async def test_a_dry_run_of_kubectl_moves_nothing_and_two_drains_at_once_lose_nothing(tmp_path):
    """Two persons drain one node at once and a third one another, all of them without a grace period."""
    async with RealStage(tmp_path, programs()) as stage:
        stage.sidecars.pauses, stage.sidecars.save_seconds = True, 2.0
        replicas = await stage.train("train", 10)
        one, two = sorted(stage.nodes, key=lambda name: -len(stage.on_node(name)))[:2]
        assert "would be moved from a checkpoint first" in await drain(stage, one, "--dry-run=server")
        assert await stage.wishes() == []
        leavers = len(stage.on_node(one)) + len(stage.on_node(two))
        hurried = ("--force", "--grace-period=0")
        await asyncio.gather(*(drain(stage, node, *hurried) for node in (one, one, two)))
        assert stage.on_node(one) == stage.on_node(two) == []
        await until_all_moves_end(stage, replicas, leavers)
        failed, moved, lost = await count_moves(stage, replicas, leavers)
        assert (failed, moved, lost) == ([], leavers, {})


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl: set KUBECTL")
async def test_kubectl_drains_from_checkpoints_while_the_managers_are_upgraded(tmp_path):
    """The moves take longer than that: whoever is asked meanwhile tells to wait, and no step is lost."""
    async with UpgradedStage(tmp_path, programs()) as stage:
        stage.sidecars.pauses, stage.sidecars.save_seconds = True, 15.0
        replicas = await stage.train("train", 10)
        done = 0
        for name in ("second", "third", "fourth"):
            node = max(stage.nodes, key=lambda name: len(stage.on_node(name)))
            draining = asyncio.create_task(drained(stage, node))
            await stage.eventually(stage.wishes, "it is evicted")
            await stage.upgrade(name)
            number, seconds, told = await draining
            print(f"{node}: {number} pods in {seconds:.1f} s, told {told} times to wait", flush=True)  # noqa: T201
            done += number
            await until_all_moves_end(stage, replicas, done)
        failed, moved, lost = await count_moves(stage, replicas, done)
        assert (failed, moved, lost) == ([], done, {})


async def test_the_cluster_autoscaler_empties_nodes_from_checkpoints(tmp_path):
    """It asks again every ten seconds for two minutes, and never has to give a node up."""
    async with RealStage(tmp_path, programs()) as stage:
        stage.sidecars.pauses = True
        replicas = await stage.train("train", min(EVICTIONS, 40))
        done = 0
        while done < EVICTIONS:
            node = max(stage.nodes, key=lambda name: len(stage.on_node(name)))
            number, seconds, told = await scale_down(stage, node)
            print(f"{node}: {number} pods in {seconds:.1f} s, told {told} times to wait", flush=True)  # noqa: T201
            done += number
            await until_all_moves_end(stage, replicas, done)
        failed, moved, lost = await count_moves(stage, replicas, done)
        assert (failed, moved, lost) == ([], done, {})
