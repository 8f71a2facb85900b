"""Managers that are killed, restarted, stopped and doubled while a move is under way."""

import signal
import time

import pytest

from specon_manager.backends.kube.transport.resources import JOBS, MIGRATIONS
from support.live.history import cost
from support.live.jobs import ANNOTATIONS
from support.live.stage import FINAL, INJECTED, MOVES_NOTHING, LiveStage, check_trained

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

RECREATE = {**ANNOTATIONS, "specon.io/recreate": "true"}
TAKEOVER_SECONDS = 15


async def begin_move(live: LiveStage, *, kind: str = "job") -> tuple[str, str]:
    """Start a job and ask for its move; return the UID of its pod and the target."""
    make = live.jobs.job("mover") if kind == "job" else live.jobs.pod("mover", annotations=RECREATE)
    await live.create(make)
    pod = await live.training("mover")
    await live.reported("mover", step=20)
    target = await live.other_node(pod)
    await live.ask_for_move("by-hand", pod, target)
    return pod["metadata"]["uid"], target


async def check_one_life(live: LiveStage) -> None:
    """However often managers died: the job trains once, to its end, and there is one pod of it."""
    pod = await live.training("mover")
    assert len(await live.pods_of("mover")) == 1
    await live.let_finish("mover")

    async def ended() -> bool:
        return await live.phase(pod) == "Succeeded"

    await live.eventually(ended, "the training has ended", seconds=120)
    check_trained(await live.result("mover"))
    await cost(live, "a move", "mover", await live.migration("by-hand"))


@pytest.mark.parametrize("kind", ["job", "pod"])
@pytest.mark.parametrize("state", ["Checkpointing", "Evicting", "Restoring", "Verifying"])
async def test_a_manager_that_is_killed_in_a_move_finishes_it_after_its_restart(
    live: LiveStage, state: str, kind: str
):
    """Whatever is durable of a move is enough to end it well."""
    (manager,) = await live.manage(decisions=MOVES_NOTHING)
    former, target = await begin_move(live, kind=kind)
    await live.reaches("by-hand", [state])
    manager.kill()
    manager.start(live.arguments)
    migration = await live.ended("by-hand", seconds=180)
    after = await live.training("mover")
    # A pod that was created while nobody answered the webhook has been sent away again.
    assert INJECTED.items() <= after["metadata"].get("labels", {}).items(), await live.account()
    assert migration["state"] in {"Succeeded", "RolledBack"}, await live.account()
    if migration["state"] == "Succeeded":
        assert after["metadata"]["uid"] != former
        assert after["spec"]["nodeName"] == target
    await check_one_life(live)


async def test_of_two_managers_one_orders(live: LiveStage):
    """A standby is ready, answers the webhook, and has no part in a move."""
    first, second = await live.manage("first", "second", decisions=MOVES_NOTHING)
    former, target = await begin_move(live)
    migration = await live.ended("by-hand")
    assert migration["state"] == "Succeeded"
    assert (await live.training("mover", former=former))["spec"]["nodeName"] == target
    leader = await live.leader()
    assert leader in {first, second}
    standby = second if leader is first else first
    assert await standby.ready()
    assert "PlaceJob" not in standby.tail
    assert "PlaceJob" in leader.tail
    await check_one_life(live)


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_standby_takes_over_and_finishes_the_move(live: LiveStage, how: str):
    """Within 15 s of a leader's death another one leads, and ends the move that was under way."""
    await live.manage("first", "second", decisions=MOVES_NOTHING)
    former, target = await begin_move(live)
    await live.reaches("by-hand", ["Evicting"])
    leader = await live.leader()
    assert leader is not None
    began = time.monotonic()
    if how == "killed":
        leader.kill()
    else:
        assert leader.stop(10) == 0

    async def taken_over() -> bool:
        other = await live.leader()
        return other is not None and other is not leader

    await live.eventually(taken_over, "the standby leads", seconds=TAKEOVER_SECONDS + 10)
    assert time.monotonic() - began <= TAKEOVER_SECONDS
    migration = await live.ended("by-hand", seconds=180)
    assert migration["state"] in {"Succeeded", "RolledBack"}, await live.account()
    if migration["state"] == "Succeeded":
        assert (await live.training("mover", former=former))["spec"]["nodeName"] == target
    await check_one_life(live)


async def test_a_leader_that_wakes_up_orders_nothing(live: LiveStage):
    """A leader that was frozen while another took over finds that out before it does anything."""
    await live.manage("first", "second", decisions=MOVES_NOTHING)
    await live.create(live.jobs.job("mover"))
    pod = await live.training("mover")
    await live.reported("mover", step=20)
    frozen = await live.leader()
    assert frozen is not None
    frozen.send(signal.SIGSTOP)

    async def taken_over() -> bool:
        other = await live.leader()
        return other is not None and other is not frozen

    await live.eventually(taken_over, "the standby leads", seconds=TAKEOVER_SECONDS + 10)
    await live.ask_for_move("by-hand", pod, await live.other_node(pod))
    frozen.send(signal.SIGCONT)
    migration = await live.ended("by-hand")
    assert migration["state"] == "Succeeded", await live.account()
    assert "PlaceJob" not in frozen.tail
    await check_one_life(live)


async def test_a_move_asked_for_while_nobody_leads_is_made_later(live: LiveStage):
    """A Migration is a wish that waits."""
    (manager,) = await live.manage(decisions=MOVES_NOTHING)
    await live.create(live.jobs.job("mover"))
    pod = await live.training("mover")
    await live.reported("mover", step=20)
    assert manager.stop() == 0
    await live.ask_for_move("by-hand", pod, await live.other_node(pod))
    manager.start(live.arguments)
    assert (await live.ended("by-hand"))["state"] == "Succeeded"
    assert len((await live.api.list(MIGRATIONS, live.namespace))[0]) == 1
    await check_one_life(live)


async def test_a_job_that_is_deleted_in_the_middle_of_its_move_is_gone(live: LiveStage):
    """A Job that its user deletes while it is being moved leaves neither pods nor an open move."""
    await live.manage(decisions=MOVES_NOTHING)
    await begin_move(live)
    await live.reaches("by-hand", ["Evicting", "Restoring"])
    await live.api.delete(JOBS, "mover", live.namespace, propagation="Background")
    migration = await live.ended("by-hand")
    assert migration["state"] in FINAL

    async def none() -> bool:
        return not await live.pods_of("mover")

    await live.eventually(none, "no pod is left")
