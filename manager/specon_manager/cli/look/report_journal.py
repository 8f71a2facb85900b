"""What a journal tells of a while: transactions that ended in it, and what was forecast of each."""

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from specon_manager.core.gate import share_gains
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.actions import Migrate, MigrateGang
from specon_manager.model.transactions import Kind, Transaction
from specon_manager.runtime.journal import NAME, read
from specon_manager.runtime.journal_line import Begin
from specon_manager.views.report import Forecasts
from specon_manager.views.transactions import TransactionRow, row_of

_OLDER = 3
_TELL = 1000


class Told(Struct, frozen=True):
    """What a journal tells."""

    rows: tuple[TransactionRow, ...]
    forecasts: Forecasts
    whole: bool
    """Whether it reaches back to the time that was asked for."""


def read_journal(path: Path, since: float, progress: Callable[[float], None] = lambda _: None) -> Told:
    """Run the journal through `step` again, older files of it too; raises JournalError, OSError.

    `progress` gets the time of every thousandth step, seconds on the manager's clock.
    """
    rows: dict[str, TransactionRow] = {}
    forecasts: dict[str, dict[str, float]] = {}
    whole = False
    for file in _files(path, since):
        state = State()
        for number, line in read(file):
            if isinstance(line, Begin):
                state = line.state
                whole = whole or line.at >= since or (line.last_at is not None and line.last_at <= since)
                rows |= {each.id: row_of(each, state) for each in state.history}
                continue
            if number % _TELL == 0:
                progress(line.now)
            before = state
            state, _ = step(state, line.event, line.now)
            for each in _new(before, state):
                forecasts[each.id] = _forecast(each, before, line.now)
            if state.history is not before.history:
                known = {each.id for each in before.history}
                rows |= {each.id: row_of(each, state) for each in state.history if each.id not in known}
    # A run that began later than that has nothing before it.
    return Told(tuple(rows.values()), forecasts, whole)


def _files(path: Path, since: float) -> Iterator[Path]:
    """Yield the files of a journal that speak of the time since then, the oldest first."""
    found = [path]
    for age in range(1, _OLDER + 1):
        begin = next((line for _, line in read(found[-1])), None)
        older = path.with_name(f"{NAME}.{age}")
        if (
            not isinstance(begin, Begin)
            or begin.last_at is None
            or begin.last_at < since
            or not older.exists()
        ):
            break
        found.append(older)
    yield from reversed(found)


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
