"""`kubectl drain` of a node with real kubelets: a Job, a StatefulSet and a gang leave it from checkpoints.

With `-s` it prints what moved, the steps lost and the seconds, beside a drain of the same pods without us.
"""

import asyncio
import os
import shutil
import time
from typing import Any

import pytest

from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.transport.resources import (
    JOBS,
    MIGRATIONS,
    NODES,
    PODS,
    VALIDATING_WEBHOOKS,
    Object,
)
from support.live import history
from support.live.gangs import IMAGE, SERVICES, manifests
from support.live.jobs import ANNOTATIONS
from support.live.stage import FINAL, MOVES_NOTHING, LiveStage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
INTERCEPTION: dict[str, Any] = {"interception": {"enabled": True}}
DEADLINES = {"start": 120, "hold": 60, "checkpoint": 30, "eviction_margin": 30, "verify": 120}
SIGNAL = {**ANNOTATIONS, "specon.io/checkpoint": "signal:USR1"}
FORGETS = "--forget-on-sigterm"
RANKS = 4
REPLICAS = [("job", 0), ("set", 0), *(("gang", rank) for rank in range(RANKS))]
LOGS = ("job-0/train.log", "set-0/train.log", "logs/0/train.log")
"""Of the volume; one for each job, which the first rank writes for the gang."""
OURS = "specon-e2e"


async def kubectl(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said[-3000:]
    return said


async def cordon(live: LiveStage, node: str, *, on: bool) -> None:
    await live.api.patch(NODES, node, None, {"spec": {"unschedulable": on or None}}, form="merge")


async def train(live: LiveStage, image: str) -> None:
    """Create one job of each kind, with a label by which only their pods are drained."""
    service, gang = manifests(image)
    await live.api.create(SERVICES, service, live.namespace)
    job = live.jobs.indexed_job("job", FORGETS, completions=1, annotations=SIGNAL, steps=100_000)
    for one in (job, live.jobs.stateful_set("set", FORGETS, annotations=SIGNAL, steps=100_000), gang):
        labels = one["spec"]["template"]["metadata"].setdefault("labels", {})
        labels[OURS] = live.namespace
        await live.create(one)


async def placed(live: LiveStage, node: str) -> dict[str, Object]:
    """Wait until all of them run there and report, and return the pods by their UID."""
    pods = [await live.training(job, index) for job, index in REPLICAS]
    for job in ("job", "set", "gang"):
        await live.reported(job, step=20)
    assert {pod["spec"]["nodeName"] for pod in pods} == {node}
    return {pod["metadata"]["uid"]: pod for pod in pods}


async def drained(live: LiveStage, node: str, former: dict[str, Object]) -> tuple[str, str]:
    """Drain the node and wait until all run elsewhere; return how long both took, and what kubectl said."""
    began = time.monotonic()
    said = await kubectl(
        "drain", node, f"--pod-selector={OURS}={live.namespace}", "--ignore-daemonsets",
        "--delete-emptydir-data", "--timeout=300s",
    )  # fmt: skip
    seconds = time.monotonic() - began

    async def elsewhere() -> bool:
        found = (await live.api.list(PODS, live.namespace, label_selector=f"{OURS}={live.namespace}"))[0]
        running = {
            identity.replica
            for pod in found
            if pod["metadata"]["uid"] not in former
            and pod["status"].get("phase") == "Running"
            and pod["spec"]["nodeName"] != node
            and (identity := identity_of(pod)) is not None
        }
        return len(running) == len(REPLICAS)

    await live.eventually(elsewhere, f"all that was on {node} runs elsewhere", seconds=240)
    return f"{seconds:.1f} s, all run elsewhere after {time.monotonic() - began:.1f} s", said


async def steps_lost(live: LiveStage, known: int) -> list[int]:
    """Wait until each log tells of so many starts again; return the steps lost of each."""

    async def read() -> list[str] | None:
        code = (
            "import json, pathlib\n"
            f"print(json.dumps({{name: pathlib.Path('/volume', name).read_text() for name in {LOGS!r}}}))"
        )
        texts: list[str] = list((await live.in_volume(code)).values())
        return texts if all(text.count("resumed from") >= known for text in texts) else None

    return [history.steps_lost(text) for text in await live.eventually(read, "all have resumed", seconds=240)]


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl")
@pytest.mark.parametrize("live", [INTERCEPTION], indirect=True)
async def test_a_drain_moves_all_from_checkpoints(live: LiveStage):
    """The drain ends by itself, each of the moves succeeds, and no Job counts a failure."""
    image = os.environ.get(IMAGE)
    if image is None or os.environ.get("SPECON_E2E_NO_SERVICES"):
        pytest.skip(f"the ranks need {IMAGE} (of samples/Dockerfile), and to find each other by name")
    first, second, *others = await live.nodes()
    await live.manage(decisions={**MOVES_NOTHING, **INTERCEPTION, "deadlines": DEADLINES})
    try:
        for node in (second, *others):
            await cordon(live, node, on=True)
        await train(live, image)
        pods = await placed(live, first)
        await cordon(live, second, on=False)
        seconds, said = await drained(live, first, pods)

        async def over() -> list[Object] | None:
            moves = [one.get("status") or {} for one in (await live.api.list(MIGRATIONS, live.namespace))[0]]
            return moves if all(one.get("state") in FINAL for one in moves) else None

        moves = await live.eventually(over, "all moves are over", seconds=240)
        ended = [one for one in moves if one["state"] == "Succeeded"]
        by_us = await steps_lost(live, 1)
        waits = said.count("Eviction triggered evacuation")
        report(
            f"{len(pods)} pods left in {len(ended)} moves and {seconds}, told {waits} times to wait",
            by_us,
        )
        assert {one["state"] for one in moves} <= {"Succeeded", "Refused"}, await live.account()
        assert len(ended) >= 3, await live.account()
        await check_no_failure(live)

        await live.api.delete(VALIDATING_WEBHOOKS, f"{live.system}-specon")
        await cordon(live, first, on=False)
        pods = await placed(live, second)
        seconds, _ = await drained(live, second, pods)
        after = await steps_lost(live, 2)
        report(
            f"without us: {len(pods)} pods in {seconds}",
            [b - a for a, b in zip(by_us, after, strict=True)],
        )
    finally:
        for node in (first, second, *others):
            await cordon(live, node, on=False)


def report(what: str, steps: list[int]) -> None:
    print(f"{what}; steps lost by Job, StatefulSet and gang: {steps}", flush=True)  # noqa: T201 - by -s


async def check_no_failure(live: LiveStage) -> None:
    for job in (await live.api.list(JOBS, live.namespace))[0]:
        assert not job["status"].get("failed"), job["status"]
