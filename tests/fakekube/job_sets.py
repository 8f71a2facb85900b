"""Stand-ins for the controllers of JobSet and of Kubeflow Trainer, as their sources read; none was run.

A JobSet makes Jobs, a TrainJob makes a JobSet of its own name from a runtime; `suspend` is passed on.
"""

from fakekube import owned
from fakekube.kinds import JOB_SETS, JOBS, TRAIN_JOBS, Object
from fakekube.machinery import Machinery
from fakekube.store import clone, key_of

_ENDED = ("Complete", "Completed", "Failed")


class JobSetController:
    """A Job for each replica of each replicated job; `suspend` is passed on."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store

    async def act(self) -> None:
        for value in self._store.all(JOB_SETS):
            if not value["metadata"].get("deletionTimestamp") and not _ended(value):
                await self._reconcile(value)

    async def _reconcile(self, value: Object) -> None:
        suspend = bool(value["spec"].get("suspend"))
        jobs = {job["metadata"]["name"]: job for job in owned.of(self._store, JOBS, value)}
        for replicated in value["spec"]["replicatedJobs"]:
            for number in range(replicated.get("replicas", 1)):
                name = f"{value['metadata']['name']}-{replicated['name']}-{number}"
                if name not in jobs:
                    await self._make(value, replicated, number, name, suspend=suspend)
                else:
                    await self._pass_on(jobs[name], replicated, suspend=suspend)
        value = await self._machinery.set_condition(
            JOB_SETS, value, "Suspended", str(suspend), "SuspendedJobs"
        )
        await self._finish(value, list(jobs.values()))

    async def _pass_on(self, job: Object, replicated: Object, *, suspend: bool) -> None:
        """Bring a Job up to date with the numbers that may change, and with the suspension."""
        wanted = {
            field: replicated["template"]["spec"].get(field) for field in ("parallelism", "completions")
        }
        spec = {
            field: number
            for field, number in wanted.items()
            if number is not None and job["spec"].get(field) != number
        }
        if bool(job["spec"]["suspend"]) != suspend:
            spec["suspend"] = suspend
        if spec:
            await self._machinery.patch(JOBS, key_of(job), "merge", {"spec": spec})

    async def _finish(self, value: Object, jobs: list[Object]) -> None:
        ended = [_ended(job) for job in jobs]
        if "Failed" in ended:
            await self._machinery.set_condition(JOB_SETS, value, "Failed", "True", "FailedJobs")
        elif ended and all(ended):
            await self._machinery.set_condition(JOB_SETS, value, "Completed", "True", "AllJobsCompleted")

    async def _make(
        self, value: Object, replicated: Object, number: int, name: str, *, suspend: bool
    ) -> None:
        sizes = {each["name"]: each.get("replicas", 1) for each in value["spec"]["replicatedJobs"]}
        before = sum(list(sizes.values())[: list(sizes).index(replicated["name"])])
        labels = {
            "jobset.sigs.k8s.io/jobset-name": value["metadata"]["name"],
            "jobset.sigs.k8s.io/jobset-uid": value["metadata"]["uid"],
            "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"],
            "jobset.sigs.k8s.io/job-index": str(number),
            "jobset.sigs.k8s.io/global-replicas": str(sum(sizes.values())),
            "jobset.sigs.k8s.io/job-global-index": str(before + number),
        }
        template = clone(replicated["template"])
        template["spec"]["suspend"] = suspend
        own = template["spec"]["template"].setdefault("metadata", {})
        own["labels"] = {**(own.get("labels") or {}), **labels}
        manifest = owned.child(JOB_SETS, value, template, {"name": name, "labels": labels})
        await self._machinery.create(JOBS, value["metadata"]["namespace"], manifest)


class TrainJobController:
    """A JobSet with one Job named `node` for each TrainJob whose runtime is known."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store
        self.runtimes: dict[str, Object] = {}
        """Templates of pods by the name of the runtime, as TrainingRuntimes have them."""

    async def act(self) -> None:
        for value in self._store.all(TRAIN_JOBS):
            if not value["metadata"].get("deletionTimestamp") and not _ended(value):
                await self._reconcile(value)

    async def _reconcile(self, value: Object) -> None:
        runtime = self.runtimes.get((value["spec"].get("runtimeRef") or {}).get("name", ""))
        if runtime is None:
            return
        suspend = bool(value["spec"].get("suspend"))
        sets = owned.of(self._store, JOB_SETS, value)
        if not sets:
            await self._make(value, runtime, suspend=suspend)
        elif bool(sets[0]["spec"].get("suspend")) != suspend:
            await self._machinery.patch(JOB_SETS, key_of(sets[0]), "merge", {"spec": {"suspend": suspend}})
        value = await self._machinery.set_condition(
            TRAIN_JOBS, value, "Suspended", str(suspend), "TrainJobSuspended"
        )
        if sets and _ended(sets[0]):
            ended = "Failed" if _ended(sets[0]) == "Failed" else "Complete"
            await self._machinery.set_condition(TRAIN_JOBS, value, ended, "True", "JobsCompleted")

    async def _make(self, value: Object, runtime: Object, *, suspend: bool) -> None:
        nodes = (value["spec"].get("trainer") or {}).get("numNodes", 1)
        job = {
            "completionMode": "Indexed",
            "parallelism": nodes,
            "completions": nodes,
            "backoffLimit": 0,
            "template": clone(runtime),
        }
        spec = {
            "suspend": suspend,
            "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}],
        }
        manifest = owned.child(TRAIN_JOBS, value, {"spec": spec}, {"name": value["metadata"]["name"]})
        await self._machinery.create(JOB_SETS, value["metadata"]["namespace"], manifest)


def _ended(value: Object) -> str:
    conditions = (value.get("status") or {}).get("conditions") or []
    return next((e["type"] for e in conditions if e["type"] in _ENDED and e["status"] == "True"), "")
