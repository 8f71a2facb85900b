"""The Job controller: suspend, completions, indexes, retries and the pod failure policy.

Retries come at once unless `backoff_seconds` is set: then as on a real cluster with that first delay, doubled
each time, for ignored disruptions too.
"""

from fakekube import owned
from fakekube.clock import Clock
from fakekube.failures import FailureError
from fakekube.kinds import JOBS, PODS, Object
from fakekube.machinery import Machinery

_FINALIZER = "batch.kubernetes.io/job-tracking"
_INDEX = "batch.kubernetes.io/job-completion-index"


class JobController:
    """Makes the pods of Jobs and counts how they end."""

    def __init__(self, machinery: Machinery, clock: Clock) -> None:
        self._machinery = machinery
        self._store = machinery.store
        self._clock = clock
        self.backoff_seconds = 0.0
        self.away = False
        """Whether it is not running."""
        self._failures: dict[str, tuple[int, float]] = {}

    async def act(self) -> None:
        if self.away:
            return
        for job in self._store.all(JOBS):
            if job["spec"].get("managedBy") in {None, "kubernetes.io/job-controller"}:
                await self._reconcile(job)
        await self._release_orphans()

    async def _release_orphans(self) -> None:
        """Take the finalizer off pods whose Job is gone, so that they can go too."""
        uids = {job["metadata"]["uid"] for job in self._store.all(JOBS)}
        for pod in self._store.all(PODS):
            owners = pod["metadata"].get("ownerReferences") or []
            tracked = _FINALIZER in (pod["metadata"].get("finalizers") or [])
            if tracked and not any(owner["uid"] in uids for owner in owners):
                await owned.release(self._machinery, pod, _FINALIZER)

    async def _reconcile(self, job: Object) -> None:
        pods = owned.of(self._store, PODS, job)
        if job["metadata"].get("deletionTimestamp") or _over(job):
            for pod in pods:
                await owned.release(self._machinery, pod, _FINALIZER)
            if _over(job) == "Failed":
                await owned.remove(self._machinery, [pod for pod in pods if owned.lives(pod)])
            return
        job = await self._count(job, pods)
        pods = owned.of(self._store, PODS, job)
        if _over(job):
            return
        if job["spec"]["suspend"]:
            await self._suspend(job, pods)
            return
        await self._run(job, pods)

    # -- what has ended --------------------------------------------------------------------------

    async def _count(self, job: Object, pods: list[Object]) -> Object:
        status = job.get("status") or {}
        succeeded, failed = status.get("succeeded", 0), status.get("failed", 0)
        done = _indexes(status.get("completedIndexes", ""))
        reason = ""
        for pod in pods:
            if _FINALIZER not in (pod["metadata"].get("finalizers") or []) or not self._has_ended(job, pod):
                continue
            if owned.phase(pod) == "Succeeded":
                succeeded += 1
                done |= {_index(pod)}
            elif not job["spec"]["suspend"]:
                action = _action(job, pod)
                self._failed(job)
                failed += action != "Ignore"
                reason = "PodFailurePolicy" if action == "FailJob" else reason
            await owned.release(self._machinery, pod, _FINALIZER)
        job = await self._machinery.set_status(
            JOBS,
            job,
            succeeded=succeeded or None,
            failed=failed or None,
            completedIndexes=_ranges(done) if job["spec"]["completionMode"] == "Indexed" and done else None,
        )
        if not reason and failed > job["spec"]["backoffLimit"]:
            reason = "BackoffLimitExceeded"
        if reason:
            told = (
                "Job has reached the specified backoff limit"
                if "Limit" in reason
                else "a pod failure policy rule"
            )
            await self._machinery.set_condition(JOBS, job, "FailureTarget", "True", reason, told)
            return await self._machinery.set_condition(JOBS, job, "Failed", "True", reason, told)
        completions = job["spec"].get("completions")
        if completions is not None and succeeded >= completions:
            job = await self._machinery.set_condition(
                JOBS, job, "SuccessCriteriaMet", "True", "CompletionsReached"
            )
            job = await self._machinery.set_status(JOBS, job, completionTime=self._clock.text(), active=None)
            return await self._machinery.set_condition(JOBS, job, "Complete", "True", "CompletionsReached")
        return job

    def _has_ended(self, job: Object, pod: Object) -> bool:
        if owned.phase(pod) in owned.TERMINAL:
            return True
        return owned.ends(pod) and job["spec"]["podReplacementPolicy"] != "Failed"

    def _failed(self, job: Object) -> None:
        uid = job["metadata"]["uid"]
        count = self._failures.get(uid, (0, 0.0))[0] + 1
        delay = self.backoff_seconds * 2 ** (count - 1)
        self._failures[uid] = count, self._clock.now() + delay
        if delay:
            self._clock.after(delay, self.act)

    # -- what is to run --------------------------------------------------------------------------

    async def _suspend(self, job: Object, pods: list[Object]) -> None:
        await owned.remove(self._machinery, [pod for pod in pods if owned.phase(pod) not in owned.TERMINAL])
        left = owned.of(self._store, PODS, job)
        live = [pod for pod in left if owned.lives(pod)]
        ending = [pod for pod in left if owned.ends(pod) and owned.phase(pod) not in owned.TERMINAL]
        job = await self._machinery.set_condition(
            JOBS, job, "Suspended", "True", "JobSuspended", "Job suspended"
        )
        await self._machinery.set_status(
            JOBS, job, active=len(live) or None, ready=None, terminating=len(ending) or None, startTime=None
        )

    async def _run(self, job: Object, pods: list[Object]) -> None:
        spec, status = job["spec"], job.get("status") or {}
        if any(entry["type"] == "Suspended" for entry in status.get("conditions") or []):
            job = await self._machinery.set_condition(
                JOBS, job, "Suspended", "False", "JobResumed", "Job resumed"
            )
        live = [pod for pod in pods if owned.lives(pod)]
        ending = [pod for pod in pods if owned.ends(pod) and owned.phase(pod) not in owned.TERMINAL]
        kept = [*live, *ending] if spec["podReplacementPolicy"] == "Failed" else live
        ready_again = self._failures.get(job["metadata"]["uid"], (0, 0.0))[1] <= self._clock.now()
        if spec["completionMode"] == "Indexed":
            live = await self._run_indexed(job, live, kept, may_make=ready_again)
        else:
            live = await self._run_plain(job, live, kept, may_make=ready_again)
        await self._machinery.set_status(
            JOBS,
            job,
            startTime=status.get("startTime") or self._clock.text(),
            active=len(live) or None,
            ready=sum(1 for pod in live if owned.phase(pod) == "Running"),
            terminating=len(ending) or None,
        )

    async def _run_plain(
        self, job: Object, live: list[Object], kept: list[Object], *, may_make: bool
    ) -> list[Object]:
        spec = job["spec"]
        left = spec["parallelism"]
        if spec.get("completions") is not None:
            left = min(left, spec["completions"] - (job.get("status") or {}).get("succeeded", 0))
        await self._let_go(live[max(left, 0) :])
        for _ in range(left - len(kept) if may_make else 0):
            made = await self._make(job, {})
            live = [*live, made] if made else live
        return live[: max(left, 0)]

    async def _run_indexed(
        self, job: Object, live: list[Object], kept: list[Object], *, may_make: bool
    ) -> list[Object]:
        spec = job["spec"]
        done = _indexes((job.get("status") or {}).get("completedIndexes", ""))
        wanted = [index for index in range(spec["completions"]) if index not in done][: spec["parallelism"]]
        await self._let_go([pod for pod in live if _index(pod) not in wanted])
        live = [pod for pod in live if _index(pod) in wanted]
        taken = {_index(pod) for pod in kept}
        for index in wanted:
            if may_make and index not in taken:
                word = {_INDEX: str(index)}
                made = await self._make(job, {"labels": word, "annotations": word}, f"-{index}")
                live = [*live, made] if made else live
        return live

    async def _let_go(self, pods: list[Object]) -> None:
        """Remove pods that are too many: how they end is not counted, so their finalizer goes first."""
        for pod in pods:
            await owned.release(self._machinery, pod, _FINALIZER)
        await owned.remove(self._machinery, pods)

    async def _make(self, job: Object, metadata: Object, suffix: str = "") -> Object | None:
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        metadata = {**metadata, "generateName": f"{name}{suffix}-", "finalizers": [_FINALIZER]}
        manifest = owned.child(JOBS, job, job["spec"]["template"], metadata)
        if suffix:
            manifest["spec"].setdefault("hostname", f"{name}{suffix}")
        try:
            return await self._machinery.create(PODS, namespace, manifest)
        except FailureError:
            return None  # refused at admission: the next change brings another try


def _over(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions") or []
    return next(
        (e["type"] for e in conditions if e["type"] in {"Complete", "Failed"} and e["status"] == "True"), ""
    )


def _index(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(_INDEX, -1))


def _action(job: Object, pod: Object) -> str:
    """Return what the pod failure policy says of a pod that failed: the first rule that fits."""
    for rule in (job["spec"].get("podFailurePolicy") or {}).get("rules") or []:
        if "onPodConditions" in rule:
            wanted = {entry["type"] for entry in rule["onPodConditions"]}
            conditions = pod.get("status", {}).get("conditions") or []
            if any(entry["type"] in wanted and entry["status"] == "True" for entry in conditions):
                return str(rule["action"])
        elif _codes_fit(rule["onExitCodes"], pod):
            return str(rule["action"])
    return "Count"


def _codes_fit(wanted: Object, pod: Object) -> bool:
    for status in pod.get("status", {}).get("containerStatuses") or []:
        code = (status.get("state", {}).get("terminated") or {}).get("exitCode")
        if code and wanted.get("containerName") in {None, status["name"]}:
            return (code in wanted["values"]) is (wanted["operator"] == "In")
    return False


def _indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _ranges(indexes: set[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in parts)
