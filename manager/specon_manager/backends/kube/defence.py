"""Room that a move keeps from its equals while its pods are away: on the targets, and for the way back.

1. As long as nothing has ended, a placeholder of low priority holds each target, and anybody may take it.
2. Before anything is told to end, a *guard* is made for each room: on the target in the place of that
   placeholder, on the source, and where a member stays. It is of the class `guard_class`, above the job's.
3. `preemptionPolicy: Never`: no guard makes anybody go. It waits until its room becomes free.
4. Priority alone is not enough: who was tried last backs off, and an older pod overtakes it. So each guard
   is *nominated*: the scheduler counts `status.nominatedNodeName` as taken for all that rank no higher.
5. The job's own pod cannot take a guard's room by itself, and while it tried, it would make lower ones go. So
   the webhook gives it our scheduling gate, and nobody tries it before its room is its own.
6. It is handed over in three writes: the pod is nominated, its guard deleted, its gate removed. The scheduler
   sees them in this order. At no moment is the room free for an equal.
7. Each write may be repeated, and a manager that takes over begins at the first: a pod that keeps its gate
   takes no harm, a guard that is there already is the same, one that is gone already is gone.
8. What no move in flight needs is deleted: within a second of its end, and when a manager begins.
9. Without the class, the permission (`pods/status`) or the quota for it, all is as in 1; it is said once.
10. Pods that rank between the job and the guards wait until the move is proven; pods that rank above take the
    room. What remains open: docs/kubernetes.md, "Room".
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.guards import Guard, guards_of
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.pod import PodInfo
from specon_manager.backends.kube.owners.context import Hands
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.backends.kube.room_pods import give_back, room_for
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import PODS
from specon_manager.backends.kube.watching.cluster_watch import ClusterWatch
from specon_manager.core.state import State
from specon_manager.model.actions import HoldRoom, PlaceJob, ReleaseRoom
from specon_manager.model.cluster import job_of
from specon_manager.model.transactions import UNTOUCHED_STATES, Kind

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 8
"""Replicas whose rooms are looked after at the same time."""


class _Target(Struct, frozen=True):
    """Where a replica moves to."""

    move: str
    node: str
    wanted: bool = True
    """Whether it still goes there: a move that is turned back gives that room away at once."""


class Defence:
    """Guards the rooms of moves from the first end that is ordered to the proof."""

    def __init__(
        self,
        hands: Hands,
        watch: ClusterWatch,
        *,
        priority_class: str,
        migration: Callable[[str, str], str],
    ) -> None:
        """Prepare; `migration` returns the name of the object of a move, by its id and the replica."""
        self._hands, self._watch = hands, watch
        self._class, self._migration = priority_class, migration
        self._targets: dict[str, _Target] = {}
        """By replica, of the last move that is known; it may be over."""
        self._guards: dict[str, Guard] = {}
        """By name; what may be there, to be deleted once it is not needed."""
        self._ordered: dict[str, str] = {}
        """The transaction that the last order to place a job named, by job."""
        self._said: set[str] = set()

    # -- the known moves -------------------------------------------------------------------------

    def begin(self, state: State) -> None:
        """Take over what an earlier manager kept."""
        for each in state.transactions.values():
            if each.kind is not Kind.MOVE:
                continue
            for replica, node in each.after.items():
                if node != each.before.get(replica):
                    self._targets[replica] = _Target(each.id, node, each.attempt == 1)
            if each.state not in UNTOUCHED_STATES:
                self._ordered[each.job] = each.id
                self._guards |= {guard.name: guard for guard in guards_of(each)}

    def note_target(self, order: HoldRoom) -> None:
        """Take note of where a replica moves to."""
        self._targets[order.replica] = _Target(order.transaction, order.node)

    def forget(self, job: str) -> None:
        """Let go of a job that is not there any more."""
        self._over(job)

    def _over(self, job: str) -> None:
        self._ordered.pop(job, None)
        for replica in [each for each in self._targets if job_of(each) == job]:
            if self._hands.keeper.reference(replica) is None:
                del self._targets[replica]

    def _in_force(self, move: str, replica: str) -> bool:
        """Whether a move is in flight, as far as orders and records tell."""
        if self._ordered.get(job_of(replica)) == move:
            return True
        target = self._targets.get(replica)  # two replicas of a job may be in two moves
        latest = target is not None and target.move == move
        return latest and self._hands.keeper.reference(replica) is not None

    # -- kept ------------------------------------------------------------------------------------

    async def defend(self, order: PlaceJob) -> None:
        """Guard the room about to be left and the target; a failure to guard is logged, not raised.

        Raises NotLeadingError.
        """
        if not order.transaction:
            self._over(order.job)
            return
        self._ordered[order.job] = order.transaction
        await self._each(self._guarded(replica, order.transaction) for replica in sorted(order.ending))

    async def _guarded(self, replica: str, transaction: str) -> None:
        """Guard the rooms of one replica."""
        known, pod = self._targets.get(replica), self._watch.ledger.live(replica)
        if known is not None and not self._in_force(known.move, replica):
            known = None
        move = transaction if known is None else known.move
        if pod is None or not pod.node or move not in {each.move for each in self._targets.values()}:
            return  # nothing that would be left, or no move
        if not self._class:
            self._say("class", "no PriorityClass for guards is given (--guard-priority-class)")
            return
        target = "" if known is None else known.node
        kept = [g.node for g in self._guards.values() if (g.move, g.replica) == (move, replica)]
        source = next((node for node in kept if node != target), pod.node)
        if source != target:  # else it leaves where it is not wanted any more
            await self._guard(pod, Guard(move, replica, source))
        if known is not None and known.wanted and target != pod.node:
            guarded = await self._guard(pod, Guard(move, replica, target))
            if guarded:
                await give_back(self._hands, placeholder_name(move, replica), pod.namespace)

    async def _guard(self, pod: PodInfo, guard: Guard) -> bool:
        """Have a guard wait for its room, or take it; return whether there is one that is nominated.

        A node that is cordoned takes nobody, not even the guard, and the way back does not lead to it.
        """
        node = self._watch.nodes.node(guard.node)
        if node is None or not node.ready:
            return False
        body = await room_for(
            self._hands,
            pod,
            node,
            move=guard.move,
            replica=guard.replica,
            migration=self._migration(guard.move, guard.replica),
            priority_class=self._class,
            name=guard.name,
        )
        self._guards[guard.name] = guard
        self._hands.fence()
        try:
            made = await self._hands.api.create(PODS, body, pod.namespace)
        except ApiError as error:
            if error.throttled:
                raise
            if not error.already_exists:
                self._say(f"create {error.status}", error.message)
                return False
        else:
            priority = mapping(made.get("spec")).get("priority")
            if pod.detail is not None and isinstance(priority, int) and priority < pod.detail.priority:
                self._say("rank", f"its priority, {pod.detail.priority}, is above that of {self._class}")
        if await self._nominate(guard.name, pod.namespace, guard.node):
            return True
        await give_back(self._hands, guard.name, pod.namespace)
        return False

    async def _nominate(self, name: str, namespace: str, node: str) -> bool:
        """Have the scheduler count a waiting pod as one of a node; return whether we may.

        Raises ApiError where it is not there.
        """
        patch = {"status": {"nominatedNodeName": node}}
        self._hands.fence()
        try:
            await self._hands.api.patch(PODS, name, namespace, patch, form="merge", subresource="status")
        except ApiError as error:
            if error.throttled or error.not_found:
                raise
            if error.invalid:
                return True  # it has its node already
            self._say(f"nominate {error.status}", error.message)
            return False
        return True

    # -- given to whom it was kept for -----------------------------------------------------------

    async def hand_over(self, replica: str, pod: PodInfo) -> None:
        """Let a pod that waits for our gate have the room that is kept for it; its gate may go then.

        Raises ApiError and ApiUnavailableError: to be repeated.
        """
        node = "" if pod.detail is None else pod.detail.pinned
        found = [each for each in self._rooms_of(replica) if self._hostname(each.node) == node]
        if not node or not found:
            return
        try:
            await self._nominate(pod.name, pod.namespace, found[0].node)
        except ApiError as error:
            if error.not_found:
                return  # another one comes for that room
            raise
        for room in found:
            await self._forget_gone(room)
            if self._holds_target(room):
                await give_back(self._hands, placeholder_name(room.move, replica), pod.namespace)

    async def give_back(self, replica: str, node: str) -> None:
        """Give back the room kept for a replica on a node: it is there."""
        for room in self._rooms_of(replica):
            if room.node == node:
                await self._forget_gone(room)

    async def release(self, order: ReleaseRoom) -> None:
        """Give back the room on the target of a replica; what it leaves is kept until the end of its move."""
        target = self._targets.get(order.replica)
        if target is not None and (target.move, target.node) == (order.transaction, order.node):
            self._targets[order.replica] = msgspec.structs.replace(target, wanted=False)
            await self._forget_gone(Guard(target.move, order.replica, target.node))

    async def settle(self) -> None:
        """Give back the room kept for moves that are over."""
        over = [each for each in self._guards.values() if not self._in_force(each.move, each.replica)]
        await self._each(map(self._forget_gone, over))

    def _rooms_of(self, replica: str) -> list[Guard]:
        """Return all that may be kept for a replica, its target too, which a mere placeholder may hold."""
        found = [each for each in self._guards.values() if each.replica == replica]
        target = self._targets.get(replica)
        if target is not None and target.wanted and self._in_force(target.move, replica):
            found.append(Guard(target.move, replica, target.node))
        return list(dict.fromkeys(found))

    def _holds_target(self, room: Guard) -> bool:
        target = self._targets.get(room.replica)
        return target is not None and (target.move, target.node) == (room.move, room.node)

    def _hostname(self, node: str) -> str:
        known = self._watch.nodes.node(node)
        return "" if known is None else known.hostname

    async def _forget_gone(self, guard: Guard) -> None:
        if guard.name in self._guards:
            await give_back(self._hands, guard.name, guard.replica.partition("/")[0])
            self._guards.pop(guard.name, None)

    # -- said ------------------------------------------------------------------------------------

    def _say(self, what: str, why: str) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.warning("room is not kept from pods of the job's own priority while it moves: %s", why)

    async def _each(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Do all of them, a few at a time; what cannot be done is said, and tried again when it is due."""
        waiting = list(works)
        while waiting:
            part, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            for error in await asyncio.gather(*part, return_exceptions=True):
                if isinstance(error, ApiError | ApiUnavailableError):
                    _log.warning("room of a move: %s", error)
                elif error is not None:
                    for coroutine in waiting:
                        coroutine.close()
                    raise error
