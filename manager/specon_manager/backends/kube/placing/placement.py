"""One order to place a job, carried out step by step: each look takes the missing steps, and no more."""

import logging
from collections.abc import Mapping
from typing import Any

from specon_manager.backends.kube.objects.job_patch import SWITCHES, JobWish
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.objects.ways import suspends
from specon_manager.backends.kube.owners.context import BlockedError, EditedError, ExpiredError, RefusedError
from specon_manager.backends.kube.owners.patching import OwnerGoneError, patch_owner, switch_of
from specon_manager.backends.kube.placing.arrivals import Arrivals
from specon_manager.backends.kube.placing.book import (
    InFlight,
    is_unplaced,
    occupies,
    replica_of,
    waits_for_us,
)
from specon_manager.backends.kube.placing.departures import Departures
from specon_manager.backends.kube.placing.tools import Tools
from specon_manager.backends.kube.placing.wishes import Circumstances, wish
from specon_manager.backends.kube.placing.word import Word
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import JobSpec

_log = logging.getLogger(__name__)


class JobPlacement:
    """The order that is in force for a job."""

    def __init__(self, order: PlaceJob, flight: InFlight | None, tools: Tools) -> None:
        self.order = order
        self.done = False
        """Whether everything was seen to be as ordered."""
        self._flight, self._tools = flight, tools
        self._moves = flight is not None and flight.moves
        self._gang = flight is not None and flight.gang
        self._word = Word(order, flight, tools)
        self._departures = Departures(order, flight, tools, self._word)
        self._arrivals = Arrivals(order, flight, tools, self._word)
        self._settled: tuple[OwnerInfo, bool, bool] | None = None
        """The owner as it was seen when its object needed no change; see `_circumstances`."""

    async def advance(self) -> None:
        """Take the missing steps. May be repeated, also by another manager.

        Raises RefusedError where something cannot be, BlockedError where it must wait, ApiError and
        ApiUnavailableError.
        """
        spec = self._tools.book.specs.get(self.order.job)
        if spec is None:
            self.done = True  # nobody waits for it any more
            return
        owner = self._tools.ledger.owner_of_job(self.order.job)
        self._arrivals.check_nodes()
        try:
            await self._write(spec, owner)
            self._departures.note_unblocked()
            if not self._leaves_by_its_object(owner):
                await self._departures.send_away()
        except (OwnerGoneError, EditedError) as error:
            # The core hears of both from the watch, and what its user wrote is not overwritten.
            _log.info("%s: %s", self.order.job, error)
            return
        except ExpiredError as error:
            self._departures.expire(error)
        await self._arrivals.release(self._pods())
        await self._arrivals.bring_back(self._pods(), owner)
        await self._arrivals.make_way(self._pods())
        if owner is None or self._settled == (owner, *self._circumstances(owner)):
            self._tell_absent(spec)
        going = {pod.uid for pod in self._departures.first()}
        self._arrivals.look_for_trouble(self._pods(), owner, going)
        self.done = self._is_as_ordered(owner)

    def note_pod(self, gone: PodInfo | None) -> None:
        """Take note at once of a pod that went: before another one of its replica can be seen to run."""
        replica = None if gone is None else replica_of(gone)
        if replica is not None and self.order.ending.get(replica) == "" and self._departures.is_gone(replica):
            self._word.tell_gone(replica)

    def note_blocked(self, error: BlockedError) -> None:
        """Take note that a disruption budget stands against it; refuse it when that lasts too long."""
        self._departures.note_blocked(error)

    def refuse(self, why: str) -> None:
        """Tell the core that the order cannot be carried out."""
        self._departures.refuse(why)

    # -- the owner's object ----------------------------------------------------------------------

    def _leaves_by_its_object(self, owner: OwnerInfo | None) -> bool:
        """Whether pods go because the object of the job says so; else they are evicted one by one."""
        if owner is None or owner.kind not in SWITCHES:
            return False
        return suspends(owner) or (self._flight is not None and not self._moves)

    def _stops(self, owner: OwnerInfo | None) -> bool:
        """Whether the object of the job is to be suspended."""
        if owner is None or not self._leaves_by_its_object(owner):
            return False
        if self._flight is not None and not self._moves:
            return not self.order.placement or (self._gang and bool(self._departures.first()))
        return self._departures.stop() or bool(self._departures.first())

    def _circumstances(self, owner: OwnerInfo | None) -> tuple[bool, bool]:
        """Return whether the job is to be suspended, and whether pods of it still end that go by that."""
        stops = self._stops(owner)
        return stops, stops and self._gang and self._tools.book.is_ending(self.order.job)

    async def _write(self, spec: JobSpec, owner: OwnerInfo | None) -> None:
        """Write the order into the object of the job."""
        stops, ending = self._circumstances(owner)
        if owner is None or self._settled == (owner, stops, ending):
            return
        flight = self._flight
        if owner.kind not in SWITCHES:
            self._settled = owner, stops, ending  # its object has no switch for it, and is not read
            return
        if owner.remains and not stops:
            return  # what may create its pods again has to be gone as well
        back = not self.order.transaction or (self._gang and not stops)
        if back and owner.suspended_for and self._tools.book.is_ending(self.order.job):
            return  # it is resumed once they are gone
        known = Circumstances(
            spec=spec,
            moves=self._moves or self._gang or bool(owner.workload),
            gang=self._gang,
            stops=stops,
            admitting=flight is not None and flight.admitting,
            ours=() if flight is None else frozenset(flight.ours),
            runs=any(pod.node for pod in self._pods()),
            ending=ending,
            in_kueue=owner.kueue,
            against=_against(owner) if self.order.fresh_until is not None else "",
        )

        def decide(found: Mapping[str, Any]) -> JobWish | None:
            try:
                return wish(switch_of(owner).resource.kind, dict(found), self.order, known)
            except EditedError as error:
                if known.admitting:  # it does not run: it is admitted again, with the new number
                    raise RefusedError(str(error)) from error
                raise

        # Pods let go a moment ago, of a job that never was whole: taking them back disrupts nothing.
        leaving = [] if known.admitting else [pod for pod in self._leaving() if pod.node]
        if leaving and self._departures.is_given_up():
            return
        hands = self._departures.hands if leaving else self._tools.hands
        await patch_owner(hands, owner, decide, leaving=leaving, whole=stops)
        self._settled = owner, stops, ending

    def _leaving(self) -> list[PodInfo]:
        """Return the pods that go by the change of the job's object and were not told to yet."""
        if not self.order.transaction:
            return []
        named = self.order.ending if self._moves else None
        return [
            pod
            for pod in self._pods()
            if occupies(pod)
            and not pod.deleting
            and replica_of(pod) not in self.order.placement
            and (named is None or replica_of(pod) in named)
        ]

    # -- messages --------------------------------------------------------------------------------

    def _tell_absent(self, spec: JobSpec) -> None:
        """Report each replica as gone that is not to run and has no pod.

        The ledger reports the end of a pod that ran. Nothing else reports one that never ran.
        """
        if not self.order.transaction:
            return
        for replica, told in self.order.ending.items():
            if self._departures.is_gone(replica):
                self._word.tell_gone(replica, told or None)
        if self._moves or self._gang:
            return
        there = {replica_of(pod) for pod in self._pods() if occupies(pod)}
        for replica in spec.replicas:
            if replica not in self.order.placement and replica not in there:
                self._word.tell_gone(replica)

    def _is_as_ordered(self, owner: OwnerInfo | None) -> bool:
        pods, placement = self._pods(), self.order.placement
        if self._departures.first():
            return False
        if not self.order.transaction:
            missing = placement.keys() - {replica_of(pod) for pod in pods}
            if owner is None:
                return not any(map(self._arrivals.keeps_manifest, missing))
            return not owner.suspended_for and not any(waits_for_us(pod) or is_unplaced(pod) for pod in pods)
        if any(self._departures.list_left(replica) for replica in self.order.ending):
            return False
        if not self._moves and any(occupies(pod) and replica_of(pod) not in placement for pod in pods):
            return False
        if self._stops(owner):
            return owner is not None and owner.suspended and not placement
        running = (pod for pod in pods if pod.detail is not None and pod.detail.trains and not pod.deleting)
        return placement.keys() <= {replica_of(pod) for pod in running}

    def _pods(self) -> list[PodInfo]:
        return self._tools.book.pods(self.order.job, self._tools.ledger.foreign)


def _against(owner: OwnerInfo) -> str:
    """Return what has come between since the move was proposed; empty where nothing has."""
    return f"Kueue manages {owner}: {owner.kueue_against}" if owner.workload and owner.kueue_against else ""
