"""What befalls the manager itself while moves of every kind stand in every state."""

import asyncio

import pytest

from support.kube.cluster_stage import ClusterStage
from support.kube.held_moves import all_end, every_move
from support.kube.staged_manager import LEASE_SECONDS, RENEW_SECONDS

pytestmark = pytest.mark.long


async def all_arrive(stage: ClusterStage, replicas: list[str]) -> None:
    targets = {replica: stage.move(replica)["target"] for replica in replicas}
    await stage.release(*replicas)
    await stage.ended(*replicas)
    ends = {replica: (stage.state(replica), stage.move(replica).get("message")) for replica in replicas}
    assert not {replica: end for replica, end in ends.items() if end[0] != "Succeeded"}
    assert {replica: stage.node_of(replica) for replica in replicas} == targets
    await stage.trains(*replicas)
    await stage.tidy()


async def test_a_manager_that_is_killed_in_any_state_of_a_move_is_succeeded_by_one_that_finishes_it(stage):
    first = await stage.manage_and_lead()
    replicas = await every_move(stage)
    await first.kill()
    await stage.lease_runs_out()
    await stage.manage_and_lead("second")
    await all_arrive(stage, replicas)


async def test_an_api_server_that_is_away_longer_than_a_lease_lasts_ends_no_move(stage):
    manager = await stage.manage_and_lead()
    replicas = await every_move(stage)
    await stage.cluster.server.go_away()
    manager.leap(RENEW_SECONDS + 0.1)
    await stage.until(lambda: not manager.leads, "it leads no more")
    await stage.cluster.server.open()
    await all_arrive(stage, replicas)


async def test_an_api_server_that_is_away_while_moves_go_on_ends_none(stage):
    await stage.manage_and_lead()
    replicas = await every_move(stage)
    await stage.cluster.server.go_away()
    away = asyncio.create_task(stage.release(*replicas))
    await asyncio.sleep(1.0)
    await stage.cluster.server.open()
    await away
    await all_arrive(stage, replicas)


@pytest.mark.parametrize("status", [429, 500])
async def test_a_storm_of_refusals_delays_moves_and_ends_none(stage, status):
    await stage.manage_and_lead()
    replicas = await every_move(stage)
    stage.cluster.faults.answer(status, retry_after=1 if status == 429 else None, times=60)
    await all_arrive(stage, replicas)


async def test_a_leader_that_wakes_up_after_another_took_over_orders_nothing(stage):
    first = await stage.manage_and_lead()
    replicas = await every_move(stage)
    first.freeze()
    await stage.lease_runs_out()
    second = await stage.manage_and_lead("second")
    first.changes.clear()
    await stage.release(*replicas)
    await asyncio.sleep(0.5)
    first.thaw(LEASE_SECONDS)
    # It ends, and its webhook with it: a pod that was created without a sidecar then is sent back.
    await all_end(stage, replicas)
    assert stage.leader is second
    assert first.orders == []
