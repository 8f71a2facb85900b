"""Elastic jobs on a real cluster: Indexed Jobs with a queue, and what the custom resources say of them."""

from collections.abc import Mapping
from typing import Any, Final

from specon_manager.backends.kube.transport.resources import PODS, TRAINING_JOBS, Object
from support.live.jobs import ANNOTATIONS
from support.live.stage import MOVES_NOTHING, LiveStage

ADMISSION_GATE: Final = "specon.io/admission"
SUSPENDED_FOR: Final = "specon.io/suspended-for"
SCALED: Final = "specon.io/scaled"
QUEUED: Final = {**ANNOTATIONS, "specon.io/queue": "research"}
_OVER: Final = frozenset({"Succeeded", "RolledBack", "Failed"})


def decisions(policy: str, **parameters: Any) -> dict[str, Any]:
    """Return decisions of a policy by which nothing rests between two changes."""
    budgets = {**MOVES_NOTHING["budgets"], "change_cooldown": 0}
    deadlines = {**MOVES_NOTHING["deadlines"], "ready": 60}
    chosen = {"policy": policy, "parameters": parameters, "budgets": budgets, "deadlines": deadlines}
    return {**MOVES_NOTHING, **chosen}


def elastic_job(
    live: LiveStage,
    name: str,
    *flags: str,
    workers: int = 2,
    cpu: str = "1",
    **annotations: str,
) -> Object:
    """Return a queued Indexed Job of so many workers; each worker requests so many processors."""
    said = {f"specon.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    made = live.jobs.indexed_job(name, *flags, completions=workers, annotations={**QUEUED, **said})
    with_cpu(made["spec"]["template"], cpu)
    return made


def with_cpu(pod: Object, cpu: str) -> Object:
    """Have the trainer of a pod, or of a template of pods, request so many processors; return it."""
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return pod


async def training_job(live: LiveStage, name: str) -> Object:
    """Return the status of a job's TrainingJob; empty while there is none."""
    found, _ = await live.api.list(TRAINING_JOBS, live.namespace)
    wanted = f"{live.namespace}/{name}"
    return next((one.get("status") or {} for one in found if one["spec"]["job"] == wanted), {})


async def in_phase(live: LiveStage, name: str, phase: str, *, seconds: float = 60) -> Object:
    """Wait until a TrainingJob says so; return its status."""

    async def there() -> Object | None:
        status = await training_job(live, name)
        return status if status.get("phase") == phase else None

    return await live.eventually(there, f"{name} is {phase}", seconds=seconds)


async def changing(live: LiveStage, name: str, kind: str, state: str, *, seconds: float = 60) -> Object:
    """Wait until a change of that kind is in that state, or over; return it."""

    async def there() -> Object | None:
        status = await training_job(live, name)
        change, last = status.get("change") or {}, status.get("lastChange") or {}
        if change.get("kind") == kind and change["state"] == state:
            return change
        return last if last.get("kind") == kind else None

    return await live.eventually(there, f"{kind} of {name} is in {state}", seconds=seconds)


async def changed(live: LiveStage, name: str, kind: str, *, seconds: float = 120) -> Object:
    """Wait until the change of that kind is over; return it."""

    async def over() -> Object | None:
        last = (await training_job(live, name)).get("lastChange") or {}
        return last if last.get("kind") == kind and last["state"] in _OVER else None

    return await live.eventually(over, f"{kind} of {name} is over", seconds=seconds)


async def live_pods(live: LiveStage, name: str) -> dict[int, Object]:
    """Return the pods of a job that have not ended, by index; fails where two are of one."""
    found: dict[int, Object] = {}
    pods, _ = await live.api.list(PODS, live.namespace, label_selector=f"batch.kubernetes.io/job-name={name}")
    for pod in pods:
        if pod["status"].get("phase") in {"Succeeded", "Failed"} or pod["metadata"].get("deletionTimestamp"):
            continue
        index = int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
        assert index not in found, f"two live pods of {name}/{index}: {await live.account()}"
        found[index] = pod
    return found


async def all_running(live: LiveStage, name: str, workers: int, *, seconds: float = 60) -> dict[int, Object]:
    """Wait until exactly so many pods of a job run, and return them."""

    async def there() -> dict[int, Object] | None:
        pods = await live_pods(live, name)
        ready = all(pod["status"].get("phase") == "Running" for pod in pods.values())
        return pods if ready and set(pods) == set(range(workers)) else None

    return await live.eventually(there, f"{workers} workers of {name} run", seconds=seconds)


def gates(pod: Object) -> list[str]:
    """Return the names of a pod's scheduling gates."""
    return [one["name"] for one in pod["spec"].get("schedulingGates") or []]


def mark(owner: Object) -> Mapping[str, str]:
    """Return what we wrote on a job's owner."""
    found: Mapping[str, str] = owner["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key.startswith("specon.io/")}
