"""Jobs that Kueue manages move by their Workloads: everything is real but the cluster, and Kueue itself.

Kueue is a stand-in that does what was read in its source; see `fakekube.kueue`.
"""

import asyncio

import pytest

from fakekube.kinds import CLUSTER_QUEUES, JOBS
from specon_manager.backends.kube.objects.annotation_keys import SUSPENDED_FOR
from support.kube.cluster_stage import STATES
from support.kube.kueue_move_stage import KueueMoveStage
from support.kube.permissions import all_asked, permitted
from support.packaging.helm import render


@pytest.fixture
async def stage(tmp_path, nodes):
    async with KueueMoveStage(tmp_path, nodes=nodes) as made:
        made.sidecars.pauses = True
        yield made


async def test_a_job_of_kueue_moves_by_its_workload_and_loses_no_step(stage):
    """Kueue suspends it and lets it run again, and its quota is its own at both ends."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    target = stage.other_node(replica)
    await stage.ask(replica, target)
    await stage.ended(replica)
    assert stage.state(replica) == "Succeeded", stage.move(replica)
    assert stage.node_of(replica) == target
    await stage.trains(replica, beyond=stage.sidecars.saved[replica])
    assert stage.sidecars.lost[replica] == 0
    assert (stage.is_active("queued"), stage.is_admitted("queued")) == (True, True)
    await stage.tidy()


async def moved(stage, replica, target=None):
    """Ask for a move and wait for its end; return what its Migration says."""
    await stage.ask(replica, target)
    await stage.ended(replica)
    return stage.move(replica)


async def test_a_gang_of_kueue_moves_as_a_whole(stage):
    """One Workload stands for all of its ranks."""
    await stage.manage_and_lead()
    lead = await stage.make_queued("Gang", "gang")
    ranks = [f"training/gang/worker/{index}" for index in range(4)]
    await stage.trains(*ranks)
    await stage.add_node("node-9")
    await stage.ask(lead, job="training/gang", targets=["node-9"])
    await stage.ended(lead)
    assert stage.state(lead) == "Succeeded", stage.tale()
    assert {stage.node_of(rank) for rank in ranks} == {"node-9"}
    assert {stage.sidecars.lost[rank] for rank in ranks} == {0}
    await stage.tidy()


async def test_a_job_set_of_kueue_moves_as_a_whole(stage):
    """Its Workload is that of the JobSet, not of the Job that it makes."""
    await stage.manage_and_lead()
    ranks = await stage.make_job_set("set", 2)
    await stage.trains(*ranks)
    await stage.add_node("node-9")
    await stage.ask(ranks[0], job="training/set-node-0", targets=["node-9"])
    await stage.ended(ranks[0])
    assert stage.state(ranks[0]) == "Succeeded", stage.tale()
    assert {stage.node_of(rank) for rank in ranks} == {"node-9"}
    assert {stage.sidecars.lost[rank] for rank in ranks} == {0}
    await stage.tidy()


async def test_a_manager_that_is_killed_in_any_state_of_such_a_move_is_succeeded(stage):
    """A Workload that the first deactivated is activated by the second."""
    first = await stage.manage_and_lead()
    replicas = []
    for state in STATES:
        replica = await stage.make_queued("Job", f"job-{state}".lower())
        stage.brake(replica, state)
        replicas.append(replica)
    await stage.trains(*replicas)
    await asyncio.gather(*(stage.braked(replica, stage.other_node(replica)) for replica in replicas))
    targets = {replica: stage.move(replica)["target"] for replica in replicas}
    await stage.until(lambda: not stage.is_active("job-evicting"), "it is deactivated")
    await first.kill()
    await stage.lease_runs_out()
    await stage.manage_and_lead("second")
    await stage.release(*replicas)
    await stage.ended(*replicas)
    assert {stage.state(replica) for replica in replicas} == {"Succeeded"}, stage.tale()
    assert {replica: stage.node_of(replica) for replica in replicas} == targets
    await stage.trains(*replicas)
    await stage.tidy()


async def test_a_workload_that_was_deactivated_for_a_move_that_nobody_knows_is_activated(stage):
    """The manager that died had written down no more than the mark."""
    replica = await stage.make_queued("Job", "queued")
    await stage.until(lambda: stage.is_admitted("queued"), "it is admitted")
    mark = {"metadata": {"annotations": {SUSPENDED_FOR: "training/lost"}}, "spec": {"active": False}}
    await stage.set_workload("queued", mark)
    await stage.manage_and_lead()
    await stage.until(lambda: stage.is_active("queued"), "it is activated")
    await stage.trains(replica)
    await stage.tidy()


async def test_a_workload_that_its_user_deactivates_is_left_to_him(stage):
    """Without our mark nobody activates it again."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    await stage.set_workload("queued", {"spec": {"active": False}})
    await stage.until(lambda: not stage.pods_of(replica), "it is gone")
    await asyncio.sleep(1.0)
    assert not stage.is_active("queued")


async def test_a_move_is_refused_while_another_workload_waits_for_the_quota(stage):
    """Else it would be a preemption in disguise; once nobody waits, it moves."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    pod = stage.pod_of(replica)["metadata"]["uid"]
    await stage.fill("large", "10")
    await stage.until(lambda: "another Workload waits for cpu" in immovable(stage, "queued"), "it is known")
    move = await moved(stage, replica, stage.other_node(replica))
    assert move["state"] == "Refused"
    assert "Kueue manages Job queued: another Workload waits for cpu in ClusterQueue team" in move["message"]
    assert stage.pod_of(replica)["metadata"]["uid"] == pod
    assert replica not in stage.sidecars.saved


async def test_a_queue_that_is_stopped_and_goes_on_is_heeded_at_once(stage):
    """Though nothing of the job itself has changed."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    machinery = stage.cluster.machinery
    await machinery.patch(CLUSTER_QUEUES, ("", "team"), "merge", {"spec": {"stopPolicy": "Hold"}})
    await stage.until(lambda: "ClusterQueue team is stopped" in immovable(stage, "queued"), "it is known")
    await machinery.patch(CLUSTER_QUEUES, ("", "team"), "merge", {"spec": {"stopPolicy": "None"}})
    await stage.until(lambda: not immovable(stage, "queued"), "it is known")


async def test_a_kueue_that_is_away_for_a_while_delays_a_move(stage):
    """Nobody else ends its pods, and nothing comes beside them."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    stage.cluster.kueue.away = True
    target = stage.other_node(replica)
    await stage.ask(replica, target)
    await stage.until(lambda: not stage.is_active("queued"), "it is deactivated")
    await asyncio.sleep(2.0)
    assert (stage.state(replica), len(stage.pods_of(replica))) == ("Evicting", 1)
    stage.cluster.kueue.away = False
    await stage.cluster.settle()
    await stage.ended(replica)
    assert (stage.state(replica), stage.node_of(replica)) == ("Succeeded", target)
    await stage.tidy()


async def test_all_jobs_of_a_full_queue_move_at_the_same_time(stage):
    """Each comes back to the quota that it gave: those on their way keep no other one."""
    await stage.queue("full", **{"default/cpu": 0.6})
    await stage.manage_and_lead()
    replicas = [await stage.make_queued("Job", f"job-{index}", "full") for index in range(6)]
    await stage.trains(*replicas)
    await asyncio.gather(*(stage.ask(replica, stage.other_node(replica)) for replica in replicas))
    await stage.ended(*replicas)
    assert {stage.state(replica) for replica in replicas} == {"Succeeded"}, stage.tale()
    assert {stage.sidecars.lost[replica] for replica in replicas} == {0}
    await stage.tidy()


async def test_the_record_of_a_gang_says_why_it_is_not_moved(stage):
    """As long as that is so."""
    await stage.manage_and_lead()
    await stage.make_queued("Gang", "gang")
    await stage.trains(*(f"training/gang/worker/{index}" for index in range(4)))
    await stage.fill("large", "10")
    words = "Kueue manages Job gang: another Workload waits for cpu in ClusterQueue team"
    await stage.until(lambda: stage.record("gang").get("notMoved", "").startswith(words), "it says so")
    await stage.cluster.machinery.delete(JOBS, ("training", "large"), {"propagationPolicy": "Background"})
    await stage.until(lambda: not stage.record("gang").get("notMoved"), "nothing stands against it any more")


async def test_a_job_of_a_queue_that_is_not_opted_in_is_observed(stage):
    """And says why."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued", "other")
    await stage.trains(replica)
    move = await moved(stage, replica, stage.other_node(replica))
    assert move["state"] == "Refused"
    assert "the jobs of ClusterQueue other are not moved" in move["message"]


async def test_a_target_outside_of_the_flavor_is_refused_before_anything_is_asked(stage):
    """Kueue has given the pods the labels of the flavor, and would do so again."""
    stage.cluster.kueue.flavors["default"] = {"pool": "a"}
    await stage.label("node-0", pool="a")
    await stage.label("node-1", pool="a")
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    assert stage.node_of(replica) in {"node-0", "node-1"}
    move = await moved(stage, replica, "node-2")
    assert (move["state"], replica in stage.sidecars.saved) == ("Refused", False), move
    assert "pool" in move["message"]


async def test_it_moves_within_its_flavor(stage):
    """Where Kueue's node selector and our pin agree."""
    stage.cluster.kueue.flavors["default"] = {"pool": "a"}
    await stage.label("node-0", pool="a")
    await stage.label("node-1", pool="a")
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    target = "node-1" if stage.node_of(replica) == "node-0" else "node-0"
    assert (await moved(stage, replica, target))["state"] == "Succeeded"
    assert stage.node_of(replica) == target
    await stage.tidy()


async def test_a_job_whose_quota_another_took_waits_in_its_queue_with_its_checkpoint(stage):
    """The move ends with that reason, within its deadlines; the job goes on when it is its turn."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    stage.brake(replica, "Evicting")
    await stage.trains(replica)
    await stage.braked(replica, stage.other_node(replica))
    await stage.until(lambda: not stage.is_admitted("queued"), "it has given its quota back")
    await stage.fill("large", "10")
    await stage.until(lambda: stage.is_admitted("large"), "another takes the quota that is free")
    await stage.release(replica)
    await stage.ended(replica)
    move = stage.move(replica)
    assert move["state"] == "Failed"
    assert "Kueue has not admitted Job queued again: it waits in its queue" in move["message"]
    assert (stage.is_active("queued"), stage.is_admitted("queued")) == (True, False)
    await stage.until(lambda: not stage.rules.leftovers(), "nothing is left of the move")
    await stage.cluster.machinery.delete(JOBS, ("training", "large"), {"propagationPolicy": "Background"})
    await stage.trains(replica, beyond=stage.sidecars.saved[replica])
    assert stage.sidecars.lost[replica] == 0
    first = stage.sidecars.first[stage.pod_of(replica)["metadata"]["uid"]]
    assert first == stage.sidecars.saved[replica] + 1


async def test_a_job_whose_target_is_lost_comes_back_to_where_it_was(stage):
    """Kueue suspends it once more, and nothing is lost."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued", backoffLimit=100)
    stage.brake(replica, "Restoring")
    await stage.trains(replica)
    before = stage.node_of(replica)
    await stage.add_node("node-9")
    await stage.braked(replica, "node-9")
    await stage.cluster.kubelet.down("node-9")
    await stage.remove_node("node-9")
    await stage.release(replica)
    await stage.ended(replica)
    assert stage.state(replica) == "RolledBack", stage.move(replica)["message"]
    assert stage.node_of(replica) == before
    assert stage.sidecars.lost[replica] == 0
    await stage.tidy()


async def test_who_comes_to_wait_while_it_saves_is_heeded(stage):
    """Nothing was told to end yet: the job trains on where it is."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    stage.sidecars.slow.add(replica)
    await stage.trains(replica)
    pod = stage.pod_of(replica)["metadata"]["uid"]
    await stage.ask(replica, stage.other_node(replica))
    await stage.until(lambda: stage.state(replica) == "Checkpointing", "it saves")
    await stage.fill("large", "10")
    await stage.until(lambda: "another Workload waits" in immovable(stage, "queued"), "it is known")
    stage.sidecars.slow.clear()
    await stage.ended(replica)
    assert stage.state(replica) == "RolledBack", stage.move(replica)
    assert "another Workload waits for cpu" in stage.move(replica)["message"]
    assert stage.pod_of(replica)["metadata"]["uid"] == pod
    await stage.tidy()


async def test_a_drain_moves_jobs_of_kueue_too(stage):
    """An eviction by anybody becomes such a move, without more."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    node = stage.node_of(replica)
    await stage.drain(node)
    await stage.until(
        lambda: stage.pods_of(replica) and stage.node_of(replica) not in {"", node}, "it is away"
    )
    await stage.trains(replica, beyond=stage.sidecars.saved[replica])
    assert stage.sidecars.lost[replica] == 0
    await stage.tidy()


async def test_what_the_chart_permits_for_it_is_what_is_asked_for(stage):
    """To read what says whether a move is safe, and to write one object."""
    await stage.manage_and_lead()
    replica = await stage.make_queued("Job", "queued")
    await stage.trains(replica)
    assert (await moved(stage, replica, stage.other_node(replica)))["state"] == "Succeeded"
    moves = {"kueue": {"moves": {"enabled": True, "clusterQueues": ["team"]}}}
    without, roles = (
        permitted(render({"fullnameOverride": "specon", **values}, "--namespace=specon"), {})
        for values in ({}, moves)
    )
    more = roles - without
    wanted = [one for one in all_asked(stage.cluster.server.requests) if one.group == "kueue.x-k8s.io"]
    assert {role for role in more if not any(role.covers(one) for one in wanted)} == set()
    assert [one for one in wanted if not any(role.covers(one) for role in more)] == []


def immovable(stage, job):
    """Return what the leader knows against a move of a job."""
    return stage.leader.serves._server.controller.state.jobs[f"training/{job}"].spec.immovable
