"""What lies in a folder that somebody trains in: scripts, logs, checkpoints; looked at within bounds."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_manager.cli.begin.script import LONGEST, Script, read_script
from specon_manager.cli.pattern_proposal import PatternProposal, propose
from specon_manager.cli.study.course import KeptSamples
from specon_manager.cli.study.likeliest import FormatGuess, Names
from specon_manager.cli.study.log_input import open_log
from specon_manager.cli.study.reading import Reading
from specon_manager.usage import UsageError
from specon_sidecar.checkpoints.find import Finder, FoundSave
from specon_sidecar.event_files.event_reader import EventReader
from specon_sidecar.following.log_choice import is_event_name
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader
from specon_sidecar.observing.bounds import whole_epoch

_ENTRIES: Final = 10_000
_DEPTH: Final = 4
_SCRIPTS: Final = 200
_LOGS: Final = 12
_LOG_BYTES: Final = 4 << 20
_ENOUGH: Final = 200  # samples that show how a log is read
_ASIDE: Final = frozenset({"venv", "env", "node_modules", "site-packages", "__pycache__", "tests", "test"})
_LOGS_END: Final = (".log", ".out", ".txt", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_NO_LOGS: Final = ("requirements", "readme", "license", "cmakelists", "package", "config", "tsconfig")


class ReadLog(Struct, frozen=True, kw_only=True):
    """A log of an earlier run, read within bounds."""

    path: str
    """From the folder; of event files their folder."""
    kind: str
    format: str | None
    metric: str | None
    samples: int
    steps: bool
    """Whether its samples name steps, or whole epochs, which count as such."""
    readings: tuple[FormatGuess, ...] = ()
    """Where no format was recognised: what it could be."""
    proposal: PatternProposal | None = None
    """Where no number has a name: a pattern that finds samples."""


class Folder(Struct, frozen=True, kw_only=True):
    """The files found; paths are from the folder."""

    path: Path
    scripts: tuple[tuple[str, Script], ...]
    """The likeliest that trains first."""
    log: ReadLog | None
    checkpoints: tuple[FoundSave, ...]
    """The newest first."""
    remarks: tuple[str, ...] = ()
    """The files not looked at."""


def look(folder: Path) -> Folder:
    """Look through a folder and those below it; raises UsageError where it cannot be read."""
    remarks: list[str] = []
    aside: set[Path] = set()
    try:
        os.scandir(folder).close()
        files = list(_files(folder, aside, remarks))
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error
    checkpoints = _checkpoints(folder, aside, remarks)
    inside = tuple(f"{os.path.relpath(each.path, folder)}{os.sep}" for each in checkpoints)
    return Folder(
        path=folder,
        scripts=_scripts(folder, files),
        log=_log(folder, [file for file in files if not file.startswith(inside)]),
        checkpoints=checkpoints,
        remarks=tuple(remarks),
    )


def _files(folder: Path, aside: set[Path], remarks: list[str]) -> Iterator[str]:
    """Yield the files, the newest of each folder first; files of no training are put `aside`."""
    left = _ENTRIES
    waiting = [("", 0)]
    while waiting:
        above, depth = waiting.pop(0)
        try:
            with os.scandir(folder / above) as opened:
                entries = sorted(
                    (each for each, _ in zip(opened, range(left), strict=False)), key=lambda each: each.name
                )
        except OSError as error:
            remarks.append(f"{above or folder}: not looked at: {error.strerror}")
            continue
        left -= len(entries)
        for entry in entries:
            name = f"{above}/{entry.name}" if above else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name.startswith(".") or entry.name in _ASIDE or ".specon" in entry.name:
                    aside.add(Path(entry.path))
                elif depth < _DEPTH:
                    waiting.append((name, depth + 1))
            elif entry.is_file() and not entry.name.startswith("."):
                yield name
        if left <= 0:
            remarks.append(f"{folder} has more than {_ENTRIES} entries: not all of them were looked at")
            return


def _scripts(folder: Path, files: list[str]) -> tuple[tuple[str, Script], ...]:
    found = []
    for name in [each for each in files if each.endswith(".py")][:_SCRIPTS]:
        script = script_at(folder / name)
        if script is not None and (script.framework is not None or script.is_main):
            found.append((name, script))
    return tuple(sorted(found, key=lambda one: (-_likelihood(*one), one[0].count("/"), one[0])))


def script_at(path: Path) -> Script | None:
    """Return what a script says; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return read_script(file.read(LONGEST + 1))
    except OSError:
        return None


def _likelihood(name: str, script: Script) -> int:
    stem = name.rpartition("/")[2].lower()
    named = "train" in stem or "finetune" in stem or "fine_tune" in stem
    return 4 * (script.framework is not None) + 2 * script.is_main + 2 * named + (stem == "main.py")


def _log(folder: Path, files: list[str]) -> ReadLog | None:
    """Return the log that says most: the first whose format is recognised, else the first with numbers."""
    found = None
    for path in _candidates(folder, files):
        read = _read(folder, path)
        if read is not None and read.format is not None:
            return read
        if found is None and read is not None and (read.readings or read.proposal is not None):
            found = read
    return found


def _candidates(folder: Path, files: list[str]) -> list[Path]:
    """Return what may be a log: event files, and text files, the one changed last first."""
    names = [
        name
        for name in files
        if name.lower().endswith(_LOGS_END) and not name.rpartition("/")[2].lower().startswith(_NO_LOGS)
    ]
    paths = sorted((folder / name for name in names), key=_find_change, reverse=True)[:_LOGS]
    events = [folder / name for name in files if is_event_name(name)]
    return [*([max(events, key=_find_change).parent] if events else []), *paths]


def _find_change(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read(folder: Path, path: Path) -> ReadLog | None:
    """Read the begin of a log with the sidecar's own readers; None where it is none."""
    options = FormatOptions()
    try:
        log = open_log(path)
        reader = EventReader(options) if log.log.kind == "events" else make_reader("auto", options)
        reading = Reading(log, options, reader, KeptSamples(), Names())
        done = 0

        def count(position: int) -> None:
            nonlocal done
            done = position

        for lines in log.read(count):
            reading.take(lines)
            if reading.kept.count >= _ENOUGH or done > _LOG_BYTES:
                break
        else:
            reading.finish()
    except UsageError:
        return None
    kept = reading.kept
    recognised = bool(kept.count) and reader.chosen is not None and kept.last is not None
    readings: list[FormatGuess] = []
    if not recognised:
        readings = reading.names.readings(
            reader.evidence, lambda metric: make_reader("auto", FormatOptions(metric=metric))
        )
    return ReadLog(
        path=os.path.relpath(path, folder),
        kind=log.log.kind,
        format=reader.chosen if recognised else None,
        metric=kept.last.name if recognised and kept.last is not None else None,
        samples=kept.count,
        steps=kept.last is not None
        and (kept.last.step is not None or whole_epoch(kept.last.epoch) is not None),
        readings=tuple(readings),
        proposal=None if recognised or readings else propose(reading.names.lines),
    )


def _checkpoints(folder: Path, aside: set[Path], remarks: list[str]) -> tuple[FoundSave, ...]:
    finder = Finder(folder, marker=None, ignore=frozenset(aside), tell=remarks.append)
    try:
        found = [each for each in finder.find() if Path(each.path) != folder]
    except OSError as error:  # also where there are too many entries
        remarks.append(f"checkpoints: {error}")
        return ()
    return tuple(sorted(found, key=lambda each: -each.fingerprint.modified_ns))
