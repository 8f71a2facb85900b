"""Jobs as a whole on a stage: queued and elastic ones, and the orders that place them."""

from collections.abc import Callable
from typing import Any

from specon_manager.backends.kube.objects.annotation_keys import ADMISSION_GATE, PINNED, QUEUE
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import JOB_SETS, JOBS, TF_JOBS
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import JobSpec
from specon_manager.model.events import JobObserved
from support.kube.stage import Stage, template

Object = dict[str, Any]
QUEUED = {"specon.io/queue": "team"}
ELASTIC = {"specon.io/min-workers": "1", "specon.io/max-workers": "6"}
JOB = "default/train"


def worker(index: int) -> str:
    return f"{JOB}/worker/{index}"


def gang(*nodes: str | None, first: int = 0) -> dict[str, str | None]:
    """Return a placement of workers on these nodes."""
    return {worker(first + index): node for index, node in enumerate(nodes)}


def admitting_pods(cluster: Any, change: Callable[[Object], Object]) -> None:
    """Have each pod that is created go through `change`, behind whatever admits it already."""
    admit = cluster.machinery.admission

    async def admission(kind: Any, value: Object, operation: str) -> Object:
        value = await admit(kind, value, operation)
        return change(value) if kind.plural == "pods" and operation == "CREATE" else value

    cluster.machinery.admission = admission


def held_by_webhook(cluster: Any, annotation: str = QUEUE) -> None:
    """Gate pods with this annotation, of a queue or of a node, as the admission webhook does."""

    def gated(pod: Object) -> Object:
        if annotation in (pod["metadata"].get("annotations") or {}):
            pod["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
        return pod

    admitting_pods(cluster, gated)


def pinned_by_webhook(cluster: Any) -> dict[str, str]:
    """Pin pods of these replicas, to be filled in, to their nodes, as the webhook does while one moves."""
    pins = dict[str, str]()

    def pinned(pod: Object) -> Object:
        identity = identity_of(pod)
        if identity is not None and identity.replica in pins:
            hostname = pins[identity.replica]
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": hostname}
            pod["metadata"]["annotations"] = {**pod["metadata"]["annotations"], PINNED: hostname}
        return pod

    admitting_pods(cluster, pinned)
    return pins


def ignored_by_webhook(cluster: Any, first: int) -> list[str]:
    """Let the next so many pods come without a sidecar; return the names of all that come, filled in."""
    came = list[str]()

    def admitted(pod: Object) -> Object:
        came.append(pod["metadata"].get("name", ""))
        if len(came) <= first:
            pod["metadata"].get("labels", {}).pop("specon.io/sidecar", None)
        return pod

    admitting_pods(cluster, admitted)
    return came


async def make_gang(api: Api, annotations: dict[str, str], *, workers: int = 3, **spec: Any) -> Object:
    """Create an Indexed Job of several workers."""
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "completions": workers,
            "parallelism": workers,
            "template": template(annotations),
            **spec,
        },
    }
    return await api.create(JOBS, body, "default")


async def make_job_set(api: Api, annotations: dict[str, str], *sizes: int) -> Object:
    """Create a JobSet with an Indexed Job of each size."""
    jobs = [
        {
            "name": f"part-{number}",
            "replicas": 1,
            "template": {
                "metadata": {},
                "spec": {
                    "backoffLimit": 0,
                    "completionMode": "Indexed",
                    "completions": size,
                    "parallelism": size,
                    "template": template(annotations),
                },
            },
        }
        for number, size in enumerate(sizes)
    ]
    body = {
        "apiVersion": JOB_SETS.api_version,
        "kind": JOB_SETS.kind,
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"replicatedJobs": jobs},
    }
    return await api.create(JOB_SETS, body, "default")


async def make_tf_job(api: Api, annotations: dict[str, str], *, workers: int = 2, **policy: Any) -> Object:
    """Create a TFJob with one parameter server, whose workers cannot change while it runs."""
    of_type = {"restartPolicy": "OnFailure", "template": template(annotations)}
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "runPolicy": policy,
            "tfReplicaSpecs": {
                "PS": {"replicas": 1, **of_type},
                "Worker": {"replicas": workers, **of_type},
            },
        },
    }
    return await api.create(TF_JOBS, body, "default")


async def described(stage: Stage) -> JobSpec:
    """Wait until the job is told with what its owner says of it: the owner may be seen later than pods."""
    await stage.until(lambda: any(each.spec.present is not None for each in stage.said(JobObserved)))
    return stage.said(JobObserved)[-1].spec


async def place(
    stage: Stage, transaction: str, placement: dict[str, str | None], *, job: str = JOB, **fields: Any
) -> None:
    """Give the order."""
    given = {"grace_seconds": 30.0, **fields}
    order = PlaceJob(job=job, transaction=transaction, placement=placement, reason="test", **given)
    await stage.backend.carry_out(order)


def pods_of(cluster: Any) -> list[Object]:
    """Return the pods that train and are not on their way out."""
    return [pod for pod in cluster.pods(app="training") if not pod["metadata"].get("deletionTimestamp")]


def where(cluster: Any) -> dict[int, str]:
    """Return the node of each pod that runs, by completion index."""
    index = "batch.kubernetes.io/job-completion-index"
    return {
        int(pod["metadata"]["annotations"][index]): pod["spec"]["nodeName"]
        for pod in pods_of(cluster)
        if pod["status"].get("phase") == "Running"
    }
