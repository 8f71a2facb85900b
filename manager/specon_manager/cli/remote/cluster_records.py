"""What a manager of a cluster wrote down, as a view: custom resources, Leases and events. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.queues.record import queue_info
from specon_manager.backends.kube.records.job_record import Recorded
from specon_manager.backends.kube.records.migration_record import Migrated
from specon_manager.backends.kube.records.pause import pause_reason
from specon_manager.backends.kube.records.progress_record import Progressed
from specon_manager.backends.kube.records.restore import restore
from specon_manager.backends.kube.reporting.recorder import CONTROLLER
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.cli.remote.cluster_moves import row_of_migration
from specon_manager.cli.remote.cluster_queues import queue_rows, waiting_rows
from specon_manager.cli.remote.remote import Remark
from specon_manager.core.state import Pause, State
from specon_manager.serving.serve_settings import CLUSTER_DEFAULTS
from specon_manager.views.transactions import rows_of
from specon_manager.views.view import View

NO_LEADER: Final = "no manager leads at present: nothing is decided"


class Records(NamedTuple):
    """What the manager writes down, each where it can be read."""

    progresses: Sequence[Progressed]
    migrations: Sequence[Migrated]
    jobs: Sequence[Recorded]
    queues: Sequence[Object]
    unknown: tuple[str, ...]
    """What could not be read, in words."""


def state_of(records: Records, now: float) -> State:
    """Return the state as a new leader would restore it; `now` in Unix seconds."""
    found = restore(records.progresses, records.migrations, CLUSTER_DEFAULTS, now, recorded=records.jobs)
    queues = (queue_info(item).queue for item in records.queues)
    return msgspec.structs.replace(found.state, queues={queue.name: queue for queue in queues})


def view_of(state: State, records: Records, caveats: tuple[str, ...], now: float) -> View:
    """Return the view of a state with the moves and queues that are on record; `now` in Unix seconds."""
    # Migrations tell of moves: of requests that nobody has looked at as well, and of more that ended. Of a
    # job that moves as a whole its TrainingJob has the record.
    whole = {row.id: row for row in rows_of(state) if row.begun and row.replica is None}
    moves = [row_of_migration(each, state) for each in records.migrations]
    rows = [*whole.values(), *(row for row in moves if row.id not in whole)]
    return View(
        state=state,
        now=now,
        transactions=tuple(sorted(rows, key=lambda row: (row.proposed_at or "~", row.id))),
        waiting=waiting_rows(records.jobs, now),
        queues=queue_rows(records.jobs, records.queues),
        caveats=(*caveats, *records.unknown),
        answers=NO_LEADER not in caveats,
    )


def remarks_of(events: Sequence[Object], job: str) -> list[Remark]:
    """Return the manager's events on a job's owner and pods, oldest first."""
    name = job.partition("/")[2]
    found = [
        Remark(
            at=str(event.get("eventTime") or ""),
            about=f"{mapping(event.get('regarding')).get('kind')} {_about(event)}",
            reason=str(event.get("reason") or ""),
            text=str(event.get("note") or ""),
            warning=event.get("type") == "Warning",
        )
        for event in events
        if event.get("reportingController") == CONTROLLER
        and (_about(event) == name or _about(event).startswith(f"{name}-"))
    ]
    return sorted(found, key=lambda remark: (remark.at, remark.about))


def image_versions(pods: Sequence[Object]) -> dict[str, str]:
    """Return the tag of the first image of each pod, by `pod NAME`; of one without a tag nothing is known."""
    found = {}
    for pod in pods:
        image = next(
            (str(each.get("image")) for each in mappings(mapping(pod.get("spec")).get("containers"))), ""
        )
        _, colon, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
        if colon:
            found[f"pod {mapping(pod.get('metadata')).get('name')}"] = tag
    return found


def with_leases(state: State, leases: Sequence[Object]) -> tuple[State, tuple[str, ...]]:
    """Return the state with the pause that the Leases tell of, and whether nobody leads, in words."""
    held = [each for each in leases if mapping(each.get("spec")).get("holderIdentity")]
    caveats = () if held else (NO_LEADER,)
    reasons = [reason for each in leases if (reason := pause_reason(each)) is not None]
    if not reasons:
        return state, caveats
    return msgspec.structs.replace(state, pause=Pause(since=0.0, reason="; ".join(reasons))), caveats


def _about(event: Object) -> str:
    return str(mapping(event.get("regarding")).get("name") or "")
