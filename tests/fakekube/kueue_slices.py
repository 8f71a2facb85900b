"""What a stand-in for Kueue does with elastic Jobs: a slice for each growth, and gates on their pods.

Source: Kueue at ff69552e79 (August 2026), `EnsureWorkloadSlices` and `normalizeActiveSlices` of
`pkg/workloadslicing`, `prepareWorkloadSlice` of `pkg/controller/jobframework/reconciler.go`, `podsToUngate`
of `pkg/controller/elasticjobs`, `totalRequestsFromAdmission` of `pkg/workload`. The real one is asked in
`tests/contract/kube/test_kueue_slices.py`.
"""

from collections.abc import Sequence

from fakekube import owned
from fakekube.kinds import PODS, WORKLOADS, Object
from fakekube.machinery import Machinery
from fakekube.store import key_of

_ELASTIC = "kueue.x-k8s.io/elastic-job"
_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
_GATE = {"name": _ELASTIC}


class Slices:
    """The slices of all elastic Jobs, and their pods; `on` is Kueue's feature gate."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery, self._store = machinery, machinery.store
        self.on = True

    def heeds(self, job: Object) -> bool:
        """Whether a Job is sized by slices."""
        return self.on and (job["metadata"].get("annotations") or {}).get(_ELASTIC) == "true"

    def gated(self, job: Object) -> Object:
        """Return a new Job whose pods wait for a slice that is admitted, and any other as it is."""
        if not self.heeds(job):
            return job
        template = job["spec"]["template"]
        pod = {**template["spec"], "schedulingGates": [*template["spec"].get("schedulingGates", ()), _GATE]}
        return {**job, "spec": {**job["spec"], "template": {**template, "spec": pod}}}

    def described(self, job: Object) -> Object:
        """Return what the metadata of its next slice say besides."""
        made = owned.of(self._store, WORKLOADS, job)
        former, number = self._unfinished(made), len(made)
        replaces = {_REPLACES: "/".join(key_of(former[-1]))} if former else {}
        name = f"job-{job['metadata']['name']}" + (f"-{number}" if number else "")
        return {"name": name, "annotations": {_ELASTIC: "true", **replaces}}

    async def select(self, job: Object, workloads: Sequence[Object]) -> Object | None:
        """Return the slice that stands for the Job as it is; None where there is to be another one."""
        found = self._unfinished(workloads)
        if not found:
            return next((each for each in workloads if is_true(job, "Complete")), None)
        selected, wanted = found[-1], job["spec"].get("parallelism", 1)
        pods = selected["spec"]["podSets"]
        if pods[0]["count"] == wanted:
            return selected
        if is_true(selected, "QuotaReserved") and wanted > pods[0]["count"]:
            return None
        body = {"spec": {"podSets": [{**pods[0], "count": wanted}]}}
        return await self._machinery.patch(WORKLOADS, key_of(selected), "merge", body)

    async def ungate(self, job: Object) -> None:
        """Let as many pods be scheduled as the slice that is admitted has."""
        slices = self._unfinished(owned.of(self._store, WORKLOADS, job))
        admitted = [each for each in slices if is_true(each, "Admitted")]
        if not admitted:
            return
        pods = [pod for pod in owned.of(self._store, PODS, job) if owned.lives(pod)]
        gated = [pod for pod in pods if _GATE in (pod["spec"].get("schedulingGates") or ())]
        room = admitted[-1]["spec"]["podSets"][0]["count"] - (len(pods) - len(gated))
        for pod in sorted(gated, key=key_of)[: max(0, room)]:
            left = [gate for gate in pod["spec"]["schedulingGates"] if gate != _GATE]
            await self._machinery.patch(
                PODS, key_of(pod), "merge", {"spec": {"schedulingGates": left or None}}
            )

    def usage_of_former(self, workload: Object) -> dict[str, float]:
        """Return what a slice gives back when it is admitted."""
        former = self._former(workload)
        return {} if former is None else usage_of(former)

    async def finish_former(self, workload: Object) -> None:
        """Let the slice be finished that another one replaces."""
        former = self._former(workload)
        if former is not None:
            reason = "WorkloadSliceReplaced"
            await self._machinery.set_condition(WORKLOADS, former, "Finished", "True", reason)

    def _former(self, workload: Object) -> Object | None:
        replaced = (workload["metadata"].get("annotations") or {}).get(_REPLACES)
        found = None if replaced is None else self._store.get(WORKLOADS, tuple(replaced.split("/")))
        return None if found is None or is_true(found, "Finished") else found

    def _unfinished(self, workloads: Sequence[Object]) -> list[Object]:
        found = [each for each in workloads if not is_true(each, "Finished")]
        return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], key_of(each)))


def usage_of(workload: Object, flavor: str | None = None) -> dict[str, float]:
    """Return what an admitted Workload has, of a flavor, by resource: a scale-in has given some back."""
    used: dict[str, float] = {}
    pods = {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
    for each in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ():
        left = min(1.0, pods[each["name"]] / each["count"])
        for resource, number in each["resourceUsage"].items():
            if flavor in {None, each["flavors"][resource]}:
                used[resource] = used.get(resource, 0.0) + left * float(number)
    return used


def condition(value: Object, kind: str) -> Object:
    """Return a condition of an object; empty where it has none of that kind."""
    conditions = (value.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def is_true(value: Object, kind: str) -> bool:
    """Whether a condition of an object is true."""
    return bool(condition(value, kind).get("status") == "True")
