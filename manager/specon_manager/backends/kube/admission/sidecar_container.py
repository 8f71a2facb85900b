"""The manifest of the native sidecar, from what the annotations say and where the trainer writes. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from specon_manager.backends.kube.admission.instrumentation import (
    SOCKET,
    Helper,
    HelperVolume,
    copiers,
    covers_own,
    sidecar_mounts,
    surviving_mounts,
)
from specon_manager.backends.kube.admission.status_protocol import is_reported
from specon_manager.backends.kube.admission.trainer_container import (
    Paths,
    PodRefusedError,
    environment_for,
    items,
    mount_of,
)
from specon_manager.backends.kube.objects.annotation_keys import CA, PREFIX, SIDECAR_NAME, STDOUT
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.transport.resources import Object

AUDIENCE: Final = "specon.io/manager"
IDENTITY_VOLUME: Final = "specon-identity"
_IDENTITY_PATH: Final = "/var/run/specon"
_ACCOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_USER: Final = 65532
"""Whom the sidecar's image runs as, where the pod does not say whom the trainer runs as."""


def _resources() -> dict[str, Any]:
    # The limit leaves room for event files of TensorBoard and for the digest of a checkpoint.
    return {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "192Mi"}}


class InjectionSettings(Struct, frozen=True, kw_only=True):
    """What every injected sidecar has in common."""

    image: str
    manager: str
    """Base URL of the manager's reports service."""
    ca_bundle: str = ""
    """PEM of the authorities of the manager's certificate; empty: those of the sidecar's image."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    resources: Mapping[str, Any] = field(default_factory=_resources)
    heartbeat: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """Seconds between reports where the pod does not say otherwise."""
    evictions: bool = False
    """Whether evictions are answered: the pod says so then to the descheduler."""
    token_seconds: Annotated[int, Meta(ge=600, le=86400)] = 3600
    """Life of the projected token; the kubelet renews it in time."""
    relays_output: bool = False
    """Whether the manager relays the standard output of pods to their sidecars."""
    status_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Port of loopback on which sidecars speak Kubeflow Trainer's status protocol; 0: they do not."""
    helper_volume: HelperVolume = "emptyDir"
    """What brings the helper to trainers that are instrumented."""

    @property
    def helper(self) -> Helper:
        """From where the helper comes."""
        return Helper(image=self.image, pull_policy=self.pull_policy, volume=self.helper_volume)


def sidecar_container(
    pod: Object,
    trainer: Object,
    paths: Paths,
    options: Options,
    settings: InjectionSettings,
    *,
    replica: str | None,
) -> Object:
    """Return the sidecar of a pod; `replica` None: known only when the pod has its name.

    Raises PodRefusedError where log or checkpoints are on no volume.
    """
    mounts = _mounts(pod, trainer, paths, options, settings)
    expressions = "".join(str(one.get("subPathExpr", "")) for one in mounts)
    if paths.log == STDOUT and not settings.relays_output:
        raise PodRefusedError(
            f"{PREFIX}log-path: standard output is not relayed on this cluster; its owner allows it by "
            f"settings.log_streams, else name a file on a volume"
        )
    if not is_reported(pod["spec"], trainer, settings.status_port):
        settings = msgspec.structs.replace(settings, status_port=0)
    own: list[Object] = [_from_field("SPECON_POD_UID", "metadata.uid")]
    if replica is None:
        own.append(_from_field("SPECON_POD_NAME", "metadata.name"))
        own.append(_from_field("SPECON_POD_NAMESPACE", "metadata.namespace"))
    taken = {one["name"] for one in own}
    environment = [one for one in environment_for(trainer, expressions) if one.get("name") not in taken]
    return {
        "name": SIDECAR_NAME,
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "restartPolicy": "Always",
        "args": _arguments(trainer, paths, options, replica, settings)
        + (_volumes(pod, trainer, paths) if options.instrument else []),
        "env": own + environment,
        "resources": _guarantee(pod, settings.resources),
        "securityContext": _security(pod, trainer),
        "volumeMounts": [
            *mounts,
            {"name": IDENTITY_VOLUME, "mountPath": _IDENTITY_PATH, "readOnly": True},
            # Else the API server mounts the token of the pod's service account there, for all of its API.
            {"name": IDENTITY_VOLUME, "mountPath": _ACCOUNT_PATH, "readOnly": True},
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def helper_containers(pod: Object, trainer: Object, settings: InjectionSettings) -> list[Object]:
    """Return the init containers that bring the helper, as restricted as the sidecar."""
    resources = _guarantee(pod, settings.resources)
    return copiers(settings.helper, _security(pod, trainer), resources)


def identity_volume(settings: InjectionSettings) -> Object:
    """Return the volume with the token that only our manager takes, and with the authorities it may have."""
    token = {"audience": AUDIENCE, "expirationSeconds": settings.token_seconds, "path": "token"}
    sources: list[Object] = [{"serviceAccountToken": token}]
    if settings.ca_bundle:
        reference = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{CA}']"}
        sources.append({"downwardAPI": {"items": [{"path": "ca.crt", "fieldRef": reference}]}})
    return {"name": IDENTITY_VOLUME, "projected": {"sources": sources}}


def user_of(pod: Object, trainer: Object) -> int | None:
    """Return the user id that the trainer runs as; None where its image decides."""
    for holder in (trainer, pod.get("spec")):
        user = ((holder or {}).get("securityContext") or {}).get("runAsUser")
        if isinstance(user, int):
            return user
    return None


def _arguments(
    trainer: Object, paths: Paths, options: Options, replica: str | None, settings: InjectionSettings
) -> list[str]:
    name = "$(SPECON_POD_NAMESPACE)/$(SPECON_POD_NAME)/worker/0" if replica is None else _literal(replica)
    given: dict[str, object] = {
        "status-port": settings.status_port or None,
        "hook": SOCKET if options.instrument else None,
        "log": paths.log,
        "log-container": trainer.get("name") if paths.log == STDOUT else None,
        "checkpoint-path": paths.checkpoints,
        "manager": settings.manager,
        "token-file": f"{_IDENTITY_PATH}/token",
        "ca-file": f"{_IDENTITY_PATH}/ca.crt" if settings.ca_bundle else None,
        "fresh-from": "now",
        "heartbeat": settings.heartbeat if options.heartbeat is None else options.heartbeat,
        "share": options.share,
        "trainer-pid": "auto" if _sees_trainer(options) else None,
    }
    for flag in (
        "format", "pattern", "metric", "goal", "classifier", "alpha", "interval", "remaining-gain",
        "confidence", "checkpoint", "marker", "verify",
    ):  # fmt: skip
        given[flag] = getattr(options, flag.replace("-", "_"))
    if options.instrument and options.checkpoint is None:
        given["checkpoint"] = "hook"
    texts = {
        flag: f"{value:g}" if isinstance(value, float) else str(value)
        for flag, value in given.items()
        if value is not None
    }
    return [
        f"--replica={name}",
        "--incarnation=$(SPECON_POD_UID)",
        *(f"--{flag}={_literal(text)}" for flag, text in texts.items()),
    ]


def _volumes(pod: Object, trainer: Object, paths: Paths) -> list[str]:
    """Return where what the helper tells of is a checkpoint; a log's volume may be lost with the pod."""
    found = [str(mount["mountPath"]) for mount in surviving_mounts(pod, trainer)]
    if paths.checkpoints is not None:
        found.append(str(mount_of(trainer, paths.checkpoints, "checkpoint-path")["mountPath"]))
    return [f"--volume={_literal(path)}" for path in dict.fromkeys(found or ["none"])]


def _sees_trainer(options: Options) -> bool:
    signalled = options.checkpoint is not None and options.checkpoint.kind == "signal"
    return signalled or options.on_hang == "restart" or options.share is not None


def _literal(text: str) -> str:
    """Return the text as Kubernetes has to be given it: a single dollar sign could begin a `$(variable)`."""
    return text.replace("$", "$$")


def _mounts(
    pod: Object, trainer: Object, paths: Paths, options: Options, settings: InjectionSettings
) -> list[Object]:
    """Return the mounts of log and checkpoints as the trainer has them; only a request file is written."""
    wanted = [(paths.log, "log-path"), (paths.checkpoints, "checkpoint-path")]
    written: Object | None = None
    if options.checkpoint is not None and options.checkpoint.kind == "file":
        wanted.append((options.checkpoint.target, "checkpoint"))
        written = mount_of(trainer, options.checkpoint.target, "checkpoint")
    found = []
    for path, annotation in wanted:
        if path is not None and path != STDOUT:
            mount = mount_of(trainer, path, annotation)
            if covers_own(str(mount["mountPath"])):
                raise PodRefusedError(
                    f"{PREFIX}{annotation}: the volume at {mount['mountPath']} would cover the sidecar's own "
                    f"files: mount it elsewhere"
                )
            found.append(mount)
    if options.instrument:
        found += surviving_mounts(pod, trainer)
    mounts: dict[str, Object] = {}
    for mount in found:
        kept = {key: mount[key] for key in ("name", "mountPath", "subPath", "subPathExpr") if mount.get(key)}
        mounts[str(mount["mountPath"])] = kept if mount is written else {**kept, "readOnly": True}
    return [*mounts.values(), *(sidecar_mounts(settings.helper) if options.instrument else [])]


def _security(pod: Object, trainer: Object) -> Object:
    """Return the most restricted context; the trainer's user, where it is told, may read what it wrote."""
    context: Object = {
        "runAsNonRoot": True,
        "runAsUser": user_of(pod, trainer) or _USER,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    own = trainer.get("securityContext") or {}
    for key in ("runAsGroup", "seLinuxOptions"):
        if own.get(key) is not None:
            context[key] = own[key]
    return context


def _guarantee(pod: Object, resources: Mapping[str, Any]) -> Object:
    """Return the resources; with requests equal to limits in a pod where all others have them so.

    Otherwise the sidecar would cost the pod its quality of service class, and perhaps its exclusive CPUs.
    """
    spec = pod.get("spec") or {}
    wanted = {key: dict(value) for key, value in resources.items()}
    if all(_is_guaranteed(one) for key in ("containers", "initContainers") for one in items(spec, key)):
        limits = wanted.get("limits") or wanted.get("requests") or {}
        wanted = {"requests": dict(limits), "limits": dict(limits)}
    return wanted


def _is_guaranteed(container: Object) -> bool:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        limits.get(kind) and requests.get(kind, limits[kind]) == limits[kind] for kind in ("cpu", "memory")
    )


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
