"""What has to go by one order: which pods, in the way of their owner, and what stands against it.

A pod is told to end once at most, unless nobody knows whether it was. Right before that the permission is
looked at: a checkpoint that has grown too old permits nothing.
"""

import math
from typing import Final

import msgspec

from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.owners.bare import let_go
from specon_manager.backends.kube.owners.context import BlockedError, ExpiredError, Hands, RefusedError
from specon_manager.backends.kube.owners.eviction import evict, is_told
from specon_manager.backends.kube.placing.book import InFlight, is_unplaced, occupies, replica_of
from specon_manager.backends.kube.placing.tools import Tools
from specon_manager.backends.kube.placing.word import Word
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.model.actions import PlaceJob

_UNHEARD_GRACE: Final = 30
"""Grace of a pod without reports, seconds; it is killed after that."""
_COMES_AGAIN: Final = 3
"""Pods without a sidecar that a replica of a move may have, there and back together, before the move fails.
While a manager stands still, each failed request costs the API server one of its connections to it."""


class Departures:
    """The pods that an order names as those that must go, as they were when it came."""

    def __init__(self, order: PlaceJob, flight: InFlight | None, tools: Tools, word: Word) -> None:
        self._order, self._tools, self._word = order, tools, word
        self._moves = flight is not None and (flight.moves or flight.gang)
        self._missing_sidecars = dict(order.missing_sidecars)
        """By replica, how many of its pods were sent back for that, by earlier orders too."""
        self._sent_back: set[str] = set()
        """UIDs of the pods that this order sends back."""
        self.hands: Hands = msgspec.structs.replace(tools.hands, fence=self._may_end)
        """With these what trains is told to end: only as long as that is permitted."""
        self._given_up: set[str] = set()
        """Replicas that are told to end no more by this order; empty for all of them."""
        self._blocked_since: dict[str, float] = {}
        """By replica, empty for the job as a whole."""
        self._told: set[str] = set()
        """UIDs of pods that were told to end; the watch shows it a moment later."""
        self._no_room_since: dict[str, float] = {}
        """By UID, of pods that nobody moves any more and that wait for a certain node."""
        self._unsure: set[str] = set()
        """UIDs of pods that may or may not have been told."""
        self._told_of: set[str] = set()
        """Replicas whose end the ledger tells by itself, since it has told that they run."""
        self._condemned: dict[str, str] = {}
        """Replica by UID of the pod."""
        for replica, told in order.ending.items():
            for uid in (told,) if told else (pod.uid for pod in self._pods_of(replica)):
                self._condemned[uid] = replica
            self.is_gone(replica)

    # -- which -----------------------------------------------------------------------------------

    def list_left(self, replica: str) -> list[PodInfo]:
        """Return what must go of a replica and is still there."""
        return [pod for pod in self._pods_of(replica) if self._condemned.get(pod.uid) == replica]

    def is_gone(self, replica: str) -> bool:
        """Whether nothing is left of what must go of a replica, and nobody else tells so."""
        if self._tools.ledger.believed_incarnation(replica) in self._condemned:
            self._told_of.add(replica)
        return not self.list_left(replica) and replica not in self._told_of

    def stop(self) -> bool:
        """Whether a job that is suspended for it has to be: what came after those that must go is spared."""
        return any(
            all(pod.uid in self._condemned for pod in self._pods_of(replica))
            for replica in self._order.ending
        )

    def first(self) -> list[PodInfo]:
        """Return what has to go before anything comes, though the order does not name it.

        Those that wait, because of us, for another node than they are to run on, or for one without room. Of
        what moves, or was moved, also those that were created without a sidecar: they may run anywhere. None
        of them was heard of.
        """
        found = []
        for replica, name in self._order.placement.items():
            if replica in self._tools.book.moves:
                found += [pod for pod in self._all_of(replica) if self._waits_in_vain(pod, name)]
            unheard = self._tools.unheard(replica)
            if unheard is not None and self._comes_again(replica, unheard):
                found.append(unheard)
        return found

    def _waits_in_vain(self, pod: PodInfo, name: str | None) -> bool:
        """Whether the pod waits, because of us, for a node on which it is not to run, or cannot.

        `name` is the node on which its replica is to run, None for any. Without a change in flight that is
        the one for which it waits too, as long as the scheduler may find room there.
        """
        if pod.detail is None or not is_unplaced(pod):
            return False
        if self._order.transaction:
            node = None if name is None else self._tools.nodes.node(name)
            return node is None or pod.detail.pinned != node.hostname
        if not pod.detail.unschedulable:
            self._no_room_since.pop(pod.uid, None)
            return False
        now = self._tools.monotonic()
        return now - self._no_room_since.setdefault(pod.uid, now) >= self._tools.unschedulable_seconds

    def _comes_again(self, replica: str, unheard: PodInfo) -> bool:
        """Whether what came without a sidecar goes, so that another one comes; after some it stays."""
        if not self._order.transaction:
            return replica in self._tools.book.moves
        if not self._moves or not self._word.concerns(replica):
            return False
        if unheard.deleting or unheard.uid in self._sent_back:
            return True  # it is counted already, or somebody else sends it away
        count = self._missing_sidecars.get(replica, 0)
        if count >= _COMES_AGAIN:
            return False
        self._sent_back.add(unheard.uid)
        self._missing_sidecars[replica] = count + 1
        self._word.tell_sidecar_missing(replica, count + 1)
        return True

    # -- told to go ------------------------------------------------------------------------------

    async def send_away(self) -> None:
        """Have them evicted that are to go and were not told to, each by itself.

        Raises ExpiredError, and what the API raises where nobody knows what came of it.
        """
        for replica in self._order.ending:
            waiting = [pod for pod in self.list_left(replica) if not pod.deleting]
            if waiting and not self.is_given_up(replica):
                await self._judge(replica, waiting, self.hands)
        for pod in self.first():
            if not pod.deleting:
                await self._judge(replica_of(pod) or pod.would_be, [pod], self._tools.hands, heard=False)

    async def _judge(self, replica: str, pods: list[PodInfo], hands: Hands, *, heard: bool = True) -> None:
        """Have these pods of a replica go; what stands against it keeps no other one."""
        try:
            for pod in pods:
                await self._tell(hands, replica, pod, heard=heard)
        except BlockedError as error:
            self.note_blocked(error, replica)
        except RefusedError as error:
            self.refuse(str(error), replica)
        except ApiError as error:
            if not (error.throttled or error.conflict):
                self.refuse(str(error), replica)
        else:
            self._blocked_since.pop(replica, None)

    async def _tell(self, hands: Hands, replica: str, pod: PodInfo, *, heard: bool) -> None:
        if pod.uid in self._told or (pod.uid in self._unsure and await is_told(hands, pod)):
            return
        try:
            await self._let_go(hands, replica, pod, self._grace(pod, heard=heard))
        except ApiUnavailableError:
            self._unsure.add(pod.uid)
            raise
        self._told.add(pod.uid)

    async def _let_go(self, hands: Hands, replica: str, pod: PodInfo, grace_seconds: int) -> None:
        creator = None if pod.detail is None else pod.detail.owner
        if pod.detail is not None and creator is None:
            await self._let_go_bare(hands, replica, pod, grace_seconds)
            return
        if creator is not None and self._tools.ledger.owner_of(pod) is None:
            raise RefusedError(f"its owner, {creator.kind} {creator.name}, is not there")
        await evict(hands, pod, grace_seconds=grace_seconds)

    async def _let_go_bare(self, hands: Hands, replica: str, pod: PodInfo, grace_seconds: int) -> None:
        """Let a bare pod go, whose job is kept in mind until the next one is there."""
        self._tools.ledger.await_return(replica, awaited=True)
        try:
            await let_go(hands, replica, pod, grace_seconds=grace_seconds)
        except (BlockedError, RefusedError, ExpiredError):
            self._tools.ledger.await_return(replica, awaited=False)
            raise

    # -- what stands against it ------------------------------------------------------------------

    def note_blocked(self, error: BlockedError, replica: str = "") -> None:
        """Take note that a disruption budget stands against it; refuse it when that lasts too long."""
        now = self._tools.monotonic()
        since = self._blocked_since.setdefault(replica, now)
        if now - since >= self._tools.eviction_patience:
            self.refuse(str(error), replica)

    def note_unblocked(self) -> None:
        """Take note that nothing stands against the fields written for the job as a whole."""
        self._blocked_since.pop("", None)

    def refuse(self, why: str, replica: str = "") -> None:
        """Say that something cannot be made to go; where it trains on for that, it is not told again.

        On the way back it is tried until the core wants something else.
        """
        self._word.tell_refused(why, replica)
        if self._order.fresh_until is not None:
            self._given_up.add(replica)

    def expire(self, error: ExpiredError) -> None:
        """Say that what permits the ends has grown too old, for whatever was not told to end yet."""
        self._given_up.add("")
        for replica in self._order.ending:
            if any(not pod.deleting for pod in self.list_left(replica)):
                self._word.tell_expired(replica, str(error))

    def is_given_up(self, replica: str = "") -> bool:
        """Whether a replica, or the job as a whole, is not told to end any more by this order."""
        return "" in self._given_up or replica in self._given_up

    def _may_end(self) -> None:
        """Raise ExpiredError where what permits the ends is too old, NotLeadingError where we do not lead."""
        self._tools.hands.fence()
        until, now = self._order.fresh_until, self._tools.now()
        if until is not None and now > until:
            raise ExpiredError(f"the checkpoint that permits it has been too old for {now - until:.0f} s")

    def _grace(self, pod: PodInfo, *, heard: bool) -> int:
        """Return how long the pod may take, seconds; one that waits for a node needs no time."""
        if pod.detail is None:
            return _UNHEARD_GRACE
        return math.ceil(max(self._order.grace_seconds, pod.detail.grace_seconds)) if heard else 0

    def _all_of(self, replica: str) -> list[PodInfo]:
        """Return the pods of a replica, those too that wait for our gate."""
        pods = self._tools.book.pods(self._order.job, self._tools.ledger.foreign)
        return [pod for pod in pods if replica_of(pod) == replica]

    def _pods_of(self, replica: str) -> list[PodInfo]:
        found = [pod for pod in self._all_of(replica) if occupies(pod)]
        unheard = self._tools.unheard(replica)
        return found if unheard is None else [*found, unheard]
