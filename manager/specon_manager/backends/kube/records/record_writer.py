"""Writes the objects that hold transactions: with their resourceVersion, whatever the API does.

Never over another manager's: one that finds another name in what it wrote itself has been deposed.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.records import owner_uid
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.backoff import Backoff
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import Object, Resource

_log = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0
_TIMEOUT: Final = 408
_TRIES: Final = 3


class Content(Struct, frozen=True, kw_only=True):
    """What an object is to say."""

    spec: Object
    status: Object
    first_schema: Object | None = None
    """The status for a server whose schema is the first one, where that would refuse the other."""
    labels: Object = {}
    owner: Object | None = None
    """Reference to the owner with which the object is removed; None for none, and while it is not known."""


class Home(Struct, frozen=True, kw_only=True):
    """Where the object of a record is, and how it is told from other people's."""

    resource: Resource
    names: tuple[Name, ...]
    """Where it may be: the first that is free, or whose object is ours."""
    asked: bool = False
    """Whether somebody made it to ask for something: it is looked for before it is made."""
    keeps_spec: bool = False
    """Whether its specification stays as it was made."""
    is_ours: Callable[[Object], bool] = lambda _: True
    writer_of: Callable[[Object], str | None]
    """Return which manager wrote an object for something that may go on; None where it does not matter."""


class Kept:
    """An object as it was last seen or written."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.name = home.names[0]
        self.uid = ""
        """Empty while there is no object, as far as is known."""
        self.version = ""
        self.spec: Object = {}
        self.owner = ""
        """UID of the owner that the object refers to."""
        self.signed = False
        """Whether the object carries our identity, unless another manager wrote it since."""
        self.over = False
        """Whether no change of it is in flight: then a missing object is no loss."""
        self.gone = False
        """Whether there can be no object: its namespace goes or went, or it was deleted when it was over."""
        self.refused = ""
        """Why the API server takes no such object; nothing was done because of it then."""
        self.lock = asyncio.Lock()

    def note_known(self, name: Name, uid: str, version: str, spec: Object, owner: str = "") -> None:
        """Take note of an object that was read."""
        self.name, self.uid, self.version, self.spec, self.owner = name, uid, version, spec, owner

    def note_seen(self, item: Object) -> None:
        """Take note of an object as the API has it."""
        metadata, spec = item.get("metadata") or {}, item.get("spec")
        self.uid = str(metadata.get("uid") or "")
        self.version = str(metadata.get("resourceVersion") or "")
        self.spec = spec if isinstance(spec, dict) else {}
        self.owner = owner_uid(metadata)


class Pauses:
    """Ever longer pauses between tries."""

    def __init__(self, sleep: Callable[[float], Awaitable[Any]], rng: random.Random) -> None:
        self._sleep, self._backoff = sleep, Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, rng)

    async def next(self) -> None:
        """Pause."""
        await self._sleep(self._backoff.next())


class RecordWriter:
    """Writes records as one manager, for as long as it leads."""

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        holds: Callable[[], bool],
        sleep: Callable[[float], Awaitable[Any]],
        rng: random.Random,
        wrote: Callable[[Resource, Object], None] = lambda _resource, _item: None,
    ) -> None:
        """Write as the manager called `identity`, while `holds` says that it leads.

        `wrote` is told of each object as the server has it then: a watch may be behind.
        """
        self._api, self._identity, self._holds, self._wrote = api, identity, holds, wrote
        self._sleep, self._rng = sleep, rng
        self._first_schemas: set[Resource] = set()
        """Those whose schema has turned out to be the first one."""

    def pauses(self) -> Pauses:
        """Return the pauses of one call that is tried again until it succeeds."""
        return Pauses(self._sleep, self._rng)

    async def write_through(self, kept: Kept, content: Callable[[], Content], *, begun: bool) -> None:
        """Write the object, however long that takes; `begun`: an earlier write told of the same.

        Raises NotLeadingError, and ApiError where the object of a begun transaction can be written no more.
        It is marked as refused instead where the transaction had not begun, and where somebody deleted the
        object and it cannot be made again: a tenant can see to that, with a quota or objects of those names.
        """
        pauses = self.pauses()
        async with kept.lock:
            while not kept.gone:
                try:
                    await self._put(kept, content())
                except ApiUnavailableError as error:
                    _log.warning("%s is not written yet, nothing is ordered: %s", kept.name, error)
                except (ApiError, ValueError) as error:
                    if not await self._overcome(kept, error, begun=begun):
                        return
                    if isinstance(error, ApiError) and (error.conflict or error.not_found):
                        continue
                else:
                    return
                await pauses.next()

    async def write(self, kept: Kept, content: Callable[[], Content]) -> None:
        """Write the object, also over what somebody wrote meanwhile; raises what the API raises."""
        async with kept.lock:
            for left in reversed(range(_TRIES)):
                try:
                    await self._put(kept, content())
                except ApiError as error:
                    if not left or not (error.conflict or (error.not_found and kept.uid)):
                        raise
                    if error.not_found:
                        kept.uid = ""
                    else:
                        await self._look(kept)
                else:
                    return

    async def take(self, kept: Kept, content: Content) -> None:
        """Write our identity into an object that was just read; raises what the API raises."""
        await self._put(kept, content)

    async def delete(self, kept: Kept) -> None:
        """Remove an object that is needed no more; raises what the API raises."""
        async with kept.lock:
            self._fence()
            if not kept.uid:
                return
            name = kept.name
            try:
                await self._api.delete(kept.home.resource, name.name, name.namespace, uid=kept.uid)
            except ApiError as error:
                if not (error.not_found or error.conflict):
                    raise
            kept.uid = ""

    def _fence(self) -> None:
        if not self._holds():
            raise NotLeadingError(f"{self._identity} does not hold the lease any more")

    async def _overcome(self, kept: Kept, error: ApiError | ValueError, *, begun: bool) -> bool:
        """Do what the refusal of a write calls for; whether it is to be tried again."""
        if isinstance(error, ApiError):
            if error.conflict:
                with contextlib.suppress(ApiUnavailableError):
                    await self._look(kept)
                return not kept.gone
            if error.not_found and kept.uid:
                # Deleted by somebody: the next manager needs it, unless it is over.
                kept.uid, kept.gone = "", kept.over
                return not kept.gone
            if error.throttled or error.status == _TIMEOUT:
                return True
            kept.gone = error.no_namespace
        if begun and kept.uid and not kept.gone:
            raise error
        why = error.message if isinstance(error, ApiError) else str(error)
        kept.refused = f"it cannot be recorded: {why}"
        _log.warning("%s: %s", kept.name, kept.refused)
        return False

    async def _put(self, kept: Kept, content: Content) -> None:
        """Make the object what it is to be, in as few calls as that takes."""
        self._fence()
        owners = _owners(content.owner)
        if not kept.uid:
            await self._make(kept, content, owners)
            if not kept.uid:
                return
        elif not kept.home.keeps_spec:
            await self._respecify(kept, content, owners)
        try:
            await self._tell(kept, content)
        except ApiError as error:
            if not error.invalid or content.first_schema is None or kept.home.resource in self._first_schemas:
                raise
            self._first_schemas.add(kept.home.resource)
            await self._tell(kept, content)
        kept.signed = True

    async def _tell(self, kept: Kept, content: Content) -> None:
        """Replace the status."""
        status = content.status
        if content.first_schema is not None and kept.home.resource in self._first_schemas:
            status = content.first_schema
        metadata = {"uid": kept.uid, "resourceVersion": kept.version}
        whole = _object(kept, {**metadata}, kept.spec) | {"status": status}
        name = kept.name
        written = await self._api.replace(
            kept.home.resource, whole, name.name, name.namespace, subresource="status"
        )
        kept.note_seen(written)
        self._wrote(kept.home.resource, written)

    async def _respecify(self, kept: Kept, content: Content, owners: list[Object]) -> None:
        """Let the specification, and the owner that the object refers to, be what they are by now."""
        owner = owners[0]["uid"] if owners else kept.owner
        if kept.spec == content.spec and kept.owner == owner:
            return
        removed = dict.fromkeys(kept.spec.keys() - content.spec.keys())
        metadata: Object = {"resourceVersion": kept.version, "uid": kept.uid}
        if owners:
            metadata["ownerReferences"] = owners
        body = {"metadata": metadata, "spec": {**removed, **content.spec}}
        name = kept.name
        kept.note_seen(
            await self._api.patch(kept.home.resource, name.name, name.namespace, body, form="merge")
        )

    async def _make(self, kept: Kept, content: Content, owners: list[Object]) -> None:
        """Create the object, or take the one that is there for this record."""
        if kept.home.asked and (await self._look(kept) or kept.gone):
            return
        metadata: Object = {"labels": content.labels} if content.labels else {}
        metadata |= {"ownerReferences": owners} if owners else {}
        for name in kept.home.names:
            kept.name = name
            body = _object(kept, metadata, content.spec)
            try:
                made = await self._api.create(kept.home.resource, body, name.namespace)
            except ApiError as error:
                if not error.already_exists:
                    raise
                if await self._look(kept):
                    return
                refusal = error
            else:
                kept.note_seen(made)
                return
        raise refusal

    async def _look(self, kept: Kept) -> bool:
        """Read the object, if it is there and ours. Raises NotLeadingError where another manager wrote it."""
        try:
            item = await self._api.get(kept.home.resource, kept.name.name, kept.name.namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            kept.uid, kept.gone = "", kept.over
            return False
        # The very object that was written last is ours, whatever somebody wrote into it since.
        if (item.get("metadata") or {}).get("uid") != kept.uid and not kept.home.is_ours(item):
            kept.uid = ""
            return False
        manager = _manager_of(item) if kept.signed else kept.home.writer_of(item)
        if manager not in {None, self._identity}:
            raise NotLeadingError(f"{manager} has written {kept.home.resource.kind} {kept.name}")
        kept.note_seen(item)
        return True


def _manager_of(item: Object) -> str | None:
    status = item.get("status")
    manager = status.get("manager") if isinstance(status, dict) else None
    return manager if isinstance(manager, str) and manager else None


def _object(kept: Kept, metadata: Object, spec: Object) -> Object:
    resource, name = kept.home.resource, kept.name
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name.name, "namespace": name.namespace, **metadata},
        "spec": spec,
    }


def _owners(owner: Object | None) -> list[Object]:
    """Return the owner references with which the object is removed when that owner is."""
    if owner is None or not owner.get("uid"):
        return []
    fields = {name: owner[name] for name in ("apiVersion", "kind", "name", "uid")}
    return [{**fields, "controller": False, "blockOwnerDeletion": False}]
