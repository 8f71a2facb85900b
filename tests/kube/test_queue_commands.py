"""What a person sees of queues and changes of a cluster: its TrainingJobs and TrainingQueues, as written."""

import asyncio
import json
import time

import pytest

from fakekube.cluster import FakeCluster
from fakekube.kinds import TRAINING_JOBS, TRAINING_PROGRESSES, TRAINING_QUEUES
from specon_manager.__main__ import kubectl
from specon_manager.core.waiting import list_waits
from specon_manager.model.transactions import Kind, TransactionState, Witness
from support.decisions.changed_jobs import change, elastic, ended, nodes
from support.decisions.gangs import on, server, with_gang, worker
from support.kube.custom_resources import progress_of, training_job_of

QUEUE = {"quota": {"cpu": "2", "memory": "1Gi"}, "borrow": False}
USE = {"running": 1, "waiting": 1, "use": {"cpu": "3", "memory": "0", "gpu": "0"}}
OWNED = {"placed_by": "owner", "held": True, "queue": "team"}


def trained(now):
    """Return a state in which a job is being scaled, was before, and another one waits."""
    placed = on("node-0", server("e"), worker("e", 0), worker("e", 1))
    state = with_gang(nodes(), elastic(**OWNED), placed, admitted=True, submitted_at=now - 900)
    state = with_gang(state, elastic("w", cpu=9.0, **OWNED), {}, submitted_at=now - 400, queued_at=now - 400)
    lead = state.replicas[worker("e")]
    asked = Witness(incarnation=lead.incarnation)
    state = state.with_transaction(
        change(proposed_at=now - 20, deadline=now + 60, id="change-8", witness=asked)
    )
    over = ended(
        7, Kind.SCALE_IN, state=TransactionState.ROLLED_BACK, proposed_at=now - 300, ended_at=now - 200
    )
    return state, over


async def put(cluster, kind, item):
    """Create an object with its status."""
    namespace = item["metadata"].get("namespace", "")
    metadata = {
        key: item["metadata"][key] for key in ("name", "namespace", "labels") if key in item["metadata"]
    }
    made = await cluster.machinery.create(kind, namespace, {"metadata": metadata, "spec": item["spec"]})
    cluster.store.put(kind, {**made, "status": item["status"]})


@pytest.fixture
async def shown(tmp_path, capsys):
    """Return what commands print of a cluster in which the manager wrote all that down."""
    now = time.time()
    state, over = trained(now)
    waits = list_waits(state, now)
    async with FakeCluster(nodes=2) as cluster:
        for job in state.jobs.values():
            history = [over] if job.name == over.job else []
            item = training_job_of(job, state, now=now, history=history, waiting=waits.get(job.name))
            await put(cluster, TRAINING_JOBS, item)
        for replica in state.replicas.values():
            if replica.active:
                await put(cluster, TRAINING_PROGRESSES, progress_of(replica, now=now))
        await put(cluster, TRAINING_QUEUES, {"metadata": {"name": "team"}, "spec": QUEUE, "status": USE})

        async def run(*arguments):
            flags = ["--kubeconfig", str(cluster.kubeconfig(tmp_path / "kubeconfig"))]
            assert await asyncio.to_thread(kubectl, [*arguments, *flags]) == 0
            return capsys.readouterr().out

        run.cluster = cluster
        yield run


async def test_queues_and_who_waits_are_shown_as_the_manager_wrote_them(shown):
    """Quota and use of the TrainingQueue, position and reason of the TrainingJob."""
    found = json.loads(await shown("queue", "--output", "json"))
    (queue,) = found["queues"]
    assert (queue["queue"], queue["quota"]["cpu"], queue["used"]["cpu"]) == ("team", 2, 3)
    assert (queue["borrow"], queue["borrowed"]["cpu"]) == (False, 1)
    assert (queue["running"], queue["waiting"]) == (1, 1)
    (waiting,) = found["waiting"]
    assert (waiting["job"], waiting["position"], waiting["overall"]) == ("default/w", 1, 1)
    assert "9 CPU" in waiting["text"]
    assert "3 CPU" in await shown("queue")


async def test_changes_are_those_of_the_training_jobs(shown):
    """The one in flight with what it waits for, and the one that ended last."""
    found = json.loads(await shown("changes", "--output", "json"))["changes"]
    assert [(row["id"], row["state"]) for row in found] == [
        ("change-7", "RolledBack"),
        ("change-8", "Checkpointing"),
    ]
    assert (found[1]["workers_before"], found[1]["workers_after"]) == (2, 3)
    assert found[1]["awaited"].startswith("a verified checkpoint of default/e/worker/0")


async def test_a_waiting_job_without_a_pod_is_explained(shown):
    """It is known from its TrainingJob alone; what cannot be forecast is said to be that."""
    said = await shown("explain", "w")
    assert "w waits at position 1 of queue team, 1 of all, since " in said
    assert "9 CPU" in said
    assert "it may start" in said
    said = await shown("explain", "e", "--no-forecast")
    assert "change-8 scale-out 2 -> 3, Checkpointing, waits for a verified checkpoint" in said


async def test_top_has_workers_and_positions(shown):
    """As of a manager of this machine."""
    top = json.loads(await shown("top", "--output", "json"))
    rows = {row["replica"]: row for row in top["replicas"]}
    assert rows["default/e/worker/0"]["change"] == "scale-out 2 -> 3"
    assert (rows["default/w/worker/0"]["position"], top["waiting"]) == (1, 1)


async def test_without_the_definitions_nothing_is_missed(tmp_path, capsys):
    """A cluster of an older release: no queues, no changes, and no error."""
    async with FakeCluster(nodes=1, without=(TRAINING_JOBS, TRAINING_QUEUES)) as cluster:
        flags = ["--kubeconfig", str(cluster.kubeconfig(tmp_path / "kubeconfig"))]
        for command in ("queue", "changes"):
            assert await asyncio.to_thread(kubectl, [command, *flags]) == 0
        assert "no queues" in capsys.readouterr().out
