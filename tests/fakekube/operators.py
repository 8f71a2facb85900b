"""A stand-in for the training operator (TFJob, PyTorchJob), as its source reads; no real one was run.

Pods have fixed names; `runPolicy.suspend` removes them all, fewer `replicas` those with the highest indexes.
"""

import json

from fakekube import owned
from fakekube.clock import Clock
from fakekube.failures import FailureError
from fakekube.kinds import PODS, PYTORCH_JOBS, TF_JOBS, Kind, Object
from fakekube.machinery import Machinery

_SPECS = {
    TF_JOBS: ("tfReplicaSpecs", "tfjob-controller"),
    PYTORCH_JOBS: ("pytorchReplicaSpecs", "pytorchjob-controller"),
}
_ENDED = ("Succeeded", "Failed")


class TrainingOperator:
    """TFJob and PyTorchJob."""

    def __init__(self, machinery: Machinery, clock: Clock) -> None:
        self._machinery = machinery
        self._store = machinery.store
        self._clock = clock

    async def act(self) -> None:
        for kind in _SPECS:
            for job in self._store.all(kind):
                if not job["metadata"].get("deletionTimestamp") and not _over(job):
                    await self._reconcile(kind, job)

    async def _reconcile(self, kind: Kind, job: Object) -> None:
        pods = owned.of(self._store, PODS, job)
        if (job["spec"].get("runPolicy") or {}).get("suspend"):
            await owned.remove(self._machinery, pods)
            job = await self._machinery.set_condition(kind, job, "Suspended", "True", f"{kind.name}Suspended")
            await self._machinery.set_status(kind, job, startTime=None, replicaStatuses=None)
            return
        if any(entry["type"] == "Suspended" for entry in (job.get("status") or {}).get("conditions") or []):
            job = await self._machinery.set_condition(kind, job, "Suspended", "False", f"{kind.name}Resumed")
        started = (job.get("status") or {}).get("startTime") or self._clock.text()
        job = await self._machinery.set_status(kind, job, startTime=started)
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        for role, replica in job["spec"][_SPECS[kind][0]].items():
            for number in range(replica.get("replicas", 1)):
                name = f"{job['metadata']['name']}-{role.lower()}-{number}"
                pod = by_name.pop(name, None)
                if pod is None:
                    await self._make(kind, job, role, number, name)
                elif await self._judge(kind, job, replica, pod):
                    return
        await owned.remove(self._machinery, list(by_name.values()))
        await self._finish(kind, job, pods)

    async def _judge(self, kind: Kind, job: Object, replica: Object, pod: Object) -> bool:
        """End the job where one of its pods failed for good; else let the pod be made again."""
        if owned.phase(pod) != "Failed" and not owned.ends(pod):
            return False
        if replica.get("restartPolicy", "Never") == "Never":
            await self._machinery.set_condition(kind, job, "Failed", "True", f"{kind.name}Failed")
            return True
        if owned.phase(pod) == "Failed":
            await owned.remove(self._machinery, [pod])
        return False

    async def _finish(self, kind: Kind, job: Object, pods: list[Object]) -> None:
        total = sum(replica.get("replicas", 1) for replica in job["spec"][_SPECS[kind][0]].values())
        if pods and len(pods) == total and all(owned.phase(pod) == "Succeeded" for pod in pods):
            await self._machinery.set_condition(kind, job, "Succeeded", "True", f"{kind.name}Succeeded")
        elif any(owned.phase(pod) == "Running" for pod in pods):
            await self._machinery.set_condition(kind, job, "Running", "True", f"{kind.name}Running")

    async def _make(self, kind: Kind, job: Object, role: str, number: int, name: str) -> None:
        replica = job["spec"][_SPECS[kind][0]][role]
        labels = {
            "training.kubeflow.org/job-name": job["metadata"]["name"],
            "training.kubeflow.org/operator-name": _SPECS[kind][1],
            "training.kubeflow.org/replica-type": role.lower(),
            "training.kubeflow.org/replica-index": str(number),
        }
        if role in {"Master", "Chief"}:
            labels["training.kubeflow.org/job-role"] = "master"
        manifest = owned.child(kind, job, replica["template"], {"name": name, "labels": labels})
        for container in manifest["spec"]["containers"]:
            container["env"] = [*(container.get("env") or []), *_env(kind, job, role, number)]
        policy = replica.get("restartPolicy", "Never")
        manifest["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
        try:
            await self._machinery.create(PODS, job["metadata"]["namespace"], manifest)
        except FailureError:
            return  # as for every controller: the next change brings another try


def _env(kind: Kind, job: Object, role: str, number: int) -> list[Object]:
    """Return what tells a trainer of the others, as far as a number of them stands in it."""
    spec, name = job["spec"], job["metadata"]["name"]
    replicas = spec[_SPECS[kind][0]]
    if kind is TF_JOBS:
        sparse = spec.get("enableDynamicWorker") and role == "Worker"
        peers = {
            each.lower(): [f"{name}-{each.lower()}-{index}" for index in range(of_role.get("replicas", 1))]
            for each, of_role in replicas.items()
            if not sparse or each == "PS"
        }
        task = {"type": role.lower(), "index": number}
        key = "sparseCluster" if sparse else "cluster"
        return [{"name": "TF_CONFIG", "value": json.dumps({key: peers, "task": task})}]
    world = sum(of_role.get("replicas", 1) for of_role in replicas.values())
    elastic = spec.get("elasticPolicy")
    if elastic is not None:
        nodes = f"{elastic.get('minReplicas', world)}:{elastic.get('maxReplicas', world)}"
        return [
            {"name": "PET_NNODES", "value": nodes},
            {"name": "PET_RDZV_ENDPOINT", "value": f"{name}-worker-0:29400"},
        ]
    rank = number + 1 if role == "Worker" and "Master" in replicas else number
    master = f"{name}-master-0" if "Master" in replicas else f"{name}-worker-0"
    return [
        {"name": "MASTER_ADDR", "value": master},
        {"name": "WORLD_SIZE", "value": str(world)},
        {"name": "RANK", "value": str(rank)},
    ]


def _over(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(entry["type"] in _ENDED and entry["status"] == "True" for entry in conditions)
