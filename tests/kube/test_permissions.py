"""What the chart permits the manager is what the manager asks for: each is derived from the other.

Whole managers do everything that they can do, against an API server that writes down each request; the roles
are those that helm renders. Nothing is asked for that is not permitted, and nothing is permitted for nothing.
"""

from functools import partial
from unittest.mock import patch

import aiohttp
import msgspec
import pytest

from fakekube.kinds import (
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    LEASES,
    MIGRATIONS,
    NODES,
    PODS,
    PVCS,
    PVS,
    PYTORCH_JOBS,
    SECRETS,
    TF_JOBS,
    TRAIN_JOBS,
    TRAINING_JOBS,
    TRAINING_PROGRESSES,
    TRAINING_QUEUES,
    Kind,
)
from fakekube.store import key_of
from specon_manager.backends.kube.records import memory
from specon_manager.backends.kube.records.housekeeping import Housekeeping
from specon_manager.backends.kube.records.pause import LEASE_LABELS
from support.kube.cluster_stage import DECISIONS, OWNERS, SYSTEM, ClusterStage
from support.kube.permissions import Permitted, all_asked, asked, permitted
from support.kube.staged_manager import Manager
from support.kube.training_templates import training_template
from support.packaging.helm import of_kind, render, the

SIGNALS = ("pod-deletion-cost", "eviction-cost", "priority-boost")
WORKLOADS = Kind("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", status=True, custom=True)
POLICY = msgspec.structs.replace(DECISIONS, policy="specon", parameters={"rebalance": False})
NEVER_ASKED: dict[tuple[str, str, str], str] = {
    ("specon.io", "trainingjobs", "get"): "after a conflict with another manager only",
    ("kubeflow.org", "mpijobs", "get"): "before a patch, as of the other kinds",
    ("kubeflow.org", "mpijobs", "patch"): "as the other kinds; one has several pods, and nothing here scales",
    ("", "pods/resize", "patch"): "where a pod allows it; no policy here lowers processors",
}
"""(group, resource, verb) that no request asks for, and why it is permitted all the same."""
pytestmark = pytest.mark.timeout(240)


def operated(name):
    """Yield a job of one pod of each kind that an operator runs, with its replica."""
    template = training_template(name)
    one = {"replicas": 1, "restartPolicy": "OnFailure", "template": template}
    job = {"metadata": {}, "spec": {"backoffLimit": 0, "template": template}}
    sets = [{"name": "worker", "replicas": 1, "template": job}]
    for kind, spec, of_job in (
        (TF_JOBS, {"tfReplicaSpecs": {"Chief": one}}, ""),
        (PYTORCH_JOBS, {"pytorchReplicaSpecs": {"Master": one}}, ""),
        (JOB_SETS, {"replicatedJobs": sets}, "-worker-0"),
        (TRAIN_JOBS, {"runtimeRef": {"name": "one-pod"}}, "-node-0"),
        (LEADER_WORKER_SETS, {"leaderWorkerTemplate": {"workerTemplate": template}}, ""),
    ):
        own = f"{name}-{kind.name.lower()}"
        yield kind, {"metadata": {"name": own}, "spec": spec}, f"training/{own}{of_job}/worker/0"


async def claimed(stage):
    """Make a Job whose pod keeps its files on a claim."""
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nfs": {"server": "nas"}}
    await stage.cluster.machinery.create(PVS, "", {"metadata": {"name": "shared"}, "spec": volume})
    claim = {"accessModes": ["ReadWriteMany"], "volumeName": "shared", "resources": {}}
    made = await stage.cluster.machinery.create(
        PVCS, "training", {"metadata": {"name": "files"}, "spec": claim}
    )
    await stage.cluster.machinery.set_status(PVCS, made, phase="Bound")
    template = training_template("claimed")
    template["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "files"}}]
    return await stage.make("Job", "claimed", template=template)


async def moves_of_every_owner(stage):
    replicas = [await stage.make(owner, f"train-{owner.lower()}") for owner in OWNERS]
    replicas.append(await claimed(stage))
    stage.cluster.train_jobs.runtimes["one-pod"] = training_template("train")
    for kind, manifest, replica in operated("train"):
        await stage.cluster.machinery.create(kind, "training", manifest)
        replicas.append(replica)
    await stage.trains(*replicas)
    for replica in replicas:
        await stage.ask(replica)
    await stage.ended(*replicas)
    ends = {replica: (stage.state(replica), stage.move(replica).get("message")) for replica in replicas}
    assert not {replica: end for replica, end in ends.items() if end[0] != "Succeeded"}
    return replicas


async def a_request_that_is_refused(stage):
    spec = {"pod": "nobody", "reason": "a mistake"}
    await stage.cluster.machinery.create(
        MIGRATIONS, "training", {"metadata": {"name": "mistaken"}, "spec": spec}
    )
    key = ("training", "mistaken")
    await stage.until(lambda: stage.cluster.store.get(MIGRATIONS, key).get("status"), "it is refused")


async def one_move_more(stage, replica):
    """Move it once more than Migrations of a replica are kept: the oldest is removed."""
    spec = {"replica": replica, "reason": "once more"}
    await stage.cluster.machinery.create(
        MIGRATIONS, "training", {"metadata": {"name": "again"}, "spec": spec}
    )
    first = ("training", "please-train-pod")
    await stage.until(lambda: stage.cluster.store.get(MIGRATIONS, first) is None, "the oldest is removed")


async def a_workload_of_kueue(stage, replica):
    job = stage.owner(replica)
    labels = {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]}
    await stage.cluster.machinery.create(
        WORKLOADS, "training", {"metadata": {"name": "work", "labels": labels}, "spec": {}}
    )


async def cordon(stage, node, *, closed):
    await stage.cluster.machinery.patch(NODES, ("", node), "merge", {"spec": {"unschedulable": closed}})


async def moves_by_the_policy(stage, replicas):
    """Have the policy make a Migration of its own, and tell Kueue what a job is worth."""
    crowded, empty = stage.nodes
    await cordon(stage, empty, closed=True)
    growing = [await stage.make("Job", f"growing-{number}") for number in range(5)]
    done = await stage.make("Job", "done")
    await stage.trains(*growing, done)
    await a_workload_of_kueue(stage, done)
    assert {stage.node_of(each) for each in (*growing, done)} == {crowded}
    stage.sidecars.converged |= {done, *replicas}

    def boosted():
        annotations = stage.cluster.store.get(WORKLOADS, ("training", "work"))["metadata"].get("annotations")
        return "kueue.x-k8s.io/priority-boost" in (annotations or {})

    await stage.until(boosted, "Kueue is told what it is worth")
    await cordon(stage, empty, closed=False)

    def moved():
        found = [each.get("status") or {} for each in stage.cluster.store.all(MIGRATIONS)]
        return ("specon", "Succeeded") in {(each.get("policy"), each.get("state")) for each in found}

    await stage.until(moved, "the policy has moved something")
    await stage.no_moves()


async def a_job_in_a_queue(stage):
    """Have a job wait in a queue, then in another one, and end; its queue is told what it uses."""
    spec = {"quota": {"cpu": "0", "memory": "0"}, "borrow": False}
    queue = {"metadata": {"name": "team-a"}, "spec": spec}
    await stage.cluster.machinery.create(TRAINING_QUEUES, "", queue)
    template = training_template("held")
    template["metadata"]["annotations"]["specon.io/queue"] = "team-a"
    master = {"replicas": 1, "restartPolicy": "OnFailure", "template": template}
    # Suspended by its user, it has no pod whose annotations would count.
    body = {"pytorchReplicaSpecs": {"Master": master}, "runPolicy": {"suspend": True}}
    manifest = {"metadata": {"name": "held"}, "spec": body}
    await stage.cluster.machinery.create(PYTORCH_JOBS, "training", manifest)
    key = ("training", "held")

    def told(name):
        found = stage.cluster.store.get(TRAINING_JOBS, key) or {}
        return found.get("spec", {}).get("queue") == name and found.get("status")

    await stage.until(lambda: told("team-a"), "it is written down")
    written = stage.cluster.store.get
    await stage.until(
        lambda: written(TRAINING_QUEUES, ("", "team-a")).get("status"), "the queue is told what it uses"
    )
    template["metadata"]["annotations"]["specon.io/queue"] = "team-b"
    await stage.cluster.machinery.patch(PYTORCH_JOBS, key, "merge", {"spec": body})
    await stage.until(lambda: told("team-b"), "its other queue is written down")
    await stage.cluster.machinery.delete(PYTORCH_JOBS, key, {"propagationPolicy": "Background"})
    await stage.until(lambda: stage.cluster.store.get(TRAINING_JOBS, key) is None, "it is forgotten")


async def an_owner_asks(stage):
    """Have somebody ask for the state who may not read it."""
    leader = stage.leader
    token = stage.cluster.tokens.issue("training", "default", {"spec": {}})["status"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Connection": "close"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://127.0.0.1:{leader.reports_port}/v1/state", ssl=False) as response,
    ):
        assert response.status == 403


async def ends(stage, replica):
    """Delete a job, which is forgotten with its TrainingProgress."""
    before = len(stage.cluster.store.all(TRAINING_PROGRESSES))
    await stage.cluster.machinery.delete(
        JOBS, key_of(stage.owner(replica)), {"propagationPolicy": "Background"}
    )
    await stage.until(
        lambda: len(stage.cluster.store.all(TRAINING_PROGRESSES)) < before, "its progress is removed"
    )


async def everything(stage, monkeypatch):
    """Do all that a manager does, and return what was asked of the API server."""
    for name in ("first", "second"):
        metadata = {"name": f"{name}-pod", "labels": {"app": "manager"}}
        spec = {"containers": [{"name": "manager", "image": "specon/manager:1"}]}
        await stage.cluster.machinery.create(PODS, SYSTEM, {"metadata": metadata, "spec": spec})
    foreign = {"name": "foreign", "labels": LEASE_LABELS}
    lease = {"metadata": foreign, "spec": {"holderIdentity": "a tenant", "leaseDurationSeconds": 12}}
    await stage.cluster.machinery.create(LEASES, "training", lease)
    left = {"metadata": {"name": "left"}, "spec": {"job": "training/left"}}
    await stage.cluster.machinery.create(TRAINING_JOBS, "training", left)
    monkeypatch.setenv("POD_NAME", "first-pod")
    first = await stage.manage_and_lead()
    replicas = await moves_of_every_owner(stage)
    await a_request_that_is_refused(stage)
    await a_job_in_a_queue(stage)
    await an_owner_asks(stage)
    await one_move_more(stage, replicas[0])
    await first.kill()
    # What it kept as its certificate is spoilt: the next leader makes another, and tells sidecars of it.
    spoilt = {"data": {"tls.crt": "bm9uZQ=="}}
    await stage.cluster.machinery.patch(SECRETS, (SYSTEM, "certificates"), "merge", spoilt)
    await stage.lease_runs_out()
    monkeypatch.setenv("POD_NAME", "second-pod")
    await stage.manage_and_lead("second", POLICY)
    await stage.no_moves()
    await moves_by_the_policy(stage, replicas)
    await ends(stage, replicas[1])
    return all_asked(stage.cluster.server.requests)


def settings_with_signals(original):
    def settings(self, urls, decisions):
        return msgspec.structs.replace(original(self, urls, decisions), signals=SIGNALS)

    return settings


def names_of(objects):
    """Return what the chart calls what the managers of these tests call by other names."""
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    flags = dict(one.removeprefix("--").split("=", 1) for one in container["args"][1:])
    return {
        flags["lease-name"]: "manager",
        flags["certificate-secret"]: "certificates",
        flags["webhook-configuration"]: "specon",
    }


def rendered(**values):
    """Return the roles of an installation with all that can be switched on."""
    values = {"fullnameOverride": "chart", "settings": {"signals": list(SIGNALS)}, **values}
    objects = render(values, f"--namespace={SYSTEM}")
    return permitted(objects, names_of(objects))


async def test_permissions_are_those_that_are_used(tmp_path, monkeypatch):
    """In the whole cluster, and where only some namespaces are managed."""
    monkeypatch.setattr(Manager, "_settings", settings_with_signals(Manager._settings))
    pruning = partial(Housekeeping, per_replica=1, pause=0.0)
    with patch.object(memory, "Housekeeping", pruning):
        async with ClusterStage(tmp_path, nodes=2) as stage:
            stage.cluster.server.kinds.append(WORKLOADS)
            requests = await everything(stage, monkeypatch)
    for roles in (rendered(), rendered(watchNamespaces=["training"])):
        not_permitted = {str(one) for one in requests if not any(role.covers(one) for role in roles)}
        assert not not_permitted, "\n".join(sorted(not_permitted))
        for_nothing = {
            str(role)
            for role in roles
            if not any(role.covers(one) for one in requests)
            and (role.group, role.resource, role.verb) not in NEVER_ASKED
        }
        assert not for_nothing, "\n".join(sorted(for_nothing))


def test_workloads_of_kueue_are_nobodys_business_unless_their_signal_is_on():
    """What is switched off is not permitted either."""
    assert {one.group for one in rendered()} - {one.group for one in rendered(settings={})} == {
        "kueue.x-k8s.io"
    }


def test_devices_are_nobodys_business_unless_their_taints_warn():
    """They are read, and never written."""
    more = rendered(settings={"warnings": ["cordon", "device-taint"]}) - rendered(settings={})
    assert {(one.group, one.resource, one.verb) for one in more} == {
        ("resource.k8s.io", each, verb)
        for each in ("resourceslices", "resourceclaims", "devicetaintrules")
        for verb in ("list", "watch")
    }
    assert rendered(settings={"warnings": ["cordon"]}) == rendered(settings={})


def test_logs_are_nobodys_business_unless_they_are_relayed():
    """They may hold what a trainer should not have printed."""
    granted = {(one.resource, one.verb) for one in rendered(settings={"log_streams": 10})}
    assert granted - {(one.resource, one.verb) for one in rendered(settings={})} == {("pods/log", "get")}


def test_the_status_of_train_jobs_is_nobodys_business_unless_it_is_written():
    """It is Kubeflow Trainer's."""
    granted = {(one.resource, one.verb) for one in rendered(settings={"train_job_status": True})}
    assert granted - {(one.resource, one.verb) for one in rendered(settings={})} == {
        ("trainjobs/status", "patch")
    }


def test_certificates_of_others_need_no_secrets():
    """Neither to read nor to write one."""
    certificates = {"mode": "provided", "secretName": "tls", "caBundle": "PEM"}
    objects = render({"webhook": {"certificates": certificates}})
    assert "secrets" not in {one.resource for one in permitted(objects, {})}
    assert of_kind(objects, "Role")


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "/api/v1/pods?watch=true", ("", "pods", "watch", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/b", ("", "pods", "get", "a", "b")),
        ("POST", "/api/v1/namespaces/a/pods/b/eviction", ("", "pods/eviction", "create", "a", "b")),
        (
            "PATCH",
            "/apis/specon.io/v1alpha1/namespaces/a/migrations/m/status",
            ("specon.io", "migrations/status", "patch", "a", "m"),
        ),
        (
            "GET",
            "/api/v1/namespaces/s/secrets?fieldSelector=metadata.name%3Dx",
            ("", "secrets", "list", "s", "x"),
        ),
        ("GET", "/apis/batch/v1", None),
        ("GET", "/version", None),
    ],
)
def test_a_request_is_understood_as_the_authorizer_does(method, url, expected):
    """Group, resource with subresource, verb, namespace, name."""
    found = asked(method, url)
    assert (None if found is None else msgspec.structs.astuple(found)) == expected


def test_a_role_covers_what_rbac_lets_it():
    """Not another namespace, name or verb; a ClusterRole covers all namespaces."""
    request = asked("GET", "/api/v1/namespaces/a/secrets/s")
    assert request is not None
    make = partial(Permitted, group="", resource="secrets", verb="get")
    assert make(namespace="", names=()).covers(request)
    assert make(namespace="a", names=("s",)).covers(request)
    assert not make(namespace="b", names=()).covers(request)
    assert not make(namespace="", names=("t",)).covers(request)
