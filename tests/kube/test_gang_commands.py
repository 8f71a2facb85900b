"""What a person types to move a gang of a cluster: one Migration that names the job, one line for all."""

import pytest

from fakekube.kinds import MIGRATIONS
from support.kube.terminal import Terminal

JOB = "training/gang"
RANKS = [f"{JOB}/worker/{index}" for index in range(4)]


@pytest.fixture
def terminal(stage, tmp_path, capsys):
    return Terminal(stage.cluster, tmp_path, capsys)


async def _gang(stage):
    await stage.manage_and_lead()
    await stage.make("Gang", "gang")
    await stage.trains(*RANKS)
    await stage.add_node("node-9")


def _nodes(stage):
    return [stage.node_of(rank) for rank in RANKS]


async def test_a_gang_is_moved_by_the_name_of_its_job(stage, terminal):
    """Tried first, waited for, then listed and explained as one move of all of it."""
    await _gang(stage)
    before = _nodes(stage)
    tried = await terminal.json("migrate", JOB, "--to", "node-9", "--dry-run")
    assert (tried["job"], tried["replica"], tried["objection"]) == (JOB, None, None)
    assert tried["placement"] == dict.fromkeys(RANKS, "node-9")
    assert stage.cluster.store.all(MIGRATIONS) == []
    assert f"{JOB} could be moved as a whole now: " in await terminal("explain", JOB)
    moved = await terminal.json("migrate", JOB, "--to", "node-9", "--reason", "rack 9", "--wait")
    assert (moved["replica"], moved["move"]["state"]) == (None, "Succeeded")
    (asked,) = stage.cluster.store.all(MIGRATIONS)
    assert asked["spec"] == {"job": JOB, "targets": ["node-9"], "reason": "rack 9"}
    assert _nodes(stage) == ["node-9"] * 4
    (row,) = (await terminal.json("moves"))["moves"]
    assert (row["id"], row["job"], row["replica"]) == (moved["move"]["id"], JOB, None)
    sides = ", ".join(dict.fromkeys(before))
    assert row["what"] == f"all 4 replicas: {sides} -> node-9"
    assert row["ways"] == [
        {"replica": rank, "source": node, "target": "node-9"}
        for rank, node in zip(RANKS, before, strict=True)
    ]
    assert (row["killed"], row["downtime_seconds"] > 0) == (0, True)
    assert f"all 4 replicas: {sides} -> node-9, Succeeded: rack 9" in await terminal("explain", JOB)
    assert (await terminal.json("changes"))["changes"] == []


async def test_one_rank_is_answered_as_all_of_it(stage, terminal):
    """It says so once the manager has looked at it."""
    await _gang(stage)
    said = await terminal("migrate", RANKS[2], "--to", "node-9", "--wait")
    assert said.splitlines()[0] == f"{RANKS[2]} trains as one with the rest of {JOB}: the whole job moves"
    assert _nodes(stage)[2] == "node-9"
    assert _nodes(stage).count("node-9") == 1


async def test_a_drain_takes_what_is_there_of_a_gang(stage, terminal):
    """In one move; the ranks on other nodes stay on theirs."""
    await _gang(stage)
    node, before = _nodes(stage)[0], _nodes(stage)
    planned = await terminal.json("drain", node, "--dry-run")
    assert [(row["job"], row["replica"]) for row in planned["would_move"]] == [(JOB, None)]
    drained = await terminal.json("drain", node, "--wait")
    assert [row["state"] for row in drained["moves"]] == ["Succeeded"]
    after = _nodes(stage)
    assert node not in after
    assert [new for new, old in zip(after, before, strict=True) if old != node] == [
        old for old in before if old != node
    ]


async def test_a_refused_gang_is_one_sentence(stage, terminal):
    """The manager's words, from the status of the Migration."""
    await _gang(stage)
    await terminal("migrate", JOB, "--to", "nowhere", code=1)
    assert terminal.errors.startswith(
        "specon: no room for all 4 replicas on nowhere: node nowhere is unknown"
    )
    (row,) = (await terminal.json("moves"))["moves"]
    assert (row["job"], row["replica"], row["state"]) == (JOB, None, "Refused")


async def test_a_queued_request_for_one_rank_is_told_as_one_for_all(stage, terminal):
    """A drain would take it for its own; of what leaves the node anyway it asks for nothing."""
    await _gang(stage)
    stage.sidecars.slow |= set(RANKS)
    await terminal("migrate", JOB, "--to", "node-9")
    await terminal("migrate", RANKS[0])
    rows = (await terminal.json("moves", "--open"))["moves"]
    assert [(row["replica"], row["job"]) for row in rows] == [(None, JOB)] * 2
    assert [row["state"] for row in rows][1] == "Queued"
    assert rows[1]["what"].startswith("all 4 replicas: ")
    drained = await terminal.json("drain", _nodes(stage)[0], "--dry-run")
    assert drained["would_move"] == []
    assert drained["leaving"]
    stage.sidecars.slow.clear()
