"""Whether the pods of an owner train as one, or each by itself; and what says so, in words. Pure.

Its user says it by `specon.io/replicas`. Else pods that Kubeflow, a JobSet, a TrainJob or a LeaderWorkerSet
make together train as one; those of an Indexed Job or a StatefulSet do unless nothing hints at it. What
cannot be told counts as one training: to move one of its pods alone would end all others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.fields import mappings

_TOGETHER: Final = frozenset({"TFJob", "PyTorchJob", "MPIJob", "JobSet", "TrainJob", "LeaderWorkerSet"})
_VARIABLES: Final = re.compile(
    r"MASTER_(ADDR|PORT)|WORLD_SIZE|RANK|(LOCAL|NODE|GROUP)_RANK|NNODES|NUM_(NODES|PROCESSES|WORKERS)"
    r"|TF_CONFIG|PET_\w+|NCCL_\w+|GLOO_\w+|RDZV_\w+|OMPI_\w+|PMI_\w+|HOROVOD_\w+|DEEPSPEED_\w+|SLURM_\w+"
    r"|(JAX_)?COORDINATOR_ADDRESS|JAX_(NUM_PROCESSES|PROCESS_ID)|TPU_WORKER_(ID|HOSTNAMES)|MEGASCALE_\w+"
    r"|RAY_ADDRESS|HEAD_ADDR(ESS)?|FLEET_\w+|DMLC_\w+"
)
_WORDS: Final = re.compile(
    r"\b(torchrun|torch\.distributed|accelerate|deepspeed|mpirun|mpiexec|orterun|horovod(run)?|srun|ray start"
    r"|rdzv|nnodes|(node|machine)[-_]rank|master[-_](addr|port)|world[-_]size|num[-_](nodes|processes|machines)"
    r"|jax\.distributed|coordinator[-_]address|colossalai|megatron|fsdp|ddp)"
)
_LONGEST: Final = 16 * 1024
"""Characters of a command that are looked at; a longer one cannot be told."""
_SHOWN: Final = 80


class Coupling(Struct, frozen=True):
    """The facts about it."""

    coupled: bool
    why: str
    """In words; empty where there is one pod only."""


ALONE: Final = Coupling(coupled=False, why="")
"""Of one pod by itself."""


def coupling(kind: str, options: Options, *, several: bool, hint: str) -> Coupling:
    """Return whether pods of that kind of owner train as one.

    `several`: whether it has more than one at the same time; `hint` is what in it hints at one training.
    """
    if not several:
        return ALONE
    if options.replicas is not None:
        coupled = options.replicas == "coupled"
        return Coupling(coupled=coupled, why=f"its annotation {PREFIX}replicas says {options.replicas}")
    if kind in _TOGETHER:
        return Coupling(coupled=True, why=f"the pods of a {kind} train as one unless it says otherwise")
    if kind == "Job" and (options.queue or options.min_workers or options.max_workers):
        return Coupling(coupled=True, why="it is admitted or scaled as one")
    if hint:
        return Coupling(coupled=True, why=f"{hint} hints at one training")
    return Coupling(coupled=False, why="nothing hints at one training of its pods")


def hint_in(pod: Mapping[str, Any], service: object = None) -> str:
    """Return what in the specification of pods hints that they train as one; empty where nothing does.

    `service` is the headless Service by which their owner names them, where it has one.
    """
    if isinstance(service, str) and service:
        return f"serviceName: {_show(service)}"
    if isinstance(pod.get("subdomain"), str) and pod["subdomain"]:
        return f"subdomain: {_show(pod['subdomain'])}"
    for container in (*mappings(pod.get("containers")), *mappings(pod.get("initContainers"))):
        for found in _hints_of(container):
            return f"{found} of its container {_show(str(container.get('name', '')))}"
    return ""


def _hints_of(container: Mapping[str, Any]) -> Iterator[str]:
    for variable in mappings(container.get("env")):
        name = variable.get("name")
        if isinstance(name, str) and _VARIABLES.fullmatch(name):
            yield f"the variable {_show(name)}"
    if mappings(container.get("envFrom")):
        yield "envFrom, whose variables are not read,"
    for field in ("command", "args"):
        text = " ".join(_texts(container.get(field)))
        if len(text) > _LONGEST:
            yield f"a {field} that is too long to be looked at"
        elif found := _WORDS.search(text.lower()):
            yield f"{_show(found[0])} in the {field}"


def _texts(given: object) -> Iterable[str]:
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def _show(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
