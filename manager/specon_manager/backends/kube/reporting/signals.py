"""Tells other schedulers by annotations which pods are cheap to end. Off unless switched on by name.

- `pod-deletion-cost`: `controller.kubernetes.io/pod-deletion-cost` on pods; a ReplicaSet that is scaled down
  ends those with the lower cost first; int32, 0 where it is absent (Kubernetes' reference of well-known
  annotations).
- `eviction-cost`: `scheduling.koordinator.sh/eviction-cost` on pods; Koordinator's descheduler evicts those
  with the lower cost first; int32, 0 where it is absent, the largest int32 means never, which is not written
  here (Koordinator's proposal of the pod migration job).
- `priority-boost`: `kueue.x-k8s.io/priority-boost` on Kueue's Workload objects, not on jobs; int32, added to
  the priority of the workload within its ClusterQueue, for scheduling and for preemption (KEP-7990; alpha,
  behind Kueue's feature gate PriorityBoost). A boost above zero would let a job preempt others, so that none
  is ever written: converged jobs get one below, by what their end would cost (`boost_value.py`).
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from specon_manager.backends.kube.objects.annotation_keys import SIGNALS
from specon_manager.backends.kube.reporting.boost_value import steady
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import (
    KUEUE_WORKLOADS,
    KUEUE_WORKLOADS_BETA1,
    PODS,
    Object,
    Resource,
)
from specon_sidecar.classify import Category

_log = logging.getLogger(__name__)
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST: Final = "scheduling.koordinator.sh/eviction-cost"
PRIORITY_BOOST: Final = "kueue.x-k8s.io/priority-boost"
ANNOTATIONS: Final[Mapping[str, str]] = {
    "pod-deletion-cost": POD_DELETION_COST,
    "eviction-cost": EVICTION_COST,
    "priority-boost": PRIORITY_BOOST,
}
"""Annotation by the name that switches it on."""
_WORKLOAD_LABEL: Final = "kueue.x-k8s.io/job-uid"  # on a Workload: the uid of the job that it stands for
CHEAP, DEAR = -100, 100
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_OF_PODS: Final = (POD_DELETION_COST, EVICTION_COST)


def check_signals(names: Iterable[str]) -> frozenset[str]:
    """Return the names, checked; raises ValueError naming one that is no signal."""
    chosen = frozenset(names)
    unknown = sorted(chosen - ANNOTATIONS.keys())
    if unknown:
        raise ValueError(f"signals: {unknown[0]!r} is none of {', '.join(sorted(ANNOTATIONS))}")
    return chosen


def wanted_annotations(category: Category, names: frozenset[str]) -> dict[str, str | None]:
    """Return each annotation for a pod and its value; None: it is to have none of ours."""
    values: dict[str, str | None] = {}
    for name, annotation in ANNOTATIONS.items():
        if annotation not in _OF_PODS:
            continue
        value: int | None = None
        if name in names and category is Category.CONVERGED:
            value = CHEAP
        elif name in names and category is Category.PROGRESSING:
            value = DEAR
        values[annotation] = None if value is None else str(value)
    return values


def wanted_boost(
    boost: int | None, names: frozenset[str], annotations: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the annotation for a Workload that has these; None: it is to have none of ours."""
    value = steady(boost, _number(annotations.get(PRIORITY_BOOST))) if "priority-boost" in names else None
    return {PRIORITY_BOOST: None if value is None else str(value)}


def _number(text: object) -> int | None:
    found = _INTEGER.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else int(found[0])


def changes(annotations: Mapping[str, str], values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return what to change of the annotations so that ours have `values`; empty: nothing.

    What another wrote stays, also over a value of ours; what another took away of ours stays away.
    """
    ours = _find_written(annotations)
    left = dict(ours)
    found: dict[str, str | None] = {}
    for annotation, value in values.items():
        present, written = annotations.get(annotation), ours.get(annotation)
        if present != written:
            # Another's hand. A value that is gone is remembered as ours for as long as we would write it.
            if present is not None or value is None:
                left.pop(annotation, None)
            continue
        if present == value:
            continue
        found[annotation] = value
        if value is None:
            left.pop(annotation, None)
        else:
            left[annotation] = value
    if left != ours:
        found[SIGNALS] = msgspec.json.encode(dict(sorted(left.items()))).decode() if left else None
    return found


def _find_written(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return what we wrote of late; whatever else stands in our annotation is nothing."""
    try:
        return msgspec.json.decode(annotations.get(SIGNALS, "{}"), type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


Values = Callable[[Mapping[str, str]], dict[str, str | None]]
"""Returns what an object with such annotations is to have of ours."""


class SignalWriter:
    """Writes signals onto objects."""

    def __init__(self, api: Api, names: Iterable[str]) -> None:
        """Write the signals of these names; raises ValueError for one that is no signal."""
        self._api = api
        self._names = check_signals(names)
        self._workloads: Resource | None = None

    async def write_workloads(self, namespace: str, job_uid: str, boost: int | None) -> int:
        """Do so with the boost of the Workloads by which Kueue knows a job; return how many were patched."""
        try:
            if self._workloads is None:
                newer = await self._api.serves(KUEUE_WORKLOADS)
                self._workloads = KUEUE_WORKLOADS if newer else KUEUE_WORKLOADS_BETA1
            selector = f"{_WORKLOAD_LABEL}={job_uid}"
            found, _ = await self._api.list(self._workloads, namespace, label_selector=selector)
        except (ApiError, ApiUnavailableError) as error:
            _log.debug("no signal on the workloads of %s in %s: %s", job_uid, namespace, error)
            return 0
        names = sorted(item["metadata"]["name"] for item in found)

        def values(annotations: Mapping[str, str]) -> dict[str, str | None]:
            return wanted_boost(boost, self._names, annotations)

        return sum([await self._write(self._workloads, name, namespace, values) for name in names])

    async def write(self, name: str, namespace: str, category: Category) -> bool:
        """Bring the annotations of a pod into line with a category; True when it was patched."""
        return await self._write(PODS, name, namespace, lambda _: wanted_annotations(category, self._names))

    async def _write(self, resource: Resource, name: str, namespace: str, values: Values) -> bool:
        """Bring the annotations of one object into line; True when it was patched.

        One that is gone, that somebody else changes at this moment, or that the server cannot change now is
        left as it is: signals are a courtesy, and the next change of category brings the next attempt.
        """
        try:
            found = await self._api.get(resource, name, namespace)
            metadata: Object = found.get("metadata") or {}
            annotations = metadata.get("annotations") or {}
            changed = changes(annotations, values(annotations))
            if not changed:
                return False
            patch = {
                "metadata": {
                    "uid": metadata.get("uid"),
                    "resourceVersion": metadata.get("resourceVersion"),
                    "annotations": changed,
                }
            }
            await self._api.patch(resource, name, namespace, patch, form="merge")
        except (ApiError, ApiUnavailableError) as error:
            _log.debug("no signal on %s %s/%s: %s", resource.kind, namespace, name, error)
            return False
        return True
