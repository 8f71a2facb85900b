"""Evictions by others: a drained node ends as empty as ever, and what trained there goes on elsewhere."""

import asyncio
import os
import time

import msgspec
import pytest

from fakekube.kinds import MIGRATIONS, NODES, PDBS
from specon_manager.backends.kube.interception.eviction import answer_eviction
from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.transport.api import ApiUnavailableError
from specon_manager.cli.act.drain_plan import judge_moves
from specon_manager.serving import cluster_term
from support.kube.cluster_stage import DECISIONS
from support.kube.eviction_stage import EvictionStage
from support.kube.permissions import all_asked, permitted
from support.packaging.helm import render

EVICTIONS = int(os.environ.get("SPECON_EVICTIONS", "12"))
"""At once; 100 take a minute and a half of a processor."""
ONE_AT_ONCE = msgspec.structs.replace(
    DECISIONS, budgets=msgspec.structs.replace(DECISIONS.budgets, moves_at_once=1)
)


@pytest.fixture
async def stage(tmp_path, nodes):
    async with EvictionStage(tmp_path, nodes=nodes) as made:
        yield made


@pytest.fixture
def nodes():
    return 4


async def placed(stage, *owners):
    """Make one of each owner, and return the replicas once they train."""
    replicas = [await stage.make(owner, f"train-{owner.lower()}") for owner in owners]
    await stage.trains(*replicas)
    return replicas


async def one_waits_for_another(stage):
    """Ask for two moves under a budget of one; return the manager, both replicas and the one that waits."""
    first = await stage.manage_and_lead("first", ONE_AT_ONCE)
    busy, waiting = await placed(stage, "StatefulSet", "Job")
    stage.brake(busy, "Checkpointing")
    await stage.ask(busy)
    await stage.until(lambda: stage.state(busy) == "Checkpointing", "the first one moves")
    key = "training", await stage.ask(waiting, target=stage.other_node(waiting))

    def message():
        return (stage.cluster.store.get(MIGRATIONS, key) or {}).get("status", {}).get("message", "")

    await stage.until(lambda: message().startswith("waits: "), "the second one waits")
    return first, busy, waiting, key


async def evicted_once(stage):
    """Evict a pod of a StatefulSet, whose next one has its name; return the replica and that name."""
    await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    name = stage.pod_of(replica)["metadata"]["name"]
    await stage.evict(name)
    await stage.no_moves_but(1)
    await stage.trains(replica)
    return replica, name


@pytest.mark.parametrize("how", ["drain", "scale_down"])
async def test_who_empties_a_node_moves_what_trains_there(stage, how):
    """`kubectl drain`, or the cluster autoscaler: neither is told anything of us."""
    await stage.manage_and_lead()
    replicas = await placed(stage, "StatefulSet", "Job")
    nodes = {stage.node_of(replica): replica for replica in replicas}
    for node in nodes:
        await getattr(stage, how)(node)
        assert not [pod for pod in stage.on_node(node) if "specon.io/sidecar" in pod["metadata"]["labels"]]
    await stage.wishes_ended()
    for wish in stage.wishes():
        status = wish["status"]
        assert (status["state"], status["purpose"]) == ("Succeeded", "leave"), status
        assert status["firstStep"] == status["checkpoint"]["step"] + 1
    assert {wish["status"]["replica"] for wish in stage.wishes()} >= set(replicas)
    await stage.tidy()


async def test_what_it_asks_the_server_for_is_what_its_role_permits(stage, monkeypatch):
    """All of it; and nothing is permitted for this that is not asked for."""
    monkeypatch.setenv("POD_NAME", "")
    await stage.manage_and_lead()
    await placed(stage, "StatefulSet")
    await stage.drain(stage.nodes[0])
    wanted = all_asked(stage.cluster.server.requests)
    names = {"specon-manager": "manager", "specon-certificates": "certificates"}
    without, roles = (
        permitted(render({"fullnameOverride": "specon", **values}, "--namespace=specon"), names)
        for values in ({}, {"interception": {"enabled": True}})
    )
    for role in roles - without:
        assert any(role.covers(one) for one in wanted), role


async def test_a_gang_moves_as_a_whole_however_many_of_it_are_evicted(stage):
    """Each of its pods on the node is evicted; all of it starts anew once."""
    await stage.manage_and_lead()
    (first,) = await placed(stage, "Gang")
    members = [f"{first[:-1]}{index}" for index in range(4)]
    await stage.trains(*members)
    node = stage.node_of(first)
    before = {member: stage.pod_of(member)["metadata"]["uid"] for member in members}
    await stage.drain(node)
    await stage.wishes_ended()
    await stage.trains(*members)
    assert node not in {stage.node_of(member) for member in members}
    assert all(stage.pod_of(member)["metadata"]["uid"] != before[member] for member in members)
    ended = [wish["status"]["state"] for wish in stage.wishes()]
    assert ended.count("Succeeded") == 1, ended
    await stage.tidy()


async def test_what_nothing_else_has_room_for_saves_and_may_go(stage):
    """Its owner creates the next one, which waits, and goes on from what was saved."""
    await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    node = stage.node_of(replica)
    for other in stage.nodes:
        await stage.cordon(other)
    await stage.until(lambda: len(stage.nodes) == 4, "all are cordoned")
    await stage.drain(node)
    await stage.wishes_ended()
    (wish,) = stage.wishes()
    assert (wish["status"]["state"], wish["status"]["purpose"]) == ("RolledBack", "yield")
    saved = stage.sidecars.saved[replica]
    await stage.cordon("node-1", on=False)
    await stage.trains(replica, beyond=saved)
    assert stage.sidecars.first[stage.pod_of(replica)["metadata"]["uid"]] == saved + 1
    assert any("it may go" in note for note in stage.notes("train-statefulset-0"))


async def test_a_dry_run_changes_nothing_and_is_not_asked_to_come_again(stage):
    """The address says it, or the Eviction itself, which the review does not show."""
    await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    pod = stage.pod_of(replica)
    name = pod["metadata"]["name"]
    assert (await stage.evict(name, query="?dryRun=All"))[0] == 201
    assert (await stage.evict(name, dryRun=["All"]))[0] == 201
    assert stage.wishes() == []
    assert stage.pod_of(replica)["metadata"] == pod["metadata"]
    assert any("would be moved" in warning for warning in stage.cluster.webhooks.warnings)


async def test_the_answer_is_one_that_the_descheduler_knows_and_client_go_does_not_wait_upon(stage):
    """429 with its words and without Retry-After; its annotations are there before and while it is moved."""
    await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    stage.brake(replica, "Checkpointing")
    name = stage.pod_of(replica)["metadata"]["name"]
    annotated = stage.pod_of(replica)["metadata"]["annotations"]
    assert "descheduler.alpha.kubernetes.io/request-evict-only" in annotated
    status, message, headers = await stage.evict(name)
    assert (status, "Retry-After" in headers) == (429, False)
    assert "Eviction triggered evacuation" in message
    mark = "descheduler.alpha.kubernetes.io/eviction-in-progress"
    await stage.until(lambda: mark in stage.pod_of(replica)["metadata"]["annotations"], "it is marked")
    assert len(stage.wishes()) == 1
    await stage.evict(name)
    assert len(stage.wishes()) == 1
    await stage.release(replica)
    await stage.no_moves_but(1)
    await stage.trains(replica)
    assert mark not in stage.pod_of(replica)["metadata"]["annotations"]


async def test_the_next_pod_of_the_name_is_not_evicted_by_who_meant_the_former_one(stage):
    """`kubectl drain` asks again by the name, which a StatefulSet gives to the next pod."""
    replica, name = await evicted_once(stage)
    moved = stage.pod_of(replica)
    status, message, _ = await stage.evict(name)
    assert (status, "not found" in message) == (404, True)
    assert stage.pod_of(replica)["metadata"]["uid"] == moved["metadata"]["uid"]
    # A caller that names this pod by its UID, or empties its node, does not mean the former one.
    status, _, _ = await stage.evict(name, preconditions={"uid": moved["metadata"]["uid"]})
    assert status == 429


async def test_the_next_pod_of_the_name_is_moved_off_a_node_that_gets_a_taint_against_it(stage):
    """The descheduler evicts by that: it means the pod that is there, though it does not cordon the node."""
    replica, name = await evicted_once(stage)
    node = stage.node_of(replica)
    taint = {"key": "example.com/emptied", "effect": "NoSchedule"}
    await stage.cluster.machinery.patch(NODES, ("", node), "merge", {"spec": {"taints": [taint]}})
    desk = stage.leader.serves._desk
    pod = desk.cache.pod("training", name)
    await stage.until(lambda: desk.cache.is_driven_out(pod), "the taint is known")
    assert (await stage.evict(name))[0] == 429
    await stage.no_moves_but(2)
    await stage.trains(replica)
    assert stage.node_of(replica) != node


async def test_what_cannot_be_moved_passes_at_once_with_the_reason(stage):
    """Its owner says so, or the leader does, which is waited for a moment."""
    await stage.manage_and_lead()
    replicas = await placed(stage, "StatefulSet", "Pod")
    names = [stage.pod_of(replica)["metadata"]["name"] for replica in replicas]
    for name, key in zip(names, ("migrate", "recreate"), strict=True):
        await stage.patch_pod(name, {"metadata": {"annotations": {f"specon.io/{key}": "false"}}})
        status, _, _ = await stage.evict(name)
        assert status == 201
    (refused,) = stage.wishes()
    assert refused["status"]["state"] == "Refused"
    for name, why in zip(names, ("does not allow a move", "recreate"), strict=True):
        await stage.until(lambda n=name, w=why: any(w in note for note in stage.notes(n)), f"{why} is told")


async def test_a_budget_that_forbids_it_answers_for_itself(stage):
    """Words and cause are those of the API server, and no move is asked for."""
    await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    await stage.never_disrupt({"job": "train-statefulset"})
    status, message, _ = await stage.evict(stage.pod_of(replica)["metadata"]["name"])
    assert (status, stage.wishes()) == (429, [])
    assert "Cannot evict pod as it would violate the pod's disruption budget." in message
    assert "no manager leads" not in message
    desk = stage.leader.serves._desk
    found = answer_eviction("1", await desk.answer(stage.eviction_of(replica)))["response"]["status"]
    assert [cause["reason"] for cause in found["details"]["causes"]] == ["DisruptionBudget"]
    assert found["message"].startswith("Cannot evict pod as it would violate")


async def test_a_pod_of_two_budgets_is_refused_as_the_api_server_does(stage):
    """500 with its words: nobody is to wait for that."""
    await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    await stage.never_disrupt({"job": "train-statefulset"})
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"job": "train-statefulset"}}}
    await stage.cluster.machinery.create(PDBS, "training", {"metadata": {"name": "two"}, "spec": spec})
    status, message, _ = await stage.evict(stage.pod_of(replica)["metadata"]["name"])
    assert (status, stage.wishes()) == (500, [])
    assert "This pod has more than one PodDisruptionBudget" in message


@pytest.mark.parametrize("budgets", [1, 2])
async def test_a_budget_that_is_deleted_right_after_our_look_lets_nobody_go_without_a_checkpoint(
    stage, monkeypatch, budgets
):
    """The API server would ask its budgets after us, and find none: so our answer is what it said to us."""
    manager = await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    await stage.never_disrupt({"job": "train-statefulset"})
    if budgets == 2:
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"job": "train-statefulset"}}}
        await stage.cluster.machinery.create(PDBS, "training", {"metadata": {"name": "two"}, "spec": spec})
    desk = manager.serves._desk
    asked = stage.cluster.webhooks._post

    async def deleted_after(hook, request):
        told = await asked(hook, request)
        for budget in () if request.get("dryRun") else stage.cluster.store.all(PDBS):
            await stage.cluster.machinery.delete(PDBS, ("training", budget["metadata"]["name"]))
        return told

    name, uid = stage.pod_of(replica)["metadata"]["name"], stage.pod_of(replica)["metadata"]["uid"]
    with monkeypatch.context() as late:
        late.setattr(stage.cluster.webhooks, "_post", deleted_after)
        status, message, _ = await stage.evict(name)
    assert (status, "Budget" in message or "budget" in message) == (429 if budgets == 1 else 500, True)
    assert stage.cluster.store.all(PDBS) == []
    assert stage.pod_of(replica)["metadata"]["uid"] == uid
    await stage.until(lambda: not desk.cache.budgets("training"), "it is known that there is no budget")
    assert (await stage.evict(name))[0] == 429
    await stage.no_moves_but(1)


async def test_a_budget_of_a_moment_ago_lets_nobody_go_without_a_checkpoint(stage, monkeypatch):
    """The API server asks the budget after us, and may know better: so it is asked by a dry run."""
    manager = await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    desk = manager.serves._desk
    forbids = {
        "metadata": {"name": "keep", "uid": "k", "generation": 1},
        "spec": {"selector": {"matchLabels": {"job": "train-statefulset"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 0},
    }
    monkeypatch.setattr(desk.cache, "budgets", lambda _: [forbids])
    assert (await desk.answer(stage.eviction_of(replica))).verdict == "wait"
    assert len(stage.wishes()) == 1
    await stage.no_moves_but(1)


async def test_a_budget_that_is_not_told_lets_nobody_go_without_a_checkpoint(stage, monkeypatch):
    """It may have room by now."""
    manager = await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    await stage.never_disrupt({"job": "train-statefulset"})
    desk = manager.serves._desk
    await stage.until(lambda: desk.cache.budgets("training"), "the budget is known")

    async def untold(*_, **__):
        raise ApiUnavailableError("nobody answers")

    with monkeypatch.context() as trouble:
        trouble.setattr(desk._api, "evict", untold)
        assert (await desk.answer(stage.eviction_of(replica))).verdict == "wait"
    assert len(stage.wishes()) == 1


async def test_nobody_is_kept_for_longer_than_the_patience(stage):
    """However stuck its move is: the eviction passes then, with a warning."""
    manager = await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    stage.brake(replica, "Checkpointing")
    name = stage.pod_of(replica)["metadata"]["name"]
    assert (await stage.evict(name))[0] == 429
    # Only now: the API server writes whole seconds, so that a short patience may be over at the first answer.
    manager.serves._desk._settings = type(stage.interception)(enabled=True, patience=1.0)
    await stage.until_passes(name)
    await stage.until(lambda: any("is not over after" in note for note in stage.notes(name)), "it is told")
    await stage.release_all()


async def test_a_manager_that_stands_by_answers_too_and_its_wish_outlives_the_leader(stage):
    """The wish is written before the answer, wherever the API server asks."""
    first = await stage.manage_and_lead("first")
    second = await stage.manage("second")
    (replica,) = await placed(stage, "StatefulSet")
    await stage.until(lambda: second.serves._desk.ready, "it knows what there is")
    stage.brake(replica, "Reserved")
    eviction = stage.eviction_of(replica)
    assert (await second.serves._desk.answer(eviction)).verdict == "wait"
    await first.stop()
    await stage.until(lambda: stage.leader is second, "it leads")
    await stage.release_all()
    node = stage.pod_of(replica)["spec"]["nodeName"]
    await stage.until(lambda: stage.wishes()[0].get("status", {}).get("state") == "Succeeded", "moved")
    assert stage.node_of(replica) != node


async def test_nobody_goes_unsaved_while_the_managers_are_upgraded(stage):
    """An old one ends once a new one says that it is ready; each is asked all the while that it is there."""
    old = [await stage.manage_and_lead("first"), await stage.manage("second")]
    (replica,) = await placed(stage, "StatefulSet")
    stage.brake(replica, "Checkpointing")
    eviction, verdicts = stage.eviction_of(replica), []
    assert (await stage.evict(eviction.name))[0] == 429

    async def evicts():
        while True:
            for one in [each for each in stage.managers if each.alive and each.serves._is_ready()]:
                answer = await one.serves._desk.answer(eviction)
                verdicts.append(answer.verdict)
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        drain = group.create_task(evicts())
        for number, one in enumerate(old):
            new = await stage.manage(f"new-{number}")
            await stage.until(new.serves._is_ready, "it is ready")
            await one.leave()
        await stage.until(lambda: stage.leader in stage.managers[2:], "a new one leads")
        drain.cancel()
    assert set(verdicts) == {"wait"}
    await stage.release_all()
    await stage.no_moves_but(1)
    await stage.tidy()


async def test_what_waits_for_its_turn_to_move_waits_for_the_next_leader_too(stage):
    """A budget lets one leave after the other, and the leader ends meanwhile: nobody is refused by that."""
    first = await stage.manage_and_lead("first", ONE_AT_ONCE)
    replicas = await placed(stage, "StatefulSet", "Job")
    names = [stage.pod_of(replica)["metadata"]["name"] for replica in replicas]
    stage.brake(replicas[0], "Checkpointing")

    def messages():
        return [wish.get("status", {}).get("message", "") for wish in stage.wishes()]

    await stage.evict(names[0])
    await stage.until(lambda: stage.state(replicas[0]) == "Checkpointing", "the first one moves")
    await stage.evict(names[1])
    await stage.until(lambda: any(each.startswith("waits: ") for each in messages()), "the second one waits")
    second = await stage.manage("second", ONE_AT_ONCE)
    await first.stop()
    await stage.until(second.has_taken_over, "the next one leads")
    await asyncio.sleep(0.5)
    assert (await stage.evict(names[1]))[0] == 429, messages()
    await stage.release(replicas[0])
    await stage.no_moves_but(2)
    await stage.trains(*replicas)
    await stage.tidy()


async def test_a_migration_made_again_while_nobody_leads_moves_to_its_new_target(stage):
    """It waited under the leader that ended: the next one has read both, and moves to the node named last."""
    first, busy, waiting, key = await one_waits_for_another(stage)
    former = stage.cluster.store.get(MIGRATIONS, key)["spec"]["target"]
    (new, *_) = (node for node in stage.nodes if node not in (former, stage.node_of(waiting)))
    await first.stop()
    await stage.cluster.machinery.delete(MIGRATIONS, key)
    await stage.ask(waiting, target=new, name=key[1])
    second = await stage.manage("second", ONE_AT_ONCE)
    await stage.until(second.has_taken_over, "the next one leads")
    await stage.release(busy)
    await stage.ended(busy, waiting)
    await stage.trains(busy, waiting)
    assert stage.node_of(waiting) == new, stage.tale()
    await stage.tidy()


async def test_a_migration_deleted_while_the_next_leader_begins_moves_nothing(stage, monkeypatch):
    """The next leader had read it as one that waits."""
    first, busy, waiting, key = await one_waits_for_another(stage)
    here = stage.node_of(waiting)
    begun, go_on, genuine = asyncio.Event(), asyncio.Event(), cluster_term._await_begin

    async def begin_late(controller):
        await genuine(controller)
        begun.set()
        await go_on.wait()

    monkeypatch.setattr(cluster_term, "_await_begin", begin_late)
    second = await stage.manage("second", ONE_AT_ONCE)
    migrations = second.serves._migrations
    await stage.until(migrations.synced.is_set, "it follows the Migrations")
    await first.stop()
    await asyncio.wait_for(begun.wait(), 60)
    await stage.cluster.machinery.delete(MIGRATIONS, key)
    name = Name(*key)
    await stage.until(lambda: all(each.name != name for each in migrations._ours()), "it knows of the end")
    go_on.set()
    await stage.until(second.has_taken_over, "the next one leads")
    await asyncio.sleep(0.5)
    await stage.release(busy)
    await stage.ended(busy)
    await stage.trains(busy, waiting)
    assert (stage.node_of(waiting), stage.cluster.store.get(MIGRATIONS, key)) == (here, None), stage.tale()
    await stage.tidy()


async def test_a_wish_that_cannot_be_written_puts_the_eviction_off_for_a_minute(stage, monkeypatch):
    """Nothing is lost by a moment of trouble, and nobody is kept by a longer one."""
    manager = await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    desk = manager.serves._desk

    async def unwritten(*_):
        return False

    with monkeypatch.context() as trouble:
        trouble.setattr(desk, "_write", unwritten)
        first = await desk.answer(stage.eviction_of(replica))
        assert (first.verdict, stage.wishes()) == ("wait", [])
        trouble.setattr(desk, "_monotonic", lambda: time.monotonic() + 61)
        assert (await desk.answer(stage.eviction_of(replica))).verdict == "pass"
    assert (await desk.answer(stage.eviction_of(replica))).verdict == "wait"
    assert len(stage.wishes()) == 1
    await stage.no_moves_but(1)


async def test_where_nobody_leads_everything_passes(stage):
    """A manager that is away is in nobody's way."""
    leader = await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    leader.serves._desk._led = lambda: False
    status, _, _ = await stage.evict(stage.pod_of(replica)["metadata"]["name"])
    assert (status, stage.wishes()) == (201, [])


async def test_a_made_up_review_moves_within_budgets_and_evicts_nothing(stage):
    """Anyone who reaches the port may send one: its result is a move from a checkpoint, once."""
    manager = await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    for _ in range(5):
        await manager.serves._desk.answer(stage.eviction_of(replica))
    await stage.no_moves_but(1)
    (wish,) = stage.wishes()
    assert wish["status"]["firstStep"] == wish["status"]["checkpoint"]["step"] + 1
    await stage.tidy()


async def test_kubectl_drain_and_specon_drain_end_in_the_same_way(stage):
    """One predicate says what leaves and what stays; what has room nowhere aside."""
    await stage.manage_and_lead()
    replicas = await placed(stage, "StatefulSet", "Job", "Pod", "Indexed")
    node = stage.node_of(replicas[0])
    others = [other for other in stage.nodes if other != node]
    for replica in replicas[1:]:  # all of them on one node
        await stage.cordon_all_but(node)
        if stage.node_of(replica) != node:
            await stage.ask(replica, node)
            await stage.ended(replica)
    for other in others:
        await stage.cordon(other, on=False)
    await stage.patch_pod("train-pod", {"metadata": {"annotations": {"specon.io/migrate": "false"}}})
    controller = stage.leader.serves._server.controller
    plan = judge_moves(controller.state, node, (), controller.clock.now())
    await stage.drain(node)

    def moved():
        ended = [wish["status"] for wish in stage.wishes() if wish["status"].get("state") == "Succeeded"]
        return {status["replica"] for status in ended}

    await stage.until(
        lambda: moved() == {each.subject for each in plan.leavers}, f"as planned: {plan.leavers}"
    )
    await stage.no_moves()
    assert set(plan.stay) == {replicas[2]}


async def test_the_leader_is_the_last_to_leave_its_node(stage, monkeypatch):
    """It moves what is there; then, or after its patience, its own eviction passes."""
    monkeypatch.setenv("POD_NAME", "manager-pod")
    await stage.manage_and_lead()
    (replica,) = await placed(stage, "StatefulSet")
    node = stage.node_of(replica)
    await stage.place_manager("manager-pod", node)
    stage.leader.serves._desk._leader._leader = lambda: "manager-pod"
    await stage.cordon(node)
    stage.brake(replica, "Checkpointing")
    status, message, _ = await stage.evict("manager-pod", "specon")
    assert (status, "leads" in message) == (429, True)
    assert (await stage.evict("manager-pod", "specon", dryRun=["All"]))[0] == 201
    await stage.evict(stage.pod_of(replica)["metadata"]["name"])
    assert (await stage.evict("manager-pod", "specon"))[0] == 429
    await stage.release(replica)
    await stage.no_moves_but(1)
    await stage.until_passes("manager-pod", "specon")
    await stage.trains(replica)


async def test_a_hundred_evictions_at_once_are_a_hundred_moves(stage):
    """Every caller has its answer within the webhook's time, and nothing is moved twice."""
    await stage.manage_and_lead()
    replicas = [await stage.make("StatefulSet", f"many-{number}") for number in range(EVICTIONS)]
    await stage.trains(*replicas)
    names = [stage.pod_of(replica)["metadata"]["name"] for replica in replicas]
    answers = await asyncio.gather(*(stage.evict(name) for name in names))
    assert {status for status, _, _ in answers} <= {429, 201}
    assert len(stage.wishes()) == EVICTIONS
    await stage.no_moves_but(EVICTIONS)
    assert {
        wish["status"]["firstStep"] - wish["status"]["checkpoint"]["step"] for wish in stage.wishes()
    } == {1}
    await stage.tidy()


async def test_what_trains_on_a_cordoned_node_leaves_before_anybody_evicts_it(stage):
    """Where a cordon is to be heeded; the drain that follows finds nothing to wait for."""
    await stage.manage_and_lead("first", msgspec.structs.replace(DECISIONS, warnings=("cordon",)))
    (replica,) = await placed(stage, "StatefulSet")
    node = stage.node_of(replica)
    await stage.cordon(node)
    await stage.until(
        lambda: stage.pods_of(replica) and stage.node_of(replica) not in {node, ""}, "it leaves"
    )
    await stage.trains(replica)
    await stage.drain(node)
    assert stage.wishes() == []
    await stage.ended(replica)
    assert (stage.move(replica)["policy"], stage.state(replica)) == ("early-warning", "Succeeded")
    await stage.tidy()
