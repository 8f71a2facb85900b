"""The helper in the trainer's container: a volume with it, who copies it, how Python finds it. Pure.

What the trainer finds is a contract with the helper: its folder comes first in `PYTHONPATH`, and variables
name the socket on which the sidecar listens and the file with the token that it wants to see.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from specon_manager.backends.kube.admission.trainer_container import PodRefusedError, items, mounts_of
from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.volumes import LOST
from specon_manager.backends.kube.transport.resources import Object

HelperVolume = Literal["emptyDir", "image"]
"""Where the helper's files come from: copied by an init container, or the sidecar's image as a volume."""

HELPER_NAME: Final = "specon-helper"
"""The init container that copies the helper."""
SOCKET: Final = "/run/specon-trainer/hook/s"
"""Where the sidecar listens, as its own container sees it: `/run/specon` is taken by its identity there."""
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_VOLUME: Final = "specon-trainer"
_IMAGE_VOLUME: Final = "specon-helper"
_IN_SIDECAR: Final = "/run/specon-trainer"
_IN_TRAINER: Final = "/run/specon"
_PYTHON: Final[Mapping[HelperVolume, str]] = {
    "emptyDir": f"{_IN_TRAINER}/python",
    # The whole image, and no subPath: containerd before 2.2 leaves that out of account without a word.
    "image": f"{_IN_TRAINER}/image/opt/specon/share/specon/trainer",
}
_SIZE: Final = "16Mi"  # a hundred times what the helper has
# A volume that covers these, or lies within them, would take the sidecar's own files away.
_OWN: Final = (
    "/opt/specon", "/usr/local/bin", "/usr/local/lib", "/usr/bin", "/usr/lib", "/bin", "/lib", "/lib64",
    "/etc", "/proc", "/sys", "/dev", "/run/specon", "/run/specon-trainer", "/run/secrets", "/var/run/specon",
    "/var/run/specon-trainer", "/var/run/secrets",
)  # fmt: skip


def check_instrumented(spec: Object, trainer: Object) -> list[str]:
    """Return what may go wrong with the helper in this pod; raises PodRefusedError if it is bound to fail."""
    path = _variable(trainer, "PYTHONPATH")
    if path is not None and path.get("valueFrom") is not None:
        raise PodRefusedError(
            f"{PREFIX}instrument: PYTHONPATH of container {trainer.get('name')!r} comes from elsewhere "
            f"(valueFrom), and the helper has to come before it: write its value into the pod"
        )
    for volume in items(spec, "volumes"):
        if volume.get("name") == _VOLUME and (volume.get("emptyDir") or {}).get("medium") != "Memory":
            raise PodRefusedError(
                f"{PREFIX}instrument: the pod has a volume {_VOLUME!r} of its own: name it otherwise"
            )
    for mount in mounts_of(trainer):
        at = str(mount["mountPath"]).rstrip("/")
        ours = mount.get("name") in {_VOLUME, _IMAGE_VOLUME}
        if not ours and (at == _IN_TRAINER or at.startswith(f"{_IN_TRAINER}/")):
            raise PodRefusedError(
                f"{PREFIX}instrument: container {trainer.get('name')!r} has a volume at {at}, where the "
                f"helper is: mount it elsewhere"
            )
    if items(trainer, "envFrom") and path is None:
        lost = (
            f"{PREFIX}instrument: a PYTHONPATH that container {trainer.get('name')!r} gets by envFrom is "
            f"lost: name it in env"
        )
        return [lost]
    return []


class Helper(Struct, frozen=True, kw_only=True):
    """From where the helper comes."""

    image: str
    """The sidecar's, which has it."""
    pull_policy: str
    volume: HelperVolume


def instrument(spec: Object, annotations: Object, trainer: Object, options: Options, helper: Helper) -> None:
    """Give the trainer's container the helper; spec, annotations and trainer are changed in place.

    Their lists have to be copies of the pod's already.
    """
    volumes = spec["volumes"]
    _put(volumes, {"name": _VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": _SIZE}})
    if helper.volume == "image":
        source = {"reference": helper.image, "pullPolicy": helper.pull_policy}
        _put(volumes, {"name": _IMAGE_VOLUME, "image": source})
    mounts = [*items(trainer, "volumeMounts")]
    for mount in _mounts(helper.volume, _IN_TRAINER):
        _put(mounts, {**mount, "readOnly": True}, key="mountPath")
    trainer["volumeMounts"] = mounts
    variables = {"SPECON_SOCKET": f"{_IN_TRAINER}/hook/s", "SPECON_TOKEN_FILE": f"{_IN_TRAINER}/hook/token"}
    if options.checkpoint_path is not None:
        variables["SPECON_CHECKPOINTS"] = options.checkpoint_path.replace("$", "$$")
    environment: list[Object] = trainer["env"]
    for name, value in variables.items():
        _set(environment, name, value)
    others = ((_variable(trainer, "PYTHONPATH") or {}).get("value") or "").split(":")
    # First again, wherever another webhook has moved it; an empty entry would be the working directory.
    ours = _PYTHON[helper.volume]
    _set(environment, "PYTHONPATH", ":".join([ours, *(one for one in others if one and one != ours)]))
    listed = [one for one in str(annotations.get(SAFE_TO_EVICT) or "").split(",") if one]
    if _VOLUME not in listed:
        annotations[SAFE_TO_EVICT] = ",".join([*listed, _VOLUME])


def copiers(helper: Helper, security: Mapping[str, Any], resources: Mapping[str, Any]) -> list[Object]:
    """Return the init container that copies the helper, without a shell; none where an image is mounted."""
    if helper.volume == "image":
        return []
    return [
        {
            "name": HELPER_NAME,
            "image": helper.image,
            "imagePullPolicy": helper.pull_policy,
            "args": ["copy-helper", f"{_IN_SIDECAR}/python"],
            "resources": resources,
            "securityContext": security,
            "volumeMounts": sidecar_mounts(helper),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
    ]


def sidecar_mounts(helper: Helper) -> list[Object]:
    """Return what the sidecar mounts to listen on the socket."""
    return _mounts(helper.volume, _IN_SIDECAR)[:1]


def surviving_mounts(pod: Object, trainer: Object) -> list[Object]:
    """Return the trainer's mounts of what a move does not lose: wherever it saves, the sidecar has to see it.

    Left out are those that would cover the sidecar's own files.
    """
    volumes = {one.get("name"): one for one in items(pod.get("spec"), "volumes")}
    found = []
    for mount in mounts_of(trainer):
        source = next((key for key in volumes.get(mount.get("name"), {}) if key != "name"), None)
        if source is not None and source not in LOST and not covers_own(mount["mountPath"]):
            found.append(mount)
    return found


def covers_own(path: str) -> bool:
    """Whether a volume at this path would take files from the sidecar that it needs."""
    root = path.rstrip("/")
    return any(own == root or own.startswith(f"{root}/") or root.startswith(f"{own}/") for own in _OWN)


def _mounts(volume: HelperVolume, root: str) -> list[Object]:
    """Return the mounts: never one within the other, for the outer one is read-only."""
    if volume == "emptyDir":
        return [{"name": _VOLUME, "mountPath": root}]
    whole = {"name": _IMAGE_VOLUME, "mountPath": f"{root}/image"}
    return [{"name": _VOLUME, "mountPath": f"{root}/hook"}, whole]


def _variable(trainer: Object, name: str) -> Object | None:
    """Return the variable; of several with this name the last, which counts."""
    return next((one for one in reversed(items(trainer, "env")) if one.get("name") == name), None)


def _set(environment: list[Object], name: str, value: str) -> None:
    """Set a variable in its place, for those after it may name it, or at the end."""
    for place in reversed(range(len(environment))):
        if environment[place].get("name") == name:
            environment[place] = {"name": name, "value": value}
            return
    environment.append({"name": name, "value": value})


def _put(those: list[Object], one: Object, key: str = "name") -> None:
    if not any(each.get(key) == one[key] for each in those):
        those.append(one)
