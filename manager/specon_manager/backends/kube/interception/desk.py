"""Answers evictions: looks up the facts, writes the wish, waits a moment for the leader's word."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from specon_manager.backends.kube.interception.cache import EvictionCache
from specon_manager.backends.kube.interception.decision import SILENT, Situation, is_put_off, review
from specon_manager.backends.kube.interception.eviction import Answer, Eviction
from specon_manager.backends.kube.interception.facts import PodFacts, has_sidecar, node_facts, pod_facts
from specon_manager.backends.kube.interception.leader_last import LeaderLast
from specon_manager.backends.kube.interception.unwritten import Unwritten
from specon_manager.backends.kube.interception.wish import wish_name, wish_object
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.migrations import MigrationWatch
from specon_manager.backends.kube.records.pins import Glance, glance
from specon_manager.backends.kube.reporting.note import Note
from specon_manager.backends.kube.reporting.recorder import Recorder, reference
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import MIGRATIONS, NODES, PODS, SELF_REVIEWS, Object

_log = logging.getLogger(__name__)
_WRITE_SECONDS: Final = 2.0
"""How long the wish may take to be written, under whatever name; the API server waits for 5 in all."""
_ANSWER_SECONDS: Final = 0.6
"""How long the leader is waited for that may refuse the wish: what cannot be moved is to pass at once."""
_LOOK_SECONDS: Final = 0.03
_READ_SECONDS: Final = 1.0
"""How long the API server may take to ask a budget; with the write and the wait, that is within its 5."""
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
"""The API server's words, kube-apiserver 1.36, `core/pod/storage/eviction.go`."""
_NAMES: Final = 3
"""So many names are tried for a wish."""
_WATCH_SECONDS: Final = 5.0
"""So long a wish counts that the watch does not tell of: it may have been deleted in a gap of the watch. Then
it is written again, and found where it is there."""
_RETRY_SECONDS: Final = 10.0
_REMEMBERED: Final = 1000


class InterceptionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether and how evictions by others are answered."""

    enabled: bool = False
    patience: Annotated[float, Meta(ge=0, le=86400)] = 1800.0
    """After so many seconds the eviction of a pod passes, whatever became of its move."""


class Desk:
    """Every manager has one; none of them needs to lead."""

    def __init__(
        self,
        api: Api,
        settings: InterceptionSettings,
        *,
        migrations: MigrationWatch,
        recorder: Recorder,
        namespaces: Collection[str],
        led: Callable[[], bool],
        leader: LeaderLast,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Answer while `led` says that a manager leads; `leader` answers for the manager's own pod."""
        self._api, self._settings = api, settings
        self._migrations, self._recorder = migrations, recorder
        self._led, self._leader = led, leader
        self._wall, self._monotonic, self._sleep = wall, monotonic, sleep
        self.cache = EvictionCache(api, namespaces=namespaces)
        self._own_user: str | None = None
        self._written: dict[str, tuple[Glance, float]] = {}
        """Wishes that were written here and that the watch may not have seen, and when each was written."""
        self._unwritten = Unwritten()

    async def run(self) -> None:
        """Watch, and find out as whom the manager evicts; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cache.run())
            group.create_task(self._recorder.run())
            group.create_task(self._find_own_user())

    @property
    def ready(self) -> bool:
        """Whether enough is known to answer; until then everything passes."""
        return self.cache.synced and self._migrations.synced.is_set() and self._own_user is not None

    async def answer(self, eviction: Eviction) -> Answer:
        """Return the answer, once what it promises is written."""
        if not self.ready:
            return Answer(verdict="pass")
        if self._leader.concerns(eviction):
            return await self._leader.answer(eviction, self._keeps)
        answer, pod = self._review(eviction), self.cache.pod(eviction.namespace, eviction.name)
        emptied: bool | None = None
        if answer.verdict == "gone":
            answer, pod, emptied = await self._look_again(eviction, answer)
        if answer.by_budget and pod is not None and not eviction.dry_run:
            told = await self._by_budget(pod)
            answer = told or self._review(eviction, pod, emptied=emptied, budgeted=False)
        if answer.attempt and pod is not None and not eviction.dry_run:
            if not await self._write(pod, answer.attempt, eviction.user):
                answer = self._unwritten_yet(pod)
            else:
                answer = await self._after_the_leader(eviction, pod, emptied=emptied)
        if pod is not None and answer.verdict == "pass" and answer.words and not eviction.dry_run:
            self._tell(pod, answer)
        return answer

    def wishes(self, pod: PodFacts) -> list[Glance]:
        """Return the wishes of a pod, oldest first."""
        return self._of(pod.namespace, pod.name, pod.uid)[0]

    def puts_off(self, pod: PodFacts) -> bool:
        """Whether an eviction of the pod is under way as a move, within its patience."""
        known = Situation(pod=pod, wishes=self.wishes(pod), patience=self._settings.patience)
        return is_put_off(pod, known, self._wall())

    def _keeps(self, node: str) -> bool:
        """Whether a pod on the node would still be moved if somebody evicted it now."""
        asked = (
            Eviction(review="", namespace=pod.namespace, name=pod.name, uid=pod.uid)
            for pod in self.cache.on_node(node)
        )
        return any(self._review(each).verdict == "wait" for each in asked)

    def _review(
        self,
        eviction: Eviction,
        seen: PodFacts | None = None,
        *,
        emptied: bool | None = None,
        budgeted: bool = True,
    ) -> Answer:
        """Return the answer by the facts, of the pod as it was `seen`; with `budgeted` by its budgets, too.

        With `emptied` the pod and its node are as the API server has just told.
        """
        pod = self.cache.pod(eviction.namespace, eviction.name) if seen is None else seen
        is_read = emptied is not None and pod is not None
        wishes, former = self._of(eviction.namespace, eviction.name, "" if pod is None else pod.uid)
        known = Situation(
            pod=pod,
            living=is_read and pod is not None and not (pod.ended or pod.leaving),
            emptied=(pod is not None and self.cache.is_driven_out(pod)) if emptied is None else emptied,
            wishes=wishes,
            former=former,
            budgets=self.cache.budgets(eviction.namespace) if budgeted else (),
            led=self._led(),
            own_user=self._own_user or "",
            patience=self._settings.patience,
        )
        return review(eviction, known, self._wall())

    async def _look_again(
        self, eviction: Eviction, gone: Answer
    ) -> tuple[Answer, PodFacts | None, bool | None]:
        """Return the answer by what the API server has now, before a pod is said to be gone.

        With it the pod, and whether its node is emptied, as far as the API server tells.

        Whoever drains a node believes it and leaves the pod there. The watch may be late, and it does not
        tell of pods without a sidecar. Where the API server does not tell either, the pod is `gone`.
        """
        try:
            async with asyncio.timeout(_READ_SECONDS):
                read = await self._api.get(PODS, eviction.name, eviction.namespace)
                pod = pod_facts(read)
                node = node_facts(await self._api.get(NODES, pod.node)) if pod.node else None
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            if isinstance(error, ApiError) and error.not_found:
                return SILENT, None, None  # the API server says so itself, or the node is gone, and all on it
            return gone, None, None
        if not has_sidecar(read):
            return SILENT, None, None
        emptied = node is not None and node.drives_out(pod)
        return self._review(eviction, pod, emptied=emptied), pod, emptied

    async def _by_budget(self, pod: PodFacts) -> Answer | None:
        """Return what the API server says of the pod's budgets; None where they do not forbid its end.

        It is asked by a dry run, for it may know of room that the watch has not told yet. What it says is our
        answer: were the eviction let through to it, a budget that is deleted meanwhile would let the pod go
        without a checkpoint. Where it does not tell, nothing forbids that the pod is moved.
        """
        try:
            async with asyncio.timeout(_READ_SECONDS):
                await self._api.evict(pod.name, pod.namespace, uid=pod.uid, dry_run=True)
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            if isinstance(error, ApiError) and error.not_found:
                return SILENT
            if isinstance(error, ApiError) and error.blocked:
                return Answer(verdict="forbidden", words=error.message.partition(": ")[2])
            if isinstance(error, ApiUnavailableError) and _SEVERAL in str(error):
                return Answer(verdict="forbidden", words=_SEVERAL, several=True)
            why = str(error) or f"no answer within {_READ_SECONDS:g} s"
            _log.warning("the disruption budgets of %s are not asked: %s", pod.namespace, why)
        return None

    def _of(self, namespace: str, name: str, uid: str) -> tuple[list[Glance], Glance | None]:
        """Return the wishes of the pod with this UID, and the latest one of another pod of its name."""
        found = {str(each.name): each for each in self._migrations.eviction_migrations(namespace, name)}
        begins = f"{name}/"
        for key, (each, at) in list(self._written.items()):
            if key in found or self._monotonic() - at > _WATCH_SECONDS:
                del self._written[key]
            elif each.name.namespace == namespace and each.evicted.startswith(begins):
                found[key] = each
        every = sorted(found.values(), key=lambda each: (each.created_at, str(each.name)))
        own = [each for each in every if each.evicted == f"{name}/{uid}"]
        others = [each for each in every if each.evicted != f"{name}/{uid}"]
        return own, others[-1] if others else None

    async def _write(self, pod: PodFacts, attempt: int, user: str) -> bool:
        """Write the wish, which somebody may have done already; whether it is there.

        Another object may have the name: one that somebody made, or the record of an earlier wish that was
        deleted and written again. Then the wish has the next name.
        """
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                for name in (wish_name(pod, attempt + more) for more in range(_NAMES)):
                    if name is None:
                        return False
                    found = await self._create(pod, name, user)
                    if found.evicted == f"{pod.name}/{pod.uid}":
                        break
                else:
                    return False
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            why = str(error) or f"no answer within {_WRITE_SECONDS:g} s"
            _log.warning("the wish for a move of %s/%s is not written: %s", pod.namespace, pod.name, why)
            return False
        if len(self._written) >= _REMEMBERED:
            self._written.pop(next(iter(self._written)))
        self._written[str(name)] = found, self._monotonic()
        self._unwritten.note_written(pod.uid)
        return True

    async def _create(self, pod: PodFacts, name: Name, user: str) -> Glance:
        """Return the Migration of that name, made now where there was none."""
        try:
            made = await self._api.create(MIGRATIONS, wish_object(pod, name, user), name.namespace)
        except ApiError as error:
            if not error.already_exists:
                raise
            return glance(await self._api.get(MIGRATIONS, name.name, name.namespace))
        _log.info("%.80s evicts %s/%s: it is to be moved first", user, pod.namespace, pod.name)
        return glance(made)

    def _unwritten_yet(self, pod: PodFacts) -> Answer:
        """Return the answer where a wish is not written: that is tried again for a minute."""
        if self._unwritten.put_off(pod.uid, self._monotonic()):
            return Answer(verdict="wait", words=f"specon cannot write down yet that {pod.replica} is to move")
        words = f"specon lets {pod.replica} be evicted: the wish for its move could not be written"
        return Answer(verdict="pass", words=words, warning=True)

    async def _after_the_leader(self, eviction: Eviction, pod: PodFacts, *, emptied: bool | None) -> Answer:
        """Return the answer once the leader has looked at the wish; or after a moment, whatever is known."""
        until = self._monotonic() + _ANSWER_SECONDS
        while self._monotonic() < until:
            last = self.wishes(pod)[-1:]
            if last and (last[0].state is not None or last[0].message):
                break
            await self._sleep(_LOOK_SECONDS)
        answer = self._review(eviction, pod, emptied=emptied, budgeted=False)
        return msgspec.structs.replace(answer, attempt=0)

    def _tell(self, pod: PodFacts, answer: Answer) -> None:
        note = Note(
            replica=pod.replica,
            reason="EvictionPasses",
            action="Evict",
            text=answer.words,
            warning=answer.warning,
        )
        self._recorder.record(reference(PODS, pod.namespace, pod.name, pod.uid), note)

    async def _find_own_user(self) -> None:
        """Ask the API server who we are for it: what evicts by this name is the manager."""
        while self._own_user is None:
            body: Object = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind}
            try:
                told = await self._api.create(SELF_REVIEWS, body)
                user = mapping(mapping(told.get("status")).get("userInfo")).get("username")
                self._own_user = str(user or "")
            except (ApiError, ApiUnavailableError) as error:
                _log.warning("evictions pass, for the manager's own user is not known: %s", error)
                await self._sleep(_RETRY_SECONDS)
