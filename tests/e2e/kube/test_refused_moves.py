"""Moves that cannot be: decided before the trainer is asked for anything."""

import pytest

from support.live.jobs import ANNOTATIONS
from support.live.stage import MOVES_NOTHING, LiveStage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


async def test_a_budget_that_allows_no_disruption_ends_a_move_before_the_trainer_is_asked(live: LiveStage):
    """The dry run of the eviction says no: the pod trains on, and never writes a checkpoint for it."""
    await live.manage(decisions=MOVES_NOTHING)
    annotations = {**ANNOTATIONS, "specon.io/recreate": "true", "specon.io/checkpoint": "signal:USR1"}
    labels = {"app": "guarded"}
    await live.create(live.jobs.pod("guarded", "--every", "0", annotations=annotations, labels=labels))
    pod = await live.training("guarded")
    await live.never_disrupt("never", labels)
    await live.reported("guarded", step=20)
    await live.ask_for_move("by-hand", pod, await live.other_node(pod))
    migration = await live.ended("by-hand")
    assert migration["state"] == "RolledBack", migration
    assert "checkpoint" not in migration
    assert "never" in migration["message"]
    assert [one["metadata"]["uid"] for one in await live.pods_of("guarded")] == [pod["metadata"]["uid"]]
    assert "checkpoint saved" not in (await live.result("guarded"))["train.log"]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        (ANNOTATIONS, "recreate"),
        ({**ANNOTATIONS, "specon.io/recreate": "true", "specon.io/migrate": "false"}, "forbids"),
    ],
)
async def test_a_pod_whose_owner_did_not_agree_is_left_alone(
    live: LiveStage, annotations: dict[str, str], said: str
):
    """A bare pod is deleted only with its owner's word; the Migration says which annotation is missing."""
    await live.manage(decisions=MOVES_NOTHING)
    await live.create(live.jobs.pod("own", annotations=annotations))
    pod = await live.training("own")
    await live.reported("own", step=20)
    await live.ask_for_move("by-hand", pod, await live.other_node(pod))
    migration = await live.ended("by-hand")
    assert migration["state"] == "Refused"
    assert said in migration["message"], await live.account()
    assert [one["metadata"]["uid"] for one in await live.pods_of("own")] == [pod["metadata"]["uid"]]


async def test_a_target_that_does_not_exist_is_refused(live: LiveStage):
    """A Migration to a node that is not there ends with its name, and nothing happens to the pod."""
    await live.manage(decisions=MOVES_NOTHING)
    await live.create(live.jobs.job("mover"))
    pod = await live.training("mover")
    await live.reported("mover", step=20)
    await live.ask_for_move("by-hand", pod, "nowhere")
    migration = await live.ended("by-hand")
    assert migration["state"] == "Refused"
    assert "nowhere" in migration["message"]
    assert [one["metadata"]["uid"] for one in await live.pods_of("mover")] == [pod["metadata"]["uid"]]
