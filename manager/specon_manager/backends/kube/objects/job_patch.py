"""Reads and writes fields of the objects of jobs, by kind: suspension, number of workers, our marks. Pure.

A number of workers counts everything that is no parameter server and no launcher of MPI: a master or chief
and evaluators too. Where it is changed, the last workers go or come; heads and parameter servers never do.

Sources: Kubernetes API reference, Job v1; Kubeflow training operator v1 (`RunPolicy.suspend`); MPI operator
v2beta1; JobSet v1alpha2; Kubeflow Trainer v2 (`TrainJob`); LeaderWorkerSet v1.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

from specon_manager.backends.kube.objects.annotation_keys import SCALED, SUSPENDED_FOR
from specon_manager.backends.kube.objects.fields import count, mapping, mappings
from specon_manager.backends.kube.objects.leader_worker_set import KIND, why_not_as_one
from specon_manager.backends.kube.transport.resources import Object
from specon_sidecar.counts import format_count

SWITCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "Job": ("spec", "suspend"),
    "JobSet": ("spec", "suspend"),
    "TrainJob": ("spec", "suspend"),
    "TFJob": ("spec", "runPolicy", "suspend"),
    "PyTorchJob": ("spec", "runPolicy", "suspend"),
    "MPIJob": ("spec", "runPolicy", "suspend"),
    KIND: ("spec", "replicas"),
}
"""Where each kind that can be suspended has its switch."""
_NO_GROUP: Final = 0
_ONE_GROUP: Final = 1
"""What a LeaderWorkerSet says in the place of `suspend`, and of its opposite: one of several is not moved."""
_WORKLOAD: Final = "Workload"
"""Of Kueue: it suspends the job that it stands for while `spec.active` is false."""
REPLICA_SPECS: Final[Mapping[str, str]] = {
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
"""Where Kubeflow's kinds describe their replicas, by type."""
_BESIDE: Final = frozenset({"ps", "launcher"})


class JobWish(Struct, frozen=True, kw_only=True):
    """What an object is to say; fields left out stay as they are."""

    suspended: bool | None = None
    workers: int | None = None
    mark: str | UnsetType | None = UNSET
    """For which move or change it is suspended; None takes the mark away."""
    scaled: str | UnsetType | None = UNSET
    """`FROM:TO`; None takes it away."""


class JobPatch(Struct, frozen=True):
    """A patch that holds only for the version of the object that was read."""

    body: Object
    form: Literal["merge"] = "merge"
    resizes: bool = False
    """Whether it changes the number of workers."""


def job_patch(kind: str, obj: Object, wish: JobWish) -> JobPatch | None:
    """Return the one patch by which the object says `wish`; None where it does already.

    Raises ValueError where an object of this kind cannot say it, in words for people.
    """
    body: Object = {}
    if wish.suspended is not None and is_suspended(kind, obj) is not wish.suspended:
        _merge(body, _switch(kind, obj, suspend=wish.suspended))
    resizes = wish.workers is not None and workers_of(kind, obj) != wish.workers
    if wish.workers is not None and resizes:
        _merge(body, _resize(kind, obj, wish.workers))
    known = mapping(mapping(obj.get("metadata")).get("annotations"))
    marks = {
        key: value
        for key, value in ((SUSPENDED_FOR, wish.mark), (SCALED, wish.scaled))
        if value is not UNSET and known.get(key) != value
    }
    if marks:
        _merge(body, {"metadata": {"annotations": marks}})
    if not body:
        return None
    version = mapping(obj.get("metadata")).get("resourceVersion")
    return JobPatch(_merge(body, {"metadata": {"resourceVersion": version}}), resizes=resizes)


def is_suspended(kind: str, obj: Object) -> bool:
    """Return whether the object says that nothing of its job is to run."""
    if kind == _WORKLOAD:
        return mapping(obj.get("spec")).get("active") is False
    found: Any = obj if kind in SWITCHES else {}
    for part in SWITCHES.get(kind, ()):
        found = mapping(found).get(part)
    if kind == KIND:
        return count(found, _ONE_GROUP) == _NO_GROUP
    return found is True


def workers_of(kind: str, obj: Object) -> int:
    """Return how many workers the object asks for, heads and evaluators among them."""
    spec = mapping(obj.get("spec"))
    if kind in REPLICA_SPECS:
        return sum(
            count(mapping(of_type).get("replicas"), 1)
            for name, of_type in mapping(spec.get(REPLICA_SPECS[kind])).items()
            if name.lower() not in _BESIDE
        )
    if kind == "JobSet":
        return sum(
            count(each.get("replicas"), 1) * indexes_of(mapping(mapping(each.get("template")).get("spec")))
            for each in mappings(spec.get("replicatedJobs"))
        )
    if kind == "TrainJob":
        return count(mapping(spec.get("trainer")).get("numNodes"), 1)
    if kind == "StatefulSet":
        return count(spec.get("replicas"), 1)
    if kind == KIND:
        return count(mapping(spec.get("leaderWorkerTemplate")).get("size"), 1)
    return indexes_of(spec) if kind == "Job" else 1


def indexes_of(spec: Mapping[str, Any]) -> int:
    """Return how many workers a Job of this specification has: one for each index.

    The pods of a Job that is not Indexed are all alike, and one worker.
    """
    parallelism = count(spec.get("parallelism"), 1)
    if spec.get("completionMode") != "Indexed":
        return min(parallelism, 1)
    return parallelism if spec.get("completions") is None else count(spec.get("completions"), 1)


def read_asked_workers(workers: int, scaled: str) -> int:
    """Return how many workers its user asks for, from what the object says and the mark `FROM:TO` on it.

    As long as the object says TO, which we wrote, the wish is FROM; any other number is its user's own. A
    mark that cannot be read says nothing.
    """
    before, _, after = scaled.partition(":")
    if not all(part.isascii() and part.isdigit() and len(part) < 7 for part in (before, after)):  # noqa: PLR2004  (more digits than any number of workers has)
        return workers
    return int(before) if int(after) == workers else workers


def _switch(kind: str, obj: Object, *, suspend: bool) -> Object:
    if kind == _WORKLOAD:
        return {"spec": {"active": not suspend}}
    if kind not in SWITCHES:
        raise ValueError(f"a {kind} cannot be suspended")
    switch: Any = suspend
    if kind == KIND:
        if suspend and (against := why_not_as_one(obj)):
            raise ValueError(f"it {against}")
        switch = _NO_GROUP if suspend else _ONE_GROUP
    for part in reversed(SWITCHES[kind]):
        switch = {part: switch}
    switched: Object = switch
    return switched


def _resize(kind: str, obj: Object, workers: int) -> Object:
    if workers < 1:
        raise ValueError(f"workers: {workers} is fewer than 1")
    spec = mapping(obj.get("spec"))
    if kind == "Job":
        if spec.get("completionMode") != "Indexed":
            raise ValueError("a Job that is not Indexed has no workers that can be told apart")
        return {"spec": {"parallelism": workers, "completions": workers}}
    if kind in REPLICA_SPECS:
        return {"spec": {REPLICA_SPECS[kind]: _resize_type(kind, spec, workers)}}
    if kind == "JobSet":
        return {"spec": {"replicatedJobs": _resize_jobs(spec, workers)}}
    if kind == "TrainJob":
        raise ValueError("the trainer of a TrainJob, with its numNodes, cannot be changed")
    raise ValueError(f"the number of workers of a {kind} is not ours to change")


def _resize_type(kind: str, spec: Mapping[str, Any], workers: int) -> Object:
    """Return the merge patch of the replica specifications; heads and evaluators stay as they are."""
    types = mapping(spec.get(REPLICA_SPECS[kind]))
    others = 0
    found = None
    for name, of_type in types.items():
        if name.lower() == "worker":
            found = name
        elif name.lower() not in _BESIDE:
            others += count(mapping(of_type).get("replicas"), 1)
    if found is None:
        raise ValueError(f"the {kind} has no replicas of the type Worker")
    if workers < max(others, 1):
        raise ValueError(f"workers: {workers} is fewer than the {others} that always stay")
    return {found: {"replicas": workers - others}}


def _resize_jobs(spec: Mapping[str, Any], workers: int) -> list[Object]:
    """Return the list of replicated jobs, which a merge patch can only replace as a whole."""
    listed = mappings(spec.get("replicatedJobs"))
    if len(listed) != 1 or count(listed[0].get("replicas"), 1) != 1:
        raise ValueError(
            f"the JobSet makes more than one Job ({format_count(len(listed), 'replicated job')})"
        )
    job = copy.deepcopy(listed[0])
    child = mapping(mapping(job.get("template")).get("spec"))
    if child.get("completionMode") != "Indexed":
        raise ValueError("the Job of the JobSet is not Indexed")
    job["template"]["spec"] |= {"parallelism": workers, "completions": workers}
    return [job]


def _merge(into: Object, more: Object) -> Object:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
    return into
