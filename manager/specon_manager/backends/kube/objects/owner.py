"""What creates pods (Jobs of all kinds, StatefulSets), with only the needed fields. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.objects import annotation_keys as names
from specon_manager.backends.kube.objects.annotation_reader import options_said
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.coupling import Coupling, coupling, hint_in
from specon_manager.backends.kube.objects.fields import count, mapping, mappings
from specon_manager.backends.kube.objects.identity import controller_of, kubeflow_member
from specon_manager.backends.kube.objects.job_patch import (
    REPLICA_SPECS,
    SWITCHES,
    indexes_of,
    is_suspended,
    read_asked_workers,
    workers_of,
)
from specon_manager.backends.kube.objects.job_set import members_of, requests_by_index, why_apart
from specon_manager.backends.kube.objects.leader_worker_set import (
    KIND,
    requests_of,
    templates_of,
    why_not_as_one,
)
from specon_manager.backends.kube.objects.pod import KUEUE_QUEUE, trainer_of, volcano_in
from specon_manager.backends.kube.objects.quantities import requested_amounts, resources_of
from specon_manager.backends.kube.objects.scheduling import constraints_of
from specon_manager.backends.kube.objects.weights import bursts
from specon_manager.backends.kube.transport.resources import (
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    MPI_JOBS,
    PYTORCH_JOBS,
    STATEFUL_SETS,
    TF_JOBS,
    TRAIN_JOBS,
    Object,
    Resource,
)
from specon_manager.model.constraints import ANYWHERE, Constraints
from specon_manager.model.resources import NOTHING, Resources, largest

_OWN_CONTROLLERS: Final = frozenset(
    {
        "",
        "kubernetes.io/job-controller",
        "kubeflow.org/training-operator",
        "kubeflow.org/mpi-operator",
        "jobset.sigs.k8s.io/jobset-controller",
        "trainer.kubeflow.org/trainjob-controller",
    }
)
_KUEUE_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
_MOST: Final = 10_000
"""Replicas that are named from the start; further ones are named when they are seen."""


class OwnerInfo(Struct, frozen=True, kw_only=True):
    """One object that creates pods."""

    kind: str
    namespace: str
    name: str
    uid: str
    replicas: tuple[tuple[str, int], ...] = ()
    """Role and index of each replica that it is to have; empty where only its pods tell."""
    at_once: int = 1
    """How many pods it has at the same time."""
    suspended: bool = False
    suspended_for: str = ""
    """The move for which we suspended it."""
    over: bool = False
    """Whether it completed or failed: it creates no more pods."""
    deleting: bool = False
    ignores_disruptions: bool = False
    """Whether a pod that is evicted is replaced without a count."""
    kueue: bool = False
    kueue_against: str = "it decides when and where its pods run"
    """Why a job of Kueue's is left to it, in words; empty where it may be moved by its Workload."""
    workload: str = ""
    """The Workload by which Kueue suspends and resumes it; empty where that is none of our business."""
    workload_uid: str = ""
    queued: bool = False
    """Whether that, or a slice, waits for its quota."""
    slices: bool = False
    """Whether it asks Kueue to size it by slices of its Workload."""
    kueue_fixed: str = "it decides when and where its pods run"
    """Why the number of workers of a job of Kueue's is left to it, in words; empty where it may change."""
    headroom: int | None = None
    """By how many workers its queue in Kueue lets it grow; None where that has no bound."""
    no_headroom: str = ""
    """Why by no more, in words."""
    managed_by: str = ""
    """Another controller that is in charge of it, where its own is not."""
    controller: str = ""
    """Kind and name of what owns it, e.g. `TrainJob bert`."""
    volcano: str = ""
    """By what Volcano is known to schedule its pods; empty where it does not."""
    job: str = ""
    """The job that its pods are, without its namespace; empty where they are several, or none at all."""
    workers: int = 1
    """How many workers its object asks for at this moment, heads among them, launchers not."""
    asked: int = 1
    """How many its user asks for: another number while we have changed it."""
    ps: int = 0
    """How many parameter servers, or launchers, it has."""
    scaled: str = ""
    """Our mark of that, `FROM:TO`."""
    options: Options = Options()
    """What the annotations of its workers' template say."""
    worker_requests: Resources = NOTHING
    ps_requests: Resources | None = None
    """What a worker and a parameter server will reserve, without a sidecar; the second None without any."""
    unlike: tuple[tuple[int, Resources], ...] = ()
    """What a worker reserves from this index on, where the templates of a kind with several differ; then
    `worker_requests` is the largest amount of each kind."""
    bursts: bool = False
    """Whether a worker may use more processors than its trainer requests."""
    constraints: Constraints = ANYWHERE
    """On which nodes a worker may run, without what its volumes say."""
    grace_seconds: float = 30.0
    priority_class: str = ""
    indexed: bool = False
    """Of Jobs: whether each of its pods has an index."""
    success_policy: bool = False
    jobs: int = 1
    """Of a JobSet or TrainJob: how many Jobs it makes."""
    apart: str = ""
    """Why its pods cannot come and go as one, in words that follow its name; empty where they can."""
    remains: str = ""
    """Of a suspended LeaderWorkerSet: what has to go before it comes again, in words; empty for nothing."""
    heads: int = 0
    """Masters and chiefs, which are the first workers."""
    evaluators: int = 0
    dynamic: bool = False
    """Of a TFJob: whether its workers are told only of the parameter servers (enableDynamicWorker)."""
    elastic: tuple[int, int] | None = None
    """Of a PyTorchJob: the fewest and the most workers of its elasticPolicy."""
    fixed: bool = False
    """Whether its controller was seen to let nobody change the number of its workers."""
    launcher_works: bool = False
    """Of an MPIJob: whether its launcher trains as well."""
    hint: str = ""
    """What in its template hints that its pods train as one; empty where nothing does."""

    @property
    def job_name(self) -> str:
        """`namespace/job`; empty where its pods are not one job."""
        return f"{self.namespace}/{self.job}" if self.job else ""

    def coupling(self, options: Options | None = None) -> Coupling:
        """Return whether its pods train as one; `options` are what they say, None: what the template does."""
        said = self.options if options is None else options
        return coupling(self.kind, said, several=self.at_once > 1, hint=self.hint)

    @property
    def first(self) -> int:
        """Index of its first worker that is no head."""
        return 1 if self.kind in REPLICA_SPECS else 0

    def named(self, workers: int) -> tuple[tuple[str, int], ...]:
        """Return role and index of each replica that it has with so many workers, heads among them."""
        heads = [("worker", index) for index in range(self.heads)] if self.first else []
        plain = max(0, min(workers, _MOST) - len(heads))
        ps = [("ps", index) for index in range(self.ps)]
        return (*ps, *heads, *(("worker", self.first + index) for index in range(plain)))

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def slim_job(job: Object) -> OwnerInfo:
    """Return the needed fields of a batch/v1 Job."""
    spec = mapping(job.get("spec"))
    parallelism, completions = count(spec.get("parallelism"), 1), count(spec.get("completions"), 1)
    indexed = spec.get("completionMode") == "Indexed"
    rules = mappings(mapping(spec.get("podFailurePolicy")).get("rules"))
    ignores = any(
        rule.get("action") == "Ignore"
        and any(
            each.get("type") == "DisruptionTarget" and each.get("status", "True") == "True"
            for each in mappings(rule.get("onPodConditions"))
        )
        for rule in rules
    )
    return _owner(
        "Job",
        job,
        template=mapping(spec.get("template")),
        replicas=_workers(completions if indexed else 1),
        at_once=min(parallelism, completions) if spec.get("completions") is not None else parallelism,
        ignores_disruptions=ignores,
        managed_by=_other(spec.get("managedBy")),
        indexed=indexed,
        success_policy=bool(spec.get("successPolicy")),
    )


def slim_stateful_set(stateful_set: Object) -> OwnerInfo:
    """Return the needed fields of an apps/v1 StatefulSet."""
    spec = mapping(stateful_set.get("spec"))
    size = count(spec.get("replicas"), 1)
    first = count(mapping(spec.get("ordinals")).get("start"), 0)
    replicas = tuple(("worker", first + index) for index in range(min(size, _MOST)))
    pods = mapping(mapping(spec.get("template")).get("spec"))
    return _owner(
        "StatefulSet",
        stateful_set,
        replicas=replicas,
        at_once=size,
        ignores_disruptions=True,
        hint=hint_in(pods, spec.get("serviceName")),
    )


def slim_tf_job(job: Object) -> OwnerInfo:
    """Return the needed fields of a kubeflow.org/v1 TFJob."""
    return _kubeflow("TFJob", job, dynamic=mapping(job.get("spec")).get("enableDynamicWorker") is True)


def slim_pytorch_job(job: Object) -> OwnerInfo:
    """Return the needed fields of a kubeflow.org/v1 PyTorchJob."""
    policy = mapping(job.get("spec")).get("elasticPolicy")
    elastic = None
    if isinstance(policy, dict):
        workers = workers_of("PyTorchJob", job)
        # As the operator completes it.
        fewest = count(policy.get("minReplicas"), workers)
        elastic = fewest, max(fewest, count(policy.get("maxReplicas"), workers))
    return _kubeflow("PyTorchJob", job, elastic=elastic)


def slim_mpi_job(job: Object) -> OwnerInfo:
    """Return the needed fields of a kubeflow.org/v2beta1 MPIJob."""
    works = mapping(job.get("spec")).get("runLauncherAsWorker") is True
    return _kubeflow("MPIJob", job, launcher_works=works)


def slim_job_set(job_set: Object) -> OwnerInfo:
    """Return the needed fields of a JobSet: its Jobs are one job, or a job each where their pods say so."""
    spec = mapping(job_set.get("spec"))
    listed = mappings(spec.get("replicatedJobs"))
    children = [mapping(mapping(each.get("template")).get("spec")) for each in listed]
    times = [count(each.get("replicas"), 1) for each in listed]
    first = next((number for number, several in enumerate(times) if several), None)
    own = mapping(job_set.get("metadata")).get("name", "")
    owner = _owner(
        "JobSet",
        job_set,
        template=None if first is None else mapping(children[first].get("template")),
        job="" if first is None else f"{own}-{listed[first].get('name', '')}-0",
        at_once=sum(
            several * count(child.get("parallelism"), 1)
            for several, child in zip(times, children, strict=True)
        ),
        managed_by=_other(spec.get("managedBy")),
        jobs=sum(times),
        indexed=bool(children) and all(child.get("completionMode") == "Indexed" for child in children),
        success_policy=any(child.get("successPolicy") for child in children),
    )
    if owner.jobs == 1:
        return msgspec.structs.replace(owner, replicas=_workers(owner.workers))
    if owner.jobs == 0 or owner.options.replicas == "independent":
        return msgspec.structs.replace(owner, job="")
    why = why_apart(job_set, children)
    sizes = [indexes_of(child) for child in children]
    members = () if why else tuple(("worker", index) for index in members_of(times, sizes, _MOST))
    unlike = requests_by_index(times, children)
    largest_of_all = largest(amount for _, amount in unlike) if unlike else owner.worker_requests
    return msgspec.structs.replace(
        owner,
        job=owner.name,
        replicas=members,
        apart=f"makes {owner.jobs} Jobs, {why}" if why else "",
        worker_requests=largest_of_all,
        unlike=unlike,
    )


def slim_leader_worker_set(leader_worker_set: Object) -> OwnerInfo:
    """Return the needed fields of a LeaderWorkerSet: its only group is one job, the leader worker 0."""
    spec = mapping(leader_worker_set.get("spec"))
    leader, _ = templates_of(spec)
    unlike = requests_of(spec)
    owner = _owner(
        KIND, leader_worker_set, template=leader, unlike=unlike, apart=why_not_as_one(leader_worker_set)
    )
    return msgspec.structs.replace(
        owner,
        replicas=_workers(owner.workers),
        at_once=owner.workers,
        worker_requests=largest(amount for _, amount in unlike) if unlike else owner.worker_requests,
    )


def slim_train_job(job: Object) -> OwnerInfo:
    """Return the needed fields of a TrainJob by itself; all else is said by the JobSet that it makes."""
    spec = mapping(job.get("spec"))
    return _owner("TrainJob", job, job="", jobs=0, managed_by=_other(spec.get("managedBy")))


def carry_over(train_job: OwnerInfo, job_set: OwnerInfo) -> OwnerInfo:
    """Return a TrainJob with what its JobSet says of its pods."""
    return msgspec.structs.replace(
        job_set,
        kind=train_job.kind,
        name=train_job.name,
        uid=train_job.uid,
        suspended=train_job.suspended,
        suspended_for=train_job.suspended_for,
        over=train_job.over or job_set.over,
        deleting=train_job.deleting,
        kueue=train_job.kueue or job_set.kueue,
        slices=train_job.slices or job_set.slices,
        managed_by=train_job.managed_by or job_set.managed_by,
        controller=train_job.controller,
        scaled=train_job.scaled,
    )


OWNER_RESOURCES: Final[Mapping[str, tuple[Resource, Callable[[Object], OwnerInfo]]]] = {
    "Job": (JOBS, slim_job),
    "StatefulSet": (STATEFUL_SETS, slim_stateful_set),
    "TFJob": (TF_JOBS, slim_tf_job),
    "PyTorchJob": (PYTORCH_JOBS, slim_pytorch_job),
    "MPIJob": (MPI_JOBS, slim_mpi_job),
    "JobSet": (JOB_SETS, slim_job_set),
    "TrainJob": (TRAIN_JOBS, slim_train_job),
    KIND: (LEADER_WORKER_SETS, slim_leader_worker_set),
}
"""Which resource each kind is, and how it is slimmed."""


def _kubeflow(kind: str, job: Object, **known: Any) -> OwnerInfo:
    spec = mapping(job.get("spec"))
    policy = mapping(spec.get("runPolicy"))
    members: list[tuple[str, int]] = []
    sizes: dict[str, int] = {}
    templates: dict[str, Mapping[str, Any]] = {}
    for replica_type, of_type in sorted(mapping(spec.get(REPLICA_SPECS[kind])).items()):
        word = replica_type.lower()
        sizes[word] = count(mapping(of_type).get("replicas"), 1)
        templates[word] = mapping(mapping(of_type).get("template"))
        named = (kubeflow_member(word, index) for index in range(min(sizes[word], _MOST)))
        members += [member for member in named if member is not None]
    beside = templates.get("ps", templates.get("launcher"))
    usual = next((templates[word] for word in ("worker", "master", "chief") if word in templates), {})
    return _owner(
        kind,
        job,
        template=usual,
        beside=beside,
        replicas=tuple(sorted(members)),
        at_once=sum(sizes.values()),
        managed_by=_other(policy.get("managedBy")),
        ps=sum(role == "ps" for role, _ in members),
        heads=min(1, sizes.get("master", 0) + sizes.get("chief", 0)),
        evaluators=sizes.get("evaluator", 0),
        **known,
    )


def _owner(
    kind: str,
    obj: Object,
    *,
    template: Mapping[str, Any] | None = None,
    beside: Mapping[str, Any] | None = None,
    **known: Any,
) -> OwnerInfo:
    """Return the owner; `template` is its workers', `beside` its parameter servers' or launcher's."""
    metadata, status = mapping(obj.get("metadata")), mapping(obj.get("status"))
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    controller = controller_of(obj)
    over = any(
        each.get("type") in {"Complete", "Completed", "Succeeded", "Failed"} and each.get("status") == "True"
        for each in mappings(status.get("conditions"))
    )
    template = {} if template is None else template
    of_pods, pod = mapping(template.get("metadata")), mapping(template.get("spec"))
    workers, scaled = workers_of(kind, obj), str(annotations.get(names.SCALED, ""))
    grace = pod.get("terminationGracePeriodSeconds", 30)
    facts: dict[str, Any] = {
        "job": str(metadata.get("name", "")),
        "workers": workers,
        "asked": read_asked_workers(workers, scaled),
        "worker_requests": resources_of(requested_amounts(pod)),
        "bursts": bursts(trainer_of(template)),
        "hint": hint_in(pod),
        "ps_requests": None
        if beside is None
        else resources_of(requested_amounts(mapping(beside.get("spec")))),
    }
    return OwnerInfo(
        kind=kind,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        suspended=is_suspended(kind, obj),
        # A LeaderWorkerSet copies its annotations to its StatefulSets: there they say nothing.
        suspended_for=str(annotations.get(names.SUSPENDED_FOR, "")) if kind in SWITCHES else "",
        over=over and kind != "StatefulSet",
        deleting=metadata.get("deletionTimestamp") is not None,
        kueue=KUEUE_QUEUE in labels or KUEUE_QUEUE in mapping(of_pods.get("labels")),
        slices=annotations.get(_KUEUE_ELASTIC) == "true",
        controller="" if controller is None else f"{controller.get('kind')} {controller.get('name')}",
        volcano=volcano_in(pod, annotations) or volcano_in(pod, mapping(of_pods.get("annotations"))),
        scaled=scaled,
        options=options_said(mapping(of_pods.get("annotations"))),
        constraints=constraints_of(pod),
        grace_seconds=float(grace) if isinstance(grace, int | float) else 30.0,
        priority_class=str(pod.get("priorityClassName") or ""),
        **(facts | known),
    )


def _workers(size: int) -> tuple[tuple[str, int], ...]:
    return tuple(("worker", index) for index in range(min(size, _MOST)))


def _other(given: object) -> str:
    name = str(given or "")
    return "" if name in _OWN_CONTROLLERS else name
