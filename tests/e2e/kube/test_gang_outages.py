"""Leaders that stand still, or are killed, while a gang of several pods moves on real kubelets."""

import asyncio
import os
import signal
import time

import pytest

from specon_manager.backends.kube.transport.resources import JOBS, Object
from support.live.gangs import IMAGE, SERVICES, ask_for_move, check_unharmed, manifests, members
from support.live.manager import LiveManager
from support.live.stage import FINAL, MOVES_NOTHING, LiveStage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

STATES = ["Proposed", "Checkpointing", "Evicting", "Restoring", "Verifying"]
"""Reserved is over within a moment: a look at the Migration seldom finds it."""
FROZEN_SECONDS = 60.0
"""Four times what a Lease lasts."""


async def moves(live: LiveStage, state: str) -> tuple[LiveManager, dict[int, Object], str]:
    """Have a gang's move stand in that state; return its leader, the pods before, and the target."""
    image = os.environ.get(IMAGE)
    if image is None or os.environ.get("SPECON_E2E_NO_SERVICES"):
        pytest.skip(f"the ranks need {IMAGE} (of samples/Dockerfile), and to find each other by name")
    await live.manage("first", "second", decisions=MOVES_NOTHING)
    service, job = manifests(image)
    await live.api.create(SERVICES, service, live.namespace)
    await live.api.create(JOBS, job, live.namespace)
    before = await members(live, "gang", 1, {})
    await live.reported("gang", step=20)
    leader = await live.leader()
    assert leader is not None
    target = await ask_for_move(live, "gang", before)
    reached = await live.reaches("together", [state])
    assert reached["state"] not in FINAL, await live.account()
    return leader, before, target


async def check_end(live: LiveStage, before: dict[int, Object], target: str) -> None:
    """Whether it moved or went back: all ranks run, none twice, from one step, and nothing was lost."""
    migration = await live.ended("together", seconds=240)
    assert migration["state"] in {"Succeeded", "RolledBack"}, await live.account()
    moved = migration["state"] == "Succeeded"
    former = {index: pod["metadata"]["uid"] for index, pod in before.items()} if moved else {}
    after = await members(live, "gang", 1, former)
    if moved:
        assert {pod["spec"]["nodeName"] for pod in after.values()} == {target}
        assert migration["stepsLost"] == 0
    assert [len(await live.pods_of("gang", rank)) for rank in after] == [1] * len(after)
    await live.reported("gang", step=(await live.progress("gang"))["step"] + 20)
    assert await check_unharmed(live, jobs=1) >= moved


async def ordered(live: LiveStage) -> tuple[int, list[str]]:
    """Return which version of the Job's spec there is, and the UIDs of its pods: every order changes one.

    What a manager decides it logs before it asks whether it still leads, so that its log says less.
    """
    job = await live.api.get(JOBS, "gang", live.namespace)
    pods = await members(live, "gang", 1, {})
    return job["metadata"]["generation"], [pods[index]["metadata"]["uid"] for index in sorted(pods)]


async def another_leads(live: LiveStage, former: LiveManager) -> None:
    async def taken_over() -> bool:
        other = await live.leader()
        return other is not None and other is not former

    await live.eventually(taken_over, "the standby leads", seconds=30)


@pytest.mark.parametrize("state", STATES)
async def test_a_leader_that_is_killed_while_a_gang_moves_is_succeeded_by_one_that_ends_the_move(
    live: LiveStage, state: str
):
    leader, before, target = await moves(live, state)
    leader.kill()
    await another_leads(live, leader)
    await check_end(live, before, target)


@pytest.mark.parametrize("state", STATES)
async def test_a_leader_that_stands_still_while_a_gang_moves_wakes_up_and_orders_nothing(
    live: LiveStage, state: str
):
    """The standby ends the move meanwhile, or finds it over; the former leader ends, or stands by."""
    leader, before, target = await moves(live, state)
    leader.send(signal.SIGSTOP)
    began = time.monotonic()
    await another_leads(live, leader)
    await live.ended("together", seconds=240)
    await asyncio.sleep(max(0.0, FROZEN_SECONDS - (time.monotonic() - began)))
    stood = await ordered(live)
    leader.send(signal.SIGCONT)
    await asyncio.sleep(10)
    assert await ordered(live) == stood, await live.account()
    await check_end(live, before, target)


async def test_a_lone_leader_that_stands_still_while_a_gang_moves_ends_the_move_when_it_wakes_up(
    live: LiveStage,
):
    """What was saved before is old by then: the gang is not ended for it, or nothing is lost all the same."""
    leader, before, target = await moves(live, "Checkpointing")
    standby = next(one for one in live.managers if one is not leader)
    standby.stop()
    leader.send(signal.SIGSTOP)
    await asyncio.sleep(FROZEN_SECONDS)
    leader.send(signal.SIGCONT)

    async def over() -> Object | None:
        if not leader.alive:  # it ends where it may have lost its Lease, and a kubelet starts it again
            leader.start(live.arguments)
        status = await live.migration("together")
        return status if status.get("state") in FINAL else None

    await live.eventually(over, "the move is over", seconds=240)
    await check_end(live, before, target)
