"""Jobs placed as ordered: one order per job is in force, the latest, until another one comes.

Whatever it takes is done as it turns out to be missing, so that it does not matter what a killed manager did
of it already, in which order pods come, or how often one of them is created again.
"""

import asyncio
import contextlib
import logging
from typing import Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.background import Background
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.owners.context import BlockedError, RefusedError
from specon_manager.backends.kube.placing.book import Book, waits_for_us
from specon_manager.backends.kube.placing.gates import release
from specon_manager.backends.kube.placing.placement import JobPlacement
from specon_manager.backends.kube.placing.tools import Tools
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.backoff import Backoff
from specon_manager.model.actions import PlaceJob

_log = logging.getLogger(__name__)
_LOOK: Final = 1.0  # seconds between two looks where nothing happens
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 5.0
_STRAY_SECONDS: Final = 5.0
"""How long a gated pod is left alone that no queue holds: its owner may be seen later than the pod."""


class Placer:
    """Carries out PlaceJob; see `JobPlacement` for one order."""

    def __init__(self, tools: Tools, background: Background | None = None) -> None:
        self._tools = tools
        self._background = background or Background()
        self._book: Book = tools.book
        self._placements: dict[str, JobPlacement] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._woken: dict[str, asyncio.Event] = {}
        self._strays: dict[str, float] = {}
        """Since when a gated pod is seen that no queue holds, by UID."""

    def order(self, order: PlaceJob) -> None:
        """Have an order carried out in the place of an earlier one for the same job."""
        flight = self._book.note_order(order)
        former = self._working.pop(order.job, None)
        placement = JobPlacement(order, flight, self._tools)
        self._placements[order.job] = placement
        self._woken[order.job] = asyncio.Event()
        work = self._carry_out(placement, self._woken[order.job], former)
        self._working[order.job] = self._background.start(work, f"placing {order.job}")

    def note_pod(self, before: PodInfo | None, after: PodInfo | None) -> None:
        """Take note of a pod that came, changed or went."""
        job = self._book.note_pod(before, after)
        if after is None and job in self._placements:
            self._placements[job].note_pod(before)
        self._wake(job)

    def forget(self, job: str) -> None:
        """Let go of a job that is not there any more."""
        self._placements.pop(job, None)
        self._woken.pop(job, None)
        if (task := self._working.pop(job, None)) is not None:
            task.cancel()

    async def look_after_strays(self) -> None:
        """Release gated pods, unpinned, that no order speaks of and that nothing holds; until cancelled."""
        while True:
            for pod in self._find_strays():
                try:
                    if await release(self._tools.hands, pod, None):
                        _log.info("%s/%s was gated, and nothing holds it: released", pod.namespace, pod.name)
                except NotLeadingError:
                    return
                except (RefusedError, ApiError, ApiUnavailableError) as error:
                    _log.warning("%s/%s could not be released: %s", pod.namespace, pod.name, error)
            await self._tools.hands.sleep(_LOOK)

    async def end(self) -> None:
        """Stop; the next manager finishes half-done work."""
        await self._background.end()

    async def _carry_out(
        self, placement: JobPlacement, woken: asyncio.Event, former: asyncio.Task[None] | None
    ) -> None:
        if former is not None:
            former.cancel()
            await asyncio.gather(former, return_exceptions=True)
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while not placement.done:
            woken.clear()
            try:
                await placement.advance()
            except NotLeadingError:
                return
            except BlockedError as error:
                placement.note_blocked(error)
            except ApiUnavailableError as error:
                _log.info("%s: %s", placement.order.job, error)
            except (RefusedError, ApiError) as error:
                if isinstance(error, RefusedError) or not (error.throttled or error.conflict):
                    placement.refuse(str(error))
            else:
                backoff.succeed()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK):
                        await woken.wait()
                continue
            await self._tools.hands.sleep(backoff.next())

    def _find_strays(self) -> list[PodInfo]:
        found: list[PodInfo] = []
        unheld: dict[str, float] = {}
        for job in sorted(self._book.find_gated()):
            spec, placement = self._book.specs.get(job), self._placements.get(job)
            if spec is None or (placement is not None and not placement.done):
                continue
            if placement is None and job in self._book.flying:
                continue  # its order is about to be given again
            waiting = [pod for pod in self._book.pods(job, self._tools.ledger.foreign) if waits_for_us(pod)]
            if spec.held:
                found += waiting if job in self._book.admitted else []
                continue
            now = self._tools.monotonic()
            for pod in waiting:
                unheld[pod.uid] = self._strays.get(pod.uid, now)
                if now - unheld[pod.uid] >= _STRAY_SECONDS and self._is_known(pod):
                    found.append(pod)
        self._strays = unheld
        return found

    def _is_known(self, pod: PodInfo) -> bool:
        """Whether what creates the pod was seen, or is nothing that could be."""
        owner = None if pod.detail is None or pod.detail.identity is None else pod.detail.identity.owner_kind
        return owner not in OWNER_RESOURCES or self._tools.ledger.owner_of(pod) is not None

    def _wake(self, job: str) -> None:
        if job in self._woken:
            self._woken[job].set()
