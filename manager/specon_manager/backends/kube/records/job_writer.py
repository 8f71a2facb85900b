"""Writes one TrainingJob: with its resourceVersion, whatever the API does, never over another manager's."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.records.job_record import (
    Recorded,
    TrainingJobStatus,
    owner_uid,
    read_training_job,
    training_job_name,
)
from specon_manager.backends.kube.records.migration_writer import Pauses
from specon_manager.backends.kube.records.records import status_of
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import TRAINING_JOBS, Object

_log = logging.getLogger(__name__)
_TIMEOUT: Final = 408
_TRIES: Final = 3


class Content(Struct, frozen=True, kw_only=True):
    """What a TrainingJob is to say."""

    spec: Object
    status: TrainingJobStatus
    owner: Object | None
    """Reference to the owner of the job, with which the object is removed; None while it is not known."""


class KeptJob:
    """A TrainingJob as it was last seen or written."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.name = training_job_name(job)
        self.uid = ""
        """Empty while there is no object, as far as is known."""
        self.version = ""
        self.spec: Object = {}
        self.owner = ""
        """UID of the owner that the object refers to."""
        self.signed = False
        """Whether the object carries our identity, unless another manager wrote it since."""
        self.gone = False
        """Whether there can be no object: its namespace is going."""
        self.refused = ""
        """Why the API server takes no such object."""
        self.lock = asyncio.Lock()

    def read(self, recorded: Recorded) -> None:
        """Take note of the object that is there."""
        self.uid, self.version = recorded.uid, recorded.version
        self.spec, self.owner = recorded.spec, recorded.owner


class JobWriter:
    """Writes TrainingJobs as one manager, for as long as it leads."""

    def __init__(
        self,
        api: Api,
        *,
        identity: str,
        holds: Callable[[], bool],
        sleep: Callable[[float], Awaitable[Any]],
        rng: random.Random,
    ) -> None:
        """Write as the manager called `identity` while `holds` says that it leads."""
        self._api, self._identity, self._holds = api, identity, holds
        self._sleep, self._rng = sleep, rng

    def _fence(self) -> None:
        if not self._holds():
            raise NotLeadingError(f"{self._identity} does not hold the lease any more")

    async def write_through(self, kept: KeptJob, content: Callable[[], Content], *, begun: bool) -> None:
        """Write the object, however long that takes; `begun`: an earlier write told of the same change.

        Raises NotLeadingError, and ApiError where a change that has begun can be recorded no more. One that
        has not is marked as refused instead.
        """
        pauses = Pauses(self._sleep, self._rng)
        async with kept.lock:
            while not kept.gone:
                try:
                    await self._put(kept, content())
                except ApiUnavailableError as error:
                    _log.warning(
                        "TrainingJob %s is not written yet, nothing is ordered: %s", kept.name, error
                    )
                except (ApiError, ValueError) as error:
                    if not await self._overcome(kept, error, begun=begun):
                        return
                else:
                    return
                await pauses.next()

    async def _overcome(self, kept: KeptJob, error: ApiError | ValueError, *, begun: bool) -> bool:
        """Do what the refusal of a write calls for; whether it is to be tried again."""
        if isinstance(error, ApiError):
            if error.conflict:
                with contextlib.suppress(ApiUnavailableError):
                    await self._look(kept)
                return True
            if error.not_found and kept.uid:
                kept.uid = ""  # deleted by somebody: the next manager needs it
                return True
            if error.throttled or error.status == _TIMEOUT:
                return True
            kept.gone = "NamespaceTerminating" in error.causes
        if begun and not kept.gone:
            raise error
        self._refuse(kept, error.message if isinstance(error, ApiError) else str(error))
        return False

    def _refuse(self, kept: KeptJob, why: str) -> None:
        kept.refused = f"it cannot be recorded: {why}"
        _log.warning("%s: %s", kept.job, kept.refused)

    async def write(self, kept: KeptJob, content: Callable[[], Content]) -> None:
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

    async def take(self, kept: KeptJob, content: Content) -> None:
        """Write our identity into an object that was just read; raises what the API raises."""
        await self._put(kept, content)

    async def delete(self, kept: KeptJob) -> None:
        """Remove the object of a job that is gone; raises what the API raises."""
        async with kept.lock:
            self._fence()
            if not kept.uid:
                return
            try:
                await self._api.delete(TRAINING_JOBS, kept.name.name, kept.name.namespace, uid=kept.uid)
            except ApiError as error:
                if not (error.not_found or error.conflict):
                    raise
            kept.uid = ""

    async def _put(self, kept: KeptJob, content: Content) -> None:
        """Make the object what it is to be, in as few calls as that takes."""
        self._fence()
        owners = _owners(content.owner)
        owner = owners[0]["uid"] if owners else kept.owner
        if not kept.uid:
            await self._make(kept, content.spec, owners)
        elif kept.spec != content.spec or kept.owner != owner:
            removed = dict.fromkeys(kept.spec.keys() - content.spec.keys())
            metadata: Object = {"resourceVersion": kept.version, "uid": kept.uid}
            if owners:
                metadata["ownerReferences"] = owners
            body = {"metadata": metadata, "spec": {**removed, **content.spec}}
            item = await self._api.patch(
                TRAINING_JOBS, kept.name.name, kept.name.namespace, body, form="merge"
            )
            self._seen(kept, item)
        whole: Object = {
            "apiVersion": TRAINING_JOBS.api_version,
            "kind": TRAINING_JOBS.kind,
            "metadata": {
                "name": kept.name.name,
                "namespace": kept.name.namespace,
                "uid": kept.uid,
                "resourceVersion": kept.version,
            },
            "spec": kept.spec,
            "status": status_of(content.status),
        }
        item = await self._api.replace(
            TRAINING_JOBS, whole, kept.name.name, kept.name.namespace, subresource="status"
        )
        self._seen(kept, item)
        kept.signed = True

    async def _make(self, kept: KeptJob, spec: Object, owners: list[Object]) -> None:
        """Create the object, or take the one that is there."""
        body = {
            "apiVersion": TRAINING_JOBS.api_version,
            "kind": TRAINING_JOBS.kind,
            "metadata": {
                "name": kept.name.name,
                "namespace": kept.name.namespace,
                **({"ownerReferences": owners} if owners else {}),
            },
            "spec": spec,
        }
        try:
            item = await self._api.create(TRAINING_JOBS, body, kept.name.namespace)
        except ApiError as error:
            if not error.already_exists:
                raise
            await self._look(kept)
        else:
            self._seen(kept, item)

    async def _look(self, kept: KeptJob) -> None:
        """Read the object as it is by now. Raises NotLeadingError where another manager wrote it."""
        try:
            item = await self._api.get(TRAINING_JOBS, kept.name.name, kept.name.namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            kept.uid = ""
            return
        read, _ = read_training_job(item)
        # What a former leader wrote late is overwritten, as long as nothing is under way because of it.
        if (
            read is not None
            and read.status.manager not in {None, self._identity}
            and (kept.signed or read.change is not None or read.broken)
        ):
            raise NotLeadingError(f"{read.status.manager} has written TrainingJob {kept.name}")
        self._seen(kept, item)

    def _seen(self, kept: KeptJob, item: Object) -> None:
        metadata, spec = item.get("metadata") or {}, item.get("spec")
        kept.uid = str(metadata.get("uid") or "")
        kept.version = str(metadata.get("resourceVersion") or "")
        kept.spec = spec if isinstance(spec, dict) else {}
        kept.owner = owner_uid(metadata)


def _owners(owner: Object | None) -> list[Object]:
    """Return the owner references with which the object is removed when the owner of its job is."""
    if owner is None or not owner.get("uid"):
        return []
    fields = {name: owner[name] for name in ("apiVersion", "kind", "name", "uid")}
    return [{**fields, "controller": False, "blockOwnerDeletion": False}]
