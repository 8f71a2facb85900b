"""A whole installation whose jobs Kueue manages: its stand-in lets them run, and a manager moves them."""

from pathlib import Path
from typing import Any, Self

from fakekube import owned
from fakekube.kinds import CLUSTER_QUEUES, JOB_SETS, JOBS, LOCAL_QUEUES, NODES, TRAINING_JOBS, WORKLOADS
from fakekube.kueue import QUEUE
from fakekube.kueue_slices import is_true
from specon_manager.backends.kube.backend import KubeSettings
from specon_manager.backends.kube.kueue.standing import KueueMoveSettings
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.backends.kube.watching.cluster_watch import WatchSettings
from support.kube.eviction_stage import EvictionStage
from support.kube.kueue_objects import queue_object
from support.kube.training_templates import elastic_job, held_job, training_template

Object = dict[str, Any]
MOVES = KueueMoveSettings(enabled=True, cluster_queues=("team", "full"))


class KueueMoveStage(EvictionStage):
    """A ClusterQueue `team` of ten processors that is opted in, and `other` that is not."""

    def __init__(self, folder: Path, *, nodes: int = 4, moves: KueueMoveSettings = MOVES) -> None:
        kube = KubeSettings(
            watch=WatchSettings(kueue_moves=moves),
            rooms=RoomSettings(patience=1.0, guard_class="guards"),
            eviction_patience=1.5,
            unschedulable_seconds=3.0,
        )
        super().__init__(folder, nodes=nodes, kube=kube, kueue=True)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self.queue("team", **{"default/cpu": 10})
        await self.queue("other", **{"default/cpu": 10})
        return self

    async def queue(self, name: str, **quotas: object) -> None:
        """Make a ClusterQueue, and a LocalQueue of its name; quotas by `flavor/resource`."""
        machinery = self.cluster.machinery
        await machinery.create(CLUSTER_QUEUES, "", queue_object(name, **quotas))  # type: ignore[arg-type]
        local = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
        await machinery.create(LOCAL_QUEUES, "training", local)

    async def make_queued(self, owner: str, name: str, queue: str = "team", **spec: Any) -> str:
        """Create something that trains once Kueue has admitted it, and return the name of its replica."""
        return await self.make(owner, name, labels={QUEUE: queue}, **spec)

    async def make_job_set(self, name: str, workers: int, queue: str = "team") -> list[str]:
        """Create a JobSet of one Job whose pods train as one, and return the names of its replicas."""
        template = training_template(name)
        template["metadata"]["annotations"] |= {"specon.io/savers": "all"}
        indexed = {"completionMode": "Indexed", "completions": workers, "parallelism": workers}
        job = {"metadata": {}, "spec": {"backoffLimit": 0, **indexed, "template": template}}
        spec = {"replicatedJobs": [{"name": "node", "replicas": 1, "template": job}]}
        metadata = {"name": name, "labels": {QUEUE: queue}}
        self.sidecars.together.add(f"training/{name}-node-0")
        await self.cluster.machinery.create(JOB_SETS, "training", {"metadata": metadata, "spec": spec})
        return [f"training/{name}-node-0/worker/{index}" for index in range(workers)]

    async def make_elastic(self, name: str, queue: str, **numbers: int) -> list[str]:
        """Create a Job that Kueue sizes by slices, and return the names of the replicas that it may have."""
        await self.cluster.machinery.create(JOBS, "training", elastic_job(name, queue, **numbers))
        return [f"training/{name}/worker/{index}" for index in range(numbers["most"])]

    async def hold(self, name: str, *, cpu: str) -> None:
        """Create a Job that our manager admits, and Kueue knows nothing of."""
        await self.cluster.machinery.create(JOBS, "training", held_job(name, cpu))

    async def set_quota(self, queue: str, cpu: float) -> None:
        """Give a ClusterQueue another quota."""
        groups = queue_object(queue, **{"default/cpu": cpu})["spec"]["resourceGroups"]
        body = {"spec": {"resourceGroups": groups}}
        await self.cluster.machinery.patch(CLUSTER_QUEUES, ("", queue), "merge", body)

    async def fill(self, name: str, cpu: str, queue: str = "team") -> None:
        """Create a Job that is none of ours, in a queue."""
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        metadata = {"name": name, "labels": {QUEUE: queue}}
        await self.cluster.machinery.create(
            JOBS, "training", {"metadata": metadata, "spec": {"template": template}}
        )

    async def label(self, node: str, **labels: str) -> None:
        await self.cluster.machinery.patch(NODES, ("", node), "merge", {"metadata": {"labels": labels}})

    def workload(self, job: str) -> Object:
        """Return the Workload of a Job; empty where there is none yet."""
        return self.cluster.store.get(WORKLOADS, ("training", f"job-{job}")) or {}

    def sizes(self, job: str) -> list[tuple[int, bool]]:
        """Return how many pods each unfinished Workload of a Job asks for, and whether it is admitted."""
        owner = self.cluster.store.get(JOBS, ("training", job))
        found = [] if owner is None else owned.of(self.cluster.store, WORKLOADS, owner)
        unfinished = [each for each in found if not is_true(each, "Finished")]
        return sorted((each["spec"]["podSets"][0]["count"], is_true(each, "Admitted")) for each in unfinished)

    def is_active(self, job: str) -> bool:
        return bool(self.workload(job)["spec"]["active"])

    def is_admitted(self, job: str) -> bool:
        conditions = (self.workload(job).get("status") or {}).get("conditions") or []
        return any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions)

    async def set_workload(self, job: str, body: Object) -> None:
        await self.cluster.machinery.patch(WORKLOADS, ("training", f"job-{job}"), "merge", body)

    def record(self, job: str) -> Object:
        """Return the status of the job's TrainingJob."""
        return (self.cluster.store.get(TRAINING_JOBS, ("training", job)) or {}).get("status") or {}
