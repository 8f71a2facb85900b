"""The manager's state built again from the API, as a new leader would; for questions, nothing is written."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiUnavailableError
from specon_manager.backends.kube.transport.resources import JOBS, NODES, PODS, STATEFUL_SETS
from specon_manager.backends.kube.watching.cluster_watch import ClusterWatch, WatchSettings
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.events import Event

_SECONDS: Final = 120.0


class Rebuilt(Struct, frozen=True):
    """A state, and the pods that some of its replicas are."""

    state: State
    pods: Mapping[str, PodInfo]


async def rebuild(api: Api, state: State, concerned: Callable[[State], Iterable[str]]) -> Rebuilt:
    """Return `state` after everything that pods, nodes and owners tell.

    Of the replicas that are `concerned` the volumes are looked at too. Raises ApiError where one of these may
    not be read, and ApiUnavailableError.
    """
    for resource in (PODS, NODES, JOBS, STATEFUL_SETS):
        # What may not be read would be waited for without an end.
        async for _ in api.pages(resource, limit=1):
            break
    found = _Found(state)
    watch = ClusterWatch(api, WatchSettings(), remark=lambda *_: None, noticed=lambda *_: None)
    try:
        try:
            async with asyncio.timeout(_SECONDS):
                await watch.begin(state, found.hear)
        except TimeoutError as late:
            raise ApiUnavailableError(f"the cluster was not read within {_SECONDS:g} s") from late
        pods = {}
        for name in concerned(found.state):
            pod = watch.ledger.live(name)
            if pod is None or pod.detail is None:
                continue
            pods[name] = pod
            watch.ledger.judge(pod.uid, pod, await watch.verdict(pod))
        for event in watch.ledger.take_events():
            found.hear(event)
    finally:
        await watch.end()
    return Rebuilt(found.state.flatten(), pods)


class _Found:
    """Lets events happen to a state; what would be ordered is not."""

    def __init__(self, state: State) -> None:
        self.state = state

    def hear(self, event: Event) -> None:
        self.state, _ = step(self.state, event, time.time())
