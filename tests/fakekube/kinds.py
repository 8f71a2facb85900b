"""The resources that the server knows: where they are found in a URL, and what is particular about each."""

import dataclasses
from typing import Any

Object = dict[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Kind:
    """One resource of one API group.

    `status` says whether it has a status of its own URL; `unconditional`, whether a PUT may leave out the
    resource version; `counted`, whether `metadata.generation` counts the changes of its `spec`.
    """

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True
    status: bool = False
    unconditional: bool = True
    counted: bool = False
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return what messages call it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _custom(group: str, version: str, plural: str, name: str) -> Kind:
    return Kind(group, version, plural, name, status=True, unconditional=False, counted=True, custom=True)


PODS = Kind("", "v1", "pods", "Pod", status=True, counted=True)
NODES = Kind("", "v1", "nodes", "Node", namespaced=False, status=True)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False, status=True)
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount")
SECRETS = Kind("", "v1", "secrets", "Secret")
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
SERVICES = Kind("", "v1", "services", "Service", status=True)
PVCS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", status=True)
PVS = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, status=True)
CORE_EVENTS = Kind("", "v1", "events", "Event")
EVENTS = Kind("events.k8s.io", "v1", "events", "Event")
JOBS = Kind("batch", "v1", "jobs", "Job", status=True, counted=True)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet", status=True, counted=True)
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet", status=True, counted=True)
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment", status=True, counted=True)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", unconditional=False)
PDBS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", status=True, counted=True)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
    counted=True,
)
VALIDATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
    counted=True,
)
TRAINING_PROGRESSES = _custom("specon.io", "v1alpha1", "trainingprogresses", "TrainingProgress")
MIGRATIONS = _custom("specon.io", "v1alpha1", "migrations", "Migration")
TRAINING_JOBS = _custom("specon.io", "v1alpha1", "trainingjobs", "TrainingJob")
TRAINING_QUEUES = dataclasses.replace(
    _custom("specon.io", "v1alpha1", "trainingqueues", "TrainingQueue"), namespaced=False
)
TF_JOBS = _custom("kubeflow.org", "v1", "tfjobs", "TFJob")
PYTORCH_JOBS = _custom("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
MPI_JOBS = _custom("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
TRAIN_JOBS = _custom("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
JOB_SETS = _custom("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = _custom("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
WORKLOADS = _custom("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
LOCAL_QUEUES = _custom("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
CLUSTER_QUEUES = dataclasses.replace(
    _custom("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue"), namespaced=False
)
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)

OWN_KINDS = (TRAINING_PROGRESSES, MIGRATIONS, TRAINING_JOBS, TRAINING_QUEUES)
JOB_KINDS = (TF_JOBS, PYTORCH_JOBS, MPI_JOBS, JOB_SETS, TRAIN_JOBS)
"""Those that say `suspend`."""
KUEUE_KINDS = (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES)
OPTIONAL_KINDS = (*JOB_KINDS, LEADER_WORKER_SETS, POD_METRICS, NODE_METRICS)
BUILT_IN_KINDS = (
    PODS,
    NODES,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    SECRETS,
    CONFIG_MAPS,
    SERVICES,
    PVCS,
    PVS,
    CORE_EVENTS,
    EVENTS,
    JOBS,
    STATEFUL_SETS,
    REPLICA_SETS,
    DEPLOYMENTS,
    LEASES,
    PDBS,
    STORAGE_CLASSES,
    PRIORITY_CLASSES,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
)
