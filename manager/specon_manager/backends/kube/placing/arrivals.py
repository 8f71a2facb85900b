"""The pods to run by one order: gates are opened, bare pods created again, obstacles noticed."""

from collections.abc import Collection

from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.backends.kube.objects.pod import NodeInfo, PodInfo
from specon_manager.backends.kube.owners.bare import bring_back
from specon_manager.backends.kube.owners.context import RefusedError
from specon_manager.backends.kube.placing.book import InFlight, occupies, replica_of, waits_for_us
from specon_manager.backends.kube.placing.gates import release_all
from specon_manager.backends.kube.placing.tools import Tools
from specon_manager.backends.kube.placing.word import Word
from specon_manager.model.actions import PlaceJob


class Arrivals:
    """The replicas that an order wants to run."""

    def __init__(self, order: PlaceJob, flight: InFlight | None, tools: Tools, word: Word) -> None:
        self._order, self._tools, self._word = order, tools, word
        self._alone = flight is not None and flight.moves
        self._moves = flight is not None and (flight.moves or flight.gang)
        self._trouble_since: dict[str, float] = {}
        self._room_given_back: set[str] = set()

    def check_nodes(self) -> None:
        """Raise RefusedError where what moves is to come to a node that is not there."""
        for replica in self._order.placement if self._moves else ():
            if self._word.transaction(replica) == self._order.transaction and self._word.concerns(replica):
                self._node(replica)

    async def release(self, pods: list[PodInfo]) -> None:
        """Let the gated pods of the placement go, each to its node once its former pod is gone."""
        ending = {replica_of(pod) for pod in pods if occupies(pod) and pod.deleting}
        waiting = [pod for pod in pods if waits_for_us(pod) and replica_of(pod) not in ending]
        if self._order.transaction:
            waiting = [pod for pod in waiting if replica_of(pod) in self._order.placement]
        elif self._order.job not in self._tools.book.admitted:
            return
        for pod in waiting:
            await self._tools.hand_over(replica_of(pod) or "", pod)
        nodes = [self._node(replica_of(pod) or "") for pod in waiting]
        hostnames = [None if node is None else node.hostname for node in nodes]
        await release_all(self._tools.hands, list(zip(waiting, hostnames, strict=True)))

    async def bring_back(self, pods: list[PodInfo], owner: OwnerInfo | None) -> None:
        """Create the bare pods again that we evicted: nobody else would."""
        if owner is not None:
            return
        there = {replica_of(pod) for pod in pods}
        for replica in self._order.placement.keys() - there:
            if self.keeps_manifest(replica):
                await bring_back(self._tools.hands, replica, self._node(replica))
            elif self._alone and self._is_wanted(replica):
                self._tools.ledger.await_return(replica, awaited=False)
                self._tools.wake()
                self._word.tell_refused("nobody creates its pod again: its owner is gone", replica)

    def keeps_manifest(self, replica: str) -> bool:
        """Whether a bare pod is to be created again."""
        return self._tools.hands.keeper.read_manifest(replica) is not None

    async def make_way(self, pods: list[PodInfo]) -> None:
        """Of what moves and is there, say that it is, and give back the room that was held for it."""
        for pod in pods if self._moves else ():
            replica = replica_of(pod) or ""
            move, node = self._tools.book.moves.get(replica), self._order.placement.get(replica)
            if node is None or pod.deleting or waits_for_us(pod):
                continue
            if replica not in self._room_given_back:
                target = move is not None and node == move.target
                await self._tools.give_back(move.id if move is not None and target else "", replica, node)
                self._room_given_back.add(replica)
            moved = move is not None and self._alone
            if moved and pod.node and pod.detail is not None and pod.detail.trains:
                self._word.tell_runs(replica, pod.uid, pod.node)

    def look_for_trouble(self, pods: list[PodInfo], owner: OwnerInfo | None, going: Collection[str]) -> None:
        """Refuse the order for a pod that finds no node, or that came without a sidecar.

        It also does so for a job that Kueue does not admit again, or not with more workers. `going` are UIDs
        of pods that make way for new pods of their replicas.
        """
        now = self._tools.monotonic()
        found: dict[str, float] = {}
        if owner is not None and owner.queued and not owner.suspended_for and self._comes(pods):
            found[owner.uid] = self._trouble_since.get(owner.uid, now)
            if now - found[owner.uid] >= self._tools.unschedulable_seconds:
                again = "again: it waits" if self._moves else "with more workers: a slice of it waits"
                self._word.tell_refused(f"Kueue has not admitted {owner} {again} in its queue")
        for pod in pods:
            replica = replica_of(pod) or ""
            if pod.detail is None or not occupies(pod) or pod.node or not pod.detail.unschedulable:
                continue
            if self._is_wanted(replica) and not pod.deleting:
                found[pod.uid] = self._trouble_since.get(pod.uid, now)
                if now - found[pod.uid] >= self._tools.unschedulable_seconds:
                    self._word.tell_refused(f"{pod.name}: {pod.detail.unschedulable}", replica)
        self._trouble_since = found
        there = {replica_of(pod) for pod in pods}
        for replica in self._order.placement.keys() - there if self._moves else ():
            unheard = self._tools.unheard(replica) if self._is_wanted(replica) else None
            if unheard is not None and unheard.uid not in going:
                why = f"its pod {unheard.name} was created without a sidecar: the webhook did not answer"
                self._word.tell_refused(why, replica)

    def _comes(self, pods: list[PodInfo]) -> bool:
        """Whether a replica is to run that has no node yet; of a job that moves, once it has no pod."""
        if self._moves and pods:
            return False
        there = {replica_of(pod) for pod in pods if pod.node}
        return any(map(self._is_wanted, self._order.placement.keys() - there))

    def _is_wanted(self, replica: str) -> bool:
        """Whether a transaction wants the replica on a node of its choice."""
        return self._order.placement.get(replica) is not None and self._word.concerns(replica)

    def _node(self, replica: str) -> NodeInfo | None:
        """Return the node to which a replica is ordered; raises RefusedError where that is not there."""
        name = self._order.placement.get(replica) if self._order.transaction else None
        node = None if name is None else self._tools.nodes.node(name)
        if name is not None and node is None:
            raise RefusedError(f"there is no node {name}")
        return node
