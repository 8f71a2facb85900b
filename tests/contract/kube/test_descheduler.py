"""The real descheduler, unmodified, against a real API server: what it evicts leaves from checkpoints.

It runs where DESCHEDULER names the program and KUBEBUILDER_ASSETS a folder with etcd, kube-apiserver,
kube-controller-manager and kube-scheduler. `SPECON_EVICTIONS=100 pytest -s -p no:xdist FILE` makes that many
evictions.
"""

import asyncio
import os
import time

import pytest

from specon_manager.backends.kube.admission.webhook import WebhookSettings
from specon_manager.backends.kube.objects.annotation_keys import EVICT_ONLY, IN_PROGRESS
from specon_manager.backends.kube.transport.resources import NODES
from support.kube import server
from support.kube.real_descheduler import TAINT, RealDescheduler, program
from support.kube.real_stage import SYSTEM, RealStage

EVICTIONS = int(os.environ.get("SPECON_EVICTIONS", "8"))
FINAL = {"Succeeded", "RolledBack", "Failed", "Refused"}
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
async def stage(tmp_path):
    programs = server.assets()
    if programs is None or not (programs / "kube-scheduler").exists():
        pytest.skip(
            "no etcd, kube-apiserver, kube-controller-manager, kube-scheduler: set KUBEBUILDER_ASSETS"
        )
    if program(programs) is None:
        pytest.skip("no descheduler: set DESCHEDULER to its program")
    async with RealStage(tmp_path, programs) as made:
        made.sidecars.pauses = True
        yield made


def descheduler(stage, *, background):
    found = program(server.assets())
    assert found is not None
    return RealDescheduler(found, stage.config.parent, background=background)


async def taint(stage, node, *, on=True):
    """Let the descheduler want a node to be empty, or no more."""
    taints = [{"key": TAINT, "effect": "NoSchedule"}] if on else None
    await stage.api.patch(NODES, node, None, {"spec": {"taints": taints}}, form="merge")


async def emptied(stage, node, *, seconds=300.0):
    """Taint a node, wait until nothing trains there, and return how many did and how long that took."""
    here, began = len(stage.on_node(node)), time.monotonic()
    await taint(stage, node)

    async def empty():
        return not stage.on_node(node)

    await stage.eventually(empty, f"{node} is empty", seconds=seconds)
    seconds = time.monotonic() - began
    await taint(stage, node, on=False)
    return here, seconds


def is_instrumented(pod):
    """Whether its trainer has the helper, which an init container copies to an emptyDir."""
    return any("emptyDir" in volume for volume in pod["spec"].get("volumes", ()))


def fullest(stage):
    return max(stage.nodes, key=lambda name: len(stage.on_node(name)))


async def moves_over(stage, number):
    """Wait until so many pods have come after the first ones, and no wish is open."""

    async def over():
        ended = [each.get("status", {}).get("state") for each in await stage.wishes()]
        return len(stage.sidecars.first) >= number and all(each in FINAL for each in ended)

    await stage.eventually(over, "all moves are over", seconds=120)


@pytest.mark.parametrize("background", [True, False], ids=["background", "without-its-gate"])
async def test_the_descheduler_empties_nodes_from_checkpoints(stage, background):
    """It asks once with its gate, else in each round; each pod leaves by one move, and no step is lost."""
    replicas = await stage.train("train", 5) + await stage.train("instrumented", 5, instrument="true")
    theirs = descheduler(stage, background=background)
    done, moved, instrumented = 0, set(), set()
    with theirs.running(stage.config_of("descheduler")):
        while done < EVICTIONS:
            node = fullest(stage)
            instrumented |= {pod["metadata"]["uid"] for pod in stage.on_node(node) if is_instrumented(pod)}
            number, seconds = await emptied(stage, node)
            done += number
            await moves_over(stage, len(replicas) + done)
            moved |= {each["metadata"]["name"] for each in await stage.wishes()}
            print(f"{number} pods in {seconds:.1f} s", flush=True)  # noqa: T201
    states = [each["status"]["state"] for each in await stage.wishes()]
    lost = {replica: steps for replica, steps in stage.sidecars.lost.items() if steps}
    print(  # noqa: T201
        f"{done} evictions, {len(instrumented)} of instrumented pods: {len(moved)} moved,"
        f" {sum(lost.values())} steps lost;"
        f" it said {theirs.said('Eviction in background assumed')} times that one is under way,"
        f" {theirs.said('Error evicting pod')} times that one failed"
    )
    assert (len(stage.sidecars.first) - len(replicas), len(moved)) == (done, done)
    assert (set(states), lost) == ({"Succeeded"}, {})
    assert 0 < len(instrumented) < done
    assert theirs.said("Evicted pod") == 0
    assert bool(theirs.said("Error evicting pod")) is not background
    assert theirs.said("Eviction in background assumed") == (done if background else 0)


async def test_what_was_saved_and_has_no_room_elsewhere_is_not_kept_for_ten_minutes(stage):
    """It asks again only once the annotation is taken off: so that is there for a moment after all."""
    (replica,) = await stage.train("train", 1)
    (node,) = [name for name in stage.nodes if stage.on_node(name)]
    (pod,) = stage.on_node(node)
    assert EVICT_ONLY in pod["metadata"]["annotations"]
    for name in stage.nodes:
        if name != node:
            await stage.api.patch(NODES, name, None, {"spec": {"unschedulable": True}}, form="merge")
    theirs = descheduler(stage, background=True)
    with theirs.running(stage.config_of("descheduler")):
        # Longer than the answer waits for the leader, and not as long as it takes to write an annotation.
        stage.sidecars.slow.add(replica)
        emptying = asyncio.create_task(emptied(stage, node, seconds=60))
        await stage.eventually(stage.wishes, "it is evicted")
        await asyncio.sleep(1)
        stage.sidecars.slow.clear()
        await emptying

        async def trains_again():
            return len(stage.sidecars.first) > 1

        await stage.eventually(trains_again, "it trains again", seconds=60)
    assert theirs.said("Evicted pod") == 1
    assert stage.sidecars.lost == {replica: 0}
    assert IN_PROGRESS not in stage.on_node(node)[0]["metadata"]["annotations"]


async def test_without_us_the_descheduler_costs_what_was_not_saved(stage):
    """The same run with the webhook off, to compare."""
    stage.sidecars.saves_every = 10.0
    replicas = await stage.train("train", 10)
    await stage.intercept(WebhookSettings(name="specon", namespace=SYSTEM, service="specon"), on=False)
    await asyncio.sleep(12)
    theirs = descheduler(stage, background=True)
    with theirs.running(stage.config_of("descheduler")):
        number, seconds = await emptied(stage, fullest(stage))
    await moves_over(stage, len(replicas) + number)
    lost = sum(stage.sidecars.lost.values())
    print(f"without us: {number} pods in {seconds:.1f} s, {lost} steps lost")  # noqa: T201
    assert theirs.said("Evicted pod") == number
    assert lost > 0
