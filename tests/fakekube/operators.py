"""Stand-ins for the operators of TFJob, PyTorchJob and JobSet, as their sources read; no real ones were run.

Pods of the first two have fixed names; `runPolicy.suspend` removes them all. A JobSet makes Jobs.
"""

from fakekube import owned
from fakekube.clock import Clock
from fakekube.failures import FailureError
from fakekube.kinds import JOB_SETS, JOBS, PODS, PYTORCH_JOBS, TF_JOBS, Kind, Object
from fakekube.machinery import Machinery
from fakekube.store import clone, key_of

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
        policy = replica.get("restartPolicy", "Never")
        manifest["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
        try:
            await self._machinery.create(PODS, job["metadata"]["namespace"], manifest)
        except FailureError:
            return  # as for every controller: the next change brings another try


class JobSetController:
    """A Job for each replica of each replicated job; `suspend` is passed on."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store

    async def act(self) -> None:
        for value in self._store.all(JOB_SETS):
            if not value["metadata"].get("deletionTimestamp"):
                await self._reconcile(value)

    async def _reconcile(self, value: Object) -> None:
        suspend = bool(value["spec"].get("suspend"))
        jobs = {job["metadata"]["name"]: job for job in owned.of(self._store, JOBS, value)}
        for replicated in value["spec"]["replicatedJobs"]:
            for number in range(replicated.get("replicas", 1)):
                name = f"{value['metadata']['name']}-{replicated['name']}-{number}"
                if name not in jobs:
                    await self._make(value, replicated, number, name, suspend=suspend)
                elif bool(jobs[name]["spec"]["suspend"]) != suspend:
                    await self._machinery.patch(
                        JOBS, key_of(jobs[name]), "merge", {"spec": {"suspend": suspend}}
                    )
        await self._machinery.set_condition(JOB_SETS, value, "Suspended", str(suspend), "SuspendedJobs")

    async def _make(
        self, value: Object, replicated: Object, number: int, name: str, *, suspend: bool
    ) -> None:
        labels = {
            "jobset.sigs.k8s.io/jobset-name": value["metadata"]["name"],
            "jobset.sigs.k8s.io/jobset-uid": value["metadata"]["uid"],
            "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"],
            "jobset.sigs.k8s.io/job-index": str(number),
        }
        template = clone(replicated["template"])
        template["spec"]["suspend"] = suspend
        own = template["spec"]["template"].setdefault("metadata", {})
        own["labels"] = {**(own.get("labels") or {}), **labels}
        manifest = owned.child(JOB_SETS, value, template, {"name": name, "labels": labels})
        await self._machinery.create(JOBS, value["metadata"]["namespace"], manifest)


def _over(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(entry["type"] in _ENDED and entry["status"] == "True" for entry in conditions)
