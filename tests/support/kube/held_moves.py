"""Moves of every kind of owner that stand in every state, for what is to befall them there."""

import asyncio
from collections.abc import Collection, Sequence

from support.kube.cluster_stage import OWNERS, STATES, ClusterStage

BEFORE_EVICTION = ("Proposed", "Reserved", "Checkpointing")


async def every_move(
    stage: ClusterStage,
    *,
    owners: Sequence[str] = OWNERS,
    states: Sequence[str] = STATES,
    namespace: str = "training",
    target: str | None = None,
    forgiving: bool = False,
) -> list[str]:
    """Have one move of each kind of owner stand in each state, and return their replicas.

    With `target` all are to go to that node, which is added for it. `forgiving` Jobs start again what
    somebody else ended.
    """
    replicas = []
    for owner in owners:
        spec = {"backoffLimit": 100} if forgiving and owner in {"Job", "Indexed"} else {}
        for state in states:
            replica = await stage.make(owner, f"{owner}-{state}".lower(), namespace, **spec)
            stage.brake(replica, state)
            replicas.append(replica)
    await stage.trains(*replicas)
    if target is not None:
        await stage.add_node(target)
    targets = {replica: target or stage.other_node(replica) for replica in replicas}
    await asyncio.gather(*(stage.braked(replica, node) for replica, node in targets.items()))
    return replicas


def in_state(replicas: Collection[str], *states: str) -> list[str]:
    """Return those that `every_move` held in one of these states."""
    return [each for each in replicas if each.split("/")[1].split("-")[1].capitalize() in states]


def of_owner(replicas: Collection[str], *owners: str) -> list[str]:
    """Return those that `every_move` made of one of these kinds of owner."""
    words = {owner.lower() for owner in owners}
    return [each for each in replicas if each.split("/")[1].split("-")[0] in words]


async def all_end(stage: ClusterStage, replicas: Collection[str], *, lost: Collection[str] = ()) -> None:
    """Let the moves go on until all are over, all but those that are `lost` train, and nothing is left."""
    await stage.release(*replicas)
    await stage.ended(*replicas)
    await stage.trains(*(replica for replica in replicas if replica not in lost))
    await stage.tidy()
