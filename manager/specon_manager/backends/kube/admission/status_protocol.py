"""The variables by which a trainer reports its status to the sidecar, as it would to Kubeflow Trainer. Pure.

transformers' KubeflowCallback switches itself on by the first of them, whatever the kind of the job.
"""

from typing import Final

from specon_manager.backends.kube.admission.trainer_container import items
from specon_manager.backends.kube.objects.annotation_keys import CA
from specon_manager.backends.kube.transport.resources import Object

URL: Final = "KUBEFLOW_TRAINER_SERVER_URL"
_AUTHORITY: Final = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
_TOKEN: Final = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105  (a variable's name)
_VOLUME: Final = "specon-status"
_PATH: Final = "/run/specon-status"


def is_reported(spec: Object, trainer: Object, port: int) -> bool:
    """Whether the trainer is to report to the sidecar.

    Not where Trainer has told it to whom, nor on the host's network, where loopback is the node's. What we
    set ourselves, in an earlier call, counts as not set.
    """
    if not port or spec.get("hostNetwork"):
        return False
    told = [one for one in items(trainer, "env") if one.get("name") in {URL, _AUTHORITY, _TOKEN}]
    return not told or any(one.get("name") == _VOLUME for one in items(spec, "volumes"))


def report_status(spec: Object, trainer: Object, job: str, port: int, *, authority: bool) -> None:
    """Set the variables; lists of `spec` and `trainer` have to be copies of the pod's already.

    The token is the pod's UID, which opens nothing else; `authority` tells whether the pod has the annotation
    with the manager's authorities: clients want a certificate that they can read.
    """
    namespace, _, name = job.partition("/")
    path = f"namespaces/{namespace}/trainjobs/{name or 'job'}/status"
    files: list[Object] = [_file("token", "metadata.uid")]
    variables = {
        URL: f"http://127.0.0.1:{port}/apis/trainer.kubeflow.org/v1alpha1/{path}",
        _TOKEN: f"{_PATH}/token",
    }
    if authority:
        files.append(_file("ca.crt", f"metadata.annotations['{CA}']"))
        variables[_AUTHORITY] = f"{_PATH}/ca.crt"
    if not any(one.get("name") == _VOLUME for one in spec["volumes"]):
        spec["volumes"].append({"name": _VOLUME, "downwardAPI": {"items": files}})
    mounts = [*items(trainer, "volumeMounts")]
    if not any(one.get("name") == _VOLUME for one in mounts):
        mounts.append({"name": _VOLUME, "mountPath": _PATH, "readOnly": True})
    trainer["volumeMounts"] = mounts
    there = {one.get("name") for one in trainer["env"]}
    trainer["env"] += [{"name": key, "value": value} for key, value in variables.items() if key not in there]


def _file(path: str, field: str) -> Object:
    return {"path": path, "fieldRef": {"apiVersion": "v1", "fieldPath": field}}
