"""What an API server fills in where a manifest says nothing, as far as anyone here looks at it."""

from fakekube.kinds import JOBS, LEASES, NAMESPACES, NODES, PODS, PVCS, PVS, STATEFUL_SETS, Kind, Object

_PROBE_TIME = "/dev/termination-log"
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FILLED = (JOBS, STATEFUL_SETS, PODS, NAMESPACES, NODES, PVCS, PVS, LEASES)


def fill(kind: Kind, value: Object, priority_classes: list[Object]) -> None:
    """Set the defaults of an object in place; twice is the same as once."""
    _omit(value["metadata"], ("labels", "annotations", "finalizers", "ownerReferences"))
    if kind not in _FILLED:
        return
    spec = value.setdefault("spec", {})
    if kind is PODS:
        _pod_spec(spec)
        spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
        _tolerate(spec)
        _prioritise(spec, priority_classes)
    elif kind is JOBS:
        _job_spec(spec, value)
    elif kind is STATEFUL_SETS:
        _stateful_set(spec)
    elif kind is NAMESPACES:
        spec.setdefault("finalizers", ["kubernetes"])
        value.setdefault("status", {}).setdefault("phase", "Active")
        name = value["metadata"].get("name", "")
        value["metadata"].setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", name)
    elif kind is NODES:
        value.setdefault("status", {})


def finish(kind: Kind, value: Object, moment: str) -> None:
    """Set the status that a new object gets from the server itself."""
    if kind is PODS:
        status = value.setdefault("status", {})
        status["phase"] = "Pending"
        status.setdefault("qosClass", "Burstable")
        if value["spec"].get("schedulingGates"):
            told = "Scheduling is blocked due to non-empty scheduling gates"
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": told,
                    "lastTransitionTime": moment,
                }
            ]
    elif kind is JOBS:
        value.setdefault("status", {})
        _job_labels(value)
    elif kind is PVCS:
        value.setdefault("status", {}).setdefault("phase", "Pending")
    elif kind is STATEFUL_SETS:
        value.setdefault("status", {}).setdefault("replicas", 0)


def _job_labels(value: Object) -> None:
    spec, metadata = value["spec"], value["metadata"]
    if spec.get("manualSelector"):
        return
    words = {
        "batch.kubernetes.io/controller-uid": metadata["uid"],
        "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": metadata["uid"],
        "job-name": metadata["name"],
    }
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels.update(words)
    chosen = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).update(chosen)


def _omit(value: Object, fields: tuple[str, ...]) -> None:
    """Take away fields that are empty: the server does not tell them apart from missing ones."""
    for field in fields:
        if field in value and not value[field]:
            del value[field]


def _pod_spec(spec: Object, *, restart: str = "Always") -> None:
    _omit(
        spec, ("schedulingGates", "nodeSelector", "volumes", "initContainers", "imagePullSecrets", "affinity")
    )
    spec.setdefault("restartPolicy", restart)
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        if isinstance(container, dict):
            container.setdefault("resources", {})
            container.setdefault("terminationMessagePath", _PROBE_TIME)
            container.setdefault("terminationMessagePolicy", "File")
            image = str(container.get("image", ""))
            latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
            container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
            _requests(container["resources"])


def _requests(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)


def _tolerate(spec: Object) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in _TOLERATED:
        if not any(entry.get("key") == key for entry in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def _prioritise(spec: Object, classes: list[Object]) -> None:
    name = spec.get("priorityClassName")
    found = next((entry for entry in classes if entry["metadata"]["name"] == name), None)
    spec.setdefault("priority", int(found["value"]) if found else 0)
    spec.setdefault("preemptionPolicy", (found or {}).get("preemptionPolicy", "PreemptLowerPriority"))


def _job_spec(spec: Object, value: Object) -> None:
    template = spec.setdefault("template", {})
    _pod_spec(template.setdefault("spec", {}))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    default = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", default)


def _stateful_set(spec: Object) -> None:
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("updateStrategy", {"type": "RollingUpdate"})
    spec.setdefault("serviceName", "")
    template = spec.setdefault("template", {})
    _pod_spec(template.setdefault("spec", {}))
