"""Urgent notices of a job: how its log ends after a crash, and a pattern for its log.

The pattern is for a log in which no loss was found for half a minute; it was tried on its lines.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from specon_manager.cli.pattern_proposal import propose
from specon_manager.cli.remote.log_end import log_begin, log_end
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase, Replica
from specon_manager.views.names import cut, printable, replica_label
from specon_sidecar.counts import format_count
from specon_sidecar.following.log_choice import choose_log

UNREAD_SECONDS: Final = 30.0
_SHOWN_SECONDS: Final = 60.0
_LINES: Final = 2000
_TOLD_AGAIN: Final = 40  # lines below the last picture


class _Told(NamedTuple):
    at: float
    """Seconds on the manager's clock."""
    line: str
    unread: str = ""
    """The replica in whose log no sample was found by then, if the line says that."""


class Notices:
    """Looks at states one after the other, and remembers its notices."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._crashes: dict[str, int] | None = None
        self._since: dict[str, tuple[str, float]] = {}
        self._proposed: set[str] = set()
        self._told: list[_Told] = []

    def look(self, state: State, now: float) -> list[str]:
        """Return new notices, in lines; `now` is seconds on the manager's clock. Reads files."""
        replicas = list(state.replicas.values())
        if self._crashes is None:  # what befell earlier runs is told by `specon explain`
            self._crashes = {each.name: each.crashes for each in replicas}
        found: list[_Told] = []
        for replica in replicas:
            if replica.crashes > self._crashes.get(replica.name, 0):
                found += (_Told(now, line) for line in self._crash(state, replica))
            self._crashes[replica.name] = replica.crashes
            if self._is_unread(state, replica, now):
                found += (_Told(now, line, replica.name) for line in self._pattern(state, replica))
        self._told += found
        return [each.line for each in found]

    def lines_to_show(self, state: State, now: float) -> list[str]:
        """Return the notices of the last minute that are still true."""
        return [each.line for each in self._true(state) if each.at + _SHOWN_SECONDS > now]

    def last_lines(self, state: State) -> list[str]:
        """Return the latest lines that are still true: nothing of a log that was read after all."""
        return [each.line for each in self._true(state)][-_TOLD_AGAIN:]

    def _true(self, state: State) -> Iterator["_Told"]:
        for each in self._told:
            replica = state.replicas.get(each.unread)
            if replica is None or not _is_sampled(replica):
                yield each

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
        told = replica.name in self._proposed or spec.template.get("instrument") is True
        trained = now - since - replica.progress.stopped  # others had their turns in the rest of the time
        return not _is_sampled(replica) and not told and trained >= UNREAD_SECONDS

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
            yield (
                f"{label}: no loss in {UNREAD_SECONDS:.0f} s: {format_count(len(lines), 'line')}"
                f" in {where}{lately}"
            )
            own = None if lines else _read_last(replica, state)
            if own is not None:
                yield f"    its trainer seems to write {printable(own)}: name it in the job file (log: {own})"
            else:
                yield f"    specon classify {where} says more"
            return
        first, last = proposal.first.value, proposal.last.value
        yield (
            f"{label}: no loss in {UNREAD_SECONDS:.0f} s of {where}; this line of the job file reads "
            f"{format_count(proposal.samples, 'sample')}, {first:.6g} to {last:.6g}:"
        )
        yield f"    pattern: {json.dumps(proposal.pattern, ensure_ascii=False)}"


def _read_last(replica: Replica, state: State) -> str | None:
    """Return the log that changed within the last minute where the trainer works, from there."""
    folder = Path(state.jobs[replica.job].spec.template.get("working_directory") or ".").absolute()
    log = choose_log(folder)
    try:
        if log.kind != "file" or time.time() - log.path.stat().st_mtime > _SHOWN_SECONDS:
            return None
    except OSError:
        return None
    return os.path.relpath(log.path, folder)


def _is_sampled(replica: Replica) -> bool:
    return replica.progress.metric is not None or replica.progress.step is not None
