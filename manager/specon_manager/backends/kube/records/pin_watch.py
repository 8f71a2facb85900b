"""The pins of TrainingJobs as every manager sees them: whichever of them answers an admission needs them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from specon_manager.backends.kube.records.pins import JobGlance, arriving, job_glance, job_pins_of
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import TRAINING_JOBS, Object
from specon_manager.backends.kube.transport.served import when_served


class PinWatch:
    """Follows the TrainingJobs for where the next pods of jobs that are changed are to run."""

    def __init__(
        self,
        api: Api,
        *,
        namespaces: Collection[str] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Watch in these namespaces, or (none given) in all of them."""
        self._api, self._sleep = api, sleep
        self._namespaces = frozenset(namespaces)
        self._pins: Mapping[str, str] | None = {}
        self._arriving: frozenset[str] = frozenset()
        self._reflector = Reflector(api, TRAINING_JOBS, slim=job_glance, changed=self._note_change)

    @property
    def synced(self) -> asyncio.Event:
        """Set once all TrainingJobs were seen, or there cannot be any: pins may be relied on."""
        return self._reflector.synced

    @property
    def pins(self) -> Mapping[str, str]:
        """The value of kubernetes.io/hostname to which the next pod is pinned, by replica."""
        if self._pins is None:
            ours = [
                each
                for each in self._reflector.items.values()
                if not self._namespaces or each.name.namespace in self._namespaces
            ]
            self._pins, self._arriving = job_pins_of(ours), arriving(ours)
        return self._pins

    @property
    def arriving(self) -> frozenset[str]:
        """The replicas whose next pod a move of their whole job awaits."""
        return self._arriving if self.pins else frozenset()

    def learn(self, item: Object) -> None:
        """Take an object as this manager has just written it."""
        self._reflector.learn(item)

    async def run(self) -> None:
        """Follow the TrainingJobs until cancelled; without their definition there are no pins."""
        await when_served(
            self._api, TRAINING_JOBS, self._reflector.run, absent=self.synced.set, sleep=self._sleep
        )

    def _note_change(self, change: ObjectChange[JobGlance]) -> None:
        said = [None if each is None else (each.pins, each.moving) for each in (change.before, change.after)]
        if said[0] != said[1]:
            self._pins = None
