"""A LeaderWorkerSet of one group with everything real but the cluster: it moves as a whole, or not at all.

The controllers and the webhook of LeaderWorkerSet are a stub, as their sources read.
"""

import pytest

from fakekube.kinds import LEADER_WORKER_SETS, MIGRATIONS, PODS, STATEFUL_SETS, TRAINING_JOBS
from fakekube.store import key_of
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.model.transactions import RESUMED
from support.kube.cluster_stage import STATES, ClusterStage

JOB = "training/group"
RANKS = [f"{JOB}/worker/{index}" for index in range(4)]
LEAD = RANKS[0]
KEY, WORKERS = ("training", "group"), ("training", "group-0")
SLOW = "example.com/slow"
MARK = "specon.io/suspended-for"


async def _group(stage: ClusterStage) -> list[str]:
    """Make one that trains, and return the nodes of its ranks."""
    await stage.make("LeaderWorkerSet", "group")
    await stage.trains(*RANKS)
    return [stage.node_of(rank) for rank in RANKS]


def _state(stage: ClusterStage) -> str:
    found = stage.cluster.store.get(TRAINING_JOBS, KEY) or {}
    return (found.get("status") or {}).get("change", {}).get("state", "")


def _groups(stage: ClusterStage) -> int:
    return int(stage.owner(LEAD)["spec"]["replicas"])


def _mark(stage: ClusterStage) -> str | None:
    return (stage.owner(LEAD)["metadata"].get("annotations") or {}).get(MARK)


def _uids(stage: ClusterStage) -> dict[str, str]:
    return {rank: stage.pod_of(rank)["metadata"]["uid"] for rank in RANKS}


async def _ended_well(stage: ClusterStage, target: str) -> None:
    await stage.ended(LEAD)
    move = stage.move(LEAD)
    assert (move["state"], move["job"]) == ("Succeeded", JOB), f"{move}\n{stage.tale()}"
    assert {stage.node_of(rank) for rank in RANKS} == {target}
    (step,) = {stage.sidecars.saved[rank] for rank in RANKS}
    firsts = {stage.sidecars.first[uid] for uid in _uids(stage).values()}
    assert (firsts, move["checkpoint"]["step"]) == ({step + 1}, step)
    await stage.trains(*RANKS, beyond=step)
    await stage.tidy()
    assert (_groups(stage), _mark(stage)) == (1, None)
    assert len(stage.cluster.store.all(MIGRATIONS)) == 1


async def _stands(stage: ClusterStage, state: str) -> str:
    """Ask for a move of all of it, hold it back in that state, and return the target."""
    nodes = await _group(stage)
    target = next(node for node in stage.nodes if node not in nodes[:1])
    match state:
        case "Proposed":
            stage.cluster.kubelet.held |= {placeholder_name("training/please-group", rank) for rank in RANKS}
        case "Reserved":
            await stage.sidecars.deafen(*RANKS)
        case "Checkpointing":
            stage.sidecars.slow |= set(RANKS[1:2])
        case "Evicting":
            stage.cluster.kubelet.deaf |= {"group-0"}
        case "Restoring":
            stage.cluster.kubelet.start_seconds = 5.0
    await stage.ask(LEAD, job=JOB, targets=[target])
    if state == "Verifying":
        await stage.until(lambda: stage.state(LEAD) in {"Evicting", "Restoring"}, "it goes")
        stage.sidecars.mute |= set(RANKS[3:])
    await stage.until(lambda: stage.state(LEAD) == state, f"it is {state}")
    return target


async def _goes_on(stage: ClusterStage) -> None:
    """Hold nothing back any more."""
    sidecars, kubelet = stage.sidecars, stage.cluster.kubelet
    for held in (sidecars.deaf, sidecars.slow, sidecars.mute, kubelet.deaf, kubelet.held):
        held.clear()
    await stage.cluster.settle()


async def test_a_group_that_somebody_asks_for_moves_as_a_whole_from_one_step(stage):
    """Leader and workers are of two StatefulSets, and one job."""
    await stage.manage_and_lead()
    nodes = await _group(stage)
    above = {stage.pod_of(rank)["metadata"]["ownerReferences"][0]["name"] for rank in RANKS}
    assert above == {"group", "group-0"}
    before = _uids(stage)
    target = next(node for node in stage.nodes if nodes.count(node) < 4)
    await stage.ask(LEAD, job=JOB, targets=[target])
    await _ended_well(stage, target)
    assert not set(before.values()) & set(_uids(stage).values())
    assert [stage.pod_of(rank)["metadata"]["name"] for rank in RANKS] == [
        "group-0",
        "group-0-1",
        "group-0-2",
        "group-0-3",
    ]


@pytest.mark.parametrize("state", STATES)
async def test_a_manager_that_is_killed_while_a_group_moves_is_succeeded_by_one_that_finishes_it(
    stage, state
):
    first = await stage.manage_and_lead()
    target = await _stands(stage, state)
    await first.kill()
    await stage.lease_runs_out()
    await stage.manage_and_lead("second")
    await _goes_on(stage)
    await _ended_well(stage, target)


async def test_a_group_comes_again_only_when_nothing_can_create_its_former_pods(stage):
    """The StatefulSet of its workers is slow to go, though none of its pods is left."""
    await stage.manage_and_lead()
    nodes = await _group(stage)
    body = {"metadata": {"finalizers": [SLOW]}}
    await stage.cluster.machinery.patch(STATEFUL_SETS, WORKERS, "merge", body)
    target = next(node for node in stage.nodes if nodes.count(node) < 4)
    await stage.ask(LEAD, job=JOB, targets=[target])
    store = stage.cluster.store
    await stage.until(lambda: not stage.pods_of(LEAD), "the leader is gone")
    await stage.delete_pods(*RANKS[1:])
    await stage.until(lambda: _state(stage) == "Coming", "all of them are gone")
    with pytest.raises(AssertionError, match="it comes"):
        await stage.until(lambda: _groups(stage) == 1, "it comes", seconds=2.0)
    assert (store.all(PODS, "training"), store.get(STATEFUL_SETS, WORKERS) is None) == (
        [pod for pod in store.all(PODS, "training") if "specon.io/placeholder" in pod["metadata"]["labels"]],
        False,
    )
    body = {"metadata": {"finalizers": None}}
    await stage.cluster.machinery.patch(STATEFUL_SETS, WORKERS, "merge", body)
    await _ended_well(stage, target)


async def test_a_controller_that_is_away_for_a_while_ends_nothing_twice(stage):
    """The group leaves once it is back."""
    await stage.manage_and_lead()
    target = await _stands(stage, "Checkpointing")
    before = _uids(stage)
    stage.cluster.leader_worker_sets.away = True
    await _goes_on(stage)
    await stage.until(lambda: _groups(stage) == 0, "it is told to leave")
    await stage.until(lambda: _state(stage) == "Leaving", "it leaves")
    assert _uids(stage) == before
    stage.cluster.leader_worker_sets.away = False
    await stage.cluster.settle()
    await _ended_well(stage, target)


async def test_a_rank_that_cannot_save_leaves_all_of_the_group_as_it_was(stage):
    await stage.manage_and_lead()
    await _group(stage)
    before = _uids(stage)
    stage.sidecars.refuses[RANKS[3]] = "disk full"
    await stage.add_node("node-9")
    await stage.ask(LEAD, job=JOB, targets=["node-9"])
    await stage.ended(LEAD)
    assert (stage.state(LEAD), "disk full" in stage.move(LEAD)["message"]) == ("RolledBack", True)
    assert (_uids(stage), _groups(stage), _mark(stage)) == (before, 1, None)
    await stage.tidy()


async def test_a_group_whose_target_is_lost_is_back_whole(stage):
    """From the step that all had saved, where all were before."""
    await stage.manage_and_lead()
    nodes = await _group(stage)
    await stage.add_node("node-9")
    stage.cluster.kubelet.start_seconds = 3.0
    await stage.ask(LEAD, job=JOB, targets=["node-9"])
    await stage.until(lambda: _state(stage) == "Coming", "it comes")
    await stage.cluster.kubelet.down("node-9")
    stage.cluster.kubelet.start_seconds = 0.0
    await stage.remove_node("node-9")
    await stage.ended(LEAD)
    assert stage.state(LEAD) == "RolledBack", stage.tale()
    assert [stage.node_of(rank) for rank in RANKS] == nodes
    (step,) = {stage.sidecars.saved[rank] for rank in RANKS}
    assert {stage.sidecars.first[uid] for uid in _uids(stage).values()} == {step + 1}
    await stage.tidy()
    assert (_groups(stage), _mark(stage)) == (1, None)


@pytest.mark.parametrize("groups", [1, 3])
async def test_somebody_who_raises_the_number_of_groups_in_mid_move_has_his_way(stage, groups):
    """An autoscaler by the scale subresource, or its user: the group is not ended again, and trains."""
    await stage.manage_and_lead()
    ended = stage.told_to_end()
    await _stands(stage, "Evicting")
    former = {*_uids(stage).values()}
    await stage.until(lambda: (_groups(stage), bool(_mark(stage))) == (0, True), "it is told to leave")
    await stage.patch_owner(LEAD, {"spec": {"replicas": groups}})
    await _goes_on(stage)
    await stage.ended(LEAD)
    assert (stage.state(LEAD), stage.move(LEAD)["message"]) == ("RolledBack", RESUMED), stage.tale()
    await stage.tidy()
    await stage.trains(*RANKS)
    assert (_groups(stage), _mark(stage)) == (groups, None)
    assert sorted(ended) == ["group-0", "group-0-1", "group-0-2", "group-0-3"], "the former pods, each once"
    assert not former & {*_uids(stage).values()}


async def test_a_set_whose_user_wants_no_group_in_mid_move_stays_without(stage):
    await stage.manage_and_lead()
    await _stands(stage, "Checkpointing")
    await stage.patch_owner(LEAD, {"spec": {"replicas": 0}})
    await _goes_on(stage)
    await stage.ended(LEAD)
    assert stage.state(LEAD) != "Succeeded"
    await stage.tidy()
    assert (_groups(stage), _mark(stage), stage.pods_of(LEAD)) == (0, None, [])


async def test_its_user_deletes_a_set_that_moves_and_nothing_of_it_is_left(stage):
    await stage.manage_and_lead()
    await _stands(stage, "Checkpointing")
    await stage.cluster.machinery.delete(LEADER_WORKER_SETS, KEY, {"propagationPolicy": "Background"})
    await stage.ended(LEAD)
    await stage.until(lambda: not stage.cluster.store.get(TRAINING_JOBS, KEY), "its TrainingJob is gone")
    await stage.until(lambda: not stage.rules.leftovers(), "all is tidied up")


async def test_a_group_that_its_controller_recreates_trains_on_and_nobody_suspends_it(stage):
    """One of its pods is deleted: the leader goes, with it all workers, and all come again."""
    await stage.manage_and_lead()
    await _group(stage)
    before = _uids(stage)
    await stage.cluster.machinery.delete(PODS, key_of(stage.pod_of(RANKS[2])))
    await stage.until(
        lambda: (
            not {each["metadata"]["uid"] for rank in RANKS for each in stage.pods_of(rank)}
            & {*before.values()}
        ),
        "all go",
    )
    await stage.trains(*RANKS)
    assert (_groups(stage), _mark(stage)) == (1, None)
    await stage.tidy()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicas": 2}, "has 2 groups"),
        ({"exclusive": True}, "exclusive-topology"),
        ({"restartPolicy": "None"}, "restartPolicy: None"),
    ],
)
async def test_a_set_that_cannot_leave_and_come_as_one_is_observed_and_says_why(stage, spec, words):
    await stage.manage_and_lead()
    await stage.make("LeaderWorkerSet", "group", replicas=spec.get("replicas", 1))
    if "restartPolicy" in spec:
        body = {"spec": {"leaderWorkerTemplate": {"restartPolicy": spec["restartPolicy"]}}}
        await stage.patch_owner(LEAD, body)
    if "exclusive" in spec:
        key = "leaderworkerset.sigs.k8s.io/exclusive-topology"
        await stage.patch_owner(LEAD, {"metadata": {"annotations": {key: "kubernetes.io/hostname"}}})
    await stage.trains(*RANKS)
    before = _uids(stage)
    await stage.ask(LEAD, job=JOB)
    await stage.ended(LEAD)
    assert stage.state(LEAD) == "Refused"
    assert words in stage.move(LEAD)["message"], stage.move(LEAD)
    assert (_uids(stage), _mark(stage)) == (before, None)
