"""Writes one Migration: with its resourceVersion, whatever the API does, and never over another manager's."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.records.lenient import moment
from specon_manager.backends.kube.records.migration_record import (
    MOVE_LABEL,
    Migrated,
    MigrationStatus,
    migration_object,
    migration_status,
    read_migration,
)
from specon_manager.backends.kube.records.names import Name, other_name
from specon_manager.backends.kube.records.records import status_of
from specon_manager.backends.kube.records.restore import Closing
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object
from specon_manager.core.state import Measured
from specon_manager.model.cluster import Replica
from specon_manager.model.moves import Move, MoveState

_log = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0
_TIMEOUT: Final = 408


class Kept:
    """A Migration as it was last seen or written."""

    def __init__(self, name: Name, move: Move, replica: Replica | None) -> None:
        self.name = name
        self.move = move
        self.replica = replica
        self.spec: Object = migration_object(move)["spec"]
        self.uid = ""
        """Empty while there is no object, as far as is known."""
        self.version = ""
        self.hostname: tuple[str, str] | None = None
        """Destination, and its hostname."""
        self.manifest: str | None = None
        self.gone = False
        """Whether there can be no object: its namespace is going, or it has ended and was deleted."""
        self.refused = ""
        """Why the API server takes no such object; nothing was done for the move then."""
        self.lock = asyncio.Lock()


class Pauses:
    """Ever longer pauses between tries."""

    def __init__(self, sleep: Callable[[float], Awaitable[Any]], rng: random.Random) -> None:
        self._sleep, self._rng = sleep, rng
        self._count = 0

    async def next(self) -> None:
        """Pause."""
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**self._count)
        self._count = min(self._count + 1, 10)
        await self._sleep(pause * self._rng.uniform(0.5, 1.0))


class MigrationWriter:
    """Writes Migrations as one manager, for as long as it leads."""

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        holds: Callable[[], bool],
        sleep: Callable[[float], Awaitable[Any]],
        rng: random.Random,
    ) -> None:
        """Write as the manager called `identity`, while `holds` says that it leads."""
        self._api, self._identity, self._holds = api, identity, holds
        self._sleep, self._rng = sleep, rng

    def pauses(self) -> Pauses:
        """Return the pauses of one call that is tried again until it succeeds."""
        return Pauses(self._sleep, self._rng)

    def _fence(self) -> None:
        if not self._holds():
            raise NotLeadingError(f"{self._identity} does not hold the lease any more")

    async def write(self, kept: Kept, *, now: float, measured: Measured | None = None) -> None:
        """Write the Migration, however long that takes.

        Raises NotLeadingError, and ApiError where a move that was begun can be recorded no more. One that was
        only proposed is marked as refused instead.
        """
        pauses = self.pauses()
        async with kept.lock:
            while not (kept.gone or (kept.refused and not kept.uid)):
                try:
                    if not kept.uid:
                        await self._make(kept)
                    if not kept.gone:
                        await self.replace(kept, now=now, measured=measured)
                except ApiUnavailableError as error:
                    _log.warning("Migration %s is not written yet, nothing is ordered: %s", kept.name, error)
                except ApiError as error:
                    if not await self._overcome(kept, error):
                        return
                    if error.conflict or error.not_found:
                        continue
                else:
                    return
                await pauses.next()

    async def _overcome(self, kept: Kept, error: ApiError) -> bool:
        """Do what the refusal of a write calls for; whether it is to be tried again."""
        if error.conflict:
            with contextlib.suppress(ApiUnavailableError):
                await self._look(kept)
            return True
        if error.not_found:
            # Deleted by somebody: one that is over is not missed, the others are needed by the next manager.
            kept.uid = ""
            kept.gone = not kept.move.in_flight
            return not kept.gone
        if "NamespaceTerminating" in error.causes:
            kept.gone = True
            return False
        if error.throttled or error.status == _TIMEOUT:
            return True
        if kept.move.state is not MoveState.PROPOSED or kept.uid:
            raise error
        kept.refused = f"it cannot be recorded: {error.message}"
        _log.warning("%s: %s", kept.move.id, kept.refused)
        return False

    async def _make(self, kept: Kept) -> None:
        """Create the object, or take the one that is there for this move."""
        self._fence()
        body = migration_object(kept.move)
        if "/" in kept.move.id and (await self._look(kept) or kept.gone):
            return
        for name in (kept.name, other_name(kept.name, kept.move)):
            kept.name = name
            body["metadata"]["name"] = name.name
            try:
                made = await self._api.create(MIGRATIONS, body, name.namespace)
            except ApiError as error:
                if error.not_found:
                    kept.gone = True  # no such namespace
                    return
                if not error.already_exists:
                    raise
                if await self._look(kept):
                    return
                refusal = error
            else:
                self._seen(kept, made)
                return
        raise refusal

    async def _look(self, kept: Kept) -> bool:
        """Read the object of the move, if it is there. Raises NotLeadingError where another one wrote it."""
        try:
            item = await self._api.get(MIGRATIONS, kept.name.name, kept.name.namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            kept.uid = ""
            kept.gone = not kept.move.in_flight
            return False
        read, _ = read_migration(item)
        label = ((item.get("metadata") or {}).get("labels") or {}).get(MOVE_LABEL, str(kept.name))
        ended_before = not kept.uid and read.move is not None and not read.move.in_flight
        another = label != kept.move.id or read.replica not in {None, kept.move.replica}
        # The very object that was written last is that of the move, whatever somebody wrote into it since.
        if read.uid != kept.uid and (another or ended_before):
            kept.uid = ""
            return False
        if read.status.manager not in {None, self._identity}:
            raise NotLeadingError(f"{read.status.manager} has written {kept.name}")
        self._seen(kept, item)
        return True

    def _seen(self, kept: Kept, item: Object) -> None:
        metadata = item.get("metadata") or {}
        kept.uid = str(metadata.get("uid") or "")
        kept.version = str(metadata.get("resourceVersion") or "")
        spec = item.get("spec")
        kept.spec = spec if isinstance(spec, dict) else {}

    async def replace(self, kept: Kept, *, now: float, measured: Measured | None = None) -> None:
        """Write the Migration once; raises what the API raises."""
        self._fence()
        status = migration_status(
            kept.move,
            kept.replica,
            hostname=None if kept.hostname is None else kept.hostname[1],
            measured=Measured() if measured is None else measured,
            manifest=kept.manifest,
            manager=self._identity,
            now=now,
        )
        body = _object(kept.name, kept.uid, kept.version, kept.spec, status)
        item = await self._api.replace(
            MIGRATIONS, body, kept.name.name, kept.name.namespace, subresource="status"
        )
        self._seen(kept, item)

    async def close(self, closing: Closing, found: Migrated, now: float) -> None:
        """Close a Migration that cannot go on; nothing else of what it said is kept but the manifest."""
        at = moment(now)
        failed = closing.state is MoveState.FAILED
        status = MigrationStatus(
            id=found.status.id,
            state=closing.state,
            replica=found.replica,
            source=found.status.source,
            target=found.status.target,
            message=closing.message,
            proposed_at=found.status.proposed_at,
            ended_at=at,
            manifest=found.status.manifest if failed else None,
            manager=self._identity,
            updated_at=at,
        )
        self._fence()
        await self._api.replace(
            MIGRATIONS,
            _object(found.name, found.uid, found.version, await self._spec(found), status),
            found.name.name,
            found.name.namespace,
            subresource="status",
        )

    async def _spec(self, found: Migrated) -> Object:
        item = await self._api.get(MIGRATIONS, found.name.name, found.name.namespace)
        spec = item.get("spec")
        return spec if isinstance(spec, dict) else {}


def _object(name: Name, uid: str, version: str, spec: Object, status: MigrationStatus) -> Object:
    return {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {
            "name": name.name,
            "namespace": name.namespace,
            "uid": uid,
            "resourceVersion": version,
        },
        "spec": spec,
        "status": status_of(status),
    }
