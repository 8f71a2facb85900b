"""What may be done to a job of each kind, from its object and the version of the server: never assumed. Pure.

| kind | held and preempted by | workers changed |
|---|---|---|
| Job, Indexed, as many completions as pods | suspend (1.24) | live (elastic Indexed Jobs, 1.27) |
| Job, other | suspend | not |
| TFJob | runPolicy.suspend (training operator 1.7) | live with enableDynamicWorker; else restart |
| PyTorchJob | runPolicy.suspend (1.7) | live with elasticPolicy and no Master; else restart |
| MPIJob v2beta1 | runPolicy.suspend (MPI operator 0.4) | restart: mpirun has a fixed list of hosts |
| JobSet of one Indexed Job | suspend | live where the JobSet controller lets it, else refused |
| JobSet of several Indexed Jobs | suspend, where they are alike but for requests, and train as one | not |
| TrainJob | suspend (Trainer 2.0) | not: numNodes cannot be changed |
| LeaderWorkerSet, StatefulSet, bare Pod, others | not | not |

`live`: the others train on while some go or come. `restart`: the job is suspended after a verified
checkpoint, its number is changed, and it is resumed.

Sources: KEP-3715 (elastic Indexed Jobs); training operator 1.9, `controller.v1` (a shrunk PyTorchJob without
elastic training, or a TFJob without the sparse cluster, would keep a stale list of peers); MPI operator,
`newConfigMap` (hosts by index, the highest go); JobSet's and Trainer's admission rules.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.leader_worker_set import KIND
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_sidecar.counts import format_count

Resizing = Literal["live", "restart", "none"]

_ELASTIC_JOBS: Final = (1, 27)
SINCE: Final[Mapping[str, str]] = {
    "Job": "suspend: Kubernetes 1.24; live: Kubernetes 1.27 (elastic Indexed Jobs)",
    "TFJob": "suspend: training operator 1.7; enableDynamicWorker: 1.5",
    "PyTorchJob": "suspend: training operator 1.7; elasticPolicy: 1.4",
    "MPIJob": "suspend: MPI operator 0.4, v2beta1",
    "JobSet": "suspend: JobSet 0.1; live only where its admission lets the numbers of an Indexed Job change",
    "TrainJob": "suspend: Trainer 2.0",
}
"""Since which version each kind can take each action on it."""
_NOT_HELD: Final[Mapping[str, str]] = {
    KIND: "a LeaderWorkerSet is moved, and neither held nor scaled: replicas: 0 may be its user's own wish"
}


class Capability(Struct, frozen=True, kw_only=True):
    """What may be done to one job."""

    kind: str
    suspends: bool = False
    """Whether its object can be suspended."""
    resizing: Resizing = "none"
    unscalable: str = ""
    """Why its number of workers is left alone, in words; empty where it is not."""
    unholdable: str = ""
    """Why it is not held until it is admitted, in words; empty where it is."""
    unpreemptible: str = ""
    """Why it is not preempted, in words; empty where it may be."""
    top_down: bool = True
    """Whether only the workers with the highest indices can go."""
    fewest: int | None = None
    """With how many workers it can train, as its annotations and its object say; None: they do not."""
    most: int | None = None
    """How many workers it can use, likewise."""
    since: str = ""


class _Way(Struct, frozen=True):
    """How the number of workers of an object changes: `why` not, or since it would need a restart."""

    resizing: Resizing
    why: str = ""


def capability(owner: OwnerInfo | None, options: Options, server: tuple[int, int] = (0, 0)) -> Capability:
    """Return what may be done to the job of this owner; None: a bare pod, or an owner that nobody watches.

    `server` is the version of the API server, (0, 0) where it is not known: then it is taken to be one that
    is supported.
    """
    if owner is None:
        why = "nothing that can be suspended creates its pods"
        return _none("Pod", why)
    in_kueue = f"Kueue manages {owner}: it decides when and where its pods run" if owner.kueue else ""
    theirs = _of_others(owner)
    if theirs or owner.kind not in SINCE:
        why = theirs or _NOT_HELD.get(
            owner.kind, f"a {owner.kind} cannot be suspended, and its number of pods is no training job's"
        )
        return _none(owner.kind, why, suspends=owner.kind in SINCE)
    alone = no_gang(owner)
    fixed = f"the controller of {owner} lets nobody change the number of its workers" if owner.fixed else ""
    way = _Way("none", alone or fixed) if alone or fixed else _WAYS[owner.kind](owner, server)
    why = way.why if way.resizing == "none" else _not_asked(owner, options)
    queued = "" if options.queue else "it has no annotation specon.io/queue"
    fewest, most = _bounds(owner, options)
    return Capability(
        kind=owner.kind,
        suspends=True,
        resizing="none" if why else way.resizing,
        unscalable=why,
        unholdable=in_kueue or alone or queued,
        unpreemptible=in_kueue or alone or queued,
        fewest=None if why else fewest,
        most=None if why else most,
        since=SINCE[owner.kind],
    )


def _none(kind: str, why: str, *, suspends: bool = False) -> Capability:
    return Capability(kind=kind, suspends=suspends, unscalable=why, unholdable=why, unpreemptible=why)


def _of_others(owner: OwnerInfo) -> str:
    """Return who else decides how many of its pods run, and when and where; empty where nobody does."""
    if owner.kueue and owner.kueue_fixed:
        return f"Kueue manages {owner}: {owner.kueue_fixed}"
    if owner.volcano:
        return f"Volcano manages {owner}: {owner.volcano}"
    if owner.managed_by:
        return f"{owner.managed_by} manages {owner}"
    if owner.controller:
        return f"{owner} belongs to {owner.controller}, which would undo any change of it"
    return ""


def no_gang(owner: OwnerInfo) -> str:
    """Return why its pods are no gang that comes and goes as one; empty where they are."""
    if owner.kind in {"JobSet", "TrainJob"} and not owner.job:
        return f"{owner} makes {owner.jobs} Jobs, each a job of its own: their pods do not train as one"
    if owner.apart:
        return f"{owner} {owner.apart}"
    if owner.kind in {"Job", "JobSet", "TrainJob"} and not owner.indexed and owner.at_once > 1:
        return f"{owner} is not Indexed: its {owner.at_once} pods cannot be told apart"
    if owner.indexed and owner.at_once != owner.workers:
        return f"{owner} runs {owner.at_once} of its {owner.workers} pods at once: it is no group of workers"
    return ""


def _not_asked(owner: OwnerInfo, options: Options) -> str:
    if options.min_workers is None and options.max_workers is None:
        return "it has no annotation specon.io/max-workers or specon.io/min-workers"
    fewest, most = _bounds(owner, options)
    if fewest >= most:
        return f"it can train with {format_count(most, 'worker')} only"
    return ""


def _bounds(owner: OwnerInfo, options: Options) -> tuple[int, int]:
    """Return with how many workers the job can train, fewest and most, at least as many as always stay."""
    fewest = owner.asked if options.min_workers is None else options.min_workers
    most = owner.asked if options.max_workers is None else options.max_workers
    if owner.elastic is not None:
        fewest = max(fewest, owner.elastic[0] + owner.heads)
        most = min(most, owner.elastic[1] + owner.heads)
    least = max(owner.heads, 1)
    return max(fewest, least), max(most, owner.asked, least)


def _job(owner: OwnerInfo, server: tuple[int, int]) -> _Way:
    if not owner.indexed:
        return _Way("none", f"{owner} is not Indexed: its pods cannot be told apart")
    if owner.success_policy:
        return _Way("none", f"{owner} has a successPolicy, which names indexes that would change")
    if server != (0, 0) and server < _ELASTIC_JOBS:
        return _Way("none", "elastic Indexed Jobs need Kubernetes 1.27, and this is {}.{}".format(*server))
    return _Way("live")


def _tf_job(owner: OwnerInfo, server: tuple[int, int]) -> _Way:
    del server
    return _kubeflow(owner) or _Way("live" if owner.dynamic else "restart")


def _pytorch_job(owner: OwnerInfo, server: tuple[int, int]) -> _Way:
    del server
    # With a Master the rendezvous has a fixed size; else worker 0, which always stays, is where it happens.
    return _kubeflow(owner) or _Way("live" if owner.elastic is not None and not owner.heads else "restart")


def _mpi_job(owner: OwnerInfo, server: tuple[int, int]) -> _Way:
    del server
    if owner.launcher_works:
        return _Way("none", f"{owner} runs a worker in its launcher (runLauncherAsWorker)")
    return _kubeflow(owner) or _Way("restart")


def _job_set(owner: OwnerInfo, server: tuple[int, int]) -> _Way:
    if owner.jobs != 1:
        return _Way("none", f"{owner} makes {owner.jobs} Jobs: which of them would change is not said")
    return _job(owner, server)


def _train_job(owner: OwnerInfo, server: tuple[int, int]) -> _Way:
    del server
    return _Way("none", f"{owner}: the trainer of a TrainJob, with its numNodes, cannot be changed")


def _kubeflow(owner: OwnerInfo) -> _Way | None:
    if owner.evaluators:
        return _Way("none", f"{owner} has evaluators, which would be the first workers to go")
    if owner.workers <= owner.heads:
        return _Way("none", f"{owner} has no replicas of the type Worker")
    return None


_WAYS: Final[Mapping[str, Callable[[OwnerInfo, tuple[int, int]], _Way]]] = {
    "Job": _job,
    "TFJob": _tf_job,
    "PyTorchJob": _pytorch_job,
    "MPIJob": _mpi_job,
    "JobSet": _job_set,
    "TrainJob": _train_job,
}
