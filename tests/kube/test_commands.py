"""What a person types against a cluster: seen and asked for through the API server alone."""

import asyncio
import json
import tarfile

import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import (
    LEASES,
    MIGRATIONS,
    OWN_KINDS,
    PDBS,
    PODS,
)
from specon_manager.__main__ import kubectl
from specon_manager.cli.remote.cluster import ClusterRemote
from support.kube.cluster_stage import SYSTEM
from support.kube.terminal import Terminal

WHY = "the storage is serviced"
PAUSED = "specon.io/paused"


@pytest.fixture
def terminal(stage, tmp_path, capsys):
    return Terminal(stage.cluster, tmp_path, capsys)


async def never_disrupt(stage, name):
    """Let a PodDisruptionBudget stand against the eviction of that job's pods."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"job": name}}}
    await stage.cluster.machinery.create(PDBS, "training", {"metadata": {"name": name}, "spec": spec})
    pods = stage.cluster.pods()
    labels = {"metadata": {"labels": {"job": name}}}
    for pod in pods:
        if pod["metadata"]["name"].startswith(name):
            await stage.cluster.machinery.patch(PODS, ("training", pod["metadata"]["name"]), "merge", labels)
    await stage.cluster.settle()


async def test_top_shows_what_trains_where(stage, terminal):
    """Category, step, node and moves of each replica, in the order that is asked for; --namespace narrows."""
    await stage.manage_and_lead()
    replicas = [await stage.make("Job", name) for name in ("alpha", "beta")]
    await stage.trains(*replicas)
    top = await terminal.json("top", "--sort", "name", "--reverse")
    rows = {row["replica"]: row for row in top["replicas"]}
    assert list(rows) == sorted(replicas, reverse=True)
    for replica in replicas:
        assert rows[replica]["node"] == stage.node_of(replica)
        assert rows[replica]["step"] > 0
        assert (rows[replica]["phase"], rows[replica]["moves"]) == ("Running", 0)
    assert (top["manager"], top["paused"], top["caveats"], top["left_out"]) == ("cluster fake", None, [], 0)
    shown = await terminal("top", "--once")
    assert "alpha" in shown
    assert stage.node_of(replicas[0]) in shown
    assert (await terminal.json("top", "--namespace", "default"))["replicas"] == []
    assert (await terminal.json("top", "--limit", "1"))["left_out"] == 1


async def test_a_dry_run_says_what_would_happen_and_touches_nothing(stage, terminal):
    """The rules are those of the manager, on a state built from the API; a disruption budget counts too."""
    await stage.manage_and_lead()
    free, held = [await stage.make("StatefulSet", name) for name in ("free", "held")]
    await stage.trains(free, held)
    await never_disrupt(stage, "held")
    before = len(stage.cluster.server.requests)
    target = stage.other_node(free)
    answer = await terminal.json("migrate", free, "--to", target, "--dry-run")
    assert (answer["source"], answer["target"], answer["objection"]) == (stage.node_of(free), target, None)
    assert "default" in " ".join(answer["caveats"])
    answer = await terminal.json("migrate", "held", "-n", "training", "--dry-run", code=1)
    assert "cannot be evicted now" in answer["objection"]
    said = await terminal("migrate", free, "--to", stage.node_of(free), "--dry-run", code=1)
    assert f"it is on {stage.node_of(free)} already" in said
    said = await terminal("migrate", free, "--to", "nowhere", "--dry-run", code=1)
    assert "there is no node nowhere" in said
    assert stage.cluster.store.all(MIGRATIONS) == []
    asked = [path for method, path in stage.cluster.server.requests[before:] if method != "GET"]
    assert not [path for path in asked if "/migrations" in path]
    evictions = [path for path in asked if "/pods/" in path]
    assert len(evictions) == 2
    assert all(path.endswith("/eviction?dryRun=All") for path in evictions)


async def test_a_move_by_hand_is_waited_for_listed_and_explained(stage, terminal):
    """With --wait it ends with the move; moves and explain tell of it afterwards."""
    await stage.manage_and_lead()
    replica = await stage.make("Job", "train")
    await stage.trains(replica)
    source, target = stage.node_of(replica), stage.other_node(replica)
    answer = await terminal.json("migrate", "train", "--to", target, "--reason", WHY, "--wait")
    move = answer["move"]
    assert (move["state"], move["source"], move["target"]) == ("Succeeded", source, target)
    assert stage.node_of(replica) == target
    listed = (await terminal.json("moves"))["moves"]
    assert listed == [move]
    assert WHY in await terminal("moves")
    assert await terminal("moves", "--open") == "no moves at cluster fake\n"
    told = await terminal("explain", "train")
    assert f"{source} -> {target}, Succeeded: {WHY}" in told
    explained = await terminal.json("explain", "training/train")
    assert [row["id"] for row in explained["moves"]] == [move["id"]]
    assert any(remark["reason"] == "MoveOrdered" for remark in explained["remarks"])


async def test_a_refused_move_is_one_sentence_and_1(stage, terminal):
    """The manager's words, from the status of the Migration."""
    await stage.manage_and_lead()
    replica = await stage.make("Job", "train")
    await stage.trains(replica)
    assert await terminal("migrate", replica, "--to", stage.node_of(replica), code=1) == ""
    assert terminal.errors == f"specon: it is on {stage.node_of(replica)} already\n"
    await terminal("migrate", "nobody", code=2)
    assert terminal.errors == "specon: there is no job 'default/nobody'; there are training/train\n"


async def test_a_move_that_nobody_looks_at_is_said_so(stage, terminal, monkeypatch):
    """Without a leader the request stays, and the person is told."""
    manager = await stage.manage_and_lead()
    replica = await stage.make("Job", "train")
    await stage.trains(replica)
    await manager.stop()
    monkeypatch.setattr(ClusterRemote, "answer_seconds", 0.2)
    said = await terminal("migrate", "train")
    assert "no manager has looked at it yet" in said
    assert [row["state"] for row in (await terminal.json("moves"))["moves"]] == ["Asked"]
    assert "no manager leads at present: nothing is decided" in (await terminal.json("top"))["caveats"]


async def test_a_drain_moves_everything_that_can_be_moved_off_a_node(stage, terminal):
    """A dry run says which; afterwards none of them is there, and none was lost."""
    await stage.manage_and_lead()
    replicas = [await stage.make("StatefulSet", f"train-{number}") for number in range(6)]
    await stage.trains(*replicas)
    node = stage.node_of(replicas[0])
    there = sorted(replica for replica in replicas if stage.node_of(replica) == node)
    planned = await terminal.json("drain", node, "--dry-run")
    assert [row["replica"] for row in planned["would_move"]] == there
    assert (planned["cordoned"], planned["moves"]) == (False, [])
    assert stage.cluster.store.all(MIGRATIONS) == []
    drained = await terminal.json("drain", node, "--wait")
    assert sorted(row["replica"] for row in drained["moves"]) == there
    assert {row["state"] for row in drained["moves"]} == {"Succeeded"}
    assert not [replica for replica in replicas if stage.node_of(replica) == node]
    assert (await terminal("drain", node)).splitlines()[
        -2
    ] == f"{node}: 0 moves asked for, 0 done, 0 replicas stay"
    await terminal("drain", "nowhere", code=2)
    assert terminal.errors.startswith("specon: there is no node 'nowhere'; there are node-0, ")


async def test_a_drain_names_what_stays(stage, terminal):
    """What its owner forbids stays where it is."""
    await stage.manage_and_lead()
    replica = await stage.make("StatefulSet", "train")
    await stage.trains(replica)
    annotation = {"metadata": {"annotations": {"specon.io/migrate": "false"}}}
    await stage.cluster.machinery.patch(PODS, ("training", "train-0"), "merge", annotation)
    node = stage.node_of(replica)
    said = await terminal("drain", node, "--dry-run", code=1)
    assert f"{replica} stays: its owner forbids moves" in said


async def test_a_pause_is_obeyed_by_the_leader_and_by_the_next_one(stage, terminal):
    """The annotation of the Lease outlives leaders; moves in flight finish, and nothing new is begun."""
    first = await stage.manage_and_lead("first")
    flying, other = [await stage.make("Job", name) for name in ("flying", "other")]
    await stage.trains(flying, other)
    stage.brake(flying, "Restoring")
    await stage.braked(flying)
    said = await terminal("pause", "--reason", WHY)
    assert said.startswith("paused: cluster fake: ")
    assert "1 in flight" in said
    lease = stage.cluster.store.get(LEASES, (SYSTEM, "manager"))
    assert lease["metadata"]["annotations"][PAUSED] == WHY
    await stage.until(lambda: first.serves._pause == WHY, "the leader knows")
    await terminal("migrate", "other", code=1)
    assert terminal.errors == f"specon: the manager is paused: {WHY}\n"
    await stage.release(flying)
    await stage.ended(flying)
    assert stage.state(flying) == "Succeeded"
    await first.stop()
    await stage.manage_and_lead("second")
    await terminal("migrate", "other", code=1)
    assert terminal.errors == f"specon: the manager is paused: {WHY}\n"
    assert (await terminal.json("top"))["paused"] == {"reason": WHY, "since": None}
    assert f"paused: {WHY}" in await terminal("explain", "other")
    resumed = await terminal.json("resume")
    assert (resumed["paused"], resumed["moves_in_flight"]) == (False, 0)
    lease = stage.cluster.store.get(LEASES, (SYSTEM, "manager"))
    assert PAUSED not in (lease["metadata"].get("annotations") or {})
    await stage.until(lambda: stage.leader.serves._pause is None, "the leader knows")
    await terminal("migrate", "other", "--wait")


async def test_a_bundle_has_the_state_and_no_secrets(stage, terminal, tmp_path):
    """Objects, events, versions; nothing of an environment, no token, no key, whichever field it is in."""
    await stage.manage_and_lead()
    secret = "hunter2-hunter2-hunter2"
    env = {"containers": [{"name": "trainer", "image": "i", "env": [{"name": "X", "value": secret}]}]}
    replica = await stage.make("Pod", "bare")
    await stage.trains(replica)
    await stage.ask(replica)
    await stage.ended(replica)
    name = stage.cluster.store.all(MIGRATIONS)[0]["metadata"]["name"]
    manifest = {"status": {"manifest": json.dumps(env), "message": f"token={secret}"}}
    await stage.cluster.machinery.patch(
        MIGRATIONS, ("training", name), "merge", manifest, subresource="status"
    )
    path = tmp_path / "bundle.tar.gz"
    told = await terminal.json("support-bundle", "--out", str(path))
    assert {part["name"] for part in told["parts"]} >= {
        "events.json",
        "leases.json",
        "migrations.json",
        "nodes.json",
        "trainingprogresses.json",
        "versions.json",
    }
    with tarfile.open(path) as tar:
        contents = {one.name: tar.extractfile(one).read().decode() for one in tar.getmembers()}
    assert replica in contents["specon-support/trainingprogresses.json"]
    assert "BEGIN CERTIFICATE" not in "".join(contents.values())
    assert secret not in "".join(contents.values())
    assert path.stat().st_mode & 0o077 == 0
    await terminal.json("doctor")
    report = await terminal.json("report")
    assert report["helped"] is None
    assert any("only the journal" in each for each in report["unknown"])
    flags, terminal.flags = terminal.flags, ["--bundle", str(path)]
    top = await terminal.json("top")
    assert [row["replica"] for row in top["replicas"]] == [replica]
    diagnosis = await terminal.json("doctor", "training/bare")
    assert "versions" not in {each["kind"] for each in diagnosis["findings"]}
    assert "no-manager" not in {each["kind"] for each in diagnosis["findings"]}
    terminal.flags = flags
    await terminal("support-bundle", "--out", str(path), code=2)
    assert "File exists" in terminal.errors


async def test_a_cluster_without_the_product_is_one_sentence(tmp_path, capsys):
    """As kubectl plugin, where the current cluster is meant without a flag."""
    async with FakeCluster(nodes=1, without=OWN_KINDS) as cluster:
        terminal = Terminal(cluster, tmp_path, capsys, kubectl)
        await terminal("top", code=2)
    assert terminal.errors.startswith("specon: cluster fake: SpeCon is not installed there")
    assert "helm install" in terminal.errors
    assert terminal.errors.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "you may not do that"), (401, "does not accept your credentials"), (500, "no answer from")],
)
async def test_what_the_server_refuses_is_one_sentence(tmp_path, capsys, status, words):
    """What may not be done, who is not known and what broke each say what to do."""
    async with FakeCluster(nodes=1) as cluster:
        cluster.faults.answer(status, path="trainingprogresses", times=20)
        terminal = Terminal(cluster, tmp_path, capsys)
        await terminal("top", code=2)
    assert words in terminal.errors
    assert terminal.errors.count("\n") == 1


async def test_two_managers_are_told_apart_by_flags(stage, terminal):
    """A pause is for one manager: which, has to be said where there are two."""
    for namespace in ("specon", "training"):
        lease = {"metadata": {"name": "one", "labels": {"specon.io/lease": "manager"}}, "spec": {}}
        await stage.cluster.machinery.create(LEASES, namespace, lease)
    await terminal("pause", code=2)
    assert "there are several managers (specon/one, training/one)" in terminal.errors
    await terminal("pause", "--manager-namespace", "training")
    lease = stage.cluster.store.get(LEASES, ("training", "one"))
    assert lease["metadata"]["annotations"] == {PAUSED: ""}


async def test_explain_says_that_pods_train_as_one_and_why(stage, terminal):
    """From the records alone, before anything of it is moved."""
    await stage.manage_and_lead()
    await stage.make("Gang", "gang")
    await stage.trains("training/gang/worker/0", "training/gang/worker/3")
    told = ""

    async def explained():
        nonlocal told
        told = await terminal("explain", "gang")
        return "it trains as one" in told

    async with asyncio.timeout(20):
        while not await explained():  # noqa: ASYNC110  (it is written in the background)
            await asyncio.sleep(0.2)
    why = "its annotation specon.io/replicas says coupled"
    assert f"  it trains as one with the others, and moves with them: {why}" in told
