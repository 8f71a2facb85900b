"""`specon drain` and requests that wait: each move is asked for once, and begins when it may."""

import json

import msgspec
import pytest

from specon_manager.cli.act import drain, following, migrate
from specon_manager.cli.command_parser import make_parser
from specon_manager.model import events as ev
from specon_manager.model.cluster import JobSpec
from specon_manager.model.settings import Budgets
from support.decisions.cluster import SETTINGS, Cluster, replica_of
from support.runtime.remote_cluster import RemoteCluster

ONE = msgspec.structs.replace(
    SETTINGS, policy="fifo", budgets=Budgets(moves_at_once=1, moves_at_once_per_node=1)
)


@pytest.fixture
def remote(monkeypatch):
    """Let two jobs run on a node, of a manager that moves one at a time; commands do not sleep."""
    monkeypatch.setattr(following, "_LOOK_SECONDS", 0)
    cluster = Cluster(nodes=2, cpus=4.0, settings=ONE)
    for job in "ab":
        cluster.post(ev.JobSubmitted(JobSpec(name=f"default/{job}", replicas=(replica_of(job),))))
    cluster.settle()
    remote = RemoteCluster(cluster)
    remote.train(step=10)
    return remote


def there(remote, node):
    return sorted(name for name, live in remote.cluster.live.items() if live.node == node)


async def run(command, remote, *words):
    arguments = make_parser(chosen=command.__name__.rpartition(".")[2]).parse_args(
        [command.__name__.rpartition(".")[2], *words]
    )
    if command is migrate:
        return await (migrate._cancel if arguments.cancel else migrate._move)(remote, arguments)
    return await drain._main(remote, arguments)


async def test_a_drain_asks_for_each_replica_once(remote, capsys):
    """However long the others take: what budgets do not let move at once waits, and is not asked again."""
    leaving = there(remote, "node-0")
    assert len(leaving) == 2
    remote.idle_looks = 4
    assert await run(drain, remote, "node-0", "--wait", "-o", "json") == 0
    drained = json.loads(capsys.readouterr().out)
    assert sorted(remote.asked) == leaving
    assert {row["state"] for row in drained["moves"]} == {"Succeeded"}
    assert (drained["waiting"], drained["stay"], there(remote, "node-0")) == ([], [], [])
    assert remote.looks >= 6


async def test_a_drain_that_does_not_wait_leaves_its_requests_queued(remote, capsys):
    """They begin without it, and another drain takes them for its own."""
    leaving = there(remote, "node-0")
    assert await run(drain, remote, "node-0", "-o", "json") == 0
    drained = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in drained["moves"]] == ["Proposed", "Queued"]
    assert drained["waiting"] == leaving[1:]
    assert drained["moves"][1]["awaited"] == "1 move is in flight, which is the cluster's budget"
    assert await run(drain, remote, "node-0", "--wait") == 0
    assert sorted(remote.asked) == leaving
    assert there(remote, "node-0") == []


async def test_a_drain_names_what_stays_and_why(remote, capsys):
    """What its owner forbids is not asked for; what is refused when its turn comes is told as such."""
    cluster, (first, second) = remote.cluster, there(remote, "node-0")
    job = cluster.state.jobs[cluster.state.replicas[first].job]
    spec = msgspec.structs.replace(job.spec, migratable=False)
    cluster.state = cluster.state.with_job(msgspec.structs.replace(job, spec=spec))
    assert await run(drain, remote, "node-0", "--wait") == 1
    said = capsys.readouterr().out
    assert f"{first} stays: its owner forbids moves" in said
    assert remote.asked == [second]


async def test_a_dry_run_of_a_drain_asks_for_nothing(remote, capsys):
    """It names all, though budgets let one move at a time."""
    assert await run(drain, remote, "node-0", "--dry-run", "-o", "json") == 0
    drained = json.loads(capsys.readouterr().out)
    assert [row["replica"] for row in drained["would_move"]] == there(remote, "node-0")
    assert {row["what"] for row in drained["would_move"]} == {"node-0 -> node-1"}
    assert remote.asked == []


async def test_a_request_that_waits_can_be_withdrawn(remote, capsys):
    """Then the replica stays, and the history says that nothing came of it."""
    first, second = there(remote, "node-0")
    assert await run(migrate, remote, first) == 0
    assert await run(migrate, remote, second) == 0
    said = capsys.readouterr().out
    assert "request-1" in said
    assert "waits: 1 move is in flight" in said
    assert "specon migrate --cancel request-1 withdraws it" in said
    assert await run(migrate, remote, "--cancel", "request-1") == 0
    assert f"request-1 is withdrawn: {second} stays where it is" in capsys.readouterr().out
    assert remote.cluster.state.requests == {}
    (over,) = remote.cluster.state.history
    assert (over.state, over.note) == ("Refused", "it was withdrawn before it began")


async def test_a_record_that_is_gone_does_not_end_a_drain(remote, monkeypatch, capsys):
    """Somebody may delete one Migration of fifty: it is said, and the others go on."""
    first, second = there(remote, "node-0")
    known = remote.moves

    async def without_one(names):
        return {name: row for name, row in (await known(names)).items() if row.replica != second}

    monkeypatch.setattr(remote, "moves", without_one)
    assert await run(drain, remote, "node-0", "--wait", "-o", "json") == 1
    drained = json.loads(capsys.readouterr().out)
    assert drained["stay"] == [{"replica": second, "why": following.GONE}]
    assert [(row["replica"], row["state"]) for row in drained["moves"]] == [(first, "Succeeded")]
