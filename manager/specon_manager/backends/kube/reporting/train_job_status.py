"""`status.trainerStatus` of TrainJobs, where their trainer says nothing of itself. Off unless switched on.

Kubeflow Trainer's own writer (kubeflow/trainer, `pkg/statusserver/server.go`) applies what a trainer reports,
by force, as the field manager `trainer-status`. Whatever another than us has written there is left alone for
good; what we write is bound to the object that was read, so that a word of Trainer's in between wins.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import TRAIN_JOBS, Object, OwnerOf
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.progress import Progress

_log = logging.getLogger(__name__)
FIELD_MANAGER: Final = "specon-manager"
"""As the API server knows us, by our user agent."""
_MOST_SECONDS: Final = 2**31 - 1
_PAUSE: Final = 0.1  # seconds between two objects
_BEFORE_THE_END: Final = 99


def trainer_status(progress: Progress, now: float, wall: float) -> Object | None:
    """Return the facts about a training, as Trainer words them; None where there are none.

    `now` is on the manager's clock, `wall` the same moment in Unix seconds. The end itself is the TrainJob's
    to say: before it there are 99 percent at most.
    """
    said: Object = {}
    step, total = progress.step, progress.total_steps
    if step is not None and total:
        said["progressPercentage"] = max(0, min(_BEFORE_THE_END, 100 * step // total))
    if (remaining := progress.remaining_seconds) is not None:
        said["estimatedRemainingSeconds"] = max(0, min(_MOST_SECONDS, round(remaining.value)))
    counts = {"current_step": step, "total_steps": total}
    metrics = [{"name": name, "value": str(count)} for name, count in counts.items() if count is not None]
    if progress.metric and progress.value is not None:
        metrics.append({"name": progress.metric[:128], "value": f"{progress.value:.6g}"})
    if metrics:
        said["metrics"] = metrics
    if not said or progress.step_at is None:
        return None
    at = datetime.fromtimestamp(wall - max(0.0, now - progress.step_at), UTC)
    return {**said, "lastUpdatedTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}


def is_anothers(train_job: Object) -> bool:
    """Whether somebody else has written the status of the trainer: by the marks that the API server keeps."""
    if not mapping(train_job.get("status")).get("trainerStatus"):
        return False
    writers = {
        str(entry.get("manager"))
        for entry in mappings(mapping(train_job.get("metadata")).get("managedFields"))
        if "f:trainerStatus" in mapping(mapping(entry.get("fieldsV1")).get("f:status"))
    }
    return writers != {FIELD_MANAGER}


class TrainJobStatusWriter:
    """Writes it in the background, as often as progress is written at all."""

    def __init__(
        self,
        api: Api,
        owner_of: OwnerOf,
        *,
        holds: Callable[[], bool],
        seconds: float,
        now: Callable[[], float],
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Look every so many seconds, and write while this manager `holds` the Lease."""
        self._holds = holds
        self._api, self._owner_of, self._seconds = api, owner_of, seconds
        self._now, self._wall, self._sleep = now, wall, sleep
        self._written: dict[str, tuple[str, float | None]] = {}
        """By job: the uid of its TrainJob, and the time of the step that was written last."""
        self._left_alone: set[str] = set()
        """UIDs of TrainJobs that another writer reports on, or that have no such field."""

    async def run(self, state: Callable[[], State]) -> None:
        """Write until cancelled."""
        while True:
            await self._sleep(self._seconds)
            await self.look(state())

    async def look(self, state: State) -> None:
        """Write the news of each TrainJob that trains."""
        self._written = {name: value for name, value in self._written.items() if name in state.jobs}
        for name, job in state.jobs.items():
            owner = self._owner_of(name)
            lead = _lead(job, state)
            if owner is None or owner.get("kind") != TRAIN_JOBS.kind or lead is None:
                continue
            if not self._holds():
                return
            uid, at = str(owner["uid"]), lead.progress.step_at
            if uid in self._left_alone or self._written.get(name) == (uid, at):
                continue
            try:
                await self._write(owner, lead.progress)
            except (ApiError, ApiUnavailableError) as error:
                # Gone, changed at this moment, or nobody answers: the next look is soon enough.
                _log.debug("no status of the trainer for %s: %s", name, error)
            else:
                self._written[name] = uid, at
            await self._sleep(_PAUSE)

    async def _write(self, owner: Object, progress: Progress) -> None:
        said = trainer_status(progress, self._now(), self._wall())
        if said is None:
            return
        name, namespace = str(owner["name"]), str(owner["namespace"])
        found = await self._api.get(TRAIN_JOBS, name, namespace)
        metadata = mapping(found.get("metadata"))
        if metadata.get("uid") != owner["uid"]:
            return
        if is_anothers(found):
            self._left_alone.add(str(owner["uid"]))
            return
        before = mapping(mapping(found.get("status")).get("trainerStatus"))
        # Fields that are unknown now are taken away.
        status = {**dict.fromkeys(before.keys() - said.keys()), **said}
        body = {
            "metadata": {"resourceVersion": metadata.get("resourceVersion")},
            "status": {"trainerStatus": status},
        }
        done = await self._api.patch(TRAIN_JOBS, name, namespace, body, form="merge", subresource="status")
        if not mapping(done.get("status")).get("trainerStatus"):
            _log.info("TrainJobs have no field status.trainerStatus here: Kubeflow Trainer is too old")
            self._left_alone.add(str(owner["uid"]))


def _lead(job: Job, state: State) -> Replica | None:
    """Return the replica that speaks for the job: the first that was heard of and has not ended."""
    replicas = (state.replicas.get(name) for name in job.spec.replicas)
    return next(
        (one for one in replicas if one is not None and one.incarnation and one.progress.step_at is not None),
        None,
    )
