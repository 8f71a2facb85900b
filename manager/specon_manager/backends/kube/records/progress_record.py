"""A replica as its TrainingProgress has it, and back. Pure."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from specon_manager.backends.kube.objects.names import Name, namespace_of, slug
from specon_manager.backends.kube.records.decoding import (
    Problem,
    cut_text,
    moment,
    read_fields,
    round_to_six,
    seconds_of,
)
from specon_manager.backends.kube.records.records import (
    CheckpointStatus,
    Count,
    RecordedAmount,
    RecordedNode,
    RecordedText,
    ReplicaRecord,
    checkpoint_of,
    checkpoint_status,
    is_replica,
    metadata_of,
    part_of,
    problem_of,
    record_of,
    status_of,
    with_record,
)
from specon_manager.backends.kube.transport.resources import TRAINING_PROGRESSES, Object
from specon_manager.model.cluster import Phase, Replica, index_of, role_of
from specon_manager.model.progress import Progress
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.wire import MAX_HANG_LINE, Hang


class ProgressStatus(ReplicaRecord, frozen=True):
    """The status of a TrainingProgress."""

    category: Category | None = None
    since: datetime | None = None
    reason: RecordedText | None = None
    message: RecordedText | None = None
    metric: Annotated[str, Meta(max_length=512)] | None = None
    loss: float | None = None
    step: Count | None = None
    step_at: datetime | None = None
    total_steps: Count | None = None
    gain: RecordedAmount | None = None
    expected_gain: Estimate | None = None
    remaining_seconds: Estimate | None = None
    cpu_seconds_per_step: RecordedAmount | None = None
    pod: RecordedNode | None = None
    checkpoint: CheckpointStatus | None = None
    hung_since: datetime | None = None
    step_seconds: RecordedAmount | None = None
    processes: Annotated[str, Meta(max_length=512)] | None = None
    reported_at: datetime | None = None
    ended_at: datetime | None = None
    updated_at: datetime | None = None


class Progressed(Struct, frozen=True, kw_only=True):
    """What a TrainingProgress says."""

    name: Name
    replica: Replica
    created_at: float
    updated_at: float
    checkpoint_at: float | None = None
    """Since when the checkpoint is known."""


def progress_object(replica: str) -> Object:
    """Return the TrainingProgress of a replica as it is created, without a status."""
    return {
        "apiVersion": TRAINING_PROGRESSES.api_version,
        "kind": TRAINING_PROGRESSES.kind,
        "metadata": {"name": slug(replica), "namespace": namespace_of(replica)},
        "spec": {"replica": replica},
    }


def patch_of(status: ProgressStatus) -> Object:
    """Return the status for a merge patch: null takes away fields that are not there any more."""
    built = status_of(status)
    whole: Object = {
        field.encode_name: built.get(field.encode_name) for field in msgspec.structs.fields(ProgressStatus)
    }
    if whole["checkpoint"] is not None:
        whole["checkpoint"] = {"digest": None, "read": None, **whole["checkpoint"]}
    return whole


def progress_status(
    replica: Replica, *, now: float, pod: str | None = None, checkpoint_at: float | None = None
) -> ProgressStatus:
    """Return the status of the TrainingProgress; times in seconds since the epoch."""
    progress = replica.progress
    return ProgressStatus(
        **msgspec.structs.asdict(record_of(replica)),
        category=progress.category,
        since=moment(progress.category_since),
        reason=cut_text(progress.reason, 512),
        message=cut_text(replica.note),
        metric=progress.metric,
        loss=round_to_six(progress.value),
        step=progress.step,
        step_at=moment(progress.step_at),
        total_steps=progress.total_steps,
        gain=round_to_six(progress.gain),
        expected_gain=progress.expected_gain,
        remaining_seconds=progress.remaining_seconds,
        cpu_seconds_per_step=progress.cpu_per_step,
        pod=pod,
        checkpoint=checkpoint_status(progress.checkpoint, checkpoint_at),
        hung_since=moment(progress.hung_since),
        step_seconds=None if progress.hang is None else round_to_six(progress.hang.usual),
        processes=None if progress.hang is None else cut_text(progress.hang.processes, 512),
        reported_at=moment(progress.reported_at),
        ended_at=moment(replica.ended_at),
        updated_at=moment(now),
    )


def read_progress(item: Object) -> tuple[Progressed | None, list[Problem]]:
    """Return what a TrainingProgress says, None where it is not that of a replica in its namespace."""
    name, created_at = metadata_of(item)
    replica = part_of(item, "spec").get("replica")
    if not isinstance(replica, str) or not is_replica(replica):
        return None, [
            problem_of(TRAINING_PROGRESSES.kind, name, "spec.replica", f"{replica!r} is no replica")
        ]
    if Name(namespace_of(replica), slug(replica)) != name:
        text = f"{replica!r} has its TrainingProgress at {namespace_of(replica)}/{slug(replica)}"
        return None, [problem_of(TRAINING_PROGRESSES.kind, name, "spec.replica", text)]
    status, wrong = read_fields(ProgressStatus, item.get("status"), at="status")
    problems = [
        problem_of(TRAINING_PROGRESSES.kind, name, field, text) for field, text in sorted(wrong.items())
    ]
    saved = status.checkpoint
    read = Progressed(
        name=name,
        replica=with_record(_replica(replica, status), status),
        created_at=created_at,
        updated_at=seconds_of(status.updated_at) or 0.0,
        checkpoint_at=None if saved is None else seconds_of(saved.time),
    )
    return read, problems


def _replica(name: str, status: ProgressStatus) -> Replica:
    return Replica(
        name=name,
        job="/".join(name.split("/")[:2]),
        role=role_of(name),
        index=index_of(name),
        phase=Phase.AWAITED,
        ended_at=seconds_of(status.ended_at),
        note=status.message or "",
        progress=Progress(
            category=status.category or Category.UNKNOWN,
            category_since=seconds_of(status.since) or 0.0,
            reason=status.reason or "",
            metric=status.metric,
            value=status.loss,
            step=status.step,
            step_at=seconds_of(status.step_at),
            total_steps=status.total_steps,
            gain=status.gain,
            expected_gain=status.expected_gain,
            remaining_seconds=status.remaining_seconds,
            checkpoint=checkpoint_of(status.checkpoint),
            cpu_per_step=status.cpu_seconds_per_step,
            hang=_hang(status),
            hung_since=seconds_of(status.hung_since),
            reported_at=seconds_of(status.reported_at),
        ),
    )


def _hang(status: ProgressStatus) -> Hang | None:
    """Return what shows that it hangs; the lines of its log are not written down."""
    since, step_at = seconds_of(status.hung_since), seconds_of(status.step_at)
    heard = seconds_of(status.reported_at)
    if since is None or heard is None:
        return None
    return Hang(
        age=max(0.0, heard - since),
        silent=max(0.0, heard - (since if step_at is None else step_at)),
        usual=status.step_seconds or 0.0,
        processes=(status.processes or "")[:MAX_HANG_LINE],
    )
