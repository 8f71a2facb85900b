"""What is to be known of a job at once: how its log ends after a crash, and a pattern for its log.

The pattern is for a log in which no loss was found for half a minute; it was tried on its lines.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specon_manager.cli.pattern_proposal import propose
from specon_manager.cli.remote.log_end import log_begin, log_end
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.views.names import cut, printable, replica_label

UNREAD_SECONDS: Final = 30.0
_SHOWN_SECONDS: Final = 60.0
_LINES: Final = 2000


class Notices:
    """Looks at states one after the other, and remembers what was told."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._crashes: dict[str, int] | None = None
        self._since: dict[str, tuple[str, float]] = {}
        self._proposed: set[str] = set()
        self._shown: list[tuple[float, str]] = []

    def look(self, state: State, now: float) -> list[str]:
        """Return what is new, in lines; `now` is seconds on the manager's clock. Reads files."""
        replicas = list(state.replicas.values())
        if self._crashes is None:  # what befell earlier runs is told by `specon explain`
            self._crashes = {each.name: each.crashes for each in replicas}
        found: list[str] = []
        for replica in replicas:
            if replica.crashes > self._crashes.get(replica.name, 0):
                found += self._crash(state, replica)
            self._crashes[replica.name] = replica.crashes
            if self._is_unread(state, replica, now):
                found += self._pattern(state, replica)
        self._shown += [(now + _SHOWN_SECONDS, line) for line in found]
        return found

    def shown(self, now: float) -> list[str]:
        """Return what was told within the last minute."""
        self._shown = [each for each in self._shown if each[0] > now]
        return [line for _, line in self._shown]

    def _crash(self, state: State, replica: Replica) -> Iterator[str]:
        end = log_end(self._directory, replica.name)
        if end is not None:
            yield f"{replica_label(state, replica.name)} crashed; the last lines of {printable(end.path)}:"
            yield from (f"    {line}" for line in end.lines or ("(nothing)",))

    def _is_unread(self, state: State, replica: Replica, now: float) -> bool:
        """Whether a replica whose log has to be read has run for half a minute without a sample."""
        spec = state.jobs[replica.job].spec
        lead = not spec.coupled or replica.name in spec.worker_names[:1]
        if replica.phase is not Phase.RUNNING or replica.role == "ps" or not lead:
            return False
        incarnation, since = self._since.get(replica.name, ("", now))
        if incarnation != replica.incarnation:
            since = now
            self._since[replica.name] = replica.incarnation or "", now
        progress = replica.progress
        sampled = progress.metric is not None or progress.step is not None
        told = replica.name in self._proposed or spec.template.get("instrument") is True
        return not sampled and not told and now - since >= UNREAD_SECONDS

    def _pattern(self, state: State, replica: Replica) -> Iterator[str]:
        self._proposed.add(replica.name)
        label, read = replica_label(state, replica.name), log_begin(self._directory, replica.name)
        if read is None:
            return
        path, lines = read
        where = printable(str(path))
        proposal = propose(lines[:_LINES])
        if proposal is None:
            lately = f", the last: {cut(lines[-1].decode(errors='replace'), 80)!r}" if lines else ""
            yield f"{label}: no loss in {UNREAD_SECONDS:.0f} s: {len(lines)} lines in {where}{lately}"
            yield f"    specon classify {where} says more"
            return
        first, last = proposal.first.value, proposal.last.value
        yield (
            f"{label}: no loss in {UNREAD_SECONDS:.0f} s of {where}; this line of the job file reads "
            f"{proposal.samples} samples, {first:.6g} to {last:.6g}:"
        )
        yield f"    pattern: {json.dumps(proposal.pattern, ensure_ascii=False)}"
