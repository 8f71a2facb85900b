"""What a cluster tells of a manager for a support bundle: its objects, pods, metrics and logs, no secrets."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.reporting.recorder import CONTROLLER
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import (
    EVENTS,
    MIGRATIONS,
    NODES,
    PODS,
    TRAINING_JOBS,
    TRAINING_PROGRESSES,
    TRAINING_QUEUES,
    Object,
    Resource,
)
from specon_manager.cli.remote.redaction import drop_secrets, scrub

_CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
MANAGERS: Final = "app.kubernetes.io/component=manager,app.kubernetes.io/part-of=specon"
"""By these labels the pods of managers are found."""
_LOG_BYTES: Final = 1 << 20
_METRICS_BYTES: Final = 8 << 20
_MOST_PODS: Final = 5
_NODE_PARTS: Final = ("allocatable", "conditions")


async def collect_evidence(api: Api, leases: Sequence[Object], namespace: str | None) -> dict[str, bytes]:
    """Return the files; what cannot be read is named in `missing.txt` with the reason."""
    found: dict[str, bytes] = {}
    missing: list[str] = []

    async def add(name: str, read: Callable[[], Awaitable[Any]]) -> None:
        try:
            found[name] = _write(await read())
        except (ApiError, ApiUnavailableError) as error:
            missing.append(f"{name}: {error}")

    await add("trainingprogresses.json", partial(_list, api, TRAINING_PROGRESSES, namespace))
    await add("migrations.json", partial(_list, api, MIGRATIONS, namespace))
    await add("trainingjobs.json", partial(_list, api, TRAINING_JOBS, namespace))
    await add("trainingqueues.json", partial(_list, api, TRAINING_QUEUES, None))
    await add("events.json", partial(_events, api, namespace))
    await add("nodes.json", partial(_nodes, api))
    await add("kubernetes.json", partial(_version, api))
    found["leases.json"] = _write(list(leases))
    for home in sorted({str(each["metadata"]["namespace"]) for each in leases}):
        await add(f"{home}/settings.json", partial(_settings, api, home))
        pods: list[str] = []
        await add(f"{home}/pods.json", partial(_managers, api, home, pods))
        for name in pods[:_MOST_PODS]:
            await add(f"{home}/{name}.log", partial(_log, api, home, name))
            await add(f"{home}/{name}.metrics.txt", partial(_metrics, api, home, name))
    if missing:
        found["missing.txt"] = "\n".join([*missing, ""]).encode()
    return {name: scrub(content.decode(errors="replace")).encode() for name, content in found.items()}


def _write(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return (json.dumps(drop_secrets(value), indent=1) + "\n").encode()


async def _list(api: Api, resource: Resource, namespace: str | None) -> list[Object]:
    return (await api.list(resource, namespace))[0]


async def _managers(api: Api, namespace: str, names: list[str]) -> list[Object]:
    """Return the pods of managers, and note their names."""
    pods, _ = await api.list(PODS, namespace, label_selector=MANAGERS)
    names += [str(mapping(pod.get("metadata")).get("name")) for pod in pods]
    return pods


async def _events(api: Api, namespace: str | None) -> list[Object]:
    events, _ = await api.list(EVENTS, namespace)
    return [event for event in events if event.get("reportingController") == CONTROLLER]


async def _nodes(api: Api) -> list[Object]:
    """Return what decisions know of nodes; addresses and images are nobody's business."""
    nodes, _ = await api.list(NODES)
    return [
        {
            "name": mapping(node.get("metadata")).get("name"),
            "labels": mapping(mapping(node.get("metadata")).get("labels")),
            "taints": list(mappings(mapping(node.get("spec")).get("taints"))),
            "unschedulable": mapping(node.get("spec")).get("unschedulable", False),
            **{part: mapping(node.get("status")).get(part) for part in _NODE_PARTS},
        }
        for node in nodes
    ]


async def _version(api: Api) -> Mapping[str, int]:
    major, minor = await api.version()
    return {"major": major, "minor": minor}


async def _settings(api: Api, namespace: str) -> Mapping[str, str]:
    """Return the configuration files of the managers there, by the name of their ConfigMap."""
    maps, _ = await api.list(_CONFIG_MAPS, namespace, label_selector=MANAGERS)
    return {
        str(mapping(each.get("metadata")).get("name")): str(mapping(each.get("data")).get("config.yaml", ""))
        for each in maps
    }


async def _log(api: Api, namespace: str, pod: str) -> str:
    return await api.text(
        PODS, pod, namespace, subresource="log", query={"limitBytes": _LOG_BYTES, "tailLines": 5000}
    )


async def _metrics(api: Api, namespace: str, pod: str) -> str:
    return await api.text(
        PODS, f"{pod}:8080", namespace, subresource="proxy/metrics", max_bytes=_METRICS_BYTES
    )
