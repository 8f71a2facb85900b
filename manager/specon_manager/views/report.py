"""What a manager did for its jobs in a while: counts, hours, costs, and forecasts. Pure.

What cannot be known from where it is asked is None, and `unknown` says why.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from specon_manager.model.transactions import Kind
from specon_manager.views.amounts import span_text
from specon_manager.views.names import cut, job_label
from specon_manager.views.times import iso
from specon_manager.views.transactions import TransactionRow
from specon_manager.views.view import View
from specon_sidecar.counts import format_count

_HOUR: Final = 3600.0
_MINUTE: Final = 60.0
_LISTED: Final = 20

ForecastByJob = Mapping[str, Mapping[str, float]]
"""By transaction: how much more of a core each job was expected to get, when it was decided."""


class Report(Struct, frozen=True, kw_only=True):
    """What `specon report --output json` prints. Times are ISO 8601 in UTC, spans seconds."""

    manager: str
    since: str | None
    until: str | None
    moves: int
    """That succeeded."""
    moves_by_outcome: Mapping[str, int]
    preemptions: int
    """That succeeded."""
    other_changes: int
    """Admissions, scalings, restarts and gangs that were put back, which succeeded."""
    replica_hours_freed: float
    """Hours that replicas spent elsewhere than on nodes they left, each until it ended or moved again."""
    cpu_hours_freed: float | None
    """The same times the processors that they reserve; None where they reserve none, or that is not known."""
    gpu_hours_freed: float | None
    helped: tuple[str, ...] | None
    """Jobs that were expected to get more, when moves and preemptions were decided."""
    hurt: tuple[str, ...] | None
    """Jobs that were expected to get less."""
    downtime_seconds: float
    longest_downtime_seconds: float | None
    steps_lost: int
    unmeasured: int
    """Moves that succeeded without a known downtime."""
    rows: tuple[TransactionRow, ...]
    """Moves and changes that ended, in the order in which they ended."""
    unknown: tuple[str, ...]


def report_of(
    view: View, rows: Iterable[TransactionRow], forecasts: ForecastByJob | None, *, where: str, since: float
) -> Report:
    """Return what ended from `since` on, seconds on the manager's clock, until the time of the view."""
    ended = [row for row in rows if row.ended_at is not None and _time(row.ended_at) >= since]
    ended.sort(key=lambda row: (row.ended_at or "", row.id))
    moves = [row for row in ended if row.is_move]
    good = [row for row in ended if row.succeeded]
    moved = [row for row in good if row.is_move]
    freed = [_measure_freed(view, row, moved) for row in moved]
    known = [each for each in freed if each is not None]
    downtimes = [row.downtime_seconds for row in moved if row.downtime_seconds is not None]
    cpu, gpu = (sum(each[at] for each in known) for at in (1, 2))
    helped, hurt = (None, None) if forecasts is None else _split_by_forecast(good, forecasts)
    return Report(
        manager=where,
        since=iso(since),
        until=iso(view.now),
        moves=len(moved),
        moves_by_outcome=dict(Counter(row.state for row in moves)),
        preemptions=sum(row.kind == str(Kind.PREEMPT) for row in good),
        other_changes=sum(not row.is_move and row.kind != str(Kind.PREEMPT) for row in good),
        replica_hours_freed=round(sum(each[0] for each in known), 3),
        cpu_hours_freed=round(cpu, 3) if cpu else None,
        gpu_hours_freed=round(gpu, 3) if gpu else None,
        helped=helped,
        hurt=hurt,
        downtime_seconds=round(sum(downtimes), 3),
        longest_downtime_seconds=max(downtimes, default=None),
        steps_lost=sum(row.steps_lost or 0 for row in ended),
        unmeasured=len(moved) - len(downtimes),
        rows=tuple(ended),
        unknown=tuple(_unknown(view, moved, freed, cpu=cpu, gpu=gpu, forecast=forecasts is not None)),
    )


def _measure_freed(
    view: View, row: TransactionRow, moved: Sequence[TransactionRow]
) -> tuple[float, float, float] | None:
    """Return replica-hours, core-hours and GPU-hours of a move; None of a job that is not known any more."""
    job = view.state.jobs.get(row.job)
    if job is None or row.ended_at is None:
        return None
    begin = _time(row.ended_at)
    later = [
        _time(other.ended_at)
        for other in moved
        if other.job == row.job and other.replica == row.replica and _time(other.ended_at or "") > begin
    ]
    hours = max(0.0, min([*later, job.ended_at or view.now]) - begin) / _HOUR
    ways = [way.replica for way in row.ways if way.source != way.target] if row.ways else [row.replica or ""]
    asked = [job.spec.requests_of(name) for name in ways if name.count("/") > 1]
    return hours * len(ways), hours * sum(each.cpu for each in asked), hours * sum(each.gpu for each in asked)


def _split_by_forecast(
    rows: Sequence[TransactionRow], forecasts: ForecastByJob
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the jobs that were expected to get more in all, and those that were expected to get less."""
    total: dict[str, float] = {}
    for row in rows:
        for job, change in forecasts.get(row.id, {}).items():
            total[job] = total.get(job, 0.0) + change
    helped = tuple(sorted(job for job, change in total.items() if change > 0))
    return helped, tuple(sorted(job for job, change in total.items() if change < 0))


def _unknown(
    view: View,
    moved: Sequence[TransactionRow],
    freed: Sequence[object | None],
    *,
    cpu: float,
    gpu: float,
    forecast: bool,
) -> Iterable[str]:
    yield from view.caveats
    if not forecast:
        yield "jobs helped and hurt are not known: only the journal of a manager of this machine tells them"
    if gone := sum(each is None for each in freed):
        yield f"hours freed by {format_count(gone, 'move')} are not known: their jobs are forgotten"
    if moved and not cpu:
        yield "core-hours freed are not known: no job that was moved is known to reserve processors"
    if moved and not gpu:
        yield "GPU-hours freed are not known, or none: no job that was moved is known to reserve a GPU"


def describe_report(report: Report) -> list[str]:
    """Return the report as lines for people."""
    return [f"{name}: {value}" for name, value in figures(report)]


def figures(report: Report) -> list[tuple[str, str]]:
    """Return the figures by name, as people read them; an unknown one says so."""
    outcomes = ", ".join(f"{count} {state}" for state, count in sorted(report.moves_by_outcome.items()))
    known = [
        f"{amount:,.1f} {unit}"
        for amount, unit in (
            (report.cpu_hours_freed, "core-hours"),
            (report.gpu_hours_freed, "GPU-hours"),
            (report.replica_hours_freed, "replica-hours"),
        )
        if amount is not None
    ]
    longest = report.longest_downtime_seconds
    most = f", at most {_downtime(longest)}" if longest is not None else ""
    unmeasured = f", not known of {format_count(report.unmeasured, 'move')}" if report.unmeasured else ""
    return [
        ("moves", f"{report.moves} succeeded" + (f" (all: {outcomes})" if outcomes else "")),
        ("preemptions", str(report.preemptions)),
        ("other changes of jobs", str(report.other_changes)),
        ("freed on the nodes that were left", ", ".join(known)),
        ("jobs helped, by the forecast when it was decided", _jobs(report.helped)),
        ("jobs hurt, by the forecast when it was decided", _jobs(report.hurt)),
        ("downtime", f"{_downtime(report.downtime_seconds)} in all{most}{unmeasured}"),
        ("steps trained again", f"{report.steps_lost:,}"),
    ]


def _downtime(seconds: float) -> str:
    """Return it in one way for the sum and the longest: a sum must not read as less than its part."""
    return f"{seconds:.1f} s" if seconds < _MINUTE else span_text(seconds)


def _jobs(names: tuple[str, ...] | None) -> str:
    if names is None:
        return "not known"
    shown = ", ".join(job_label(name) for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{len(names)}" + (f": {cut(shown)}{more}" if names else "")


def _time(at: str | None) -> float:
    try:
        return datetime.fromisoformat(at or "").timestamp()
    except ValueError:
        return 0.0
