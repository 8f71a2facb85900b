"""Opens our gate of Kueue's Workloads once likely victims have saved; the manager that leads runs it.

All that it decides by stands in objects and in the state: a manager that takes over goes on. Kueue itself may
write a gate shut from an older copy of the Workload: then it is opened again.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from specon_manager.backends.kube.kueue.decision import (
    Ask,
    PreemptionGateSettings,
    SetGate,
    Victim,
    decide,
    judge_standing,
    replicas_asked,
    request_of,
)
from specon_manager.backends.kube.kueue.facts import CLOSED, GATE, OPEN, Workload
from specon_manager.backends.kube.kueue.lookout import LocalQueues, Lookout
from specon_manager.backends.kube.reporting.note import Note
from specon_manager.backends.kube.reporting.recorder import Recorder, reference
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import KUEUE_WORKLOADS, Object, OwnerOf
from specon_manager.core.state import State
from specon_manager.model.events import Event, SaveRequested

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.5
_REST: Final = 9.0
"""Times as long as a look took it rests at least: with thousands of Workloads a look takes long."""
_LONGEST_REST: Final = 1.0
"""Seconds, before and after a save: who waits for a preemption waits for that, and three seconds at most."""
_ABSENT_SECONDS: Final = 60.0
_MOST: Final = 50
"""Gates that are turned at one look."""


class Gatekeeper:
    """Looks twice a second while a Workload waits for victims, and rests otherwise."""

    def __init__(
        self,
        api: Api,
        settings: PreemptionGateSettings,
        *,
        local_queues: LocalQueues,
        recorder: Recorder,
        owner_of: OwnerOf,
        holds: Callable[[], bool],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        worked: Callable[[], float] = time.thread_time,
    ) -> None:
        """Open gates while `holds` says that this manager leads; `owner_of` refers to what owns a job.

        `worked` is the processor time of this thread: what waits for a processor or an answer is no work.
        """
        self._api, self._settings, self._recorder = api, settings, recorder
        self._owner_of, self._holds, self._sleep, self._worked = owner_of, holds, sleep, worked
        self._woken = asyncio.Event()
        self.lookout = Lookout(api, local_queues, self._woken.set)

    async def run(
        self, state: Callable[[], State], now: Callable[[], float], post: Callable[[Event], None]
    ) -> None:
        """Keep the gates until cancelled; where this Kueue knows none, look for them now and then."""
        while not await self._is_served():
            await self._sleep(_ABSENT_SECONDS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.lookout.run())
            group.create_task(self._keep(state, now, post))

    async def _keep(
        self, state: Callable[[], State], now: Callable[[], float], post: Callable[[Event], None]
    ) -> None:
        while True:
            if not self.lookout.list_gated():
                self._woken.clear()
                await self._woken.wait()
            began = self._worked()
            await self.look(state(), now(), post)
            rest = _REST * (self._worked() - began)
            await self._sleep(min(max(_LOOK_SECONDS, rest), _LONGEST_REST))

    async def look(self, state: State, now: float, post: Callable[[Event], None]) -> int:
        """Take the action due for each Workload that waits; return how many gates were turned."""
        if not self.lookout.synced:
            return 0
        turned = 0
        victims = self.lookout.victims(now) if self.lookout.knows_queues else {}
        jobs = self._jobs_by_uid(state) if victims else {}
        for workload in self.lookout.list_gated():
            found = self._find_standings(workload, victims.get(workload.uid, ()), jobs, state, now)
            its_turn = workload.uid in victims
            done = decide(workload, found, now, self._settings.patience, known=its_turn)
            if isinstance(done, Ask):
                for victim in done.victims:
                    post(_request(workload, victim.replica))
            elif done is not None and turned < _MOST and self._holds():
                turned += await self._turn(workload, done, now)
        return turned

    def _jobs_by_uid(self, state: State) -> dict[str, set[str]]:
        """Return the names of jobs by the UID of what owns each, and by that of its pods."""
        found: dict[str, set[str]] = {}
        for name in state.jobs:
            owner = self._owner_of(name)
            if owner is not None and owner.get("uid"):
                found.setdefault(str(owner["uid"]), set()).add(name)
        for replica in state.replicas.values():
            if replica.incarnation is not None:
                found.setdefault(replica.incarnation, set()).add(replica.job)
        return found

    def _find_standings(
        self,
        workload: Workload,
        victims: Iterable[Workload],
        jobs: dict[str, set[str]],
        state: State,
        now: float,
    ) -> list[Victim]:
        names = sorted({name for each in victims for uid in each.jobs for name in jobs.get(uid, ())})
        asked = [replica for name in names for replica in replicas_asked(state.jobs[name], state)]
        return [judge_standing(each, request_of(workload, each), state, now) for each in asked]

    async def _turn(self, workload: Workload, turn: SetGate, now: float) -> bool:
        """Open or close the gate of a Workload as it was seen; the faster writer wins."""
        at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        others = [
            {"name": each.name, "position": OPEN if each.open else CLOSED, "lastTransitionTime": each.since}
            for each in workload.gates
            if each.name != GATE
        ]
        ours = {"name": GATE, "position": OPEN if turn.open else CLOSED, "lastTransitionTime": at}
        about = {"uid": workload.uid, "resourceVersion": workload.version}
        patch: Object = {"metadata": about, "status": {"preemptionGates": [*others, ours]}}
        try:
            await self._api.patch(
                KUEUE_WORKLOADS,
                workload.name,
                workload.namespace,
                patch,
                form="merge",
                subresource="status",
            )
        except (ApiError, ApiUnavailableError) as error:
            _log.debug("the gate of %s/%s is not turned: %s", workload.namespace, workload.name, error)
            return False
        what = "opened" if turn.open else "closed again"
        _log.info("%s/%s may preempt: %s, %.300s", workload.namespace, workload.name, what, turn.words)
        note = Note(
            replica=f"{workload.namespace}/{workload.name}",
            reason="PreemptionGateOpened" if turn.open else "PreemptionGateClosed",
            action="Preempt",
            text=f"the gate {GATE} is {what}: {turn.words}",
            warning=turn.warning,
        )
        self._recorder.record(
            reference(KUEUE_WORKLOADS, workload.namespace, workload.name, workload.uid), note
        )
        return True

    async def _is_served(self) -> bool:
        with contextlib.suppress(ApiError, ApiUnavailableError):
            if await self._api.serves(KUEUE_WORKLOADS):
                return True
        _log.warning("preemption_gate: there is no %s here", KUEUE_WORKLOADS.api_version)
        return False


def _request(workload: Workload, replica: str) -> SaveRequested:
    why = f"Kueue is likely to preempt it for {workload.namespace}/{workload.name}"
    return SaveRequested(id=request_of(workload, replica), replica=replica, reason=why)
