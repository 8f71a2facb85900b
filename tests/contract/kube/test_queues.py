"""TrainingQueues and TrainingJobs: what a server takes of them, and what it refuses."""

import contextlib

import pytest

from support.kube.client import MERGE

JOBS = "specon.io/v1alpha1/trainingjobs"
QUEUES = "/apis/specon.io/v1alpha1/trainingqueues"
QUOTA = {"cpu": 8, "memory": "64Gi"}
R = "default/mnist/worker/0"


def queue(name, **spec):
    return {
        "apiVersion": "specon.io/v1alpha1",
        "kind": "TrainingQueue",
        "metadata": {"name": name},
        "spec": spec,
    }


@contextlib.asynccontextmanager
async def made(kube, **spec):
    """Make a queue with a name of its own, since they are in no namespace; yield the answer."""
    answer = await kube.ask("POST", QUEUES, queue(kube.namespace, **spec))
    try:
        yield answer
    finally:
        await kube.ask("DELETE", f"{QUEUES}/{kube.namespace}")


@pytest.mark.parametrize("amount", [0, 8, "8", "0.5", "500m", "64Gi", "1e3", "+1", "3E"])
async def test_amounts_are_quantities(kube, amount):
    """Whole numbers, or quantities as texts."""
    async with made(kube, quota={"cpu": amount, "memory": amount, "gpu": amount}) as answer:
        assert answer.status == 201, answer.message
        assert answer.body["spec"]["quota"]["cpu"] == amount


@pytest.mark.parametrize(
    "amount", [-1, "-1", "-1Gi", "many", "", "1 Gi", "1Zi", "0x1", ["1"], {"a": 1}, True, "1" * 33]
)
async def test_what_is_no_amount_is_refused_by_name(kube, amount):
    """In the quota as in the limit."""
    async with made(kube, quota={**QUOTA, "gpu": amount}) as answer:
        assert answer.status == 422
        assert "spec.quota.gpu" in answer.message
    async with made(kube, quota=QUOTA, limit={"cpu": amount}) as answer:
        assert answer.status == 422
        assert "spec.limit.cpu" in answer.message


@pytest.mark.parametrize("spec", [{}, {"quota": {"cpu": 1}}, {"quota": {"memory": 1}}, {"quota": None}])
async def test_a_quota_names_processors_and_memory(kube, spec):
    """Without one of them no job with a request of it would ever be admitted."""
    async with made(kube, **spec) as answer:
        assert answer.status == 422


async def test_a_queue_may_borrow_unless_it_says_no(kube):
    """By default; its status is apart from the rest."""
    async with made(kube, quota=QUOTA) as answer:
        assert answer.body["spec"]["borrow"] is True
        path = f"{QUEUES}/{kube.namespace}/status"
        body = {"status": {"running": 2, "use": {"cpu": "2500m"}, "message": None}, "spec": {"borrow": False}}
        told = await kube.ask("PATCH", path, body, form=MERGE)
        assert told.status == 200, told.message
        assert told.body["status"] == {"running": 2, "use": {"cpu": "2500m"}}
        assert told.body["spec"]["borrow"] is True


async def test_a_name_is_no_longer_than_the_annotation_that_names_it(kube):
    """A label has 63 characters."""
    answer = await kube.ask("POST", QUEUES, queue("x" * 64, quota=QUOTA))
    assert answer.status == 422
    assert "at most 63 characters" in answer.message


def training_job(**spec):
    return {
        "apiVersion": "specon.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "mnist"},
        "spec": {"job": "default/mnist", **spec},
    }


async def test_a_training_job_stays_that_of_its_job(kube):
    """Its queue may change, and how many workers it may have."""
    assert (await kube.create(JOBS, training_job(queue="a", minWorkers=1))).status == 201
    assert (await kube.patch(JOBS, "mnist", {"spec": {"queue": "b"}}, form=MERGE)).status == 200
    answer = await kube.patch(JOBS, "mnist", {"spec": {"job": "default/other"}}, form=MERGE)
    assert (answer.status, "cannot be changed" in answer.message) == (422, True)


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Nonsense"},
        {"position": -1},
        {"change": {"kind": "moved"}},
        {"change": {"state": "Succeeded"}},
        {"change": {"attempt": 3}},
        {"lastChange": {"state": "Coming"}},
        {"pins": [{"replica": R}]},
        {"pins": [{"replica": R, "hostname": "h" * 64}]},
        {"pins": [{"replica": "nonsense", "hostname": "h"}]},
        {"record": "x" * (64 * 1024 + 1)},
        {"waitingFor": "x" * 1025},
    ],
)
async def test_nonsense_in_a_training_job_is_refused(kube, status):
    """A status outside of the schema's bounds."""
    await kube.create(JOBS, training_job())
    answer = await kube.patch(JOBS, "mnist", {"status": status}, "status", form=MERGE)
    assert (answer.status, answer.body["reason"]) == (422, "Invalid"), answer.body


async def test_a_whole_training_job_is_kept_as_it_is(kube):
    """Nothing that the manager writes is dropped."""
    await kube.create(JOBS, training_job())
    at = "2026-01-01T00:00:00Z"
    status = {
        "phase": "Changing",
        "position": 0,
        "waitingFor": "",
        "since": at,
        "workers": 3,
        "nodes": "node-1 (2), node-2",
        "preemptions": 1,
        "change": {
            "id": "change-7",
            "kind": "scale-out",
            "state": "Coming",
            "reason": "idle room",
            "note": "",
            "attempt": 1,
        },
        "pins": [{"replica": R, "hostname": "node-1"}],
        "record": "{}",
        "lastChange": {"id": "change-6", "kind": "admit", "state": "Succeeded", "note": "", "endedAt": at},
        "manager": "manager-1",
        "updatedAt": at,
    }
    answer = await kube.patch(JOBS, "mnist", {"status": status}, "status", form=MERGE)
    assert answer.body["status"] == status
