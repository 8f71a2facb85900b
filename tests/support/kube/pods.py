"""Pods as the API server shows them to a webhook: what users, operators and other webhooks make."""

import base64
import copy
import json

TOKEN_VOLUME = {
    "name": "kube-api-access-x7k2p",
    "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]},
}
TOKEN_MOUNT = {
    "name": "kube-api-access-x7k2p",
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    "readOnly": True,
}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "training"}}
MOUNT = {"name": "data", "mountPath": "/data"}


def annotated(**options):
    """Return annotations that ask for a sidecar; `log_path` is `specon.io/log-path`."""
    given = {"inject": "true", **options}
    return {f"specon.io/{name.replace('_', '-')}": value for name, value in given.items()}


def trainer(name="trainer", **changes):
    return {
        "name": name,
        "image": "registry.example/trainer:3",
        "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
        "volumeMounts": [dict(MOUNT), dict(TOKEN_MOUNT)],
        **changes,
    }


def pod(name="mnist", *, annotations=None, spec=None, **metadata):
    """Return a bare pod with one container and one persistent volume claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "annotations": annotated() if annotations is None else annotations,
            **metadata,
        },
        "spec": {
            "containers": [trainer()],
            "volumes": [copy.deepcopy(CLAIM), copy.deepcopy(TOKEN_VOLUME)],
            "restartPolicy": "Never",
            "serviceAccountName": "default",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            **(spec or {}),
        },
    }


def owned_by(kind, name, *, api="batch/v1", uid="owner-uid"):
    return [
        {
            "apiVersion": api,
            "kind": kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def job_pod(job="resnet", index=None, **changes):
    """Return the pod of a Job as it arrives: without a name, for the API server makes it later."""
    made = pod(name="", ownerReferences=owned_by("Job", job), generateName=f"{job}-", **changes)
    del made["metadata"]["name"]
    made["metadata"]["labels"] = {"batch.kubernetes.io/job-name": job}
    if index is not None:
        made["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = str(index)
        made["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
        made["metadata"]["generateName"] = f"{job}-{index}-"
    return made


def stateful_pod(name="bert", index=2):
    return pod(
        f"{name}-{index}",
        ownerReferences=owned_by("StatefulSet", name, api="apps/v1"),
        labels={
            "app": "bert",
            "apps.kubernetes.io/pod-index": str(index),
            "statefulset.kubernetes.io/pod-name": f"{name}-{index}",
        },
    )


def kubeflow_pod(kind="PyTorchJob", job="gpt", replica_type="worker", index=1, container="pytorch"):
    made = pod(
        f"{job}-{replica_type}-{index}",
        ownerReferences=owned_by(kind, job, api="kubeflow.org/v1"),
        labels={
            "training.kubeflow.org/job-name": job,
            "training.kubeflow.org/operator-name": f"{kind.lower()}-controller",
            "training.kubeflow.org/replica-type": replica_type,
            "training.kubeflow.org/replica-index": str(index),
        },
    )
    made["spec"]["containers"] = [
        trainer(container, env=[{"name": "RANK", "value": "1"}, {"name": "WORLD_SIZE", "value": "2"}])
    ]
    made["spec"]["initContainers"] = [
        {
            "name": "init-pytorch",
            "image": "alpine:3.10",
            "command": ["sh", "-c", "until nslookup gpt; do :; done"],
        }
    ]
    return made


def mesh_pod(*, native=True):
    """Return a pod in a service mesh: its proxy is a native sidecar, or one more container."""
    proxy = {"name": "istio-proxy", "image": "istio/proxyv2:1.27.0", "args": ["proxy", "sidecar"]}
    init = {"name": "istio-init", "image": "istio/proxyv2:1.27.0", "args": ["istio-iptables"]}
    made = pod("meshed")
    made["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = "trainer"
    made["metadata"]["labels"] = {"service.istio.io/canonical-name": "meshed"}
    if native:
        made["spec"]["initContainers"] = [init, {**proxy, "restartPolicy": "Always"}]
    else:
        made["spec"]["initContainers"] = [init]
        made["spec"]["containers"] = [proxy, *made["spec"]["containers"]]
    return made


def review_of(manifest, *, operation="CREATE", uid="review-1", **changes):
    """Return the AdmissionReview of a new pod."""
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "ml",
        "operation": operation,
        "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
        "object": manifest,
        "oldObject": None,
        "dryRun": False,
        **changes,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def patched(manifest, response):
    """Return the pod after the patch in an answer, as the API server applies it (RFC 6902)."""
    result = copy.deepcopy(manifest)
    said = response["response"]
    if "patch" not in said:
        return result
    for step in json.loads(base64.b64decode(said["patch"])):
        result = _applied(result, step)
    return result


def _applied(root, step):
    parts = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
    if not parts:
        return step["value"]
    holder = root
    for part in parts[:-1]:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    last = parts[-1]
    if isinstance(holder, list):
        if step["op"] == "add":
            holder.insert(len(holder) if last == "-" else int(last), step["value"])
        elif step["op"] == "replace":
            holder[int(last)] = step["value"]
        else:
            del holder[int(last)]
    elif step["op"] == "remove":
        del holder[last]
    else:
        assert step["op"] == "add" or last in holder
        holder[last] = step["value"]
    return root
