"""The Migrations as every manager sees them: pins for admission, and requests for the one that leads."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from specon_manager.backends.base import Emit, NotLeadingError
from specon_manager.backends.kube.objects.names import Name, namespace_of
from specon_manager.backends.kube.records.decoding import cut_text, moment
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.migration_status import MigrationStatus, to_first_schema
from specon_manager.backends.kube.records.pins import NAME_TAKEN, Glance, arriving, glance, pins_of
from specon_manager.backends.kube.records.records import is_replica, status_of
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from specon_manager.model.events import MoveRequested, RequestWithdrawn
from specon_manager.model.transactions import Request

_log = logging.getLogger(__name__)
_RETRY_PAUSE: Final = 5.0
_AT_ONCE: Final = 1000
"""Requests that wait to be looked at; the rest is found when these are done."""
_KNOWN_BY_THEN: Final = 30.0
"""Seconds after which an evicted pod is known here, however late its watch is."""

ReplicaOf = Callable[[str, str], str | None]
"""The replica that a pod is, by namespace and name; None where it is none of ours."""
UidOf = Callable[[str, str], str]
"""The UID of a pod, by namespace and name; empty where it is not there."""


class MigrationWatch:
    """Follows the Migrations; `run` it in every manager, and `answer_requests` in the one that leads."""

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        namespaces: Collection[str] = (),
        holds: Callable[[], bool] = lambda: True,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Watch as the manager called `identity`, in these namespaces or (none given) in all of them."""
        self._api, self._identity, self._holds, self._sleep = api, identity, holds, sleep
        self._wall = wall
        self._pins: Mapping[str, str] | None = {}
        self._arriving: frozenset[str] = frozenset()
        self._waiting: dict[str, Glance] = {}
        self._looked_at: set[str] = set()
        """Uids of the requests that were answered or handed on while this manager leads."""
        self._deleted: deque[str] = deque()
        """Requests that were handed on, had not begun as far as is known, and are wanted no more."""
        self._withdrawn: set[str] = set()
        self._of_evictions: dict[tuple[str, str], dict[str, Glance]] = {}
        """What evictions were turned into, by namespace and name of the pod."""
        self._note_deleted: Callable[[Name], None] = lambda _: None
        self._first_schema = False
        """Whether the server does not know that a move may be refused."""
        self._woken = asyncio.Event()
        self._namespaces = frozenset(namespaces)
        self._reflector = Reflector(api, MIGRATIONS, slim=glance, changed=self._note_change)

    @property
    def synced(self) -> asyncio.Event:
        """Set once all Migrations were seen: pins may be relied on."""
        return self._reflector.synced

    @property
    def pins(self) -> Mapping[str, str]:
        """The value of kubernetes.io/hostname to which the next pod is pinned, by replica."""
        if self._pins is None:
            self._pins = pins_of(self._ours())
            self._arriving = arriving(self._ours())
        return self._pins

    @property
    def arriving(self) -> frozenset[str]:
        """The replicas whose next pod a move awaits."""
        return self._arriving if self.pins else frozenset()

    def eviction_migrations(self, namespace: str, pod: str) -> list[Glance]:
        """Return what evictions of a pod of that name were turned into, oldest first."""
        found = self._of_evictions.get((namespace, pod), {})
        return sorted(found.values(), key=lambda each: (each.created_at, str(each.name)))

    def learn(self, item: Object) -> None:
        """Take an object as this manager has just written it."""
        self._reflector.learn(item)

    async def run(self) -> None:
        """Follow the Migrations until cancelled."""
        await self._reflector.run()

    async def answer_requests(
        self,
        emit: Emit,
        replica_of: ReplicaOf,
        *,
        is_known: Callable[[str], bool] = lambda _: False,
        is_in_flight: Callable[[str], bool] = lambda _: False,
        uid_of: UidOf | None = None,
        queued: Collection[Request] = (),
        note_deleted: Callable[[Name], None] = lambda _: None,
    ) -> None:
        """Hand on each request once, while this manager leads; those made while nobody led come first.

        One whose object is deleted before the move has begun is withdrawn. So is each of `queued`, the
        requests that an earlier leader left waiting, whose object was deleted or made again since they were
        read.

        `replica_of` names the replica of a pod. `is_known` tells whether a move of that id is in flight or in
        the history: an object that has the name of a former request is refused. So is, by `uid_of`, an old
        one for an evicted pod that another has replaced since: nobody evicts that one. One of a move that
        `is_in_flight` is its record, which was deleted and is written again. What waited with an earlier
        leader is handed on again. What cannot be handed on is answered in its status at once.
        `note_deleted` is told of each Migration that somebody deletes. Until cancelled.
        """
        await self.synced.wait()
        self._note_deleted = note_deleted
        self._looked_at.clear()
        self._deleted.clear()
        self._withdrawn.clear()
        self._waiting = {each.uid: each for each in self._ours() if each.asked}
        asked = {str(each.name): each for each in self._waiting.values()}
        self._deleted.extend(
            each.id for each in queued if not self._is_wanted(asked.get(each.id), each, uid_of)
        )
        while True:
            while self._deleted:
                name = self._deleted.popleft()
                self._withdrawn.add(name)
                emit(RequestWithdrawn(id=name, reason="its Migration was deleted"))
            for each in sorted(self._waiting.values(), key=lambda each: str(each.name))[:_AT_ONCE]:
                self._waiting.pop(each.uid, None)
                if each.uid not in self._looked_at:
                    if is_in_flight(str(each.name)):
                        self._looked_at.add(each.uid)
                        continue
                    gone = uid_of is not None and self._is_for_a_former_pod(each, uid_of)
                    await self._look_at(each, emit, replica_of, is_known, gone=gone)
            if not self._waiting and not self._deleted:
                self._woken.clear()
                await self._woken.wait()

    async def _look_at(
        self,
        asked: Glance,
        emit: Emit,
        replica_of: ReplicaOf,
        is_known: Callable[[str], bool],
        *,
        gone: bool = False,
    ) -> None:
        replica, objection = _subject(asked, replica_of)
        if gone:
            objection = f"the evicted pod {asked.evicted.partition('/')[0]} is gone"
        if objection is None and (is_known(str(asked.name)) or str(asked.name) in self._withdrawn):
            objection = f"{NAME_TAKEN}{asked.name} before: choose another name"
        if objection is not None or replica is None:
            if not await self._refuse(asked, objection or "it names nothing to move"):
                return
        else:
            emit(
                MoveRequested(
                    id=str(asked.name),
                    replica=replica,
                    target=asked.target,
                    reason=asked.reason,
                    job=asked.job if not replica else "",
                    targets=asked.targets if not replica else (),
                    leave=asked.leave if replica else "",
                )
            )
        self._looked_at.add(asked.uid)

    def _is_wanted(self, found: Glance | None, request: Request, uid_of: UidOf | None) -> bool:
        """Whether a Migration, as it is now, still asks for what was read of it."""
        if found is None or found.replica not in (None, request.replica or None):
            return False
        if uid_of is not None and self._is_for_a_former_pod(found, uid_of):
            return False
        wanted = (found.target, (), found.leave) if request.replica else (found.target, found.targets, "")
        return wanted == (request.target, request.targets, request.leave)

    def _is_for_a_former_pod(self, asked: Glance, uid_of: UidOf) -> bool:
        """Whether an eviction asked for it whose pod is gone: it has passed, or somebody deleted the pod."""
        if not asked.evicted or self._wall() - asked.created_at < _KNOWN_BY_THEN:
            return False
        pod, _, uid = asked.evicted.partition("/")
        return uid_of(asked.name.namespace, pod) != uid

    async def _refuse(self, asked: Glance, why: str) -> bool:
        """Write the refusal into its status; whether that is done, or nobody waits for it any more."""
        at = moment(self._wall())
        status = MigrationStatus(
            state=MoveState.REFUSED,
            message=cut_text(why),
            proposed_at=at,
            ended_at=at,
            manager=self._identity,
            updated_at=at,
        )
        try:
            await self._answer(asked, to_first_schema(status) if self._first_schema else status)
        except ApiUnavailableError as error:
            _log.warning("the request %s is not answered yet: %s", asked.name, error)
        except ApiError as error:
            if error.invalid and not self._first_schema:
                self._first_schema = True
                return await self._refuse(asked, why)
            if not error.throttled:
                if not (error.not_found or error.conflict):
                    _log.warning("the request %s cannot be answered: %s", asked.name, error)
                return True
        else:
            return True
        await self._sleep(_RETRY_PAUSE)
        self._waiting[asked.uid] = asked
        return False

    async def _answer(self, asked: Glance, status: MigrationStatus) -> None:
        if not self._holds():
            raise NotLeadingError(f"{self._identity} does not hold the lease any more")
        # An object of the same name that was made since is another request.
        body: Object = {"metadata": {"uid": asked.uid}, "status": status_of(status)}
        name = asked.name
        await self._api.patch(MIGRATIONS, name.name, name.namespace, body, form="merge", subresource="status")

    def _index(self, before: Glance | None, after: Glance | None) -> None:
        if before is not None and before.evicted:
            known = self._of_evictions.get(_find_evicted_pod(before), {})
            known.pop(before.uid, None)
            if not known:
                self._of_evictions.pop(_find_evicted_pod(before), None)
        if after is not None and after.evicted:
            self._of_evictions.setdefault(_find_evicted_pod(after), {})[after.uid] = after

    def _ours(self) -> list[Glance]:
        return [each for each in self._reflector.items.values() if self._is_ours(each)]

    def _is_ours(self, found: Glance) -> bool:
        """Whether it is in a namespace that we look after; others are another manager's."""
        return not self._namespaces or found.name.namespace in self._namespaces

    def _note_change(self, change: ObjectChange[Glance]) -> None:
        self._pins = None
        before, after = change.before, change.after
        self._index(before, after)
        if after is None and before is not None:
            self._note_deleted(before.name)
        if after is not None and after.asked and self._is_ours(after):
            self._waiting[after.uid] = after
            self._woken.set()
        elif before is not None:
            self._waiting.pop(before.uid, None)
            if after is None and before.uid in self._looked_at:
                self._looked_at.discard(before.uid)
                if before.asked:
                    self._deleted.append(str(before.name))
                    self._woken.set()


def _find_evicted_pod(found: Glance) -> tuple[str, str]:
    return found.name.namespace, found.evicted.partition("/")[0]


def _subject(asked: Glance, replica_of: ReplicaOf) -> tuple[str | None, str | None]:
    """Return the replica that is to move, "" for all of a job, or what speaks against taking the request."""
    name: Name = asked.name
    if asked.job and asked.pod is None and asked.replica is None:
        return "", None
    if asked.pod is not None:
        replica = replica_of(name.namespace, asked.pod)
        if replica is None:
            return None, f"there is no pod {asked.pod} with a sidecar in the namespace {name.namespace}"
        return replica, None
    replica = asked.replica
    if replica is None or not is_replica(replica) or namespace_of(replica) != name.namespace:
        return None, f"it names no replica and no job of the namespace {name.namespace}"
    return replica, None
