"""Room for moves: asked whether a move may be at all, held by placeholder pods, given back."""

import contextlib
import logging
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from specon_manager.backends.base import Emit
from specon_manager.backends.kube.defence import Defence
from specon_manager.backends.kube.guards import guards_of
from specon_manager.backends.kube.objects.pod import NodeInfo, PodInfo
from specon_manager.backends.kube.objects.ways import immovable_because
from specon_manager.backends.kube.owners.context import Hands
from specon_manager.backends.kube.placeholder import former_name, placeholder_name, room
from specon_manager.backends.kube.room_pods import give_back, room_for
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import PODS
from specon_manager.backends.kube.watching.cluster_watch import ClusterWatch
from specon_manager.backends.kube.watching.translate import constraints_with, options_of
from specon_manager.core.state import State
from specon_manager.model.actions import HoldRoom, PlaceJob, ReleaseRoom
from specon_manager.model.constraints import objection
from specon_manager.model.events import RoomHeld, RoomRefused
from specon_manager.model.transactions import Kind, Transaction, TransactionState

_log = logging.getLogger(__name__)
_NOT_OF_A_LABEL: Final = re.compile(r"[^A-Za-z0-9._-]+")
_HOLDING: Final = frozenset(
    {
        TransactionState.PROPOSED,
        TransactionState.RESERVED,
        TransactionState.CHECKPOINTING,
        TransactionState.LEAVING,
        TransactionState.COMING,
    }
)
"""States in which room on the target is needed: from Verifying on, the replica itself has it."""
_PAUSE: Final = 2.0


class RoomSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How room is held."""

    hold: bool = True
    """Whether placeholder pods are created; else the target may fill up, and its image is pulled late."""
    priority_class: str = ""
    """Of placeholder pods: a low one, so that others' pods go first."""
    guard_class: str = ""
    """Of the pods that keep room from pods of the job's own priority while it moves; see `Defence`."""
    patience: float = 15.0
    """Seconds that a placeholder may be unschedulable, or its image not to be pulled."""


class _Holding(Struct, kw_only=True):
    """Room that was ordered and is not held yet."""

    order: HoldRoom
    trouble_since: float | None = None
    seen: bool = False
    """Whether the placeholder was there at all: it may take a moment until the watch tells of it."""


class Placeholders:
    """Holds and gives back room: one placeholder for each replica that moves."""

    def __init__(
        self,
        settings: RoomSettings,
        hands: Hands,
        watch: ClusterWatch,
        *,
        emit: Emit,
        monotonic: Callable[[], float],
    ) -> None:
        self._settings, self._hands, self._watch = settings, hands, watch
        self._emit, self._monotonic = emit, monotonic
        self._holding: dict[str, _Holding] = {}
        """By the name of the placeholder."""
        self._owed: set[tuple[str, str]] = set()
        """Moves and replicas whose room is to be given back, and is not known to be."""
        self._defence = Defence(hands, watch, priority_class=settings.guard_class, migration=self.migration)

    def begin(self, state: State) -> None:
        """Take over what an earlier manager knew."""
        if self._settings.hold:
            self._defence.begin(state)

    def migration(self, move: str, replica: str) -> str:
        """Return the name of the Migration of a move, as a value of labels and annotations."""
        reference = self._hands.keeper.reference(replica)
        if reference is not None:
            return str(reference["name"])
        return _NOT_OF_A_LABEL.sub("-", move)[:63].strip("-._") or "none"

    async def hold(self, order: HoldRoom) -> None:
        """Refuse a move that cannot be; else have room held. Neither has touched the replica."""
        name = placeholder_name(order.transaction, order.replica)
        self._holding.pop(name, None)
        self._owed.discard((order.transaction, order.replica))
        pod = self._watch.ledger.live(order.replica)
        node = self._watch.nodes.node(order.node)
        if pod is None or pod.deleting or pod.ended:
            self._refuse(order, "there is no pod to move")
            return
        if node is None or not node.ready:
            self._refuse(order, f"node {order.node} is not ready" if node else f"no node {order.node}")
            return
        objected = await self._objection(pod, node)
        if objected:
            self._refuse(order, objected)
            return
        if not self._settings.hold:
            self._emit(RoomHeld(transaction=order.transaction, replica=order.replica))
            return
        self._defence.note_target(order)
        if not await self._place(order, pod, node):
            return
        self._holding[name] = _Holding(order=order)
        self.look(name)

    async def release(self, order: ReleaseRoom) -> None:
        """Give back the room held for a replica on its target; none held is fine."""
        self._holding.pop(placeholder_name(order.transaction, order.replica), None)
        self._owed.add((order.transaction, order.replica))
        await self._defence.release(order)
        await self._give_back(order.transaction, order.replica)

    async def defend(self, order: PlaceJob) -> None:
        """Before anything of a move goes, have its rooms kept from pods of its own priority."""
        if self._settings.hold:
            await self._defence.defend(order)

    async def hand_over(self, replica: str, pod: PodInfo) -> None:
        """Let a pod that waits for our gate have the room that is kept for it; its gate may go then."""
        await self._defence.hand_over(replica, pod)

    async def give_back(self, move: str, replica: str, node: str) -> None:
        """Give back the room held for a replica on a node: it is there.

        `move` is the one whose target that is; empty where it is none's.
        """
        if move:
            self._owed.add((move, replica))
        await self._defence.give_back(replica, node)
        if move:
            await self._give_back(move, replica)

    async def _give_back(self, move: str, replica: str) -> None:
        """Delete the placeholder for a replica of a move, if there is one; also one of version 0.1."""
        namespace, former = replica.partition("/")[0], former_name(move)
        await give_back(self._hands, placeholder_name(move, replica), namespace)
        if self._watch.pods is not None and (namespace, former) in self._watch.pods.items:
            await give_back(self._hands, former, namespace)
        self._owed.discard((move, replica))

    def look(self, name: str) -> None:
        """See what became of the room that the placeholder of this name holds."""
        holding = self._holding.get(name)
        if holding is None or self._watch.pods is None:
            return
        order = holding.order
        pod = self._watch.pods.items.get((order.replica.partition("/")[0], name))
        if pod is None:
            if holding.seen:
                self._refuse(order, "the pod that was to hold the room was taken away")
            return  # not seen yet; the order has a deadline
        holding.seen = True
        verdict, words = room(pod, order.node)
        if verdict == "held":
            del self._holding[name]
            self._emit(RoomHeld(transaction=order.transaction, replica=order.replica))
        elif verdict == "waiting":
            holding.trouble_since = None
        elif pod.deleting or pod.ended:
            self._refuse(order, words)
        elif holding.trouble_since is None:
            holding.trouble_since = self._monotonic()
        elif self._monotonic() - holding.trouble_since >= self._settings.patience:
            self._refuse(order, words)

    async def look_at_all(self) -> None:
        """See what became of all room that is waited for, and give back what nobody needs any more."""
        for name in list(self._holding):
            self.look(name)
        await self._defence.settle()
        for move, replica in sorted(self._owed):
            with contextlib.suppress(ApiError, ApiUnavailableError):  # tried again at the next look
                await self._give_back(move, replica)

    def forget(self, job: str) -> None:
        """Let go of a job that is not there any more."""
        self._defence.forget(job)

    async def tidy(self, state: State) -> None:
        """Delete placeholders that no move in flight needs."""
        needed = {name for each in state.transactions.values() for name in _list_needed(each)}
        assert self._watch.pods is not None
        found = [pod for pod in self._watch.pods.items.values() if pod.detail and pod.detail.placeholder]
        for pod in sorted(found, key=lambda pod: pod.key):
            while pod.name not in needed:
                try:
                    await give_back(self._hands, pod.name, pod.namespace)
                except (ApiError, ApiUnavailableError) as error:
                    _log.warning("placeholder %s/%s: %s", pod.namespace, pod.name, error)
                    await self._hands.sleep(_PAUSE)
                else:
                    break

    async def _objection(self, pod: PodInfo, node: NodeInfo) -> str:
        """Return why this pod cannot be moved to that node, in words; empty where it can."""
        assert pod.detail is not None
        owner = self._watch.ledger.owner_of(pod)
        words = immovable_because(pod, owner, options_of(pod.detail))
        if words:
            return words
        verdict = await self._watch.verdict(pod)
        if verdict.immovable:
            return verdict.immovable
        constraints = constraints_with(pod.detail, verdict)
        objected = objection(node.labels, node.name, node.taints, constraints)
        if objected is not None:
            return objected
        try:
            await self._hands.api.evict(pod.name, pod.namespace, uid=pod.uid, dry_run=True)
        except ApiError as error:
            if error.blocked:
                return f"a disruption budget does not let it go: {error.message}"
            if error.not_found or error.conflict:
                return "its pod is not there any more"
            raise
        return ""

    async def _place(self, order: HoldRoom, pod: PodInfo, node: NodeInfo) -> bool:
        """Create the placeholder; one that is there already is the same."""
        body = await room_for(
            self._hands,
            pod,
            node,
            move=order.transaction,
            replica=order.replica,
            migration=self.migration(order.transaction, order.replica),
            priority_class=self._settings.priority_class,
        )
        self._hands.fence()
        try:
            await self._hands.api.create(PODS, body, pod.namespace)
        except ApiError as error:
            if error.already_exists:
                return True
            if error.throttled:
                raise
            self._refuse(order, f"room cannot be held: {error.message}")
            return False
        return True

    def _refuse(self, order: HoldRoom, reason: str) -> None:
        self._holding.pop(placeholder_name(order.transaction, order.replica), None)
        refused = RoomRefused(transaction=order.transaction, replica=order.replica, reason=reason)
        self._emit(refused)


def _list_needed(transaction: Transaction) -> list[str]:
    """Return the names of the placeholders and guards that a transaction still needs.

    What version 0.1 held under another name is kept, and held under the new name once that is ordered.
    """
    names = [guard.name for guard in guards_of(transaction)]
    if transaction.kind is not Kind.MOVE or transaction.attempt > 1 or transaction.state not in _HOLDING:
        return names
    names += [placeholder_name(transaction.id, replica) for replica in transaction.after]
    return names if transaction.state is TransactionState.PROPOSED else [*names, former_name(transaction.id)]
