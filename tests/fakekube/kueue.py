"""A stand-in for Kueue's scheduler, its Workloads and its Jobs, as its source reads.

The real one is asked in `tests/contract/kube/test_kueue.py`.

Source: Kueue at ff69552e79 (August 2026). Workloads: `pkg/controller/core/workload_controller.go`.
Jobs: `ReconcileGenericJob` of `pkg/controller/jobframework/reconciler.go`, its steps 3, 6, 7 and 8, with
`Stop` and `RunWithPodSetsInfo` of `pkg/controller/jobs/job/job_controller.go`, `Default` of `job_webhook.go`.
Admission: by priority and then by age, each into the first flavor that has room for it (`BestEffortFIFO`),
in ClusterQueues without cohorts. It neither preempts nor knows topologies and admission checks. Slices of
elastic Jobs are in `kueue_slices`.
JobSets of one Job are suspended and resumed likewise.
"""

from fakekube import owned
from fakekube.kinds import CLUSTER_QUEUES, JOB_SETS, JOBS, LOCAL_QUEUES, PODS, WORKLOADS, Kind, Object
from fakekube.kueue_slices import Slices, condition, is_true, usage_of
from fakekube.machinery import Machinery
from fakekube.quantities import requested
from fakekube.store import clone, key_of

QUEUE = "kueue.x-k8s.io/queue-name"
_MANAGED = (JOBS, JOB_SETS)


class Kueue:
    """Its reconcilers and its scheduler; `flavors` are the labels of nodes that each flavor means.

    While it is `away` only its webhook answers.
    """

    def __init__(self, machinery: Machinery) -> None:
        self._machinery, self._store = machinery, machinery.store
        self.flavors: dict[str, dict[str, str]] = {}
        self.away = False
        self.slices = Slices(machinery)

    def defaulted(self, kind: Kind, value: Object, operation: str) -> Object:
        """Return a new job of a queue suspended, and anything else as it is."""
        if kind not in _MANAGED or operation != "CREATE" or not _is_queued(value):
            return value
        return self.slices.gated({**value, "spec": {**value["spec"], "suspend": True}})

    async def act(self) -> None:
        if self.away:
            return
        for kind in _MANAGED:
            for job in self._store.all(kind):
                if _is_queued(job):
                    await self._job(kind, job)
        for workload in self._store.all(WORKLOADS):
            await self._workload(workload)
        await self._schedule()

    # -- jobs ------------------------------------------------------------------------------------

    async def _job(self, kind: Kind, job: Object) -> None:
        if job["metadata"].get("deletionTimestamp"):
            return
        elastic = self.slices.heeds(job)
        found = owned.of(self._store, WORKLOADS, job)
        selected = await self.slices.select(job, found) if elastic else next(iter(found), None)
        if selected is None:
            await self._make(kind, job)
            return
        workload = selected
        if any(is_true(job, end) for end in ("Complete", "Completed", "Failed")):
            await self._says(workload, "Finished", "True", "JobFinished")
        elif is_true(workload, "Evicted"):
            await self._stop(kind, job, workload)
            if is_true(workload, "QuotaReserved") and not self._is_active(kind, job):
                await self._give_back(workload)
        elif job["spec"].get("suspend"):
            if is_true(workload, "Admitted"):
                await self._start(kind, job, workload)
        elif elastic:
            await self.slices.ungate(job)
        elif not is_true(workload, "Admitted"):
            await self._stop(kind, job, workload)

    def _is_active(self, kind: Kind, job: Object) -> bool:
        """Whether a pod of it lives; one that ends does not count, as in the status of a Job."""
        jobs = [job] if kind is JOBS else owned.of(self._store, JOBS, job)
        return any(owned.lives(pod) for each in jobs for pod in owned.of(self._store, PODS, each))

    async def _make(self, kind: Kind, job: Object) -> None:
        name, labels = job["metadata"]["name"], job["metadata"]["labels"]
        of_pods = _spec_of_jobs(kind, job)
        template = {"spec": clone(of_pods["template"]["spec"])}
        # As the real one does for each Job, whether or not anybody asks for a topology.
        topology = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
        pods = {"name": "main", "count": of_pods.get("parallelism", 1), "topologyRequest": topology}
        body = {
            "metadata": {
                "name": f"{kind.name.lower()}-{name}",
                "labels": {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]},
            },
            "spec": {
                "queueName": labels[QUEUE],
                "podSets": [{**pods, "template": template}],
            },
        }
        if self.slices.heeds(job):
            body["metadata"] |= self.slices.described(job)
        made = owned.child(kind, job, body, {})
        await self._machinery.create(WORKLOADS, job["metadata"]["namespace"], made)

    async def _stop(self, kind: Kind, job: Object, workload: Object) -> None:
        if not job["spec"].get("suspend"):
            job = await self._machinery.patch(kind, key_of(job), "merge", {"spec": {"suspend": True}})
        if kind is not JOBS:
            return  # a flavor's labels are given to the pods of Jobs only
        if (job.get("status") or {}).get("startTime"):
            job = await self._machinery.set_status(JOBS, job, startTime=None)
        asked = workload["spec"]["podSets"][0]["template"]["spec"].get("nodeSelector") or {}
        there = job["spec"]["template"]["spec"].get("nodeSelector") or {}
        if there != asked:
            await self._template(job, {"nodeSelector": {**dict.fromkeys(there), **asked} if asked else None})

    async def _start(self, kind: Kind, job: Object, workload: Object) -> None:
        if kind is not JOBS:
            await self._machinery.patch(kind, key_of(job), "merge", {"spec": {"suspend": False}})
            return
        given = workload["status"]["admission"]["podSetAssignments"][0]["flavors"]
        labels = {
            key: label for flavor in given.values() for key, label in self.flavors.get(flavor, {}).items()
        }
        await self._template(job, {"nodeSelector": labels or None}, suspend=False)

    async def _template(self, job: Object, spec: Object, **more: object) -> None:
        body = {"spec": {"template": {"spec": spec}, **more}}
        await self._machinery.patch(JOBS, key_of(job), "merge", body)

    async def _give_back(self, workload: Object) -> None:
        (evicted,) = [each for each in workload["status"]["conditions"] if each["type"] == "Evicted"]
        reason = evicted["reason"]
        workload = await self._machinery.set_status(WORKLOADS, workload, admission=None)
        workload = await self._says(workload, "Requeued", str(reason == "Preempted"), reason)
        workload = await self._says(workload, "QuotaReserved", "False", "Pending")
        await self._says(workload, "Admitted", "False", "NoReservation")

    # -- workloads -------------------------------------------------------------------------------

    async def _workload(self, workload: Object) -> None:
        if is_true(workload, "Finished"):
            return
        if workload["spec"].get("active", True):
            requeued = condition(workload, "Requeued")
            if (requeued.get("status"), requeued.get("reason")) == ("False", "Deactivated"):
                await self._says(workload, "Requeued", "True", "Reactivated")
        elif not is_true(workload, "Evicted"):
            await self._says(workload, "Evicted", "True", "Deactivated")

    async def _says(self, workload: Object, kind: str, status: str, reason: str) -> Object:
        return await self._machinery.set_condition(WORKLOADS, workload, kind, status, reason)

    # -- the scheduler ---------------------------------------------------------------------------

    async def _schedule(self) -> None:
        waiting = [
            each
            for each in self._store.all(WORKLOADS)
            if each["spec"].get("active", True)
            and not is_true(each, "QuotaReserved")
            and not is_true(each, "Finished")
        ]
        waiting.sort(
            key=lambda each: (
                -each["spec"].get("priority", 0),
                each["metadata"]["creationTimestamp"],
                key_of(each),
            )
        )
        for each in waiting:
            local = self._store.get(LOCAL_QUEUES, (each["metadata"]["namespace"], each["spec"]["queueName"]))
            name = "" if local is None else local["spec"]["clusterQueue"]
            queue = self._store.get(CLUSTER_QUEUES, ("", name))
            if queue is not None:
                await self._admit(each, queue)

    async def _admit(self, workload: Object, queue: Object) -> None:
        name = queue["metadata"]["name"]
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
            quota = {each["name"]: float(each["nominalQuota"]) for each in flavor["resources"]}
            needs = {resource: number for resource, number in _asked(workload).items() if resource in quota}
            used = self._used(name, flavor["name"])
            for resource, number in self.slices.usage_of_former(workload).items():
                used[resource] = used.get(resource, 0.0) - number
            if any(used.get(each, 0.0) + number > quota[each] + 1e-9 for each, number in needs.items()):
                continue
            assignment = {
                "name": "main",
                "count": workload["spec"]["podSets"][0]["count"],
                "flavors": dict.fromkeys(needs, flavor["name"]),
                "resourceUsage": {resource: str(number) for resource, number in needs.items()},
            }
            admission = {"clusterQueue": name, "podSetAssignments": [assignment]}
            workload = await self._machinery.set_status(WORKLOADS, workload, admission=admission)
            workload = await self._says(workload, "QuotaReserved", "True", "QuotaReserved")
            if condition(workload, "Evicted"):
                workload = await self._says(workload, "Evicted", "False", "QuotaReserved")
            workload = await self._says(workload, "Admitted", "True", "Admitted")
            await self.slices.finish_former(workload)
            return

    def _used(self, queue: str, flavor: str) -> dict[str, float]:
        used: dict[str, float] = {}
        for each in self._store.all(WORKLOADS):
            admission = (each.get("status") or {}).get("admission") or {}
            if admission.get("clusterQueue") != queue or is_true(each, "Finished"):
                continue
            for resource, number in usage_of(each, flavor).items():
                used[resource] = used.get(resource, 0.0) + number
        return used


def _spec_of_jobs(kind: Kind, job: Object) -> Object:
    """Return the specification of a Job, of a JobSet that of its only one."""
    if kind is JOBS:
        return dict(job["spec"])
    (only,) = job["spec"]["replicatedJobs"]
    return dict(only["template"]["spec"])


def _is_queued(job: Object) -> bool:
    return QUEUE in (job["metadata"].get("labels") or {}) and not job["metadata"].get("ownerReferences")


def _asked(workload: Object) -> dict[str, float]:
    (pods,) = workload["spec"]["podSets"]
    return {name: number * pods["count"] for name, number in requested(pods["template"]).items()}
