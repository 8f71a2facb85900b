"""Tells who removes nodes for how long a training still needs its own. Off unless switched on by name.

- `do-not-disrupt`: `karpenter.sh/do-not-disrupt` on pods, as a duration from the pod's start until its job
  is expected to end; Karpenter (1.12 and later) leaves its node alone for so long. None where nobody knows
  how long it still trains.
- `safe-to-evict`: `cluster-autoscaler.kubernetes.io/safe-to-evict` on pods: "true" once a checkpoint of the
  replica is verified, "false" before. It is for `interception.enabled`, by which evictions become moves.

What another wrote stays, as with the other signals.
"""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.reporting.signals import changes
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import PODS, Object
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.policies.remaining_work import remaining_seconds

_log = logging.getLogger(__name__)
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
PROTECTIONS: Final[Mapping[str, str]] = {"do-not-disrupt": DO_NOT_DISRUPT, "safe-to-evict": SAFE_TO_EVICT}
"""Annotation by the name that switches it on."""
_LOOK_SECONDS: Final = 30.0
_MOST: Final = 50
"""Pods that are written at one look."""
_MINUTES: Final = re.compile(r"([0-9]{1,9})m")
_LEAST, _SHARE = 600.0, 0.2
"""An expected end is written again where it is off by more than so many seconds, and than so much of the
rest."""


def wanted_annotations(
    names: Collection[str], *, left: float, age: float, saved: bool, present: str
) -> dict[str, str | None]:
    """Return each annotation and its value; None: it is to have none of ours.

    `left` is how long the job still trains and `age` how long the pod has run, seconds; `saved`, whether a
    checkpoint is verified; `present`, the duration that is written now.
    """
    lasting = until(left, age, present) if "do-not-disrupt" in names else None
    safe = ("true" if saved else "false") if "safe-to-evict" in names else None
    return {DO_NOT_DISRUPT: lasting, SAFE_TO_EVICT: safe}


def until(left: float, age: float, present: str) -> str | None:
    """Return the duration from the start of the pod, as Karpenter reads it; None where none is known."""
    if not math.isfinite(left) or left <= 0:
        return None
    known = _MINUTES.fullmatch(present)
    if known is not None and _is_near(60.0 * int(known[1]), age + left, left):
        return present
    return f"{math.ceil((age + left) / 60)}m"


def _is_near(known: float, expected: float, left: float) -> bool:
    return abs(known - expected) <= max(_LEAST, _SHARE * left)


class Protections:
    """Writes them in the background; the leader runs it."""

    def __init__(
        self,
        api: Api,
        names: Collection[str],
        subjects: Callable[[str], Sequence[Object]],
        *,
        holds: Callable[[], bool],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Write those of these names while `holds` says that this manager leads; others are passed over."""
        self._api, self._subjects, self._holds, self._sleep = api, subjects, holds, sleep
        self._names = frozenset(names) & PROTECTIONS.keys()
        self._written: dict[str, tuple[bool, float]] = {}
        """By UID of a pod: whether it was saved, and when its job was expected to end."""

    async def run(self, state: Callable[[], State], now: Callable[[], float]) -> None:
        """Keep them until cancelled."""
        while True:
            if self._names:
                await self.keep(state(), now())
            await self._sleep(_LOOK_SECONDS)

    async def keep(self, state: State, now: float) -> int:
        """Write what differs noticeably; return how many pods that were."""
        snapshot, written, alive = state.snapshot(now), 0, set[str]()
        for replica in state.replicas.values():
            if replica.phase is not Phase.RUNNING or replica.incarnation is None:
                continue
            alive.add(replica.incarnation)
            left = remaining_seconds(state.jobs[replica.job], snapshot)
            if written < _MOST and self._is_news(replica, left, now) and self._holds():
                written += 1
                await self._write(replica, left, now)
        self._written = {uid: known for uid, known in self._written.items() if uid in alive}
        return written

    def _is_news(self, replica: Replica, left: float, now: float) -> bool:
        known = self._written.get(replica.incarnation or "")
        if known is None or known[0] != _has_saved(replica):
            return True
        if math.isfinite(known[1]) != math.isfinite(left):
            return True
        return math.isfinite(left) and not _is_near(known[1], now + left, left)

    async def _write(self, replica: Replica, left: float, now: float) -> None:
        pod = next((each for each in self._subjects(replica.name) if each["kind"] == PODS.kind), None)
        if pod is None or pod.get("uid") != replica.incarnation:
            return
        name, namespace = pod["name"], pod["namespace"]
        try:
            found = await self._api.get(PODS, name, namespace)
            metadata = mapping(found.get("metadata"))
            annotations = mapping(metadata.get("annotations"))
            started = _time(mapping(found.get("status")).get("startTime"))
            values = wanted_annotations(
                self._names,
                left=left if started is not None else math.inf,
                age=0.0 if started is None else max(0.0, now - started),
                saved=_has_saved(replica),
                present=str(annotations.get(DO_NOT_DISRUPT, "")),
            )
            if metadata.get("uid") == replica.incarnation and (changed := changes(annotations, values)):
                about = {"uid": metadata["uid"], "resourceVersion": metadata.get("resourceVersion")}
                patch = {"metadata": {**about, "annotations": changed}}
                await self._api.patch(PODS, name, namespace, patch, form="merge")
        except (ApiError, ApiUnavailableError) as error:
            _log.debug("no protection on pod %s/%s: %s", namespace, name, error)
            return  # looked at again
        self._written[str(pod["uid"])] = (_has_saved(replica), now + left)


def _has_saved(replica: Replica) -> bool:
    known = replica.progress.checkpoint
    return known is not None and known.verified


def _time(given: object) -> float | None:
    try:
        return datetime.fromisoformat(given).timestamp() if isinstance(given, str) else None
    except ValueError:
        return None
