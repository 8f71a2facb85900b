"""A whole manager and Kueue's gates: its webhook is asked, and a victim saves before its gate is opened.

Workloads are held to Kueue's definition, as far as tests need it. What Kueue would say of them is written
by hand.
"""

import datetime as dt

import pytest

from fakekube import schemas
from fakekube.kinds import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, MUTATING_WEBHOOKS, WORKLOADS
from specon_manager.backends.kube.admission.webhook import WebhookSettings
from specon_manager.backends.kube.kueue.decision import PreemptionGateSettings
from specon_manager.backends.kube.kueue.facts import GATE
from specon_manager.backends.kube.kueue.webhook import gate_webhook
from support.kube.cluster_stage import SYSTEM, ClusterStage
from support.kube.kueue_api import DEFINITIONS
from support.kube.kueue_objects import queue_object
from support.kube.permissions import all_asked, permitted
from support.packaging.helm import render

GROUP = "kueue.x-k8s.io"
ON = PreemptionGateSettings(enabled=True, patience=60.0, cluster_queues=("team",))
HELD = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "local"}}}


@pytest.fixture
async def stage(tmp_path, monkeypatch):
    monkeypatch.setenv("POD_NAME", "")
    async with ClusterStage(tmp_path, nodes=1) as made:
        made.cluster.server.kinds += [WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES]
        assert isinstance(DEFINITIONS["workloads"], schemas.Definition)
        made.cluster.machinery.schemas[WORKLOADS] = DEFINITIONS["workloads"]
        about = WebhookSettings(name="specon", namespace=SYSTEM, service="specon-webhook")
        (hooks,) = made.cluster.store.all(MUTATING_WEBHOOKS)
        hooks = {"webhooks": [*hooks["webhooks"], gate_webhook(about, None)]}
        await made.cluster.machinery.patch(MUTATING_WEBHOOKS, ("", "specon"), "merge", hooks)
        await made.cluster.machinery.create(CLUSTER_QUEUES, "", queue_object("team", **{"default/cpu": 1}))
        local = {"metadata": {"name": "local"}, "spec": {"clusterQueue": "team"}}
        await made.cluster.machinery.create(LOCAL_QUEUES, "training", local)
        manager = await made.manage(preemption_gate=ON)
        await made.until(lambda: made.leader is manager, "it leads")
        await made.until(manager.has_taken_over, "it knows where everything stands")
        await made.until(made._webhook_works, "the webhook is answered")
        await made.until(lambda: manager.serves._local_queues.synced, "it knows the queues")
        yield made


def now():
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def true(kind):
    return {"type": kind, "status": "True", "lastTransitionTime": now()}


async def workload(stage, name, uid="", priority=0, queue="local"):
    labels = {"kueue.x-k8s.io/job-uid": uid} if uid else {}
    made = {"metadata": {"name": name, "labels": labels}, "spec": {"queueName": queue, "priority": priority}}
    return await stage.cluster.machinery.create(WORKLOADS, "training", made)


async def says(stage, found, **status):
    """Write what Kueue would say of a Workload."""
    await stage.cluster.machinery.set_status(WORKLOADS, found, **status)


async def test_a_victim_saves_and_then_the_gate_opens(stage):
    """The Job is Kueue's: it is neither moved nor ended, and trains on where nobody ends it."""
    replica = await stage.make("Job", "victim")
    await stage.trains(replica)
    job = stage.cluster.store.get(JOBS, ("training", "victim"))
    await stage.cluster.machinery.patch(JOBS, ("training", "victim"), "merge", HELD)
    runs = await workload(stage, "victim", job["metadata"]["uid"])
    assignment = {"flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
    admission = {"clusterQueue": "team", "podSetAssignments": [assignment]}
    await says(stage, runs, admission=admission, conditions=[true("QuotaReserved")])
    urgent = await workload(stage, "urgent", priority=100)
    assert urgent["spec"]["preemptionGates"] == [{"name": GATE}]
    other = {"name": "kueue.x-k8s.io/other", "position": "Open", "lastTransitionTime": now()}
    asks = [{"resources": {"cpu": "1"}}]
    blocked = [true("BlockedOnPreemptionGates")]
    await says(stage, urgent, resourceRequests=asks, conditions=blocked, preemptionGates=[other])
    pod = stage.pod_of(replica)["metadata"]["uid"]

    def gates():
        found = stage.cluster.store.get(WORKLOADS, ("training", "urgent"))["status"]
        return {each["name"]: each["position"] for each in found["preemptionGates"]}

    await stage.until(lambda: gates().get(GATE) == "Open", "the gate is opened")
    assert gates() == {other["name"]: "Open", GATE: "Open"}
    assert replica in stage.sidecars.saved
    assert stage.pod_of(replica)["metadata"]["uid"] == pod
    wanted = all_asked(stage.cluster.server.requests)
    without, roles = (
        permitted(render({"fullnameOverride": "specon", **values}, "--namespace=specon"), {})
        for values in ({}, {"kueue": {"preemptionGate": {"enabled": True}}})
    )
    more = roles - without
    assert all(any(role.covers(one) for one in wanted) for role in more)
    kueue = [one for one in wanted if one.group == GROUP]
    assert kueue
    assert all(any(role.covers(one) for role in more) for one in kueue)


async def test_workloads_of_other_queues_get_no_gate(stage):
    """Its LocalQueue is not known, so its ClusterQueue is none of those that are named."""
    found = await workload(stage, "elsewhere", queue="other")
    assert "preemptionGates" not in found["spec"]
