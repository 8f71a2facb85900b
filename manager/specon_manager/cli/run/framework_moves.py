"""`specon demo --scenario frameworks`: scripts that were not changed, each moved once, and what it cost."""

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.backends.local.jobs import JobFile
from specon_manager.cli.run.transaction_results import TransactionResult
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.events import MoveRequested
from specon_manager.usage import UsageError
from specon_sidecar.counts import format_count

NEEDS: Final[Mapping[str, str]] = {
    "hugging-face": "transformers",
    "lightning": "lightning",
    "keras": "keras",
    "pytorch": "torch",
    "torchrun": "torch",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
}
"""The module that a job of the scenario imports."""
_AFTER_STEPS: Final = 20
_AT_LEAST: Final = 500
"""So many steps of a job that names no value."""


def keep_installed(file: JobFile) -> tuple[JobFile, list[str]]:
    """Return the file without jobs whose framework is not installed, and the frameworks that are not.

    Raises UsageError where none is.
    """
    here = {name for name, module in NEEDS.items() if importlib.util.find_spec(module) is not None}
    missing = sorted({NEEDS[job.name] for job in file.jobs if job.name not in here})
    kept = tuple(job for job in file.jobs if job.name in here)
    if not kept:
        raise UsageError("no framework is installed: pip install 'specon[frameworks]'")
    return msgspec.structs.replace(file, jobs=kept), missing


class Continuity(Struct, frozen=True):
    """The value that a job named last before its move, and the one after it."""

    before: float | None = None
    after: float | None = None


class MoveOnce:
    """Asks for a move of each job once it trains; the controller is given what it yields."""

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self.values: dict[str, Continuity] = {}

    def look(self, state: State) -> Iterator[MoveRequested]:
        """Yield the requests that are due."""
        for replica in state.replicas.values():
            self._note(replica)
            step = replica.progress.step
            if replica.name in self._asked or replica.phase is not Phase.RUNNING or step is None:
                continue
            if step >= (_AFTER_STEPS if replica.progress.value is not None else _AT_LEAST):
                self._asked.add(replica.name)
                yield MoveRequested(
                    id=f"once-{replica.job.rpartition('/')[2]}",
                    replica=replica.name,
                    reason="each is moved once",
                )

    def _note(self, replica: Replica) -> None:
        value, known = replica.progress.value, self.values.get(replica.job, Continuity())
        if value is None or replica.phase is not Phase.RUNNING:
            return
        if replica.starts <= 1:
            self.values[replica.job] = Continuity(before=value)
        elif known.after is None and replica.progress.first_step is not None:
            self.values[replica.job] = Continuity(known.before, value)


def lines(moves: tuple[TransactionResult, ...], values: Mapping[str, Continuity]) -> Iterator[str]:
    """Yield what the move of each job cost it."""
    for move in moves:
        name = move.job.rpartition("/")[2]
        if move.downtime is None:
            yield f"{name}: {move.state}: {move.reason or move.note}"
            continue
        value = values.get(move.job, Continuity())
        known = value.before is not None and value.after is not None
        loss = f", loss {value.before:.4g} before and {value.after:.4g} after" if known else ""
        yield (
            f"{name}: saved at step {move.checkpoint_step}, went on with step {move.first_step_after}:"
            f" {format_count(move.steps_lost or 0, 'step')} lost, {move.downtime:.1f} s of downtime{loss}"
        )
