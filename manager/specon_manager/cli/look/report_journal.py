"""What a journal tells of a while: transactions that ended in it, and the forecast of each."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from specon_manager.core.gate import share_gains
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import Migrate, MigrateGang
from specon_manager.model.transactions import Kind, Transaction
from specon_manager.runtime.journal import NAME, Recovered, read
from specon_manager.runtime.journal_line import Begin
from specon_manager.views.report import ForecastByJob
from specon_manager.views.transactions import TransactionRow, row_of

_OLDER = 3
_TELL = 1000


class Told(Struct, frozen=True, kw_only=True):
    """What a journal tells."""

    rows: tuple[TransactionRow, ...]
    forecasts: ForecastByJob
    whole: bool
    """Whether it reaches back to the time that was asked for."""
    recovered: Recovered
    """What its present file holds, as `recover` returns it."""


class _File(Struct, kw_only=True):
    """What one file of a journal tells."""

    begin: Begin
    recovered: Recovered
    rows: dict[str, TransactionRow]
    forecasts: dict[str, dict[str, float]]


def read_journal(
    path: Path, span: float, now: float | None = None, progress: Callable[[float], None] = lambda _: None
) -> Told | None:
    """Run the journal through `step` again, older files of it too; None where it has no whole line.

    It tells of the last `span` seconds before `now`, on the manager's clock, or before its last line. It
    reads each file once. `progress` gets the time of every thousandth step. Raises JournalError, OSError.
    """
    newest = _read(path, progress)
    if newest is None:
        return None
    since = (newest.recovered.last_at if now is None else now) - span
    files = [newest]
    for age in range(1, _OLDER + 1):
        older = path.with_name(f"{NAME}.{age}")
        if files[-1].begin.last_at is None or files[-1].begin.last_at < since or not older.exists():
            break
        found = _read(older, progress)
        if found is None:
            break
        files.append(found)
    rows: dict[str, TransactionRow] = {}
    forecasts: dict[str, dict[str, float]] = {}
    for file in reversed(files):
        rows |= file.rows
        forecasts |= file.forecasts
    # A run that began later than that has nothing before it.
    whole = any(begin.at >= since or _is_before(begin, since) for begin in (file.begin for file in files))
    return Told(rows=tuple(rows.values()), forecasts=forecasts, whole=whole, recovered=newest.recovered)


def _is_before(begin: Begin, since: float) -> bool:
    """Whether all that is before a file happened before that time."""
    return begin.last_at is not None and begin.last_at <= since


def _read(path: Path, progress: Callable[[float], None]) -> _File | None:
    file: _File | None = None
    for number, line in read(path):
        if isinstance(line, Begin):
            last_at = line.at if line.last_at is None else line.last_at
            file = _File(
                begin=line,
                recovered=Recovered(began_at=line.at, last_at=last_at, state=line.state, steps=0),
                rows={each.id: row_of(each, line.state) for each in line.state.history},
                forecasts={},
            )
            continue
        if file is None:
            continue
        if number % _TELL == 0:
            progress(line.now)
        before = file.recovered.state
        state, _ = step(before, line.event, line.now)
        for each in _new(before, state):
            file.forecasts[each.id] = _forecast(each, before, line.now)
        if state.history is not before.history:
            known = {each.id for each in before.history}
            file.rows |= {each.id: row_of(each, state) for each in state.history if each.id not in known}
        steps = file.recovered.steps + 1
        file.recovered = replace(file.recovered, state=state, last_at=line.now, steps=steps)
    return file


def _new(before: State, after: State) -> list[Transaction]:
    if before.transactions is after.transactions:
        return []
    return [each for name, each in after.transactions.items() if name not in before.transactions]


def _forecast(each: Transaction, before: State, now: float) -> dict[str, float]:
    """Return how much more each job was expected to get for each replica, at the state it was decided in.

    A preemption takes all from a job that it frees for another, where that is known.
    """
    if each.kind is Kind.PREEMPT:
        return {each.job: -1.0, **({each.beneficiary: 1.0} if each.beneficiary else {})}
    if each.kind is not Kind.MOVE:
        return {}
    move: Migrate | MigrateGang = Migrate(
        replica=each.replica, target=each.target, purpose=each.purpose, reason=each.reason
    )
    if each.whole:
        move = MigrateGang(job=each.job, placement=each.after, purpose=each.purpose, reason=each.reason)
    elif each.replica not in before.replicas:
        return {}
    return share_gains(move, before.snapshot(now), before.settings.gate)
