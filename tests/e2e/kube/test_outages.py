"""Managers that stand still for a minute, and two releases over one namespace: what a move costs then.

The trainers save only when they are asked to, and forget the rest when they are told to end. With `-s` the
tests print steps lost and downtime, as they are recorded and by the trainer's own word.
"""

import asyncio
import signal
import time

import pytest

from specon_manager.backends.kube.transport.resources import Object
from support.live.history import cost
from support.live.jobs import ANNOTATIONS, ONLY_WHEN_ASKED
from support.live.second_release import second_release
from support.live.stage import FINAL, MOVES_NOTHING, LiveStage, check_trained

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

FLAGS = (*ONLY_WHEN_ASKED, "--forget-on-sigterm")
SIGNAL = {**ANNOTATIONS, "specon.io/checkpoint": "signal:USR1"}
FROZEN_SECONDS = 60.0
STEPS_PER_SECOND = 20
AGE_SECONDS = 10.0
"""`deadlines.checkpoint_age`: an older checkpoint is not acted upon."""
SPARE_SECONDS = 5.0
"""For what lies between a look at the age of a checkpoint and the end of a container, on busy nodes."""


async def trains(live: LiveStage, name: str = "mover", kind: str = "job"):
    annotations = SIGNAL if kind == "job" else {**SIGNAL, "specon.io/recreate": "true"}
    await live.create(getattr(live.jobs, kind)(name, *FLAGS, annotations=annotations))
    pod = await live.training(name)
    await live.reported(name, step=20)
    return pod


async def check_cost(live: LiveStage, what: str, migration):
    """Nothing was trained on two nodes; of a move no more is lost than a checkpoint's age."""
    steps = await cost(live, what, "mover", migration)
    assert steps <= STEPS_PER_SECOND * (AGE_SECONDS + SPARE_SECONDS)
    pod = await live.training("mover")
    await live.let_finish("mover")

    async def ended() -> bool:
        return await live.phase(pod) == "Succeeded"

    await live.eventually(ended, "the training has ended", seconds=120)
    check_trained(await live.result("mover"))


@pytest.mark.parametrize("state", ["Checkpointing", "Evicting", "Restoring"])
async def test_a_lone_manager_that_stands_still_for_a_minute_in_a_move(live: LiveStage, state: str):
    """What was saved before that is old when it wakes up, and is not what the job is ended for."""
    (manager,) = await live.manage(decisions=MOVES_NOTHING)
    pod = await trains(live)
    await live.ask_for_move("by-hand", pod, await live.other_node(pod))
    await live.reaches("by-hand", [state])
    manager.send(signal.SIGSTOP)
    await asyncio.sleep(FROZEN_SECONDS)
    manager.send(signal.SIGCONT)

    async def over() -> Object | None:
        if not manager.alive:  # it ends where it may have lost its Lease, and a kubelet starts it again
            manager.start(live.arguments)
        status = await live.migration("by-hand")
        return status if status.get("state") in FINAL else None

    migration = await live.eventually(over, "the move is over", seconds=240)
    assert migration["state"] in {"Succeeded", "RolledBack"}, await live.account()
    await check_cost(live, f"frozen alone in {state}", migration)


@pytest.mark.parametrize("kind", ["job", "pod"])
async def test_a_leader_that_stands_still_for_a_minute_is_replaced(live: LiveStage, kind: str):
    """The standby leads and ends a move; the former leader wakes up, orders nothing, and stands by.

    The API server may still have connections to the former one. A pod that it asks about over one of them
    comes without a sidecar, and comes again.
    """
    await live.manage("first", "second", decisions=MOVES_NOTHING)
    pod = await trains(live, kind=kind)
    frozen = await live.leader()
    assert frozen is not None
    began = time.monotonic()
    frozen.send(signal.SIGSTOP)

    async def taken_over() -> bool:
        other = await live.leader()
        return other is not None and other is not frozen

    await live.eventually(taken_over, "the standby leads", seconds=30)
    took = time.monotonic() - began
    await live.ask_for_move("by-hand", pod, await live.other_node(pod))
    migration = await live.ended("by-hand")
    assert migration["state"] == "Succeeded", await live.account()
    await asyncio.sleep(max(0.0, FROZEN_SECONDS - (time.monotonic() - began)))
    frozen.send(signal.SIGCONT)
    await asyncio.sleep(10)
    assert "PlaceJob" not in frozen.tail
    await check_cost(live, f"{kind}: frozen with a standby, which led after {took:.1f} s", migration)


async def test_two_releases_over_one_namespace_do_not_fight(live: LiveStage, tmp_path):
    """The second stands by and orders nothing; once the first is gone it leads, injects and moves."""
    (first,) = await live.manage(decisions=MOVES_NOTHING)
    folder = tmp_path / "second"
    folder.mkdir()
    async with second_release(live, folder) as other:

        async def stands_by() -> bool:
            return "standing by for another release of specon" in other.tail

        await live.eventually(stands_by, "the second release stands by")
        pod = await trains(live)
        await live.ask_for_move("by-hand", pod, await live.other_node(pod))
        migration = await live.ended("by-hand")
        assert migration["state"] == "Succeeded", await live.account()
        assert first.alive
        assert other.alive
        assert "PlaceJob" not in other.tail
        await check_cost(live, "beside another release", migration)
        first.stop()

        async def leads() -> bool:
            return "leads" in other.tail and "took over" in other.tail

        await live.eventually(leads, "the second release leads", seconds=60)
        pod = await trains(live, "later")
        await live.ask_for_move("later", pod, await live.other_node(pod))
        migration = await live.ended("later")
        assert migration["state"] in FINAL - {"Failed", "Refused"}, await live.account()
        assert migration["state"] == "Succeeded", await live.account()
        await cost(live, "by the second release", "later", migration)
