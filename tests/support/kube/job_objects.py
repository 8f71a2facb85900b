"""Objects of every kind of training job, as users write them, for a number of workers."""

import copy

from fakekube.kinds import JOB_KINDS, JOBS, LEADER_WORKER_SETS
from support.kube.stage import template

ELASTIC = {"specon.io/min-workers": "1", "specon.io/max-workers": "8"}
QUEUED = {"specon.io/queue": "team-a"}


def job_object(kind, workers=2, *, annotations=None, name="train", pods=None, **spec):
    """Return the object of a job of this kind; `spec` is merged over what it usually says."""
    made = pods or template({**QUEUED, **ELASTIC} if annotations is None else annotations)
    metadata = {"name": name, "namespace": "a", "uid": f"{kind}-uid", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {**_SPECS[kind](workers, made), **spec}}


def job_set_of_several(pods, *sizes):
    """Return a JobSet with an Indexed Job of each size."""
    jobs = [
        {"name": f"part-{number}", "template": {"spec": _indexed(size, copy.deepcopy(pods))}}
        for number, size in enumerate(sizes)
    ]
    return job_object("JobSet", replicatedJobs=jobs)


def _indexed(workers, pods):
    return {"completionMode": "Indexed", "parallelism": workers, "completions": workers, "template": pods}


def _types(field, **sizes):
    def made(workers, pods):
        types = {**sizes, "Worker": workers}
        return {field: {name: {"replicas": size, "template": pods} for name, size in types.items()}}

    return made


def _job_set(workers, pods):
    return {"replicatedJobs": [{"name": "node", "template": {"spec": _indexed(workers, pods)}}]}


_SPECS = {
    "Job": _indexed,
    "TFJob": _types("tfReplicaSpecs", PS=1),
    "PyTorchJob": _types("pytorchReplicaSpecs"),
    "MPIJob": _types("mpiReplicaSpecs", Launcher=1),
    "JobSet": _job_set,
    "TrainJob": lambda workers, _: {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": workers}},
    "LeaderWorkerSet": lambda workers, pods: {
        "replicas": 1,
        "leaderWorkerTemplate": {"size": workers, "workerTemplate": pods},
    },
    "StatefulSet": lambda workers, pods: {"replicas": workers, "template": pods},
}
KINDS = tuple(sorted(_SPECS))
SUSPENDABLE = {kind.name: kind for kind in (JOBS, *JOB_KINDS)}
"""The kinds that say `suspend`, as the API server knows them."""
MOVED_AS_ONE = {**SUSPENDABLE, LEADER_WORKER_SETS.name: LEADER_WORKER_SETS}
"""With them the kind that says `replicas: 0` in its place."""
