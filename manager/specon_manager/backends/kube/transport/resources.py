"""The resources of the Kubernetes API that are read or written, and their paths. Pure."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

Object = dict[str, Any]
"""An object as the API has it: decoded JSON. Typed models would drop the fields that they do not know."""
OwnerOf = Callable[[str], Object | None]
"""Returns a reference to what creates the pods of the job of that name; None where that is not known."""


class Resource(Struct, frozen=True):
    """One kind of object: where the API has it, and what it is called there."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion` of such an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path below which all resources of this group and version are."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """Return the path of an object, or of the collection where there is no name.

        A collection of a namespaced resource without a namespace is that of all namespaces. Raises ValueError
        for a name that is no name, and where a namespace is missing or does not belong there.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"namespace {namespace!r}: {self.plural} are not in namespaces")
        if name is None and subresource:
            raise ValueError(f"subresource {subresource!r}: it needs the name of one of the {self.plural}")
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"name {name!r}: the {self.plural} are in namespaces, and none is given")
        parts = [self.root]
        if namespace is not None:
            parts += ["namespaces", _segment("namespace", namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment("name", name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def _segment(field: str, value: str) -> str:
    if value in {"", ".", ".."} or "/" in value or "%" in value:
        raise ValueError(f"{field} {value!r} is no name of an object")
    return quote(value, safe="")


PODS: Final = Resource("", "v1", "pods", "Pod")
POD_RESIZE: Final = Resource("", "v1", "pods/resize", "Pod")
"""Only to ask whether it is served."""
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
PVCS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PVS: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
VOLUME_ATTACHMENTS: Final = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
PDBS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
CUSTOM_RESOURCES: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SELF_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
RESOURCE_CLAIMS: Final = tuple(
    Resource("resource.k8s.io", version, "resourceclaims", "ResourceClaim") for version in ("v1", "v1beta2")
)
"""Of devices, in the versions that are read, the first first."""
RESOURCE_SLICES: Final = tuple(
    Resource("resource.k8s.io", version, "resourceslices", "ResourceSlice", namespaced=False)
    for version in ("v1", "v1beta2")
)
DEVICE_TAINT_RULES: Final = tuple(
    Resource("resource.k8s.io", version, "devicetaintrules", "DeviceTaintRule", namespaced=False)
    for version in ("v1beta2", "v1alpha3")
)
POD_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
NODE_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)

TRAINING_PROGRESSES: Final = Resource("specon.io", "v1alpha1", "trainingprogresses", "TrainingProgress")
MIGRATIONS: Final = Resource("specon.io", "v1alpha1", "migrations", "Migration")
TRAINING_JOBS: Final = Resource("specon.io", "v1alpha1", "trainingjobs", "TrainingJob")
TRAINING_QUEUES: Final = Resource(
    "specon.io", "v1alpha1", "trainingqueues", "TrainingQueue", namespaced=False
)

TF_JOBS: Final = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
PYTORCH_JOBS: Final = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
MPI_JOBS: Final = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS: Final = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
TRAIN_JOBS: Final = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
KUEUE_WORKLOADS: Final = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
KUEUE_WORKLOADS_BETA1: Final = Resource("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")
"""The same objects as older releases of Kueue serve them."""
KUEUE_LOCAL_QUEUES: Final = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
KUEUE_CLUSTER_QUEUES: Final = Resource(
    "kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False
)
