"""Gangs of several pods with everything real but the cluster: they move as a whole, or not at all."""

import asyncio

import msgspec
import pytest

from fakekube.kinds import JOBS, MIGRATIONS, TRAINING_JOBS
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.model.transactions import RESUMED
from support.kube.cluster_stage import DECISIONS, STATES, ClusterStage
from support.kube.staged_manager import LEASE_SECONDS, Manager

JOB = "training/gang"
RANKS = [f"{JOB}/worker/{index}" for index in range(4)]
LEAD = RANKS[0]
HURRIED = msgspec.structs.replace(DECISIONS, deadlines=msgspec.structs.replace(DECISIONS.deadlines, ready=3))
"""Gives up soon what does not start."""


async def _gang(stage: ClusterStage) -> list[str]:
    """Make one that trains, and return the nodes of its ranks."""
    await stage.make("Gang", "gang")
    await stage.trains(*RANKS)
    return [stage.node_of(rank) for rank in RANKS]


def _record(stage: ClusterStage) -> dict:
    found = stage.cluster.store.get(TRAINING_JOBS, ("training", "gang")) or {}
    return found.get("status") or {}


def _state(stage: ClusterStage) -> str:
    return _record(stage).get("change", {}).get("state", "")


def _from_one_step(stage: ClusterStage) -> int:
    """Return the step at which all ranks saved; each began behind it."""
    (step,) = {stage.sidecars.saved[rank] for rank in RANKS}
    firsts = {stage.sidecars.first[stage.pod_of(rank)["metadata"]["uid"]] for rank in RANKS}
    assert firsts == {step + 1}
    return int(step)


async def _elsewhere(stage: ClusterStage) -> str:
    """Add a node on which no replica of the gang runs."""
    await stage.add_node("node-9")
    return "node-9"


async def _ended_well(stage: ClusterStage, target: str) -> None:
    await stage.ended(LEAD)
    move = stage.move(LEAD)
    assert (move["state"], move["job"]) == ("Succeeded", JOB), f"{move}\n{stage.tale()}"
    assert move["target"] == f"{target} (4)"
    assert {stage.node_of(rank) for rank in RANKS} == {target}
    step = _from_one_step(stage)
    assert move["checkpoint"]["step"] == step
    await stage.trains(*RANKS, beyond=step)
    last = _record(stage)["lastChange"]
    assert (last["kind"], last["state"], last["id"]) == ("move", "Succeeded", "training/please-gang")
    await stage.tidy()
    job = stage.owner(LEAD)
    assert (job["spec"]["completions"], job["spec"].get("suspend")) == (4, False)
    assert len(stage.cluster.store.all(MIGRATIONS)) == 1


async def test_a_gang_that_somebody_asks_for_moves_as_a_whole_from_one_step(stage):
    await stage.manage_and_lead()
    nodes = await _gang(stage)
    target = next(node for node in stage.nodes if nodes.count(node) < 4)
    await stage.ask(LEAD, job=JOB, targets=[target])
    await _ended_well(stage, target)


async def test_the_jobs_of_a_job_set_are_one_gang_and_move_as_a_whole(stage):
    """Each pod comes back as the one that it was, in whichever of the Jobs that is."""
    await stage.manage_and_lead()
    lead = await stage.make("JobSet", "set")
    ranks = [f"training/set/worker/{index}" for index in (0, 1, 1000, 1001)]
    await stage.trains(*ranks)
    before = {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in ranks}
    target = next(node for node in stage.nodes if node not in {stage.node_of(rank) for rank in ranks[:1]})
    await stage.ask(lead, job="training/set", targets=[target])
    await stage.ended(lead)
    move = stage.move(lead)
    assert (move["state"], move["target"]) == ("Succeeded", f"{target} (4)"), stage.tale()
    assert {stage.node_of(rank) for rank in ranks} == {target}
    (step,) = {stage.sidecars.saved[rank] for rank in ranks}
    firsts = {stage.sidecars.first[stage.pod_of(rank)["metadata"]["uid"]] for rank in ranks}
    assert (firsts, move["checkpoint"]["step"]) == ({step + 1}, step)
    assert all(stage.pod_of(rank)["metadata"]["uid"] != before[rank] for rank in ranks)
    assert stage.owner(lead)["spec"]["suspend"] is False
    await stage.tidy()


async def test_a_job_set_whose_leader_asks_for_more_moves_as_a_whole(stage):
    """To nodes that hold each with its own amount, and not four of the largest, nor two of those on one."""
    await stage.manage_and_lead()
    lead = await stage.make("JobSet", "set", leader={"cpu": "3", "memory": "64Mi"})
    ranks = [f"training/set/worker/{index}" for index in (0, 1, 1000, 1001)]
    await stage.trains(*ranks)
    known = stage.leader.serves._server.controller.state.jobs["training/set"].spec
    asked = [known.requests_of(rank).cpu for rank in ranks]
    assert asked[0] - asked[2] == asked[1] - asked[3] == pytest.approx(2.9)
    await stage.add_node("node-8", cpu="4")
    await stage.add_node("node-9", cpu="4")
    await stage.ask(lead, job="training/set", targets=["node-8", "node-9"])
    await stage.ended(lead)
    assert stage.state(lead) == "Succeeded", stage.tale()
    assert [stage.node_of(rank) for rank in ranks] == ["node-8", "node-9", "node-8", "node-8"]
    pods = [stage.pod_of(rank)["spec"]["containers"][0]["resources"]["requests"]["cpu"] for rank in ranks]
    assert pods == ["3", "3", "100m", "100m"]
    assert stage.owner(lead)["spec"]["suspend"] is False
    await stage.tidy()


async def test_one_rank_that_is_to_move_takes_the_others_along(stage):
    """They start again where they were."""
    await stage.manage_and_lead()
    nodes = await _gang(stage)
    target = next(node for node in stage.nodes if node != nodes[2])
    before = {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS}
    await stage.ask(RANKS[2], target)
    await stage.ended(RANKS[2])
    assert stage.state(RANKS[2]) == "Succeeded", stage.tale()
    assert [stage.node_of(rank) for rank in RANKS] == [nodes[0], nodes[1], target, nodes[3]]
    assert all(stage.pod_of(rank)["metadata"]["uid"] != uid for rank, uid in before.items())
    _from_one_step(stage)
    await stage.tidy()


async def _stands(stage: ClusterStage, state: str) -> str:
    """Ask for a move of all of it, hold it back in that state, and return the target."""
    nodes = await _gang(stage)
    target = next(node for node in stage.nodes if node not in nodes[:1])
    pods = sorted(stage.pod_of(rank)["metadata"]["name"] for rank in RANKS)
    match state:
        case "Proposed":
            stage.cluster.kubelet.held |= {placeholder_name("training/please-gang", rank) for rank in RANKS}
        case "Reserved":
            await stage.sidecars.deafen(*RANKS)
        case "Checkpointing":
            stage.sidecars.slow |= set(RANKS[1:2])
        case "Evicting":
            stage.cluster.kubelet.deaf |= set(pods[:1])
        case "Restoring":
            stage.cluster.kubelet.start_seconds = 5.0
    await stage.ask(LEAD, job=JOB, targets=[target])
    if state == "Verifying":
        await stage.until(lambda: stage.state(LEAD) in {"Evicting", "Restoring"}, "it goes")
        stage.sidecars.mute |= set(RANKS[3:])
    # Its TrainingJob says Checkpointing of whatever comes before it.
    await stage.until(lambda: stage.state(LEAD) == state, f"it is {state}")
    return target


async def _goes_on(stage: ClusterStage) -> None:
    """Hold nothing back any more."""
    sidecars, kubelet = stage.sidecars, stage.cluster.kubelet
    for held in (sidecars.deaf, sidecars.slow, sidecars.mute, kubelet.deaf, kubelet.held):
        held.clear()
    await stage.cluster.settle()


@pytest.mark.parametrize("state", STATES)
async def test_a_manager_that_is_killed_while_a_gang_moves_is_succeeded_by_one_that_finishes_it(stage, state):
    first = await stage.manage_and_lead()
    target = await _stands(stage, state)
    await first.kill()
    await stage.lease_runs_out()
    await stage.manage_and_lead("second")
    await _goes_on(stage)
    await _ended_well(stage, target)


async def _is_replaced(stage: ClusterStage, leader: Manager) -> Manager:
    """Let the leader stand still once nothing that it sent is on its way, and return who leads then."""
    await asyncio.sleep(1.0)
    leader.freeze()
    await stage.lease_runs_out()
    other = await stage.manage_and_lead("second")
    leader.changes.clear()
    return other


@pytest.mark.parametrize("state", STATES)
async def test_a_leader_that_stands_still_while_a_gang_moves_wakes_up_and_orders_nothing(stage, state):
    """Another one leads by then, and ends the move."""
    first = await stage.manage_and_lead()
    target = await _stands(stage, state)
    second = await _is_replaced(stage, first)
    first.thaw(LEASE_SECONDS)
    await asyncio.sleep(0.5)
    await _goes_on(stage)
    await _ended_well(stage, target)
    assert (stage.leader, first.orders) == (second, [])


async def test_a_leader_that_wakes_up_after_a_gang_has_moved_leaves_it_alone(stage):
    """What it thought is that all ranks are about to end; what they say meanwhile is said to the other."""
    first = await stage.manage_and_lead()
    target = await _stands(stage, "Checkpointing")
    second = await _is_replaced(stage, first)
    await _goes_on(stage)
    await _ended_well(stage, target)
    pods = {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS}
    first.thaw(LEASE_SECONDS)
    await asyncio.sleep(0.5)
    await stage.trains(*RANKS, beyond=stage.progress(LEAD)["step"])
    assert (stage.leader, first.orders) == (second, [])
    assert {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS} == pods


async def test_a_rank_that_cannot_save_leaves_all_of_the_gang_as_it_was(stage):
    """Nobody is told to end."""
    await stage.manage_and_lead()
    await _gang(stage)
    before = {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS}
    stage.sidecars.refuses[RANKS[3]] = "disk full"
    await stage.ask(LEAD, job=JOB, targets=[await _elsewhere(stage)])
    await stage.ended(LEAD)
    assert (stage.state(LEAD), "disk full" in stage.move(LEAD)["message"]) == ("RolledBack", True)
    assert {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS} == before
    await stage.tidy()


async def test_a_gang_whose_target_is_lost_is_back_whole(stage):
    """From the step that all had saved, where all were before."""
    await stage.manage_and_lead()
    nodes = await _gang(stage)
    target = await _elsewhere(stage)
    stage.cluster.kubelet.start_seconds = 3.0
    await stage.ask(LEAD, job=JOB, targets=[target])
    await stage.until(lambda: _state(stage) == "Coming", "it comes")
    await stage.cluster.kubelet.down(target)
    stage.cluster.kubelet.start_seconds = 0.0
    await stage.remove_node(target)
    await stage.ended(LEAD)
    assert stage.state(LEAD) == "RolledBack", stage.tale()
    assert [stage.node_of(rank) for rank in RANKS] == nodes
    _from_one_step(stage)
    await stage.tidy()


async def _is_resumed(stage: ClusterStage) -> str:
    """Let its user resume it while its first rank still ends; return the target."""
    target = await _stands(stage, "Evicting")
    await stage.until(lambda: stage.owner(LEAD)["spec"]["suspend"], "it is suspended")
    await stage.until(lambda: not any(map(stage.pods_of, RANKS[1:])), "the other ranks are gone")
    await stage.patch_owner(LEAD, {"spec": {"suspend": False}})
    return target


async def _trains_as_its_user_wants(stage: ClusterStage, target: str, ended: list[str]) -> None:
    """Its move is over, it trains where it came, none of that was ended, and its next move goes well."""
    await stage.ended(LEAD)
    assert (stage.state(LEAD), stage.move(LEAD)["message"]) == ("RolledBack", RESUMED), stage.tale()
    await stage.trains(*RANKS)
    await stage.tidy()
    _from_one_step(stage)
    assert {stage.node_of(rank) for rank in RANKS} == {target}
    assert (stage.owner(LEAD)["spec"]["suspend"], ended) == (False, [])
    target = await _elsewhere(stage)
    await stage.ask(LEAD, name="once-more", job=JOB, targets=[target])
    await stage.ended(LEAD)
    assert stage.state(LEAD) == "Succeeded", stage.tale()
    assert {stage.node_of(rank) for rank in RANKS} == {target}
    _from_one_step(stage)
    await stage.tidy()


async def test_a_gang_that_its_user_resumes_while_it_leaves_trains_and_is_ended_no_more(stage):
    """The move ends when nothing is left of its former pods; those that came wait for that at our gate."""
    await stage.manage_and_lead()
    target = await _is_resumed(stage)
    ended = stage.told_to_end()
    await stage.until(lambda: all(map(stage.pods_of, RANKS[1:])), "its other ranks come")
    came = {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS[1:]}
    await asyncio.sleep(2.0)
    assert {stage.node_of(rank) for rank in RANKS[1:]} == {""}
    assert (stage.state(LEAD), stage.owner(LEAD)["spec"]["suspend"]) == ("Evicting", False)
    await _goes_on(stage)
    await stage.ended(LEAD)
    await stage.trains(*RANKS)
    assert {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS[1:]} == came
    await _trains_as_its_user_wants(stage, target, ended)


@pytest.mark.parametrize("slow", [False, True], ids=["at-once", "slowly"])
@pytest.mark.parametrize(
    ("kind", "indexes"), [("Gang", range(4)), ("JobSet", (0, 1, 1000, 1001)), ("LeaderWorkerSet", range(4))]
)
async def test_a_controller_that_undoes_a_move_at_once_ends_no_pod_twice(stage, kind, indexes, slow):
    """It applies what it read somewhere; the former pods end at once, or slowly, or were never told to."""
    await stage.manage_and_lead()
    lead = await stage.make(kind, "gang")
    ranks = [f"{JOB}/worker/{index}" for index in indexes]
    await stage.trains(*ranks)
    former = {stage.pod_of(rank)["metadata"]["name"] for rank in ranks}
    if slow:
        stage.cluster.kubelet.deaf |= former
    group = kind == "LeaderWorkerSet"
    field, off, on = ("replicas", 0, 1) if group else ("suspend", True, False)
    ended = stage.told_to_end()
    await stage.ask(lead, job=JOB, targets=[await _elsewhere(stage)])
    while stage.owner(lead)["spec"].get(field) != off:  # noqa: ASYNC110  (as fast as any controller)
        await asyncio.sleep(0.001)
    await stage.patch_owner(lead, {"spec": {field: on}})
    if slow:
        await asyncio.sleep(1.0)
        assert not ended or stage.state(lead) == "Evicting"
    await _goes_on(stage)
    await stage.ended(lead)
    assert (stage.state(lead), stage.move(lead)["message"]) == ("RolledBack", RESUMED), stage.tale()
    await stage.trains(*ranks)
    await stage.tidy()
    assert (stage.owner(lead)["spec"][field], len(ended)) == (on, len(former & {*ended}))


async def test_a_manager_that_is_killed_when_a_users_word_comes_is_succeeded_by_one_that_obeys(stage):
    """The mark on its object tells the next one as much."""
    first = await stage.manage_and_lead()
    target = await _is_resumed(stage)
    ended = stage.told_to_end()
    await first.kill()
    await stage.lease_runs_out()
    await stage.manage_and_lead("second")
    await _goes_on(stage)
    await _trains_as_its_user_wants(stage, target, ended)


async def test_a_gang_that_is_resumed_before_anything_ended_is_left_alone(stage):
    """The controller of Jobs never saw that it was suspended."""
    await stage.manage_and_lead()
    await _stands(stage, "Checkpointing")
    before = {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS}
    stage.cluster.jobs.away = True
    await _goes_on(stage)
    await stage.until(lambda: stage.owner(LEAD)["spec"]["suspend"], "it is suspended")
    await stage.patch_owner(LEAD, {"spec": {"suspend": False}})
    stage.cluster.jobs.away = False
    ended = stage.told_to_end()
    await stage.ended(LEAD)
    assert (stage.state(LEAD), stage.move(LEAD)["message"]) == ("RolledBack", RESUMED), stage.tale()
    assert {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS} == before
    await stage.trains(*RANKS, beyond=stage.progress(LEAD)["step"])
    await stage.tidy()
    assert ended == []


async def test_a_gang_that_its_user_resumes_on_its_way_back_trains_and_is_ended_no_more(stage):
    """It did not start in time on its target, and one of its ranks is slow to leave that."""
    await stage.manage_and_lead(decisions=HURRIED)
    await _stands(stage, "Restoring")
    stage.cluster.kubelet.start_seconds = 1e6
    await stage.until(lambda: all(stage.node_of(rank) for rank in RANKS if stage.pods_of(rank)), "they come")
    await stage.until(lambda: len([rank for rank in RANKS if stage.pods_of(rank)]) == len(RANKS), "all come")
    stage.cluster.kubelet.deaf.add(stage.pod_of(LEAD)["metadata"]["name"])
    await stage.until(lambda: stage.owner(LEAD)["spec"]["suspend"], "it turns back")
    await stage.until(lambda: not any(map(stage.pods_of, RANKS[1:])), "the other ranks are gone")
    assert (_state(stage), len(stage.pods_of(LEAD))) == ("Leaving", 1)
    stage.cluster.kubelet.start_seconds = 0.0
    ended = stage.told_to_end()
    await stage.patch_owner(LEAD, {"spec": {"suspend": False}})
    await stage.until(lambda: all(map(stage.pods_of, RANKS[1:])), "its other ranks come")
    await asyncio.sleep(1.0)
    assert {stage.node_of(rank) for rank in RANKS[1:]} == {""}
    await _goes_on(stage)
    await stage.ended(LEAD)
    assert (stage.state(LEAD), "in time" in stage.move(LEAD)["message"]) == ("RolledBack", True)
    await stage.trains(*RANKS)
    await stage.tidy()
    assert (stage.owner(LEAD)["spec"]["suspend"], ended) == (False, [])


@pytest.mark.parametrize("state", ["Restoring", "Verifying"])
async def test_a_gang_whose_user_says_that_it_runs_when_it_was_let_run_already_moves_on(stage, state):
    """Its user says what its object says by then."""
    await stage.manage_and_lead()
    target = await _stands(stage, state)
    await stage.until(lambda: not stage.owner(LEAD)["spec"]["suspend"], "it is resumed")
    ended = stage.told_to_end()
    await stage.patch_owner(LEAD, {"spec": {"suspend": False}})
    await _goes_on(stage)
    await _ended_well(stage, target)
    assert ended == []


async def test_its_user_deletes_a_job_that_moves_and_nothing_of_it_is_left(stage):
    await stage.manage_and_lead()
    await _gang(stage)
    stage.sidecars.slow |= set(RANKS)
    await stage.ask(LEAD, job=JOB, targets=[await _elsewhere(stage)])
    await stage.until(lambda: _state(stage) == "Checkpointing", "it is asked to save")
    await stage.cluster.machinery.delete(JOBS, ("training", "gang"), {"propagationPolicy": "Background"})
    await stage.ended(LEAD)
    await stage.until(lambda: not _record(stage), "its TrainingJob is gone")
    await stage.until(lambda: not stage.rules.leftovers(), "all is tidied up")
