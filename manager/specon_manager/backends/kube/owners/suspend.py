"""Jobs with one pod: suspended, so that the pod goes, and resumed, so that the next one comes.

Nothing counts against a backoffLimit then, and no replacement is delayed. Only `suspend` is changed, and an
annotation says that it was us: one that its user suspended stays suspended, and one that its user resumes in
between is not suspended again.
"""

from collections.abc import Mapping
from typing import Any, Final

from specon_manager.backends.kube.admission.annotations import SUSPENDED_FOR
from specon_manager.backends.kube.owners.way import BlockedError, Coming, Hands, Leaving, RefusedError
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.watching.fields import mapping
from specon_manager.backends.kube.watching.owner_info import OWNER_RESOURCES, OwnerInfo

Object = dict[str, Any]

_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "Job": ("spec", "suspend"),
    "JobSet": ("spec", "suspend"),
    "TFJob": ("spec", "runPolicy", "suspend"),
    "PyTorchJob": ("spec", "runPolicy", "suspend"),
}
"""Where each kind has its switch."""
_ATTEMPTS: Final = 8
"""Somebody else, first of all its controller, may write the object at the same time."""


class Suspension:
    """Suspends and resumes the whole job."""

    async def let_go(self, hands: Hands, leaving: Leaving) -> None:
        """Suspend the job, unless a disruption budget protects its pod at this moment."""
        owner = leaving.owner
        if owner is None:
            raise RefusedError("its owner is not there")
        pod = leaving.pod
        try:
            # A suspension would not ask the disruption budgets; the same question to the Eviction API does.
            await hands.api.evict(pod.name, pod.namespace, uid=pod.uid, dry_run=True)
        except ApiError as error:
            if error.blocked or error.throttled:
                raise BlockedError(error.message) from error
            if not (error.not_found or error.conflict):
                raise

        def wanted(job: Object) -> Object | None:
            if mapping(job.get("metadata")).get("uid") != owner.uid or _suspended(owner.kind, job):
                return None  # its pod goes anyway, or is another owner's
            return _patch(owner.kind, job, suspend=True, mark=leaving.move)

        await _patched(hands, owner, wanted)

    async def bring_back(self, hands: Hands, coming: Coming) -> None:
        """Resume the job if it was us who suspended it."""
        owner = coming.owner
        if owner is None:
            raise RefusedError("its owner is gone")

        def wanted(job: Object) -> Object | None:
            if mapping(job.get("metadata")).get("uid") != owner.uid:
                raise RefusedError(f"{owner} is gone, and another one has its name")
            if _mark(job):
                return _patch(owner.kind, job, suspend=False, mark=None)
            if _suspended(owner.kind, job):
                raise RefusedError(f"{owner} was suspended by somebody else")
            return None

        await _patched(hands, owner, wanted)


async def _patched(hands: Hands, owner: OwnerInfo, wanted: Any) -> None:
    resource, _ = OWNER_RESOURCES[owner.kind]
    for attempt in range(_ATTEMPTS):
        try:
            job = await hands.api.get(resource, owner.name, owner.namespace)
        except ApiError as error:
            if error.not_found:
                raise RefusedError(f"{owner} is gone") from error
            raise
        patch = wanted(job)
        if patch is None:
            return
        hands.fence()
        try:
            await hands.api.patch(resource, owner.name, owner.namespace, patch, form="merge")
        except ApiError as error:
            if error.not_found:
                raise RefusedError(f"{owner} is gone") from error
            if not error.conflict or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _patch(kind: str, job: Object, *, suspend: bool, mark: str | None) -> Object:
    """Return a merge patch that holds only for the version of the job that was read."""
    switch: Any = suspend
    for part in reversed(_PATHS[kind]):
        switch = {part: switch}
    version = mapping(job.get("metadata")).get("resourceVersion")
    metadata = {"resourceVersion": version, "annotations": {SUSPENDED_FOR: mark}}
    patch: Object = {"metadata": metadata, **switch}
    return patch


def _suspended(kind: str, job: Object) -> bool:
    found: Any = job
    for part in _PATHS[kind]:
        found = mapping(found).get(part)
    return found is True


def _mark(job: Object) -> str:
    return str(mapping(mapping(job.get("metadata")).get("annotations")).get(SUSPENDED_FOR, ""))
