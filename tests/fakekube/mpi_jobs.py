"""A stand-in for the MPI operator (MPIJob v2beta1), as its source reads; no real one was run.

Workers are pods with fixed names, the launcher is the pod of a Job of its own.
"""

from fakekube import owned
from fakekube.failures import FailureError
from fakekube.kinds import JOBS, MPI_JOBS, PODS, Object
from fakekube.machinery import Machinery
from fakekube.store import clone, key_of

_INDEX = "training.kubeflow.org/replica-index"


class MpiOperator:
    """Suspension removes the workers and is passed on to the launcher; too many go from the highest."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store

    async def act(self) -> None:
        for job in self._store.all(MPI_JOBS):
            if not job["metadata"].get("deletionTimestamp") and not _over(job):
                await self._reconcile(job)

    async def _reconcile(self, job: Object) -> None:
        suspend = bool((job["spec"].get("runPolicy") or {}).get("suspend"))
        workers = owned.of(self._store, PODS, job)
        launchers = owned.of(self._store, JOBS, job)
        wanted = 0 if suspend else job["spec"]["mpiReplicaSpecs"]["Worker"].get("replicas", 1)
        await owned.remove(
            self._machinery, [pod for pod in workers if int(pod["metadata"]["labels"][_INDEX]) >= wanted]
        )
        known = {pod["metadata"]["name"] for pod in workers}
        for number in range(wanted):
            if f"{job['metadata']['name']}-worker-{number}" not in known:
                await self._make_worker(job, number)
        if not launchers:
            await self._make_launcher(job, suspend=suspend)
        elif bool(launchers[0]["spec"]["suspend"]) != suspend:
            body = {"spec": {"suspend": suspend}}
            await self._machinery.patch(JOBS, key_of(launchers[0]), "merge", body)
        job = await self._machinery.set_condition(MPI_JOBS, job, "Suspended", str(suspend), "MPIJobSuspended")
        for launcher in launchers:
            for entry in (launcher.get("status") or {}).get("conditions") or []:
                if entry["type"] in {"Complete", "Failed"} and entry["status"] == "True":
                    told = "Succeeded" if entry["type"] == "Complete" else "Failed"
                    job = await self._machinery.set_condition(MPI_JOBS, job, told, "True", f"MPIJob{told}")

    async def _make_worker(self, job: Object, number: int) -> None:
        name = f"{job['metadata']['name']}-worker-{number}"
        labels = {**_labels(job, "worker"), _INDEX: str(number)}
        replica = job["spec"]["mpiReplicaSpecs"]["Worker"]
        manifest = owned.child(MPI_JOBS, job, replica["template"], {"name": name, "labels": labels})
        manifest["spec"] |= {"restartPolicy": replica.get("restartPolicy", "Never"), "hostname": name}
        try:
            await self._machinery.create(PODS, job["metadata"]["namespace"], manifest)
        except FailureError:
            return  # as for every controller: the next change brings another try

    async def _make_launcher(self, job: Object, *, suspend: bool) -> None:
        replica = job["spec"]["mpiReplicaSpecs"]["Launcher"]
        template = clone(replica["template"])
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **_labels(job, "launcher")}
        template["spec"]["restartPolicy"] = replica.get("restartPolicy", "Never")
        spec = {"template": template, "suspend": suspend}
        name = f"{job['metadata']['name']}-launcher"
        manifest = owned.child(MPI_JOBS, job, {"spec": spec}, {"name": name})
        await self._machinery.create(JOBS, job["metadata"]["namespace"], manifest)


def _labels(job: Object, role: str) -> Object:
    return {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": job["metadata"]["name"],
        "training.kubeflow.org/job-role": role,
    }


def _over(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(e["type"] in {"Succeeded", "Failed"} and e["status"] == "True" for e in conditions)
