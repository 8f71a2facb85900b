"""How a report changes the record of a replica. Lost, doubled and late reports are harmless."""

from typing import Final

import msgspec

from specon_manager.core.state import State
from specon_manager.model.progress import Progress, Session
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint, Report

_SESSIONS: Final = 5  # sidecar processes of an incarnation that are remembered
_ALIVE: Final = 2  # so many new reports of a former process: it sends one at a time, so one alone may be late


def learn(state: State, report: Report, now: float) -> State | None:
    """Return the state with the report taken in, or None where it says nothing new.

    Nothing is learnt from a report of another incarnation than the present one, from one that is not newer
    than the last of its sidecar process, or from a former process. A late first report of a process that is
    dead looks like that of a new one; the living process, taken for a former one then, is believed again
    from its second report on.
    """
    replica = state.replicas.get(report.replica)
    if replica is None or replica.incarnation != report.incarnation:
        return None
    progress = replica.progress
    known = None
    for session in progress.sessions:
        if session.name == report.session:
            known = session
            break
    if known is not None and report.sequence <= known.sequence:
        return None
    others = tuple([session for session in progress.sessions if session is not known])
    ignored = 0 if known is None or known is progress.sessions[-1] else known.ignored + 1
    heard = Session(name=report.session, sequence=report.sequence, ignored=ignored % _ALIVE)
    if heard.ignored:
        contested = msgspec.structs.replace(progress, sessions=(heard, *others))
        return state.with_replica(msgspec.structs.replace(replica, progress=contested))
    sessions = (*others, heard)[-_SESSIONS:]
    learnt = _progress(progress, report, sessions, now)
    moving = state.transaction_of(report.replica) is not None  # it saves, pauses, ends: that is not its pace
    if learnt.step_interval is not None and learnt.step_gap and not moving:
        learnt = msgspec.structs.replace(learnt, step_seconds=learnt.step_interval / learnt.step_gap)
    return state.with_replica(msgspec.structs.replace(replica, progress=learnt))


def _progress(progress: Progress, report: Report, sessions: tuple[Session, ...], now: float) -> Progress:
    last = report.last
    cpu_from, cpu_per_step = _cost(progress, report)
    interval, gap = _between_steps(progress, report, now)
    # A sidecar that knows nothing yet does not take back what its predecessor knew.
    silent = report.category is Category.UNKNOWN and progress.category is not Category.UNKNOWN
    return msgspec.structs.replace(
        progress,
        sessions=sessions,
        reported_at=now,
        category=progress.category if silent else report.category,
        category_since=progress.category_since if silent else _since(progress, report, now),
        reason=progress.reason if silent else report.reason,
        metric=progress.metric if last is None else last.name,
        value=progress.value if last is None else last.value,
        step=progress.step if last is None or last.step is None else last.step,
        step_at=progress.step_at if last is None else now - last.age,
        total_steps=report.total_steps if report.total_steps is not None else progress.total_steps,
        gain=report.gain if report.gain is not None else progress.gain,
        falls_on=_falls_on(progress, report),
        expected_gain=report.expected_gain,
        remaining_seconds=report.remaining_seconds,
        until_converged=report.until_converged,
        checkpoint=_newer(progress.checkpoint, report.checkpoint),
        first_step=report.first.step if progress.first_step is None and report.first else progress.first_step,
        began_step=_least(progress.began_step, report.first.step if report.first else None),
        step_interval=interval,
        step_gap=gap,
        cpu_from=cpu_from,
        cpu_per_step=cpu_per_step,
        hang=report.hang,
        hung_since=_hung_since(progress, report, now),
        share=report.share,
        stopped=progress.stopped if report.stopped_seconds is None else report.stopped_seconds,
    )


def _between_steps(progress: Progress, report: Report, now: float) -> tuple[float | None, int | None]:
    """Return how far apart steps are that the log names, in seconds and in steps.

    Of the latest two reports with different ones: reports come less often than most logs name steps, so what
    the log names is at most that far apart. Time in which the trainer was stopped does not count.
    """
    last = report.last
    if last is None or last.step is None or progress.step is None or progress.step_at is None:
        return progress.step_interval, progress.step_gap
    if last.step <= progress.step:
        return progress.step_interval, progress.step_gap
    stopped = max(0.0, (report.stopped_seconds or 0.0) - progress.stopped)
    return max(0.0, now - last.age - progress.step_at - stopped), last.step - progress.step


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _cost(progress: Progress, report: Report) -> tuple[tuple[int, float] | None, float | None]:
    """Return where the measurement of CPU seconds per step began, and what it says."""
    step = None if report.last is None else report.last.step
    if step is None or report.cpu_seconds is None:
        return progress.cpu_from, progress.cpu_per_step
    here = (step, report.cpu_seconds)
    if progress.cpu_from is None or here < progress.cpu_from or report.cpu_seconds < progress.cpu_from[1]:
        return here, progress.cpu_per_step
    steps, seconds = step - progress.cpu_from[0], report.cpu_seconds - progress.cpu_from[1]
    if steps <= 0:
        return progress.cpu_from, progress.cpu_per_step
    return progress.cpu_from, seconds / steps


def _falls_on(progress: Progress, report: Report) -> bool:
    """Return whether a gain is below that of the interval before, the verdict having stood then already.

    Reports that come between two intervals say what the last of them said.
    """
    if report.category is not Category.CONVERGED or progress.category is not Category.CONVERGED:
        return False
    if report.gain is None or progress.gain is None or report.gain == progress.gain:
        return progress.falls_on
    return report.gain < progress.gain


def _since(progress: Progress, report: Report, now: float) -> float:
    """Return when the category was entered; ages that jitter by a heartbeat do not move it.

    Nobody knows it of a replica before its first report, though it is unknown already.
    """
    if report.category is progress.category and progress.category_since:
        return progress.category_since
    return now - report.category_age


def _hung_since(progress: Progress, report: Report, now: float) -> float | None:
    """Return since when it is known to hang; ages that jitter by a heartbeat do not move it."""
    if report.hang is None:
        return None
    return now - report.hang.age if progress.hung_since is None else progress.hung_since


def _newer(known: Checkpoint | None, reported: Checkpoint | None) -> Checkpoint | None:
    """Return the later checkpoint; of two of the same step the verified one."""
    if known is None or reported is None:
        return known if reported is None else reported
    return reported if (reported.step, reported.verified) >= (known.step, known.verified) else known
