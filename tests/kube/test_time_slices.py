"""Pods that share a GPU and ask for turns: webhook, policy, weights and what their sidecars are told."""

import msgspec
import pytest

from support.kube.cluster_stage import DECISIONS
from support.kube.training_templates import training_template

PROGRESS = msgspec.structs.replace(DECISIONS, policy="progress")
LABELS = {
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/gpu.replicas": "4",
}


@pytest.fixture
def nodes():
    return 0


@pytest.fixture
async def gpu_stage(stage):
    """Have a node whose one GPU four pods may use."""
    await stage.cluster.add_node("gpu-0", labels=LABELS, extra={"nvidia.com/gpu": "4"})
    return stage


async def share(stage, name, *, left, memory="10Gi"):
    """Make a pod that takes turns on the GPU, with so much left to train."""
    replica = f"training/{name}/worker/0"
    stage.sidecars.gpus[replica], stage.sidecars.left[replica] = ("GPU-1",), left
    template = training_template(name, recreate=True)
    template["metadata"]["name"] = name
    template["metadata"]["annotations"] |= {"specon.io/share": "time", "specon.io/gpu-memory": memory}
    [container] = template["spec"]["containers"]
    container["securityContext"] = {"runAsUser": 1000}
    container["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    template["spec"]["shareProcessNamespace"] = True
    return await stage.make("Pod", name, metadata=template["metadata"], spec=template["spec"])


def runs(stage, replica):
    """Return for which part of the time it runs, as its sidecar was told last."""
    turns = stage.sidecars.turns.get(replica)
    if turns is None or not turns.on:
        return 1.0
    return sum(turn.length for turn in turns.on) / turns.period


async def test_pods_on_one_gpu_alternate_and_who_has_the_least_left_goes_first(gpu_stage):
    """And a move of one of them ends all turns while it lasts: it waits for none to save."""
    stage = gpu_stage
    await stage.manage_and_lead("first", PROGRESS)
    long, short = await share(stage, "long", left=5000.0), await share(stage, "short", left=500.0)
    await stage.trains(long, short)
    await stage.until(lambda: runs(stage, long) < 0.1 and 0.9 < runs(stage, short) < 1, "they alternate")
    assert stage.sidecars.turns[long].period == stage.sidecars.turns[short].period
    await stage.until(lambda: "it takes turns on its GPUs" in stage.notes("long"), "its owner can see that")
    stage.sidecars.left[long] = 50.0
    await stage.until(lambda: runs(stage, short) < 0.1, "the other one goes first")
    await stage.add_node("gpu-1", labels=LABELS, extra={"nvidia.com/gpu": "4"})
    stage.sidecars.slow.add(short)
    await stage.ask(short, "gpu-1")
    await stage.until(lambda: stage.state(short) == "Checkpointing", "it is asked to save")
    await stage.until(lambda: runs(stage, short) == runs(stage, long) == 1.0, "nobody is stopped")
    stage.sidecars.slow.discard(short)
    await stage.ended(short)
    assert stage.state(short) == "Succeeded", stage.tale()
    await stage.tidy()


async def test_another_manager_stops_nobody_until_it_knows_whom(gpu_stage):
    """It finds no weights of an earlier one, and gives its own."""
    stage = gpu_stage
    first = await stage.manage_and_lead("first", PROGRESS)
    long, short = await share(stage, "long", left=5000.0), await share(stage, "short", left=500.0)
    await stage.trains(long, short)
    await stage.until(lambda: runs(stage, long) < 0.1, "they alternate")
    await first.kill()
    stage.managers.remove(first)
    await stage.lease_runs_out()
    stage.sidecars.turns.clear()
    await stage.manage_and_lead("second", PROGRESS)
    await stage.until(lambda: runs(stage, long) < 0.1, "they alternate again")
    await stage.tidy()


async def test_pods_that_do_not_fit_a_gpu_together_take_no_turns(gpu_stage):
    """Who is stopped keeps its memory; their owners read how much is asked for, and how much there is."""
    stage = gpu_stage
    await stage.manage_and_lead("first", PROGRESS)
    a, b = (
        await share(stage, "a", left=5000.0, memory="30Gi"),
        await share(stage, "b", left=50.0, memory="20Gi"),
    )
    await stage.trains(a, b)
    told = "it takes no turns on its GPUs: 2 pods need 51200 MiB of gpu-0/GPU-1 by their annotations"
    await stage.until(lambda: any(told in note for note in stage.notes("a")), "its owner is told")
    assert runs(stage, a) == runs(stage, b) == 1.0
    await stage.tidy()
